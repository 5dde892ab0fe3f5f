"""An interval for the share of bad rows that may be read at any time.

Let p_t be the chance that row t is bad, given all before it, and S_t the number of bad rows among
the first t. For a fixed lambda, ``exp(lambda S_t - sum of log(1 - p_i + p_i e^lambda))`` is a
martingale that starts at 1. The logarithm is concave in p, so with the mean p of p_1, ..., p_t ::

    exp(lambda S_t - t log(1 - p + p e^lambda))

is at most that martingale, and so is a mixture over lambda with fixed weights. By Ville's
inequality the chance that it ever reaches 2 / delta is at most delta / 2. It falls with p where
lambda > 0 and rises where lambda < 0. So these two mixtures give a lower and an upper limit of the
mean of the p_t, which hold together and at all times with probability at least 1 - delta. Chances
may change in time, and losses in [0, 1] with conditional means p_t may stand for bad rows, because
``e^(lambda z) <= 1 - z + z e^lambda``.
"""

import math

import numpy as np

from locuscore._protocols import FloatArray

RATES: FloatArray = np.geomspace(8.0, 8.0 * 0.5**17, 18)  # down to 6e-5, for some 1e8 rows
HALVINGS = 40


def mean_interval(n: int, least: float, most: float, delta: float) -> tuple[float, float]:
    """Limits of the mean chance; `least` and `most` are the bad rows with unknown ones good or bad.

    Both limits are rounded outwards.
    """
    if n == 0:
        return 0.0, 1.0
    limit = math.log(2.0 / delta)
    return _end(n, least, RATES, limit, 0), _end(n, most, np.negative(RATES), limit, 1)


def _end(n: int, total: float, rates: FloatArray, limit: float, side: int) -> float:
    """The last p, from the outside of the interval, whose mixture is at least the limit."""
    outside, inside = float(side), total / n
    if _log_mixture(n, total, rates, outside) < limit:
        return outside
    for _ in range(HALVINGS):
        middle = (outside + inside) / 2
        if _log_mixture(n, total, rates, middle) >= limit:
            outside = middle
        else:
            inside = middle
    return outside


def _log_mixture(n: int, total: float, rates: FloatArray, p: float) -> float:
    values = rates * total - n * np.log1p(p * np.expm1(rates))
    top = float(values.max())
    return top + math.log(float(np.mean(np.exp(values - top))))
