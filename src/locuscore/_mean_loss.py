"""Exact tests and bounds for the mean of a bounded loss, and thresholds certified by them.

A game against the claim "the mean is above m" (Waudby-Smith and Ramdas 2024): start with capital
v in (0, 1) and, before each loss x in [0, 1] is seen, bet an amount b on its being below m,
``v <- v + b * (m - x)``. While b was chosen from the past and never risks more than v, the capital
is a nonnegative supermartingale under the claim, so it reaches 1 with probability at most its start
(Ville). The claim is rejected at level delta when a start of ``delta / AIM`` reaches ``1 / AIM``.

The bets copy the hedge of a digital option, the fixed-sample test as a game: with r rounds left and
s the standard deviation of the past losses, ::

    b = min( phi(Phi^-1(v)) / (s sqrt(r)),  v / (1 - m),  (1 - v) / m )

As a function of v each term is concave, and the slope of b lies between -1 / m and 1 / (1 - m);
since x - m lies between -m and 1 - m, the next capital grows with v. It grows with m too. Hence
rejections are nested in delta and in m: the smallest rejected delta is a p-value, the smallest
rejected m an upper confidence bound, and both say the same.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from locuscore._protocols import FloatArray
from locuscore._random import spawn_seeds
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

AIM = 1.1  # the game aims a little beyond its target, which a capped bet would only approach
ROUNDS, MOST_ROUNDS = 30, 10_000  # times sqrt(n): more losses are played in blocks of averages
SMALLEST_P = 1e-8
SQRT_2_PI = float(np.sqrt(2 * np.pi))
GRID = 32  # values tried at once; each pass narrows the bracket by this factor
MOST_THRESHOLDS = 50
GRID_SHARE = 0.2  # of the rows: places the thresholds where no reference is given
FEWEST_ROWS, ENOUGH_ROWS = 2.0, 6.0  # for a start, in units of what a perfect record needs
SMALLEST_START, LARGEST_START = 0.05, 0.4  # acceptance at the start, unless rows are too few

Seed = int | np.random.Generator | np.random.RandomState | None


def mean_loss_p_value(
    losses: ArrayLike, eta: float, low: float, high: float, random_state: Seed = 0
) -> float:
    """Exact p-value for "the mean loss is above eta", for losses in [low, high].

    Valid for every n and every law on the support: ``P(p <= delta) <= delta`` for all delta when
    ``E[Z] >= eta``, for independent losses of one law. They are played in the random order that
    `random_state` gives, never in one that knows them or their scores: along rising scores the mean
    rises too, and the test would be wrong. At most ``delta`` exactly when `mean_loss_bound` is at
    most eta, up to the digits shown: p is rounded up by 0.1 %, the bound by 1e-8 of the support.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import mean_loss_p_value
    >>> mean_loss_p_value(np.full(100, 0.2), eta=0.4, low=0, high=1) < 0.001
    True
    """
    x, m = _standardise(losses, low, high), _scaled(eta, low, high)
    means, spreads = _rounds(_shuffled(x, random_state))
    return float(_p_values(means[:, None], spreads[:, None], m)[0])


def mean_loss_bound(
    losses: ArrayLike, delta: float, low: float, high: float, random_state: Seed = 0
) -> float:
    """Upper confidence bound for the mean loss: ``P(E[Z] <= bound) >= 1 - delta``, exactly.

    For independent losses in [low, high], any n and any law; the probability is over them. It
    inverts the test of `mean_loss_p_value`.
    """
    x, delta = _standardise(losses, low, high), check_between(delta, "delta")
    means, spreads = _rounds(_shuffled(x, random_state))
    below, above = 0.0, 1.0
    for _ in range(6):
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
    random_state: Seed = 0,
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
        a random fifth of the rows does that and is then not used for testing.
    of
        Which score this is; by default one of your own.
    n_thresholds
        At most 50.
    random_state
        Seed of the order of play, and of the fifth.
    """
    s, z = check_scores(score=score, losses=losses)
    low, high = _support(support)
    x, m = _standardise(z, low, high), _scaled(eta, low, high)
    delta = check_between(delta, "delta")
    if not check_count(n_thresholds, "n_thresholds") <= MOST_THRESHOLDS:
        raise ValueError(f"n_thresholds must be from 1 to {MOST_THRESHOLDS}; got {n_thresholds!r}.")
    given = len(s)
    s, x, known = _testing_rows(s, x, reference, random_state)
    source = f"the scores of {len(known)} reference rows"
    if reference is None:
        source = f"the scores of {len(known)} of the {given} rows, set aside and not tested on"
    needed = float(np.log(AIM / delta) / -np.log1p(-m))
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
    score: FloatArray, x: FloatArray, reference: ArrayLike | None, random_state: Seed
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores and losses of the rows that test, in the order of play; the scores for the grid."""
    order = np.random.default_rng(spawn_seeds(random_state, 1)[0]).permutation(len(score))
    if reference is None:
        aside, order = np.split(order, [math.ceil(GRID_SHARE * len(score))])
        known = score[aside]
    else:
        (known,) = check_scores(reference=reference)
    return score[order], x[order], known


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
    rounds = [_rounds(part) for part in parts]
    most = max((len(played) for played, _ in rounds), default=0)
    means, spreads = np.zeros((most, len(grid))), np.full((most, len(grid)), np.inf)
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
    """P-value per column, rounded up."""
    columns = np.arange(means.shape[1])
    below, above = np.full(len(columns), SMALLEST_P), np.ones(len(columns))
    for _ in range(3):
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
    shape = np.broadcast_shapes(np.shape(delta), np.shape(m), means.shape[1:])
    v = np.broadcast_to(delta / AIM, shape).copy()
    most, tiny = v.copy(), np.finfo(np.float64).tiny
    for x, spread in zip(means, spreads, strict=True):
        bet = np.exp(-0.5 * ndtri(np.maximum(v, tiny)) ** 2) / (SQRT_2_PI * spread)
        bet = np.minimum(bet, np.minimum(v / (1 - m), (1 - v) / m))
        v = np.minimum(np.maximum(v + bet * (m - x), 0.0), 1.0)  # there but for rounding
        most = np.maximum(most, v)
    return np.asarray(most >= 1 / AIM)


def _rounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What is played: the losses or block means of them, and for each ``s sqrt(r)`` from its past.

    A block's mean keeps mean and support, but may be bet on no more than a single loss; so blocks
    are kept small. The past begins with one imagined loss of 1/2 and the largest
    variance there is.
    """
    rounds = min(len(x), int(ROUNDS * np.sqrt(len(x))), MOST_ROUNDS)
    edges = np.linspace(0, len(x), rounds + 1).astype(np.int64)
    size = np.diff(edges)
    moments = np.append(np.zeros((2, 1)), np.cumsum([x, x * x], axis=1), axis=1)[:, edges]
    first, second = moments[:, :-1]
    seen = edges[:-1] + 1
    variance = (0.5 + second) / seen - ((0.5 + first) / seen) ** 2
    left = np.arange(len(size), 0, -1)
    return np.diff(moments[0]) / size, np.sqrt(variance / size * left)


def _shuffled(x: FloatArray, random_state: Seed) -> FloatArray:
    return np.random.default_rng(spawn_seeds(random_state, 1)[0]).permutation(x)


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
