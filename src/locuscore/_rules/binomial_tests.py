"""Exact binomial tests of "too many bad rows", and sequences of tests up to the first failure."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, betaincc
from scipy.stats import binom

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.bisect import first_above, first_between

FIRST_BLOCK = 1024
EXACT_BLOCK = 256
MOST_ROWS = 1_000_000


def binomial_p_value(bad: ArrayLike, n: ArrayLike, eta: float | FloatArray) -> FloatArray:
    """``P(Binomial(n, eta) <= bad)``: the exact p-value of "the rate of bad rows is above eta".

    1 where there is no row. Valid at a threshold fixed in advance, given the number accepted.
    """
    k, m = np.broadcast_arrays(np.asarray(bad, np.float64), np.asarray(n, np.float64))
    # The incomplete beta function is the binomial sum in closed form, exact for any n. If all rows
    # are bad, or there is none, every count is at most this one.
    return np.where(k < m, betaincc(k + 1.0, np.maximum(m - k, 1.0), eta), 1.0)


def _scalar_p_value(bad: int, n: int, eta: float) -> float:
    """`binomial_p_value` of one pair with bad < n, without the cost of arrays."""
    return float(betaincc(bad + 1.0, float(n - bad), eta))


def is_rejected(bad: IntArray, n: IntArray, eta: float, level: float) -> BoolArray:
    """Whether each p-value is at most the level; right up to the first failure, not after it.

    The exact value is computed only where a cheap bound leaves it open: for ``b < n eta``,
    ``P(Binomial(n, eta) <= b) <= exp(-(n eta - b)^2 / (c n))`` with ``c = min(1/2, 2 eta)``
    (Hoeffding, Chernoff), so most of a long sequence needs no incomplete beta function.
    """
    gap = n * eta - bad
    # The 1e-9 keeps clear of rounding: what is that close to the bound gets the exact value.
    rejected = (gap > 0) & (gap * gap > min(0.5, 2.0 * eta) * (1e-9 - math.log(level)) * n)
    # A binomial median is below mean + 1, so from the mean up a p-value is at least one half.
    undecided = ~rejected & (gap > 0) if level < 0.5 else ~rejected
    # In growing blocks: a sequence ends at its first failure, and what follows is not asked for.
    open_, first, length = np.flatnonzero(undecided), 0, EXACT_BLOCK
    while first < len(open_):
        at = open_[first : first + length]
        rejected[at] = binomial_p_value(bad[at], n[at], eta) <= level
        if not rejected[at].all():
            break
        first, length = first + length, 2 * length
    return rejected


@lru_cache(maxsize=10_000)
def rows_needed(bad: int, eta: float, level: float) -> int:
    """Smallest n with ``P(Binomial(n, eta) <= bad) <= level``: rows that allow so many bad ones."""
    # One more row can only add bad ones, so the p-value falls in n and bisection is right.
    return first_above(lambda n: _scalar_p_value(bad, n, eta) <= level, bad, 2 * (bad + 1))


@lru_cache(maxsize=10_000)
def allowed_bad(n: int, eta: float, level: float) -> int:
    """Largest number of bad rows among n that still passes at the level; -1 if none does."""
    # All n bad never pass: their p-value is 1.
    return first_between(lambda bad: _scalar_p_value(bad, n, eta) > level, -1, n) - 1


def most_bad(n: IntArray, eta: float, level: float) -> FloatArray:
    """`allowed_bad` of many numbers of rows at once."""
    # The quantile is the first count whose probability reaches the level, so it passes only if it
    # meets the level exactly.
    most = binom.ppf(level, n, eta)
    return np.where((n > 0) & (bdtr(most, n, eta) <= level), most, np.maximum(most, 0.0) - 1.0)


@lru_cache(maxsize=10_000)
def rows_needed_at_rate(rate: float, eta: float, level: float) -> int | None:
    """Smallest n that passes with the share `rate` of bad rows, ``floor(rate * n)`` of them.

    None if rate is not below eta, or so near it that more than `MOST_ROWS` would be needed.
    """
    if rate >= eta:
        return None
    bad = 0
    while (n := rows_needed(bad, eta, level)) <= MOST_ROWS:
        if math.floor(rate * n) <= bad:
            return n
        # At this rate n rows have more bad ones than they may, and so has every smaller number.
        bad = max(bad + 1, math.floor(rate * n))
    return None


def first_failure(
    passed: Callable[[slice, float], BoolArray], size: int, start: int, level: float
) -> int:
    """Position of the first failure of a sequence from `start` up, or `size` if there is none.

    Works in blocks of growing length, so that a sequence that ends early is cheap.
    """
    block, length = start, FIRST_BLOCK
    while block < size:
        result = passed(slice(block, min(block + length, size)), level)
        if not result.all():
            return block + int(np.argmin(result))
        block, length = block + length, 2 * length
    return size
