"""Certified thresholds: with confidence 1 - delta, P(Z > tau | accepted) <= eta.

Functions of arrays; docs/rules.md has the proofs.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray
from locuscore._rules.binomial_tests import binomial_p_value, holm
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import check_grid, checked_rows, record, sorted_finite
from locuscore._rules.thresholds import (
    Ladder,
    Start,
    climb,
    distinct,
    grid_ladder,
    own_ladder,
    powerful_start,
    quantile_starts,
    rank_starts,
    shortfall,
)
from locuscore._shared.checks import check_between, check_numbers, check_scores

INDEPENDENT = "independent rows, certifying and new, all drawn alike"
CHOSEN_BEFORE = "score, tau, eta and delta chosen without the certifying rows' losses"
OWN_SCORES = "every row's own score, tested on the rows strictly below it"
ONE_CALL = "one certificate per delta: several calls on the same rows need their deltas summed"


def certify_threshold(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    *,
    of: Score = UNNAMED,
    reference: ArrayLike | None = None,
    reference_losses: ArrayLike | None = None,
    starts: Sequence[float] | None = None,
) -> FlagRule:
    """Largest threshold certified to keep ``P(Z > tau | score <= threshold)`` at most eta.

    At each threshold the number of bad rows among the n accepted is binomial, which gives the exact
    p-value ``P(Binomial(n, eta) <= bad)`` for "more than eta of the accepted are bad". Thresholds
    are tested in ascending order from a start to the first failure, so the probability of
    certifying any threshold that breaks eta is at most delta (fixed-sequence testing; with several
    starts, each has its share of delta). No shape of the risk is assumed.

    Parameters
    ----------
    score, losses
        One entry per certifying row. Rows with an infinite score, of either sign, are never
        accepted.
    tau, eta, delta
        A loss above tau is bad; eta is the share of bad rows allowed among the accepted; delta is
        the probability, over the certifying rows, that the certificate is wrong.
    of
        Which score this is.
    reference
        Scores of other rows. Their distinct values are the thresholds, and their quantiles the
        starts. Without it every row's own score is a threshold, tested on the rows strictly below
        it, and starts are ranks; no row is set aside. Neither certifies more for every shape of the
        risk. Where many scores tie, a reference is better: a start rank inside a block of ties has
        only the rows below the whole block.
    reference_losses
        Losses of the reference rows. Then the one start is where the estimated power is greatest.
    starts
        Shares of the rows at which sequences begin, with equal parts of delta; None for a start at
        0.4 and, where rows suffice, further ones at 0.1, 0.025, ... with a tenth of delta.

    Returns
    -------
    FlagRule
        With threshold -inf if nothing can be certified; its guarantee and evidence then say how
        many rows would have been needed.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import certify_threshold
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> rule = certify_threshold(score, losses, tau=0.5, eta=0.1, delta=0.1)
    >>> bool(0.5 < rule.threshold < 0.64)
    True
    """
    s, bad = checked_rows(score, losses, tau)
    target, error = check_between(eta, "eta"), check_between(delta, "delta")
    shares = None if starts is None else _check_starts(starts)
    if reference is None:
        if reference_losses is not None:
            raise ValueError("reference_losses were given without the reference scores.")
        return certify_rows(s, bad, float(tau), target, error, of, shares)
    (other,) = check_scores(reference=reference)
    ranked = sorted_finite(other)
    ladder = grid_ladder(s, bad, distinct(ranked))
    if reference_losses is None:
        chosen = quantile_starts(ladder, ranked, len(other), target, error, shares)
    elif shares is None:
        labels = checked_rows(other, reference_losses, tau)[1]
        chosen = powerful_start(ladder, other, labels, target, error)
    else:
        raise ValueError("starts and reference_losses both choose the start; pass one of them.")
    source = f"the scores of {len(other)} reference rows"
    return _climbed(of, ladder, chosen, float(tau), target, error, source)


def certify_threshold_holm(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    grid: ArrayLike,
    *,
    of: Score = UNNAMED,
) -> FlagRule:
    """Largest threshold of a grid certified by exact tests with Bonferroni-Holm.

    Needs no start and no order, and pays for it: each of m thresholds is first held against
    ``delta / m``. The grid must be fixed without the certifying rows; 20 or fewer points are best.
    """
    s, bad = checked_rows(score, losses, tau)
    target, error = check_between(eta, "eta"), check_between(delta, "delta")
    ladder = grid_ladder(s, bad, check_grid(grid))
    size = len(ladder.edge)
    n, n_bad = ladder.counts(slice(None))
    found = np.flatnonzero(holm(binomial_p_value(n_bad, n, target), error))
    certified = int(found[-1]) if len(found) else None
    evidence: dict[str, Any] = {"n_rows": len(s), "tau": float(tau), "eta": target, "delta": error}
    evidence["thresholds"] = f"a grid of {size}, Bonferroni-Holm"
    # The smallest p-value is held against this level first, wherever it is.
    tests = [Start(position, error / size) for position in range(size)]
    where = "the threshold that came closest"
    lower = "A grid with lower thresholds"
    return _rule(of, ladder, certified, (0, size), evidence, tests, where, lower)


def certify_threshold_paper(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    grid: ArrayLike,
    *,
    of: Score = UNNAMED,
) -> FlagRule:
    """Largest threshold of a grid certified by the paper's bound (Theorem 5).

    ``joint + slack_joint <= eta * (accepted - slack_accepted)`` with the shares of accepted bad and
    of accepted rows, ``slack_accepted = sqrt(log(4 / delta) / (2 N))`` and ``slack_joint = 2
    sqrt(log(2 (N + 1)) / N) + slack_accepted``. For fidelity: at ``eta = delta = 0.1`` it needs
    5,795 rows even if all are accepted and none is bad, where the exact test needs 22.
    """
    s, bad = checked_rows(score, losses, tau)
    target, error = check_between(eta, "eta"), check_between(delta, "delta")
    ladder = grid_ladder(s, bad, check_grid(grid))
    n_rows = ladder.n_rows
    slack_accepted, slack_joint = paper_slacks(n_rows, error)
    n, n_bad = ladder.counts(slice(None))
    joint, accepted = n_bad / n_rows, n / n_rows
    feasible = np.flatnonzero(joint + slack_joint <= target * (accepted - slack_accepted))
    evidence: dict[str, Any] = {"n_rows": n_rows, "tau": float(tau), "eta": target, "delta": error}
    evidence |= {"slack_joint": slack_joint, "slack_accepted": slack_accepted}
    threshold = -np.inf
    guarantee = "Theorem 5: " + _sentence(float(tau), target, error, n_rows)
    if len(feasible):
        best = int(feasible[-1])
        threshold = float(ladder.edge[best])
        evidence |= {"n_accepted": int(n[best]), "n_bad": int(n_bad[best])}
    else:
        evidence["rows_needed_without_a_bad_one"] = paper_rows(target, error)
        guarantee = (
            "Nothing is accepted: no threshold meets the bound of Theorem 5. It needs at least "
            f"{evidence['rows_needed_without_a_bad_one']} rows, all accepted and none bad."
        )
    table = record(ladder.edge, n, n_bad)
    grid_fixed = "grid fixed without the certifying rows"
    assumptions = (INDEPENDENT, CHOSEN_BEFORE, grid_fixed)
    return FlagRule(of, threshold, "certificate", guarantee, assumptions, evidence, table)


def certify_rows(
    score: FloatArray,
    bad: BoolArray,
    tau: float,
    eta: float,
    delta: float,
    of: Score,
    shares: FloatArray | None = None,
) -> FlagRule:
    """Certify on the rows' own scores, from fixed ranks up."""
    ladder = own_ladder(score, bad)
    starts = rank_starts(len(score), eta, delta, shares)
    return _climbed(of, ladder, starts, tau, eta, delta, OWN_SCORES)


