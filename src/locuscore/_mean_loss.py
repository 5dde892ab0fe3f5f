"""Exact tests and bounds for the mean of a bounded loss, and thresholds certified by them.

A game against the claim "the mean is above m" (Waudby-Smith and Ramdas 2024): start with capital
v in (0, 1) and, before each loss x in [0, 1] is seen, bet an amount b on its being below m,
``v <- v + b * (m - x)``. While b was chosen from the past and never risks more than v, the capital
is a nonnegative supermartingale under the claim, and so is capital stopped when it reaches TOP.

The bets copy the hedge of a digital option, the fixed-sample test as a game: with r rounds left and
s the standard deviation of the past losses, ::

    b = min( phi(Phi^-1(v)) / (s sqrt(r)),  v / (1 - m),  (1 - v) / m )

The game is played in several random orders of the losses, each from ``SHARE * delta``, and the
claim is rejected at level delta when the stopped capitals are at least SHARE on average. Under the
claim each is at most its start in expectation, hence so is their average, and by Markov it reaches
SHARE with probability at most delta. Only stopped capital has this: the average of the largest
capitals so far would be wrong.

The orders come from a generator seeded by a digest of the sorted losses and are applied to these,
so nobody can shop for one: the same losses, in any order, give the same answer. The proof takes
them for random orders, as one takes any generator's; equal losses are interchangeable.

As a function of v each term of b is concave, and the slope of b lies between -1 / m and
1 / (1 - m); since x - m lies between -m and 1 - m, the next capital grows with v. It grows with m
too, and so does capital that is set to TOP once it gets there. Hence rejections are nested in delta
and in m: the smallest rejected delta is a p-value, the smallest rejected m an upper confidence
bound, and both say the same.
"""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from locuscore._protocols import FloatArray
from locuscore._rules import FlagRule, Score
from locuscore._sequential import fixed_sequence
from locuscore._validation import (
    check_between,
    check_count,
    check_losses,
    check_numbers,
    check_same_length,
    check_scores,
)

ORDERS = 10  # in which the game is played
SHARE = 0.75  # of the orders that must succeed, about; the rest of delta is not spent
TOP = 0.99  # success: a capped bet would only approach 1
IMAGINED = 3  # losses before the first, half of them 0 and half 1: early bets are small
DIGITS = 2.0**40  # of the losses, in the digest that seeds their orders
ROUNDS, MOST_ROUNDS = 30, 10_000  # times sqrt(n): more losses are played in blocks of averages
SMALLEST_P = 1e-8
TINY = float(np.finfo(np.float64).tiny)
SQRT_2_PI = math.sqrt(2 * math.pi)
GRID = 16  # values tried at once; each pass narrows the bracket by about this factor
MOST_THRESHOLDS = 50
GRID_SHARE = 0.2  # of the rows: places the thresholds where no reference is given
FEWEST_ROWS, ENOUGH_ROWS = 2.0, 6.0  # for a start, in units of what a perfect record needs
SMALLEST_START, LARGEST_START = 0.05, 0.4  # acceptance at the start, unless rows are too few


def mean_loss_p_value(losses: ArrayLike, eta: float, low: float, high: float) -> float:
    """Exact p-value for "the mean loss is above eta", for losses in [low, high].

    Valid for every n and every law on the support: ``P(p <= delta) <= delta`` for all delta when
    ``E[Z] >= eta``, for independent losses of one law. They are played in 10 random orders, never
    in one that knows them or their scores: along rising scores the mean rises too, and the test
    would be wrong. The orders are fixed by the losses, in whatever order these are given, so there
    is one answer. At most ``delta`` exactly when `mean_loss_bound` is at most eta, up to the digits
    shown: p is rounded up by 0.1 %, the bound by 1e-8 of the support.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import mean_loss_p_value
    >>> mean_loss_p_value(np.full(100, 0.2), eta=0.4, low=0, high=1) < 0.001
    True
    """
    x, m = _standardise(losses, low, high), _scaled(eta, low, high)
    means, spreads = _rounds(_orders(x))
    return float(_p_values(means[:, None], spreads[:, None], m)[0])


