"""Trust rows of one batch such that their expected loss is small, by e-values.

Every new row j tests each value l that its loss may have, on the scale from 0 to 1: with ``R(t)``
rows of the batch at or below t, and ``g(r) = level * r / m - SLACK / (n + 1)``, let ``T_j(l)`` be
the largest t at which the labelled rows and row j together have ::

    (sum of w_i L_i over S_i <= t, and w_j l if S_j <= t) / (sum of all w) <= g(R(t))

and ``e_j = min over l of 1{S_j <= T_j(l)} / g(R(T_j(l)))``. Given the labelled rows and row j as a
set, each is the new one with probability w over their sum, so ``E[L_j e_j] <= 1``. The rows with
``e_j >= u m / (level k)`` for the largest k that has k of them are accepted (Benjamini and Hochberg
for e-values), u uniform. docs/batch_and_planning.md has the proof.

``T_j`` only depends on l by how much the loss of one row moves it. Without SLACK the largest and
the smallest would nearly always differ, and nothing would pass unless u is a little below 1.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.batch import ROUNDING
from locuscore._rules.betting import generator_seeded_by
from locuscore._shared.accepted import distinct_counts, sorted_finite
from locuscore._shared.checks import check_between, check_losses, check_same_length, check_scores
from locuscore._shared.shown import Shown

SLACK = 0.25  # of a largest loss; compared in benchmarks/choices/batch_loss.py


@dataclass(frozen=True, repr=False)
class LossSelection(Shown):
    """Which rows of one batch are accepted, and a promise about the average over many batches.

    `bounded` says which average is at most `level`. `e_values` are those of the rows: zero where
    the loss could be anything.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import select_total_loss
    >>> score = np.arange(200) / 200
    >>> batch = select_total_loss([0.2, 0.9], score, score**2, 0.1, largest_loss=1)
    >>> batch.accepted.tolist(), batch.n_accepted, batch.n_cal
    ([True, False], 1, 200)
    """

    accepted: np.ndarray
    level: float
    largest_loss: float
    n_cal: int
    bounded: str
    e_values: FloatArray = field(repr=False)

    @property
    def n_accepted(self) -> int:
        """Number of rows accepted."""
        return int(np.count_nonzero(self.accepted))

    def __str__(self) -> str:
        return (
            f"{self.n_accepted} of {len(self.accepted)} rows accepted. Theorem: {self.bounded} is "
            f"at most {self.level:g} on average over repeated draws of the {self.n_cal} "
            "calibration rows and the batch together, for losses from 0 to "
            f"{self.largest_loss:g}. It is an average, not a certificate: the loss in this batch "
            "may be larger, and nothing is said of other batches."
        )


def select_mean_loss(
    score_new: ArrayLike,
    score_cal: ArrayLike,
    losses_cal: ArrayLike,
    level: float,
    *,
    largest_loss: float,
    weights_new: ArrayLike | None = None,
    weights_cal: ArrayLike | None = None,
) -> LossSelection:
    """Accept rows of one batch such that their mean loss is at most a level, on average.

    For losses from 0 to `largest_loss`, ::

        E[ sum of the accepted rows' losses / max(1, #accepted) ] <= level

    over the calibration rows and the batch, for exchangeable rows, any score that does not know
    their losses, and any ties. The rule is made of e-values (docs/batch_and_planning.md) for a risk
    that SCoRE introduced (arXiv 2603.24704). For losses of 0 and 1 `select_batch` has the same
    promise and accepts a little more. `certify_mean_loss` promises more: a threshold for all rows
    to come, with confidence.

    A uniform number decides, in a few per cent of the batches, between all rows and none. It comes
    from a generator that is seeded by the rows, and is taken for random.

    Parameters
    ----------
    score_new
        Scores of the batch, small where safe; an infinite one, of either sign, is never accepted.
    score_cal, losses_cal
        Scores and losses of labelled rows that had no part in the score or the level.
    level
        Largest expected mean loss of the accepted, in the unit of the losses.
    largest_loss
        The largest loss that is possible, known beforehand; no loss is below 0.
    weights_new, weights_cal
        For a batch of another mix than the labelled rows: how many times as often such a row comes
        among new rows, up to a factor; known, not estimated, and positive for every new row.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import select_mean_loss
    >>> score = np.arange(400) / 400
    >>> batch = select_mean_loss(score, score, score**2, 0.1, largest_loss=1)
    >>> bool(0.45 < batch.accepted.mean() < 0.55)
    True
    """
    rows = _checked(score_new, score_cal, losses_cal, largest_loss, weights_new, weights_cal)
    limit = check_between(level, "level", 0.0, largest_loss) / largest_loss
    e = _e_values(rows, limit)
    # A generator that nobody can choose, in place of a seed that could be tried until it suits.
    u = 1.0 - generator_seeded_by(*map(np.sort, (rows.new, rows.cal, rows.x))).uniform()
    return LossSelection(
        _benjamini_hochberg(e, limit, u),
        float(level),
        float(largest_loss),
        len(rows.cal),
        "the mean loss of the accepted rows of a batch, zero if there are none,",
        e,
    )


def select_total_loss(
    score_new: ArrayLike,
    score_cal: ArrayLike,
    losses_cal: ArrayLike,
    level: float,
    *,
    largest_loss: float,
    weights_new: ArrayLike | None = None,
    weights_cal: ArrayLike | None = None,
) -> LossSelection:
    """Accept rows of one batch such that they lose at most `level` per row of the batch.

    The mean is over all m rows of the batch, accepted or not: ::

        E[ sum of the accepted rows' losses ] <= level * m

    and each row has ``E[loss if accepted, else 0] <= level``. With losses as shares of the largest,
    a row is accepted when ``(w_j + sum of w_i L_i over S_i <= S_j) / (w_j + sum of w_i) <= level``:
    conformal risk control (Angelopoulos and others 2024). Arguments are those of
    `select_mean_loss`, assumptions too; the e-values are ``1 / level`` or 0.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import select_total_loss
    >>> score = np.arange(400) / 400
    >>> batch = select_total_loss(score, score, score**2, 0.1, largest_loss=1)
    >>> bool(0.6 < batch.accepted.mean() < 0.7)
    True
    """
    rows = _checked(score_new, score_cal, losses_cal, largest_loss, weights_new, weights_cal)
    limit = check_between(level, "level", 0.0, largest_loss) / largest_loss
    lost = rows.lost_up_to(rows.new) + rows.w_new
    within = lost <= limit * (1 + ROUNDING) * (rows.w_cal.sum() + rows.w_new)
    accepted = within & (rows.new < np.inf)
    return LossSelection(
        accepted,
        float(level),
        float(largest_loss),
        len(rows.cal),
        "the accepted rows' loss, divided by the number of all rows of a batch,",
        np.where(accepted, 1 / limit, 0.0),
    )


class _Rows(NamedTuple):
    """Scores and weights of the batch; scores, losses from 0 to 1 and weights of labelled rows."""

    new: FloatArray
    w_new: FloatArray
    cal: FloatArray
    x: FloatArray
    w_cal: FloatArray

    def lost_up_to(self, edges: FloatArray) -> FloatArray:
        """Weighted loss of the labelled rows with a score at or below each edge, ties included."""
        order = np.argsort(self.cal)
        total = np.append(0.0, np.cumsum((self.w_cal * self.x)[order]))
        return np.asarray(total[np.searchsorted(self.cal[order], edges, side="right")])


def _e_values(rows: _Rows, limit: float) -> FloatArray:
    """E-value of each row of the batch.

    Only the weight of a row decides which thresholds it passes, so two passes over the thresholds
    and a search for each row do.
    """
    n, m = len(rows.cal), len(rows.new)
    edges, count = distinct_counts(sorted_finite(rows.new))
    g = limit * (1 + ROUNDING) * count / m - SLACK / (n + 1)
    all_w, lost = float(rows.w_cal.sum()), rows.lost_up_to(edges)
    # With the largest loss, lost + w_j <= (all_w + w_j) g; solved for w_j, as g < 1.
    last_1 = _last_at_least((all_w * g - lost) / (1 - g), rows.w_new)
    # With the smallest, lost < (all_w + w_j) g: minus the weight from which on this holds.
    from_weight = np.where(g > 0, lost / np.where(g > 0, g, 1.0) - all_w, np.inf)
    last_0 = _last_at_least(-from_weight, np.nextafter(-rows.w_new, np.inf))
    is_below = np.searchsorted(edges, rows.new) <= last_1
    return np.where(is_below, 1 / g[np.where(is_below, last_0, 0)] if len(g) else 0.0, 0.0)


def _last_at_least(values: FloatArray, levels: FloatArray) -> IntArray:
    """Position of the last value that is at least each level; -1 if there is none."""
    best = np.maximum.accumulate(values[::-1])  # ascending, from the last position to the first
    return np.asarray(len(values) - 1 - np.searchsorted(best, levels, side="left"), dtype=np.int64)


def _benjamini_hochberg(e: FloatArray, limit: float, u: float) -> BoolArray:
    """Accept for the largest k such that k rows have ``e / u >= m / (limit k)``."""
    needed = np.full(len(e), np.inf)
    np.divide(u * len(e) / (limit * (1 + ROUNDING)), e, out=needed, where=e > 0)
    ascending = np.sort(needed)
    passed = np.flatnonzero(ascending <= np.arange(1, len(e) + 1))
    return np.asarray(needed <= (passed[-1] + 1 if len(passed) else -1.0))


def _checked(
    score_new: ArrayLike,
    score_cal: ArrayLike,
    losses_cal: ArrayLike,
    largest_loss: float,
    weights_new: ArrayLike | None,
    weights_cal: ArrayLike | None,
) -> _Rows:
    """The rows, with losses as shares of the largest and weights of 1 unless others are given."""
    (new,) = check_scores(score_new=score_new)
    cal, z = check_scores(score_cal=score_cal, losses_cal=losses_cal)
    z = check_losses(z, len(z), "losses_cal")
    largest = check_between(largest_loss, "largest_loss", 0.0, np.inf)
    outside = int(np.count_nonzero((z < 0) | (z > largest)))
    if outside:
        raise ValueError(
            f"{outside} losses lie outside [0, {largest:g}]; losses must not be negative, and "
            "largest_loss must be the largest that is possible, known beforehand."
        )
    if (weights_new is None) != (weights_cal is None):
        raise ValueError("another mix needs both weights_new and weights_cal; pass both, or none.")
    w_new, w_cal = np.ones(len(new)), np.ones(len(cal))
    if weights_new is not None and weights_cal is not None:
        _, w_new = check_same_length(score_new=new, weights_new=weights_new)
        _, w_cal = check_same_length(score_cal=cal, weights_cal=weights_cal)
        if not (np.isfinite(w_cal).all() and (w_cal >= 0).all()):
            raise ValueError("weights_cal must be finite and not negative.")
        if not (np.isfinite(w_new).all() and (w_new > 0).all()):
            raise ValueError(
                "weights_new must be finite and positive: a row of weight 0 does not come among "
                "new rows."
            )
    return _Rows(new, w_new, cal, z / largest, w_cal)
