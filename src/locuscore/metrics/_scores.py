"""How good a score or a rule is: who is accepted, and how often their loss exceeds tau."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.accepted import count_up_to, distinct_counts, is_accepted
from locuscore._shared.checks import check_numbers, check_scores, never_accepted, one_tau
from locuscore._shared.metric_arrays import check_flags, losses_and
from locuscore._shared.shown import Shown


@dataclass(frozen=True, repr=False)
class ExceedanceRates(Shown):
    """How often the loss exceeds tau: among all rows, with acceptance, and given acceptance.

    Examples
    --------
    >>> from locuscore.metrics import exceedance_rates
    >>> rates = exceedance_rates([1.0, 9.0, 1.0, 9.0], [True, True, True, False], tau=5)
    >>> rates.marginal, rates.joint, round(rates.conditional, 2)
    (0.5, 0.25, 0.33)
    """

    marginal: float
    joint: float
    conditional: float


@dataclass(frozen=True, repr=False)
class ExceedanceCurve(Shown):
    """Acceptance, and exceedance among the accepted, at ascending thresholds.

    Examples
    --------
    >>> from locuscore.metrics import exceedance_curve
    >>> curve = exceedance_curve([0.1, 0.2, 0.3], [1.0, 9.0, 9.0], tau=5)
    >>> curve.acceptance.round(2), curve.exceedance.round(2)
    (array([0.33, 0.67, 1.  ]), array([0.  , 0.5 , 0.67]))
    """

    threshold: FloatArray
    acceptance: FloatArray
    exceedance: FloatArray


def acceptance_rate(score: ArrayLike, threshold: float) -> float:
    """Share of rows with ``score <= threshold``; an infinite score is never accepted.

    Examples
    --------
    >>> from locuscore.metrics import acceptance_rate
    >>> acceptance_rate([0.1, 0.4, float("inf"), 0.2], threshold=0.3)
    0.5
    """
    (s,) = check_scores(score=score)
    cut = check_numbers(threshold, "threshold")
    if cut.ndim or np.isnan(cut):
        raise ValueError(f"threshold must be one number here; got {threshold!r}.")
    return float(np.mean(is_accepted(s, float(cut))))


def exceedance_rates(losses: ArrayLike, accepted: ArrayLike, tau: float) -> ExceedanceRates:
    """How often a loss exceeds tau.

    ``P(Z > tau)``, ``P(Z > tau and accepted)`` and ``P(Z > tau | accepted)``; the last is NaN when
    nothing is accepted.
    """
    z, flags = losses_and(losses, accepted=accepted)
    exceeds, taken = z > one_tau(tau), check_flags(flags)
    joint = float(np.mean(exceeds & taken))
    conditional = float(np.mean(exceeds[taken])) if taken.any() else float("nan")
    return ExceedanceRates(float(np.mean(exceeds)), joint, conditional)


def exceedance_curve(score: ArrayLike, losses: ArrayLike, tau: float) -> ExceedanceCurve:
    """Acceptance and conditional exceedance at every threshold that changes them.

    The thresholds are the distinct scores, ascending; rows with equal scores enter together. Rows
    with a score of inf are never accepted, so the curve ends at the share of the other rows, and is
    empty if there are no others.

    Examples
    --------
    >>> from locuscore.metrics import exceedance_curve
    >>> exceedance_curve([0.1, 0.2, 0.3, 0.4], [1.0, 1.0, 9.0, 9.0], tau=5).exceedance.round(2)
    array([0.  , 0.  , 0.33, 0.5 ])
    """
    threshold, accepted, exceeding = _counts_by_score(score, losses, tau)
    usable = threshold < np.inf
    acceptance = accepted / accepted[-1]
    return ExceedanceCurve(threshold[usable], acceptance[usable], (exceeding / accepted)[usable])


def exceedance_area(score: ArrayLike, losses: ArrayLike, tau: float) -> float:
    """Mean exceedance among the accepted over all acceptance levels: how well a score ranks.

    ``(1/n) * sum_k (exceedances among the k smallest scores) / k`` over k = 1..n, the area under
    the step curve. For rows with equal scores, the exact expectation over a random order is
    returned; a score of inf comes last. A constant score gives the marginal rate. The smallest
    possible value belongs to a score that puts all exceedances last.

    Examples
    --------
    >>> from locuscore.metrics import exceedance_area
    >>> losses = [1.0, 1.0, 9.0, 9.0]
    >>> good = exceedance_area([0.1, 0.2, 0.3, 0.4], losses, tau=5)
    >>> bad = exceedance_area([0.4, 0.3, 0.2, 0.1], losses, tau=5)
    >>> round(good, 3), round(bad, 3)
    (0.208, 0.792)
    """
    _, accepted, exceeding = _counts_by_score(score, losses, tau)
    k = np.arange(1, accepted[-1] + 1)
    # Within a block of ties the expected count grows linearly.
    expected = np.interp(k, np.append(0, accepted), np.append(0, exceeding))
    return float(np.mean(expected / k))


def _counts_by_score(
    score: ArrayLike, losses: ArrayLike, tau: float
) -> tuple[FloatArray, IntArray, IntArray]:
    """Distinct scores, and the numbers of rows and of exceedances up to each."""
    z, s = losses_and(losses, score=score)
    s = never_accepted(s)
    threshold, accepted = distinct_counts(np.sort(s))
    return threshold, accepted, count_up_to(np.sort(s[z > one_tau(tau)]), threshold)