def mean_loss_bound(losses: ArrayLike, delta: float, low: float, high: float) -> float:
    """Upper confidence bound for the mean loss: ``P(E[Z] <= bound) >= 1 - delta``, exactly.

    For independent losses in [low, high], any n and any law; the probability is over them. It
    inverts the test of `mean_loss_p_value`. Where losses are small on a wide support it is far
    above the normal approximation, as is every bound that holds for all laws: n losses without a
    large one cannot rule out an atom at the top, of mass about ``log(1 / delta) / n``.
    """
    x, delta = _standardise(losses, low, high), check_between(delta, "delta")
    means, spreads = _rounds(_orders(x))
    below, above = 0.0, 1.0
    for _ in range(7):
        m = np.linspace(below, above, GRID + 2)[1:-1]
        rejected = _rejected(means[:, None], spreads[:, None], m, np.array(delta))
        kept = np.flatnonzero(~rejected)
        last = int(kept[-1]) if len(kept) else -1
        below = m[last] if last >= 0 else below
        above = m[last + 1] if last < GRID - 1 else above
    return float(low + above * (high - low))


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
        Scores of other rows, labels not needed, whose quantiles place the thresholds. Without it
        a random fifth of the rows, seeded by a digest of them all, does that and is then not used
        for testing.
    of
        Which score this is; by default one of your own.
    n_thresholds
        At most 50.
    """
    s, z = check_scores(score=score, losses=losses)
    low, high = _support(support)
    x, m = _standardise(z, low, high), _scaled(eta, low, high)
    delta = check_between(delta, "delta")
    if not check_count(n_thresholds, "n_thresholds") <= MOST_THRESHOLDS:
        raise ValueError(f"n_thresholds must be from 1 to {MOST_THRESHOLDS}; got {n_thresholds!r}.")
    given = len(s)
    s, x, known = _testing_rows(s, x, reference)
    source = f"the scores of {len(known)} reference rows"
    if reference is None:
        source = f"the scores of {len(known)} of the {given} rows, set aside and not tested on"
    needed = _rows_without_loss(m, delta)
    grid = _thresholds(known, n_thresholds, _start(needed / max(len(s), 1)))
    table = _tests(s, x, grid, m)
    n_passed = int(fixed_sequence(table["p_value"], delta).sum()) if len(grid) else 0
    table["mean_loss"] = low + table["mean_loss"] * (high - low)
    first = x[s <= grid[0]] if len(grid) else x[:0]
    spread = float(first.std()) * (high - low) if len(first) else 0.0
    found, guarantee = _outcome(table, n_passed, spread, needed, float(eta), delta, len(s))
    evidence: dict[str, Any] = {"n_rows": len(s), "eta": float(eta), "delta": delta}
    evidence |= {"low": low, "high": high, "thresholds": source, **found}
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
        evidence,
        {name: tuple(column.tolist()) for name, column in table.items()},
    )


def _outcome(
    table: dict[str, FloatArray],
    n_passed: int,
    spread: float,
    needed: float,
    eta: float,
    delta: float,
    n_rows: int,
) -> tuple[dict[str, Any], str]:
    """Evidence at the certified threshold, or at the start that failed, and the sentence."""
    if not n_passed:
        found, why = _shortfall(table, spread, math.ceil(needed), eta, delta, n_rows)
        return found, f"Nothing is accepted: no threshold could be certified. {why}"
    at = {name: float(column[n_passed - 1]) for name, column in table.items()}
    n = int(at["n_accepted"])
    found = {"n_accepted": n, "acceptance": n / n_rows}
    found |= {"mean_loss": at["mean_loss"], "p_value": at["p_value"]}
    return found, (
        f"With probability at least {1 - delta:g} over the labelled rows, the mean loss of "
        f"accepted rows is at most {eta:g}."
    )


def _testing_rows(
    score: FloatArray, x: FloatArray, reference: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores and losses of the rows that test; the scores for the grid."""
    if reference is not None:
        (known,) = check_scores(reference=reference)
        return score, x, known
    ascending = np.lexsort((x, score))  # rows that are equal in both are interchangeable
    order = ascending[_generator(score[ascending], x[ascending]).permutation(len(score))]
    aside, testing = np.split(order, [math.ceil(GRID_SHARE * len(score))])
    return score[testing], x[testing], score[aside]


