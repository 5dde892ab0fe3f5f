"""Thresholds certified on rows of another mix than new rows, by known weights.

With w the ratio of the law of new x to that of the labelled rows, up to a factor, ``P(Z > tau |
accepted) <= eta`` among new rows says that ``E[w (1{Z > tau} - eta) | accepted] <= 0`` among the
labelled ones: the factor does not matter, nor does how many rows are accepted. With a largest
weight, ``x = eta + w / largest * (1{Z > tau} - eta)`` lies from 0 to 1, and the claim is that its
mean among the accepted is at most eta. That is tested by the game of `betting`, as in
`certify_mean_loss`, on every accepted row.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray
from locuscore._rules.betting import rows_without_loss
from locuscore._rules.certificate import WeightedCertificate
from locuscore._rules.mean_loss import (
    ENOUGH_ROWS,
    FEWEST_ROWS,
    LARGEST_START,
    MOST_THRESHOLDS,
    SMALLEST_START,
    quantile_thresholds,
    set_aside,
    tested_in_order,
)
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import checked_rows, digest_of_rows
from locuscore._shared.accepted import is_accepted
from locuscore._shared.checks import check_between, check_same_length, check_scores
from locuscore._shared.readable import as_typed

ASSUMPTIONS = (
    "labelled rows are independent, and new rows come with their weight times the frequency of the "
    "labelled ones",
    "losses given x are distributed alike among labelled and new rows",
    "score, weights, largest weight, tau, eta, delta and reference fixed without these rows",
    "one certificate per delta: several calls on the same rows need their deltas summed",
)


def certify_weighted(
    score: ArrayLike,
    losses: ArrayLike,
    weights: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    *,
    largest_weight: float,
    reference: ArrayLike | None = None,
    reference_weights: ArrayLike | None = None,
    of: Score = UNNAMED,
) -> FlagRule:
    """Certify a threshold for new rows of another mix: ``P(Z > tau | accepted) <= eta`` there.

    The labelled rows come from one mix of x and new rows from another. A row's weight says how many
    times as often such rows come among new rows, up to a factor that all rows share; the law of the
    loss given x is the same. With probability at least 1 - delta over the labelled rows the claim
    holds for the rule returned, for any n. Thresholds are tested in ascending order from a start,
    each at level delta, until the first failure.

    Parameters
    ----------
    score, losses, weights
        Labelled rows that had no part in the score. Weights are zero or positive, and known:
        weights that were estimated give no certificate. Infinite scores are never accepted.
    tau, eta, delta
        A loss above tau is bad; eta is the share of bad rows allowed among accepted new rows; delta
        is the probability of a wrong certificate.
    largest_weight
        The largest weight that is possible, known beforehand. Rows with larger ones are refused.
    reference
        Scores of other rows like the labelled ones, whose quantiles are the thresholds. Without it
        a random fifth of the rows is set aside for that and not tested on.
    reference_weights
        Weights of the reference rows. They tell where enough weight is accepted for a start;
        without them the start accepts four tenths of the reference.
    of
        Which score this is; by default one of your own.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_weighted
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=4000)
    >>> losses = rng.uniform(size=4000) < 0.3 * score
    >>> rule = certify_weighted(score, losses, 2 * score, 0.5, 0.1, 0.1, largest_weight=2)
    >>> bool(0.3 < rule.threshold < 0.5)  # of new rows with density 2 s, 0.2 t are bad up to t
    True
    """
    s, bad = checked_rows(score, losses, tau)
    eta, delta = check_between(eta, "eta"), check_between(delta, "delta")
    largest = check_between(largest_weight, "largest_weight", 0.0, math.inf)
    rows, other_u = WeightedRows(s, bad, _shares(s, weights, largest), eta), None
    if reference is None:
        rows, known, other_u = rows.set_aside()
        source = f"the scores of {len(known)} of the {len(s)} rows, set aside and not tested on"
    else:
        (known,) = check_scores(reference=reference)
        if reference_weights is not None:
            other_u = _shares(known, reference_weights, largest)
        source = f"the scores of {len(known)} reference rows"
    start, needed = _start(known, other_u, len(rows.score), eta, delta)
    grid = quantile_thresholds(known, MOST_THRESHOLDS, start)
    table, n_passed = rows.tests(grid, delta)
    claim = WeightedCertificate(
        n_rows=len(rows.score),
        tau=float(tau),
        eta=eta,
        delta=delta,
        largest_weight=largest,
        effective_rows=_effective(rows.u),
        thresholds=source,
        rows_digest=digest_of_rows(losses),
    )
    if n_passed:
        claim, guarantee = _certified(claim, table, n_passed - 1, rows)
    else:
        claim, guarantee = _why_none_passed(claim, table, needed)
    return FlagRule(
        of,
        float(grid[n_passed - 1]) if n_passed else -np.inf,
        "certificate",
        guarantee,
        ASSUMPTIONS,
        table={name: tuple(column.tolist()) for name, column in table.items()},
        certificate=claim,
    )


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """The certifying rows, with their weights as shares of the largest."""

    score: FloatArray
    bad: BoolArray
    u: FloatArray
    eta: float

    @property
    def x(self) -> FloatArray:
        """What has a mean of at most eta among the accepted if the claim holds, from 0 to 1."""
        return np.clip(self.eta + self.u * (self.bad - self.eta), 0.0, 1.0)

    def set_aside(self) -> tuple[Self, FloatArray, FloatArray]:
        """Four fifths of the rows, and the scores and weights of the others."""
        aside, testing = set_aside(self.score, self.x)
        kept = replace(self, score=self.score[testing], bad=self.bad[testing], u=self.u[testing])
        return kept, self.score[aside], self.u[aside]

    def tests(self, grid: FloatArray, delta: float) -> tuple[dict[str, FloatArray], int]:
        """Accepted rows, estimated share of bad ones, p-values; how many thresholds passed."""
        table, n_passed = tested_in_order(self.score, self.x, grid, self.eta, delta)
        rates = np.array([self._share_bad(edge) for edge in grid])
        columns = {"threshold": grid, "n_accepted": table["n_accepted"], "exceedance": rates}
        return columns | {"p_value": table["p_value"]}, n_passed

    def weight_up_to(self, threshold: float) -> float:
        """Share of the weight of all rows that is accepted."""
        return float(self.u[is_accepted(self.score, threshold)].sum() / self.u.sum())

    def _share_bad(self, threshold: float) -> float:
        """Estimate of the share of bad rows among accepted new rows."""
        accepted = is_accepted(self.score, threshold)
        total = float(self.u[accepted].sum())
        return float(self.u[accepted & self.bad].sum()) / total if total else math.nan


def _shares(score: FloatArray, weights: ArrayLike, largest: float) -> FloatArray:
    """Weights as shares of the largest."""
    _, w = check_same_length(score=score, weights=weights)
    wrong = int(np.count_nonzero(~((w >= 0) & np.isfinite(w))))
    if wrong:
        raise ValueError(
            f"{wrong} weights are negative or not finite; a weight says how many times as often "
            "such rows come among new rows, up to a factor."
        )
    above = int(np.count_nonzero(w > largest))
    if above:
        raise ValueError(
            f"{above} weights are above largest_weight = {largest:g}, up to {w.max():g}; it must "
            "be the largest weight that is possible, fixed without these rows."
        )
    if not w.any():
        raise ValueError("all weights are zero, so no row says anything about new rows.")
    return w / largest


def _start(
    known: FloatArray, u: FloatArray | None, n: int, eta: float, delta: float
) -> tuple[float, float | None]:
    """Share of the reference that the first threshold accepts, and good rows needed there.

    A good row of weight u has ``x = eta (1 - u)``, so the largest bet multiplies capital by ``1 + u
    eta / (1 - eta)``. Rows of low scores may be light, so what counts is the sum of these factors'
    logarithms, not the number of rows.
    """
    if u is None:
        return LARGEST_START, None
    gain = np.where(np.isfinite(known), np.log1p(u * eta / (1 - eta)), 0.0)
    gains = np.cumsum(gain[np.argsort(known, kind="stable")]) * (n / len(known))
    enough = rows_without_loss(eta, delta) * -np.log1p(-eta)
    fewest, plenty = (
        float(min(np.searchsorted(gains, times * enough) + 1, len(gains))) / len(gains)
        for times in (FEWEST_ROWS, ENOUGH_ROWS)
    )
    share = max(fewest, SMALLEST_START, min(plenty, LARGEST_START))
    at = max(math.ceil(share * len(gains)), 1) - 1
    mean_gain = gains[at] / ((at + 1) * n / len(gains))
    return share, enough / mean_gain if mean_gain else None


def _effective(u: FloatArray) -> float:
    return float(u.sum() ** 2 / np.sum(u**2)) if u.any() else 0.0


def _certified(
    claim: WeightedCertificate, table: dict[str, FloatArray], place: int, rows: WeightedRows
) -> tuple[WeightedCertificate, str]:
    n, rate, p = (float(table[name][place]) for name in ("n_accepted", "exceedance", "p_value"))
    share = rows.weight_up_to(float(table["threshold"][place]))
    claim = replace(claim, n_accepted=int(n), acceptance=share, exceedance=rate, p_value=p)
    return claim, (
        f"P(loss > {as_typed(claim.tau)} | accepted) <= {claim.eta:g} for a new row of the mix "
        f"that the weights stand for, with confidence {1 - claim.delta:g}: over the draw of the "
        f"{claim.n_rows} weighted rows, the probability that this fails is at most "
        f"{claim.delta:g}."
    )


def _why_none_passed(
    claim: WeightedCertificate, table: dict[str, FloatArray], needed: float | None
) -> tuple[WeightedCertificate, str]:
    """What the first threshold showed, and how many good rows would have been the least."""
    why = "Nothing is accepted: no threshold could be certified."
    n = int(table["n_accepted"][0]) if len(table["n_accepted"]) else 0
    if n:
        rate, p = float(table["exceedance"][0]), float(table["p_value"][0])
        rate_known = None if math.isnan(rate) else rate
        claim = replace(claim, start_n=n, start_exceedance=rate_known, start_p_value=p)
        why += f" At the start {n} rows are accepted, with a weighted share {rate:.3g} of bad ones"
        why += f" and p-value {p:.3g}."
    if needed is not None:
        clean = math.ceil(needed)
        claim = replace(claim, accepted_rows_needed_without_a_bad_one=clean)
        why += f" Of rows as light as there, {clean} without a bad one are the least that can pass."
    return claim, why
