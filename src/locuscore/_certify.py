"""Certified thresholds: with confidence 1 - delta, P(Z > tau | accepted) <= eta.

Functions of arrays; docs/rules.md has the proofs.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._ladder import (
    Ladder,
    Start,
    climb,
    grid_ladder,
    own_ladder,
    powerful_start,
    quantile_starts,
    rank_starts,
    thresholds_of,
)
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules import UNNAMED, FlagRule, Score, check_grid, checked_rows, record
from locuscore._sequential import MOST_ROWS, binomial_p_value, holm, rows_at_rate, rows_for
from locuscore._validation import check_between, check_same_length

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
        One entry per certifying row. Rows with a score of inf are never accepted.
    tau, eta, delta
        A loss above tau is bad; eta is the share of bad rows allowed among the accepted; delta is
        the probability, over the certifying rows, that the certificate is wrong.
    of
        Which score this is.
    reference
        Scores of other rows. Their distinct values are the thresholds, and their quantiles the
        starts. Without it every row's own score is a threshold, tested on the rows strictly below
        it, and starts are ranks; no row is set aside, and this is at least as powerful. Where many
        scores tie, a reference is better: a start rank inside a block of ties has only the rows
        below the whole block.
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
        return _certify_rows(s, bad, float(tau), target, error, of, shares)
    (other,) = check_same_length(reference=reference)
    ladder = grid_ladder(s, bad, thresholds_of(other))
    if reference_losses is None:
        chosen = quantile_starts(ladder, other, target, error, shares)
    elif shares is None:
        labels = checked_rows(other, reference_losses, tau)[1]
        chosen = powerful_start(ladder, other, labels, target, error)
    else:
        raise ValueError("starts and reference_losses both choose the start; pass one of them.")
    certified, tested = climb(ladder, chosen, target)
    source = f"the scores of {len(other)} reference rows"
    return _rule(of, ladder, certified, tested, chosen, float(tau), target, error, source)


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
    found = np.flatnonzero(holm(binomial_p_value(ladder.bad, ladder.n, target), error))
    chosen = [Start(0, error / len(ladder.n))]
    certified = int(found[-1]) if len(found) else None
    source = f"a grid of {len(ladder.n)}, Bonferroni-Holm"
    tested = (0, len(ladder.n))
    return _rule(of, ladder, certified, tested, chosen, float(tau), target, error, source)


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
    joint, accepted = ladder.bad / n_rows, ladder.n / n_rows
    feasible = np.flatnonzero(joint + slack_joint <= target * (accepted - slack_accepted))
    evidence: dict[str, Any] = {"n_rows": n_rows, "tau": float(tau), "eta": target, "delta": error}
    evidence |= {"slack_joint": slack_joint, "slack_accepted": slack_accepted}
    threshold = -np.inf
    guarantee = "Theorem 5: " + _sentence(float(tau), target, error, n_rows)
    if len(feasible):
        best = int(feasible[-1])
        threshold = float(ladder.threshold[best])
        evidence |= {"n_accepted": int(ladder.n[best]), "n_bad": int(ladder.bad[best])}
    else:
        evidence["rows_needed_without_a_bad_one"] = paper_rows(target, error)
        guarantee = (
            "Nothing is accepted: no threshold meets the bound of Theorem 5. It needs at least "
            f"{evidence['rows_needed_without_a_bad_one']} rows, all accepted and none bad."
        )
    table = record(ladder.threshold, ladder.n, ladder.bad)
    grid_fixed = "grid fixed without the certifying rows"
    assumptions = (INDEPENDENT, CHOSEN_BEFORE, grid_fixed)
    return FlagRule(of, threshold, "certificate", guarantee, assumptions, evidence, table)


def certify_groups(
    score: ArrayLike,
    losses: ArrayLike,
    groups: ArrayLike,
    tau: float,
    eta: float,
    delta: float,
    *,
    of: Score = UNNAMED,
    pool_small: bool = False,
) -> dict[Hashable, FlagRule]:
    """One certified threshold per group, all of them right together with confidence 1 - delta.

    ``P(Z > tau | accepted, group) <= eta`` in every group at once: delta is divided equally over
    the groups that have enough rows to be certified at all. The others accept nothing and say how
    many rows they would need; or, with `pool_small`, they share one rule, certified on all their
    rows together, whose guarantee is for their mixture and not for each of them.
    """
    s, bad = checked_rows(score, losses, tau)
    target, error = check_between(eta, "eta"), check_between(delta, "delta")
    names, member = _check_groups(groups, len(s))
    needed = rows_for(0, target, error / len(names))
    small = np.bincount(member) < needed
    # Sizes are no losses: dividing delta by them spends nothing.
    n_rules = int(np.sum(~small)) + int(pool_small and small.any())
    together = f"All {n_rules} rules hold together with confidence {1 - error:g}."

    def certified(rows: BoolArray, where: str) -> FlagRule:
        rule = _certify_rows(s[rows], bad[rows], float(tau), target, error / n_rules, of)
        return _for_group(rule, where, f"{rule.guarantee} {together}")

    shared = None
    if pool_small and small.any():
        shared = certified(small[member], f"the {int(small.sum())} small groups taken together")
    rules: dict[Hashable, FlagRule] = {}
    for i, name in enumerate(names.tolist()):
        rows = member == i
        if not small[i]:
            rules[name] = certified(rows, f"group {name!r}")
        else:
            rules[name] = shared or _too_small(of, name, int(rows.sum()), needed, target, error)
    return rules


def _certify_rows(
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
    certified, tested = climb(ladder, starts, eta)
    return _rule(of, ladder, certified, tested, starts, tau, eta, delta, OWN_SCORES)


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


def _rule(
    of: Score,
    ladder: Ladder,
    certified: int | None,
    tested: tuple[int, int],
    starts: Sequence[Start],
    tau: float,
    eta: float,
    delta: float,
    source: str,
) -> FlagRule:
    rows = slice(*tested)
    keep = None if certified is None else certified - tested[0]
    kept = record(ladder.threshold[rows], ladder.n[rows], ladder.bad[rows], keep)
    n, bad = np.array(kept["n_accepted"]), np.array(kept["n_bad"])
    table = kept | {"p_value": tuple(binomial_p_value(bad, n, eta).tolist())}
    evidence: dict[str, Any] = {"n_rows": ladder.n_rows, "tau": tau, "eta": eta, "delta": delta}
    evidence |= {
        "thresholds": source,
        "starts_at_n": tuple(int(ladder.n[start.position]) for start in starts),
        "start_levels": tuple(start.level for start in starts),
    }
    assumptions = [INDEPENDENT, CHOSEN_BEFORE, ONE_CALL]
    if source != OWN_SCORES:
        assumptions.insert(2, "thresholds and starts fixed without the certifying rows")
    if certified is None:
        needed, why = _shortfall(ladder, starts, eta, source)
        guarantee = f"Nothing is accepted: no threshold could be certified. {why}"
        return FlagRule(
            of, -np.inf, "certificate", guarantee, tuple(assumptions), evidence | needed, table
        )
    n_accepted, n_bad = int(ladder.n[certified]), int(ladder.bad[certified])
    evidence |= {
        "n_accepted": n_accepted,
        "n_bad": n_bad,
        "acceptance": n_accepted / ladder.n_rows,
        "p_value": _p_at(ladder, certified, eta),
    }
    guarantee = _sentence(tau, eta, delta, ladder.n_rows)
    return FlagRule(
        of,
        float(ladder.threshold[certified]),
        "certificate",
        guarantee,
        tuple(assumptions),
        evidence,
        table,
    )


def _sentence(tau: float, eta: float, delta: float, n_rows: int) -> str:
    return (
        f"P(loss > {tau:g} | accepted) <= {eta:g} for a new row, with confidence {1 - delta:g}: "
        f"over the draw of the {n_rows} certifying rows, the probability that this fails is at "
        f"most {delta:g}."
    )


def _p_at(ladder: Ladder, position: int, eta: float) -> float:
    return float(binomial_p_value(ladder.bad[position], ladder.n[position], eta))


def _shortfall(
    ladder: Ladder, starts: Sequence[Start], eta: float, source: str
) -> tuple[dict[str, int | None], str]:
    """How many rows would have been needed, from the start that came closest."""
    best = min(starts, key=lambda s: _p_at(ladder, s.position, eta) / s.level)
    bad, n, level = int(ladder.bad[best.position]), int(ladder.n[best.position]), best.level
    clean = rows_for(0, eta, level)
    accepted = rows_at_rate(bad / n, eta, level) if n else None
    total = None if accepted is None else max(math.ceil(accepted * ladder.n_rows / n), 1)
    why = f"At its best start {bad} of {n} accepted rows are bad"
    if n < clean:
        why += f"; {clean} without a bad one are the least that can pass"
    if total is not None:
        why += f"; at this rate {total} rows would have been needed instead of {ladder.n_rows}"
    elif n and bad < eta * n:
        why += f"; at this rate more than {MOST_ROWS} accepted rows would have been needed"
    elif n:
        why += f"; at this rate no number of rows would do for eta = {eta:g}"
    why += "."
    if source == OWN_SCORES and n < 0.9 * min(best.position, ladder.n_rows):
        why += " The start lies in a block of tied scores; pass reference scores to test at ties."
    needed = {"accepted_rows_needed_without_a_bad_one": clean, "rows_needed_at_this_rate": total}
    return needed, why


def _check_starts(starts: Sequence[float]) -> FloatArray:
    shares = np.unique(np.asarray(starts, dtype=np.float64))
    if not len(shares) or not np.all((shares > 0) & (shares <= 1)):
        raise ValueError(
            f"starts are shares of the rows, above 0 and at most 1; got {list(starts)!r}."
        )
    return shares


def _check_groups(groups: ArrayLike, n_rows: int) -> tuple[np.ndarray, IntArray]:
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise ValueError(f"groups must hold one label per row, {n_rows}; got {labels.shape}.")
    if np.any(labels != labels) or any(label is None for label in labels.tolist()):
        raise ValueError("groups has missing labels; remove those rows, or name them.")
    names, member = np.unique(labels, return_inverse=True)
    return names, member


def _for_group(rule: FlagRule, where: str, guarantee: str) -> FlagRule:
    return replace(
        rule,
        guarantee=f"In {where}: {guarantee}",
        assumptions=(*rule.assumptions, "rows alike within a group"),
        evidence={"group": where, **rule.evidence},
    )


def _too_small(
    of: Score, name: Hashable, n_rows: int, needed: int, eta: float, delta: float
) -> FlagRule:
    guarantee = (
        f"Nothing is accepted: group {name!r} has {n_rows} rows, and with its part of delta at "
        f"least {needed} are needed, all accepted and none bad."
    )
    evidence = {"group": f"group {name!r}", "n_rows": n_rows, "eta": eta, "delta": delta}
    evidence["accepted_rows_needed_without_a_bad_one"] = needed
    return FlagRule(of, -np.inf, "certificate", guarantee, (), evidence)