def paper_slacks(n_rows: int, delta: float) -> tuple[float, float]:
    """The two epsilons of Theorem 5: of the accepted share, and of the joint share."""
    accepted = math.sqrt(math.log(4.0 / delta) / (2.0 * n_rows))
    return accepted, 2.0 * math.sqrt(math.log(2.0 * (n_rows + 1)) / n_rows) + accepted


def paper_rows(eta: float, delta: float) -> int:
    """Smallest N at which Theorem 5 can certify: all rows accepted, none of them bad."""

    def is_enough(n: int) -> bool:
        accepted, joint = paper_slacks(n, delta)
        return joint <= eta * (1.0 - accepted)

    low, high = 1, 2
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _climbed(
    of: Score,
    ladder: Ladder,
    starts: Sequence[Start],
    tau: float,
    eta: float,
    delta: float,
    source: str,
) -> FlagRule:
    """Test in ascending order from each start."""
    certified, tested = climb(ladder, starts, eta)
    evidence: dict[str, Any] = {"n_rows": ladder.n_rows, "tau": tau, "eta": eta, "delta": delta}
    evidence |= {
        "thresholds": source,
        "starts_at_n": tuple(ladder.count(start.position)[0] for start in starts),
        "start_levels": tuple(start.level for start in starts),
    }
    where, lower = "its best start", "A lower start (see `starts`)"
    return _rule(of, ladder, certified, tested, evidence, starts, where, lower)


def _rule(
    of: Score,
    ladder: Ladder,
    certified: int | None,
    tested: tuple[int, int],
    evidence: dict[str, Any],
    starts: Sequence[Start],
    where: str,
    lower: str,
) -> FlagRule:
    eta, delta = evidence["eta"], evidence["delta"]
    table = ladder.table(tested, certified, eta)
    assumptions = [INDEPENDENT, CHOSEN_BEFORE, ONE_CALL]
    if ladder.side == "right":
        assumptions.insert(2, "thresholds and starts fixed without the certifying rows")
    if certified is None:
        needed, why = shortfall(ladder, starts, eta, where, lower)
        threshold, evidence = -np.inf, evidence | needed
        guarantee = f"Nothing is accepted: no threshold could be certified. {why}"
    else:
        n, bad = ladder.count(certified)
        threshold = float(ladder.thresholds(np.array([certified]))[0])
        evidence |= {"n_accepted": n, "n_bad": bad, "acceptance": n / ladder.n_rows}
        evidence |= {"p_value": float(binomial_p_value(bad, n, eta))}
        guarantee = _sentence(evidence["tau"], eta, delta, ladder.n_rows)
    return FlagRule(of, threshold, "certificate", guarantee, tuple(assumptions), evidence, table)


def _sentence(tau: float, eta: float, delta: float, n_rows: int) -> str:
    return (
        f"P(loss > {tau:g} | accepted) <= {eta:g} for a new row, with confidence {1 - delta:g}: "
        f"over the draw of the {n_rows} certifying rows, the probability that this fails is at "
        f"most {delta:g}."
    )


def _check_starts(starts: Sequence[float]) -> FloatArray:
    shares = np.unique(check_numbers(starts, "starts"))
    if not np.all((shares > 0) & (shares <= 1)):
        raise ValueError(f"starts are shares of the rows, above 0 and at most 1; got {starts!r}.")
    return shares
