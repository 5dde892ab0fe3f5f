"""A band for the share of bad rows among the accepted that holds at all thresholds at once.

At a threshold let g and h be the masses of bad and of good rows at or below it, k of the n labelled
rows bad and j good there. Going down with the threshold, each bad row stays with probability g' /
g and each good one with h' / h, independently. So for every x ::

    M_x = (1 - x / g)^k (1 + x / h)^j

is a martingale in this direction, stopped where g falls below x, with mean 1: at the top, with
masses p and 1 - p, it is the mean of ``((p - x) + (1 - p + x))^n = 1``. This needs no assumption on
how bad and good rows mix along the score, and ties change nothing. With ``r = g / (g + h)``, ``f =
g + h`` and ``y = x / f`` it is the likelihood ratio of a share r - y against r, ``((r - y) / r)^k
((1 - r + y) / (1 - r))^j``. An average over several x stays below ``1 / delta`` everywhere with
probability 1 - delta (Ville), and it grows with r: so at every threshold r is at most the smallest
value at which it gets there.

The mass f is not known, but it lies between two quantiles of a beta law at all ranks at once; the
smallest average over that range counts. The x are spread such that each number of accepted rows
finds one near the best: it is about ``sqrt(r (1 - r) (k + j)) / n``, from below ``1 / n`` to about
``1 / sqrt(n)``.
"""

import math
from itertools import pairwise

import numpy as np
from scipy.special import betainccinv, betaincinv

from locuscore._protocols import FloatArray, IntArray

SMALLEST, LARGEST, RATIO = 0.7, 1.5, 2.0  # of x, in units of 1 / n and 1 / sqrt(n); neighbours
MASS_SHARE = 0.1  # of delta: spent on the mass of the accepted
FEWEST_MASSES, MORE_MASSES = 4, 100  # at which the average is computed: more for few rows
HALVINGS = 16


def mass_range(accepted: IntArray, n: int, delta: float) -> tuple[FloatArray, FloatArray]:
    """Bounds of the mass at or below each threshold that hold at all of them at once.

    With c of n rows up to the threshold it lies between the c-th and the next of n uniform order
    statistics, ties broken at random; these are beta. Each of the 2 n bounds has its part of half
    of delta, and the band of Dvoretzky, Kiefer, Wolfowitz and Massart the other half.
    """
    c, level = accepted.astype(np.float64), delta / (4 * n)
    low = betaincinv(c, n - c + 1, level)
    high = np.where(c < n, betainccinv(c + 1, np.maximum(n - c, 1), level), 1.0)
    slack = math.sqrt(math.log(4 / delta) / (2 * n))
    return np.maximum(low, c / n - slack), np.minimum(high, c / n + slack)


def upper_band(
    bad: FloatArray, good: FloatArray, mass: tuple[FloatArray, FloatArray], n: int, delta: float
) -> FloatArray:
    """Upper bound of the share of bad rows at each threshold, all valid together with 1 - delta.

    By symmetry one minus the band with `bad` and `good` exchanged is a lower bound.
    """
    low, high = mass
    # With few rows the range is wide, and many masses in it are needed for a narrow band.
    steps = np.linspace(0.0, 1.0, max(FEWEST_MASSES, math.ceil(2 + MORE_MASSES / math.sqrt(n))))
    masses = [np.exp((1 - s) * np.log(low) + s * np.log(high)) for s in steps]
    goal = -math.log(delta)
    below, above = bad / (bad + good), np.ones(len(bad))
    for _ in range(HALVINGS):
        r = (below + above) / 2
        at = [_log_ratios(r, f, bad, good, n) for f in masses]
        # The logarithm of each ratio is concave in y, so between two masses it is at least the
        # smaller of its values at both.
        between = [np.logaddexp.reduce(np.minimum(*ends), axis=0) for ends in pairwise(at)]
        reached = np.min(between, axis=0) - math.log(len(at[0])) >= goal
        below, above = np.where(reached, below, r), np.where(reached, r, above)
    return above


def _log_ratios(
    r: FloatArray, f: FloatArray, bad: FloatArray, good: FloatArray, n: int
) -> FloatArray:
    """Logarithms of the likelihood ratios, one row for each x; none where x is above ``g``."""
    y = _scales(n)[:, None] / f
    down = np.where(y < r, np.log1p(-np.minimum(y / r, 1 - 1e-15)), -np.inf)
    lost = np.where(bad > 0, np.maximum(bad, 1.0) * down, np.where(y <= r, 0.0, -np.inf))
    return np.asarray(lost + good * np.log1p(y / np.maximum(1 - r, 1e-30)))


def _scales(n: int) -> FloatArray:
    most = max(math.ceil(math.log(LARGEST * math.sqrt(n) / SMALLEST, RATIO)), 0)
    return SMALLEST * RATIO ** np.arange(most + 1) / n
