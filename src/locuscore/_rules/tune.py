"""Thresholds chosen to look right on labelled rows: heuristics, which guarantee nothing."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.certificate import MatchedAcceptance, TunedExceedance
from locuscore._rules.rule import FlagRule
from locuscore._rules.threshold_counts import (
    check_grid,
    checked_rows,
    sorted_bad,
    threshold_table,
)
from locuscore._rules.thresholds import CandidateThresholds
from locuscore._shared.accepted import count_up_to, distinct_counts, is_accepted, sorted_finite
from locuscore._shared.checks import as_floats, check_between, check_scores, check_share
from locuscore._shared.readable import as_typed


def tune_threshold(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    *,
    of: Score = UNNAMED,
    grid: ArrayLike | None = None,
    min_acceptance: float = 0.0,
) -> FlagRule:
    """Threshold whose share of bad rows among the accepted is closest to eta; a heuristic.

    LOCUS-Tuned in the paper: ``argmin |q(threshold) - eta|``, with n the accepted rows and
    ``q = #{score <= threshold, loss > tau} / max(n, 1)``, over the thresholds that accept at least
    the share `min_acceptance`. Among equally close thresholds it takes the one that accepts most
    rows, and of those the smallest. Without a grid every threshold that makes a difference is
    tried: each distinct finite score, and -inf, which accepts nothing and has ``q = 0``.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import tune_threshold
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> rule = tune_threshold(score, losses, tau=0.5, eta=0.1)
    >>> rule.standing, round(rule.evidence["exceedance"], 2)
    ('heuristic', 0.1)
    """
    s, bad = checked_rows(score, losses, tau)
    target = check_between(eta, "eta")
    least = check_share(min_acceptance, "min_acceptance")
    if grid is None:
        tried, n, k = _achievable(s, bad)
    else:
        tried = check_grid(grid)
        n, k = CandidateThresholds.on_grid(s, bad, tried).counts(slice(None))
    share = k / np.maximum(n, 1)
    usable = n / len(s) >= least
    found = TunedExceedance(n_rows=len(s), tau=float(tau), eta=target)
    assumptions = ("rows like the new ones, not used to build the score",)
    if not usable.any():
        guarantee = (
            f"None, and no threshold accepts the wanted share {least:g} of rows, so nothing is "
            "accepted."
        )
        return FlagRule(of, -np.inf, "heuristic", guarantee, assumptions, certificate=found)
    distance = np.where(usable, np.abs(share - target), np.inf)
    # Thresholds ascend: the first of those that accept most is the smallest.
    best = int(np.argmax(np.where(distance == distance.min(), n, -1)))
    found = replace(
        found,
        n_accepted=int(n[best]),
        n_bad=int(k[best]),
        acceptance=float(n[best] / len(s)),
        exceedance=float(share[best]),
    )
    return FlagRule(
        of,
        float(tried[best]),
        "heuristic",
        f"None: a heuristic. The threshold was chosen so that the share of losses above "
        f"{as_typed(tau)} among the accepted of these {len(s)} rows, {share[best]:.4g}, is closest "
        "to {target:g}; on new rows it can be above. certify_threshold gives a guarantee.",
        assumptions,
        table=threshold_table(tried, n, k, keep=best),
        certificate=found,
    )


def tune_alpha(
    exceedance: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    *,
    min_acceptance: float = 0.0,
) -> FlagRule:
    """Alpha whose rule "bound at most tau" comes closest to eta; a heuristic (LOCUS-alpha).

    ``U_alpha(x) <= tau`` exactly when ``exceedance(x, tau) <= alpha``, so every alpha that makes a
    difference is tried by thresholding `exceedance`, and no bound is computed again. The rule
    thresholds `Score.exceedance(tau)` at the chosen alpha. Ties are resolved as in
    `tune_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import tune_alpha
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(size=2000)
    >>> losses = rng.uniform(size=2000) < 0.02 + 0.6 * score**2
    >>> rule = tune_alpha(score, losses, tau=0.5, eta=0.1)
    >>> rule.standing, round(rule.evidence["exceedance"], 2)
    ('heuristic', 0.1)
    """
    of = Score.exceedance(tau)
    values = as_floats(exceedance, "exceedance")
    if np.any((values < 0) | (values > 1)):
        raise ValueError("exceedance must hold values of Locus.exceedance, from 0 to 1.")
    return tune_threshold(values, losses, tau, eta, of=of, min_acceptance=min_acceptance)


def match_acceptance(score: ArrayLike, rate: float, *, of: Score = UNNAMED) -> FlagRule:
    """Smallest threshold that accepts at least the share `rate` of these rows; a heuristic.

    The ``ceil(rate * n)``-th smallest score, as in the paper's tables at matched acceptance. Ties
    can make it accept more rows (`Score.tail` has fewer ties than `Score.exceedance`, and the same
    order); infinite scores, which are never accepted, can make it accept fewer.

    Examples
    --------
    >>> from locuscore import match_acceptance
    >>> rule = match_acceptance([0.3, 0.1, 0.9, 0.2], rate=0.75)
    >>> rule.threshold
    0.3
    """
    (s,) = check_scores(score=score)
    wanted = check_share(rate, "rate")
    finite = sorted_finite(s)
    # In exact arithmetic, as the decimal is written: in floating point 0.07 * 100 is above 7.
    place = min(math.ceil(Fraction(str(wanted)) * len(s)), len(finite))
    threshold = float(finite[place - 1]) if place else -np.inf
    accepted = int(np.sum(is_accepted(s, threshold)))
    return FlagRule(
        of,
        threshold,
        "heuristic",
        f"None: a heuristic. The threshold accepts {accepted} of {len(s)} rows, wanted was the "
        f"share {wanted:g}; it says nothing about losses.",
        ("new scores distributed like these",),
        certificate=MatchedAcceptance(
            n_rows=len(s), n_accepted=accepted, acceptance=accepted / len(s)
        ),
    )


def _achievable(score: FloatArray, bad: BoolArray) -> tuple[FloatArray, IntArray, IntArray]:
    """All thresholds that make a difference, and the rows and bad rows up to each."""
    values, n = distinct_counts(sorted_finite(score))
    k = count_up_to(sorted_bad(score, bad), values)
    return np.append(-np.inf, values), np.append(0, n), np.append(0, k)
