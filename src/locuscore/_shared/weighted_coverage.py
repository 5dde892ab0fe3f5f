"""Whether new rows are missed more often than calibration rows of known weights stand for.

Let rows be independent, and let a row come among the new ones with w times the frequency that it
has among the calibration rows. Given all rows together, each choice of as many of them as are new
was then the new ones with a probability proportional to the product of its weights. So the
probability of a choice with at least as many missed rows is a p-value. A factor that all weights
share does not change it.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.cluster_coverage import ROUNDING, pooled_level

NEGLIGIBLE = 1e-40  # terms below are left out
AT_ONCE = 32  # trials whose law is computed side by side with that of others


def weighted_p_values(
    tails: tuple[FloatArray, FloatArray],
    weights: tuple[FloatArray, FloatArray],
    alpha: float,
    counted: BoolArray | None = None,
) -> tuple[float, float]:
    """P-value of "no more is missed among the new", and what it would be at twice alpha.

    `tails` and `weights` are those of the calibration rows and of the new ones. A row is missed if
    its tail is below a level that is the same function of all rows together: there the share alpha
    of the new rows is expected to be missed. Of the new rows, only those `counted` may be missed;
    to leave out some can only raise the p-value.
    """
    tail, m = np.concatenate(tails), len(tails[1])
    p = choice_probabilities(np.concatenate(weights), m)
    level = pooled_level(tail, p, alpha)
    # Rows of laws with atoms tie, and rounding must not decide which side of a tie is missed.
    is_missed = tail < level * (1.0 - ROUNDING)
    if counted is not None:
        is_missed[-m:] &= counted
    counts, law = chosen_law(p, is_missed, m)
    seen, twice = int(is_missed[-m:].sum()), min(int(np.ceil(2 * alpha * m)), m)
    p_value, doubled = (
        float(np.clip(law[counts >= least].sum(), NEGLIGIBLE, 1.0)) for least in (seen, twice)
    )
    return p_value, doubled


def chosen_law(p: FloatArray, is_missed: BoolArray, m: int) -> tuple[IntArray, FloatArray]:
    """Law of the missed rows among m chosen ones: counts, and their probabilities.

    `p` are `choice_probabilities`: choices of m rows by products of weights are independent
    choices, row by row, given that m are chosen.
    """
    (low_missed, missed), (low, others) = _count_law(p[is_missed]), _count_law(p[~is_missed])
    counts = np.arange(low_missed, low_missed + len(missed))
    place = m - counts - low
    is_possible = (place >= 0) & (place < len(others))
    law = missed[is_possible] * others[place[is_possible]]
    return counts[is_possible], law / law.sum()


def choice_probabilities(weights: FloatArray, m: int) -> FloatArray:
    """Of each row to be chosen in independent choices with odds like the weights, m on average."""
    with np.errstate(divide="ignore"):  # a weight of zero
        logs = np.log(weights / weights.max())

    def surplus(log_odds: float) -> float:
        return float(expit(log_odds + logs).sum()) - m

    low, high = -1.0, 1.0
    while surplus(low) > 0:
        low *= 2.0
    while surplus(high) < 0:  # more than m rows have weights, so this ends
        high *= 2.0
    return np.asarray(expit(brentq(surplus, low, high, xtol=1e-9) + logs))


def _count_law(p: FloatArray) -> tuple[int, FloatArray]:
    """Law of the number of successes in independent trials: the first count, and probabilities."""
    trials = np.zeros((max(-(-len(p) // AT_ONCE), 1), AT_ONCE))
    trials.flat[: len(p)] = p
    block = np.zeros((len(trials), AT_ONCE + 1))
    block[:, 0] = 1.0
    for one in trials.T[:, :, None]:
        block[:, 1:] = block[:, 1:] * (1.0 - one) + block[:, :-1] * one
        block[:, :1] *= 1.0 - one
    laws = [_trimmed(0, law) for law in block]
    while len(laws) > 1:
        pairs = zip(laws[::2], laws[1::2], strict=False)
        joined = [_trimmed(a + b, np.convolve(one, two)) for (a, one), (b, two) in pairs]
        laws = joined + laws[len(laws) - len(laws) % 2 :]
    return laws[0]


def _trimmed(first: int, law: FloatArray) -> tuple[int, FloatArray]:
    some = np.flatnonzero(law > NEGLIGIBLE)
    return first + int(some[0]), law[some[0] : some[-1] + 1]
