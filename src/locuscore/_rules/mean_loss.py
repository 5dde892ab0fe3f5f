"""Exact tests and bounds for the mean of a bounded loss, and thresholds certified by them.

The test is the game of `betting`, on losses scaled to lie from 0 to 1.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from locuscore._laws.scores import Score
from locuscore._protocols import FloatArray, IntArray
from locuscore._rules.betting import (
    Games,
    generator_seeded_by,
    p_values,
    rows_without_loss,
    upper_bound,
)
from locuscore._rules.binomial_tests import first_failure
from locuscore._rules.certificate import MeanLossCertificate
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import digest_of_rows
from locuscore._shared.accepted import is_accepted, sorted_finite
from locuscore._shared.checks import (
    check_between,
    check_count,
    check_losses,
    check_numbers,
    check_same_length,
    check_scores,
)

MOST_THRESHOLDS = 50
GRID_SHARE = 0.2  # of the rows: places the thresholds where no reference is given
FEWEST_ROWS, ENOUGH_ROWS = 2.0, 6.0  # for a start, in units of what a perfect record needs
SMALLEST_START, LARGEST_START = 0.05, 0.4  # acceptance at the start, unless rows are too few


def mean_loss_p_value(losses: ArrayLike, eta: float, low: float, high: float) -> float:
    """Exact p-value for "the mean loss is above eta", for losses in [low, high].

    Valid for every n and every law on the support: ``P(p <= delta) <= delta`` for all delta when
    ``E[Z] >= eta``, for independent losses of one law. The test goes through the losses in 20
    random orders; an order by their scores would be wrong, because the mean rises along it. The
    generator of the orders is seeded by the sorted losses, so the answer does not depend on the
    order in which they are given; the proof takes its orders for random. The p-value is at most
    ``delta`` exactly when `mean_loss_bound` is at most eta, up to rounding: p is rounded up by
    0.1 %, the bound by 1e-8 of the support.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import mean_loss_p_value
    >>> mean_loss_p_value(np.full(100, 0.2), eta=0.4, low=0, high=1) < 0.001
    True
    """
    x, m = _standardise(losses, low, high), _scaled(eta, low, high)
    return float(p_values(Games.of([x]), m)[0])


def mean_loss_bound(losses: ArrayLike, delta: float, low: float, high: float) -> float:
    """Upper confidence bound for the mean loss: ``P(E[Z] <= bound) >= 1 - delta``, exactly.

    For independent losses in [low, high], any n and any law; the probability is over them. It
    inverts the test of `mean_loss_p_value`. Where losses are small on a wide support it is far
    above the normal approximation, as is every bound that holds for all distributions: n losses
    without a large one cannot rule out that a share of about ``log(1 / delta) / n`` lies at the
    top.

    Examples
    --------
    >>> from locuscore import mean_loss_bound
    >>> bound = mean_loss_bound([0.1, 0.2, 0.0, 0.1] * 50, delta=0.05, low=0, high=1)
    >>> 0.1 < bound < 0.2
    True
    """
    x, delta = _standardise(losses, low, high), check_between(delta, "delta")
    return float(low + upper_bound(x, delta) * (high - low))


def certify_mean_loss(
    score: ArrayLike,
    losses: ArrayLike,
    eta: float,
    delta: float,
    *,
    support: tuple[float, float],
    reference: ArrayLike | None = None,
    of: Score | None = None,
    n_thresholds: int = MOST_THRESHOLDS,
) -> FlagRule:
    """Certify a threshold below which the mean loss is at most eta.

    With probability at least 1 - delta over the labelled rows, ``E[Z | accepted] <= eta`` for the
    rule returned, if rows are independent and losses lie in `support`. At a threshold fixed in
    advance the accepted losses are a sample of that conditional law, so `mean_loss_p_value`
    applies; thresholds are tested in ascending order from a start, each at level delta, until the
    first failure (fixed-sequence testing: only the first false claim of the sequence counts).

    Parameters
    ----------
    score, losses
        Labelled rows that had no part in the score, in eta or in `reference`. Infinite scores, of
        either sign, are never accepted.
    eta, delta
        Mean loss allowed among the accepted, and the probability of a wrong certificate.
    support
        Smallest and largest possible loss, known beforehand.
    reference
        Scores of other rows, labels not needed, whose quantiles are the thresholds. Without it a
        random fifth of the rows, seeded by a digest of them all, is set aside for that and not
        tested on.
    of
        Which score this is; by default one of your own.
    n_thresholds
        At most 50.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_mean_loss
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=200)
    >>> losses = score * rng.uniform(size=200)
    >>> rule = certify_mean_loss(score, losses, eta=0.4, delta=0.1, support=(0, 1))
    >>> bool(losses[rule.accepts(score)].mean() < 0.4)
    True
    """
    s, z = check_scores(score=score, losses=losses)
    low, high = _support(support)
    x, m = _standardise(z, low, high), _scaled(eta, low, high)
    delta = check_between(delta, "delta")
    if not check_count(n_thresholds, "n_thresholds") <= MOST_THRESHOLDS:
        raise ValueError(f"n_thresholds must be from 1 to {MOST_THRESHOLDS}; got {n_thresholds!r}.")
    given = len(s)
    if reference is None:
        aside, testing = set_aside(s, x)
        s, x, known = s[testing], x[testing], s[aside]
        source = f"the scores of {len(known)} of the {given} rows, set aside and not tested on"
    else:
        (known,) = check_scores(reference=reference)
        source = f"the scores of {len(known)} reference rows"
    needed = rows_without_loss(m, delta)
    grid = quantile_thresholds(known, n_thresholds, _start(needed / max(len(s), 1)))
    table, n_passed = tested_in_order(s, x, grid, m, delta)
    table["mean_loss"] = low + table["mean_loss"] * (high - low)
    first = x[is_accepted(s, grid[0])] if len(grid) else x[:0]
    spread = float(first.std()) * (high - low) if len(first) else 0.0
    claim = MeanLossCertificate(
        n_rows=len(s), eta=float(eta), delta=delta, low=low, high=high, thresholds=source
    )
    claim = replace(claim, rows_digest=digest_of_rows(z))
    claim, guarantee = _outcome(claim, len(s), table, n_passed, spread, needed)
    return FlagRule(
        of or Score.other(""),
        float(grid[n_passed - 1]) if n_passed else -np.inf,
        "certificate",
        guarantee,
        (
            "rows are independent and drawn like the new ones",
            f"losses lie in [{low:g}, {high:g}]",
            "score, eta, support and reference were fixed without these labelled rows",
        ),
        table={name: tuple(column.tolist()) for name, column in table.items()},
        certificate=claim,
    )


def _outcome(
    claim: MeanLossCertificate,
    n_rows: int,
    table: dict[str, FloatArray],
    n_passed: int,
    spread: float,
    needed: float,
) -> tuple[MeanLossCertificate, str]:
    """The claim with what was seen at the certified threshold or the failed start; the sentence."""
    if not n_passed:
        claim, why = _why_none_passed(claim, n_rows, table, spread, math.ceil(needed))
        return claim, f"Nothing is accepted: no threshold could be certified. {why}"
    n, mean, p = (table[name][n_passed - 1] for name in ("n_accepted", "mean_loss", "p_value"))
    share = float(n) / n_rows
    claim = replace(
        claim, n_accepted=int(n), acceptance=share, mean_loss=float(mean), p_value=float(p)
    )
    return claim, (
        f"With probability at least {1 - claim.delta:g} over the labelled rows, the mean loss of "
        f"accepted rows is at most {claim.eta:g}."
    )


def set_aside(score: FloatArray, x: FloatArray) -> tuple[IntArray, IntArray]:
    """Positions of a random fifth of the rows, to place thresholds by, and of the others."""
    # In an order of their own first, so that the split does not depend on the order given; rows
    # that are equal in both are interchangeable.
    ascending = np.lexsort((x, score))
    order = ascending[generator_seeded_by(score[ascending], x[ascending]).permutation(len(score))]
    # A random part: given which rows are set aside, the others are still a sample of the same law.
    aside, testing = np.split(order, [math.ceil(GRID_SHARE * len(score))])
    return aside, testing


def _why_none_passed(
    claim: MeanLossCertificate,
    n_rows: int,
    table: dict[str, FloatArray],
    spread: float,
    clean: int,
) -> tuple[MeanLossCertificate, str]:
    """What the first threshold showed, and about how many rows would have been needed for it.

    By the normal approximation the quantile of a test grows with the root of the number of rows. It
    is taken from the p-value, or from mean and spread of the losses where that gives a smaller one.
    """
    perfect = f"Even without any loss {clean} accepted rows are needed"
    claim = replace(claim, accepted_rows_needed_without_any_loss=clean)
    n = int(table["n_accepted"][0]) if len(table["n_accepted"]) else 0
    if not n:
        return claim, f"{perfect}; the first threshold tried had none."
    mean, p = float(table["mean_loss"][0]), float(table["p_value"][0])
    claim = replace(claim, start_n=n, start_mean_loss=mean, start_p_value=p)
    why = f"At the start {n} accepted rows have mean loss {mean:.4g}, p-value {p:.3g}"
    if mean >= claim.eta:
        why += "; at this mean no number of rows would pass there, but more rows may start lower"
        return claim, f"{why}. {perfect}."
    seen = (claim.eta - mean) / spread * math.sqrt(n) if spread else math.inf
    tested = float(ndtri(1 - p))
    quantile = min(seen, tested) if tested > 0 else seen
    accepted = max(clean, n + 1, math.ceil(n * (float(ndtri(1 - claim.delta)) / quantile) ** 2))
    total = math.ceil(accepted * n_rows / n)
    return replace(claim, rows_needed_at_this_mean=total), (
        f"{why}; at this mean about {total} rows to test with would have been needed instead of "
        f"{n_rows} (normal approximation). {perfect}."
    )


def _start(needed: float) -> float:
    """Acceptance of the first threshold, from the share of rows that a perfect record needs.

    Low scores are the safest, but a few rows prove nothing: begin where there are enough, and with
    many rows not at the very bottom.
    """
    enough = min(ENOUGH_ROWS * needed, LARGEST_START)
    return min(max(FEWEST_ROWS * needed, SMALLEST_START, enough), 1.0)


def quantile_thresholds(reference: FloatArray, n_thresholds: int, share: float) -> FloatArray:
    """Distinct quantiles of the reference scores that are likely to accept that share or more."""
    finite = sorted_finite(reference)
    if len(finite) == 0:
        return np.empty(0)
    # The share is one of all rows, and those at inf are never accepted.
    first = min(share * len(reference) / len(finite), 1.0)
    ranks = np.ceil(np.linspace(first, 1.0, n_thresholds) * len(finite)).astype(np.int64)
    return np.unique(finite[np.maximum(ranks, 1) - 1])


def tested_in_order(
    s: FloatArray, x: FloatArray, grid: FloatArray, m: float, delta: float
) -> tuple[dict[str, FloatArray], int]:
    """Number accepted, mean of x and p-value of "above m" by threshold; how many passed in order.

    The x of all rows lie from 0 to 1, and thresholds were fixed without these rows.
    """
    # At such a threshold, the accepted x are independent draws of the law of x given acceptance,
    # whose mean is tested.
    parts = [x[is_accepted(s, threshold)] for threshold in grid]
    p = p_values(Games.of(parts), m)
    table = {
        "threshold": grid,
        "n_accepted": np.array([float(len(part)) for part in parts]),
        "mean_loss": np.array([part.mean() if len(part) else np.nan for part in parts]),
        "p_value": p,
    }
    # One start at level delta: thresholds pass in order, so their number says which is the last.
    return table, first_failure(lambda rows, level: p[rows] <= level, len(p), 0, delta)


def _support(support: tuple[float, float]) -> tuple[float, float]:
    ends = check_numbers(support, "support")
    if ends.shape != (2,) or not (np.isfinite(ends).all() and ends[0] < ends[1]):
        raise ValueError(f"support must be (low, high), finite with low < high; got {support!r}.")
    return float(ends[0]), float(ends[1])


def _standardise(losses: ArrayLike, low: float, high: float) -> FloatArray:
    """Losses on the scale from 0 to 1."""
    low, high = _support((low, high))
    (z,) = check_same_length(losses=losses)
    z = check_losses(z, len(z), "losses")
    outside = int(np.count_nonzero((z < low) | (z > high)))
    if outside:
        raise ValueError(f"{outside} losses lie outside the support [{low:g}, {high:g}].")
    return np.clip((z - low) / (high - low), 0.0, 1.0)  # rounding must not leave the support


def on_unit_scale(
    losses: ArrayLike, eta: float, support: tuple[float, float]
) -> tuple[FloatArray, float]:
    """Losses and their allowed mean on the scale from 0 to 1."""
    low, high = _support(support)
    return _standardise(losses, low, high), _scaled(eta, low, high)


def _scaled(eta: float, low: float, high: float) -> float:
    return (check_between(eta, "eta", low, high) - low) / (high - low)