def _shortfall(
    table: dict[str, FloatArray],
    spread: float,
    clean: int,
    eta: float,
    delta: float,
    n_rows: int,
) -> tuple[dict[str, Any], str]:
    """What the first threshold showed, and about how many rows would have been needed for it.

    By the normal approximation a test's quantile grows with the root of the number of rows; it is
    that of the p-value seen, or of the mean and spread of the losses where that is smaller.
    """
    perfect = f"Even without any loss {clean} accepted rows are needed"
    evidence: dict[str, Any] = {"accepted_rows_needed_without_any_loss": clean}
    n = int(table["n_accepted"][0]) if len(table["n_accepted"]) else 0
    if not n:
        return evidence, f"{perfect}; the first threshold tried had none."
    mean, p = float(table["mean_loss"][0]), float(table["p_value"][0])
    evidence |= {"start_n": n, "start_mean_loss": mean, "start_p_value": p}
    why = f"At the start {n} accepted rows have mean loss {mean:.4g}, p-value {p:.3g}"
    if mean >= eta:
        why += "; at this mean no number of rows would pass there, but more rows may start lower"
        return evidence, f"{why}. {perfect}."
    seen = (eta - mean) / spread * math.sqrt(n) if spread else math.inf
    tested = float(ndtri(1 - p))
    quantile = min(seen, tested) if tested > 0 else seen
    accepted = max(clean, n + 1, math.ceil(n * (float(ndtri(1 - delta)) / quantile) ** 2))
    total = math.ceil(accepted * n_rows / n)
    evidence["rows_needed_at_this_mean"] = total
    return evidence, (
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


def _thresholds(reference: FloatArray, n_thresholds: int, share: float) -> FloatArray:
    """Distinct quantiles of the reference scores that are likely to accept that share or more."""
    finite = np.sort(reference[reference < np.inf])
    if len(finite) == 0:
        return np.empty(0)
    first = min(share * len(reference) / len(finite), 1.0)  # inf is never accepted
    ranks = np.ceil(np.linspace(first, 1.0, n_thresholds) * len(finite)).astype(np.int64)
    return np.unique(finite[np.maximum(ranks, 1) - 1])


def _tests(s: FloatArray, x: FloatArray, grid: FloatArray, m: float) -> dict[str, FloatArray]:
    """Number accepted, mean loss (0 to 1) and p-value at each threshold."""
    parts = [x[(s <= threshold) & (s < np.inf)] for threshold in grid]
    rounds = [_rounds(_orders(part)) for part in parts]
    most = max((len(played) for played, _ in rounds), default=0)
    means = np.zeros((most, len(grid), ORDERS))
    spreads = np.full(means.shape, np.inf)
    for j, (played, spread) in enumerate(rounds):
        # No bet is made after the last round: an infinite spread.
        means[: len(played), j], spreads[: len(played), j] = played, spread
    return {
        "threshold": grid,
        "n_accepted": np.array([float(len(part)) for part in parts]),
        "mean_loss": np.array([part.mean() if len(part) else np.nan for part in parts]),
        "p_value": _p_values(means, spreads, m),
    }


def _p_values(means: FloatArray, spreads: FloatArray, m: float) -> FloatArray:
    """P-value per column, rounded up; `means` and `spreads` are (rounds, columns, orders)."""
    columns = np.arange(means.shape[1])
    below, above = np.full(len(columns), SMALLEST_P), np.ones(len(columns))
    for _ in range(4):
        delta = np.geomspace(below, above, GRID)
        rejected = _rejected(means, spreads, m, delta)
        rejected[-1] = True  # known from the pass before, or delta = 1
        first = np.argmax(rejected, axis=0)
        below, above = delta[np.maximum(first - 1, 0), columns], delta[first, columns]
    return above


def _rejected(
    means: FloatArray, spreads: FloatArray, m: float | FloatArray, delta: FloatArray
) -> np.ndarray:
    """Whether the claim "mean above m" is rejected, for each column and each level."""
    return np.asarray(_stopped(means, spreads, m, delta) >= SHARE)


def _stopped(
    means: FloatArray, spreads: FloatArray, m: float | FloatArray, delta: FloatArray
) -> FloatArray:
    """Stopped capital, on average over the orders; under the claim ``SHARE * delta`` at most."""
    shape = np.broadcast_shapes(np.shape(delta), np.shape(m), means.shape[1:2])
    limit = np.asarray(m)[..., None]
    start = SHARE * np.asarray(delta)[..., None]
    v = np.broadcast_to(start, (*shape, means.shape[2])).copy()
    for x, spread in zip(means, spreads, strict=True):
        # Once at the top, capital stays there: what is averaged is stopped, never a maximum.
        v = np.where(v >= TOP, TOP, _played(v, x, spread, limit))
    return np.asarray(np.minimum(v, TOP).mean(axis=-1), dtype=np.float64)


def _played(v: FloatArray, x: FloatArray, spread: FloatArray, m: FloatArray) -> FloatArray:
    """Capital after one round."""
    hedge = np.exp(-0.5 * ndtri(np.maximum(v, TINY)) ** 2) / (SQRT_2_PI * spread)
    bet = np.minimum(hedge, np.minimum(v / (1 - m), (1 - v) / m))
    return np.minimum(np.maximum(v + bet * (m - x), 0.0), 1.0)  # there but for rounding


def _rounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What is played, (rounds, orders): the losses or block means of them, and ``s sqrt(r)``.

    `x` holds the losses in each order, (orders, n). A block's mean keeps mean and support, but may
    be bet on no more than a single loss; so blocks are kept small. The past begins with a few
    imagined losses of mean 1/2 and the largest variance there is.
    """
    n = x.shape[1]
    rounds = min(n, int(ROUNDS * np.sqrt(n)), MOST_ROUNDS)
    edges = np.linspace(0, n, rounds + 1).astype(np.int64)
    size = np.diff(edges)
    sums = np.cumsum([x, x * x], axis=2)
    moments = np.concatenate([np.zeros((2, len(x), 1)), sums], axis=2)[:, :, edges]
    first, second = moments[:, :, :-1]
    seen, before = edges[:-1] + IMAGINED, IMAGINED / 2
    variance = (before + second) / seen - ((before + first) / seen) ** 2
    left = np.arange(len(size), 0, -1)
    return (np.diff(moments[0]) / size).T, np.sqrt(variance / size * left).T


def _orders(x: FloatArray) -> FloatArray:
    """The losses in several random orders, (orders, n), the same ones whatever their order was."""
    ascending = np.sort(x)
    return _generator(ascending).permuted(np.tile(ascending, (ORDERS, 1)), axis=1)


def _generator(*columns: FloatArray) -> np.random.Generator:
    """Random numbers that are a function of sorted rows."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.rint(np.clip(column, -1e6, 1e6) * DIGITS).astype("<f8").tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest()[:16], "little"))


def _rows_without_loss(m: float, delta: float) -> float:
    """How many losses of 0 reject "mean above m": a round multiplies capital by ``1 / (1 - m)``."""
    return math.log(TOP / (SHARE * delta)) / -math.log1p(-m)


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
    return np.clip((z - low) / (high - low), 0.0, 1.0)


def _scaled(eta: float, low: float, high: float) -> float:
    return (check_between(eta, "eta", low, high) - low) / (high - low)
