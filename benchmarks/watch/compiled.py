"""Recursions over the rows of one stream, compiled, since they cannot be done in arrays.

The martingales are those of MAPIE 1.6 and crepes 0.9, row by row; all return log wealth.
"""

from typing import Any

import numpy as np
from numba import njit

GRID = np.arange(1, 10) / 10  # of crepes' step bets


def counts_before(values: np.ndarray) -> np.ndarray:
    """How many earlier values are smaller (first row), and how many are equal (second row)."""
    ordered = np.sort(values)
    lower, upper = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.asarray(_counts_before(lower, upper, len(values)))


@njit(cache=True)
def _counts_before(lower: Any, upper: Any, n: int) -> Any:
    tree = np.zeros(n + 1, np.int64)  # counts by rank, as a Fenwick tree
    out = np.zeros((2, n), np.int64)
    for i in range(n):
        below, up_to = 0, 0
        j = lower[i]
        while j > 0:
            below += tree[j]
            j -= j & -j
        j = upper[i]
        while j > 0:
            up_to += tree[j]
            j -= j & -j
        out[0, i], out[1, i] = below, up_to - below
        j = lower[i] + 1
        while j <= n:
            tree[j] += 1
            j += j & -j
    return out


@njit(cache=True)
def jumper(p: Any, epsilons: Any, is_first_mixed: bool, jump: float = 0.01) -> Any:
    """The simple jumper bets ``1 + e (p - 1/2)`` and moves shares of its wealth among the e."""
    wealth = np.full(len(epsilons), 1 / len(epsilons))
    log_total, out = 0.0, np.empty(len(p))
    for i in range(len(p)):
        if i or is_first_mixed:
            wealth = (1 - jump) * wealth + jump / len(epsilons) * wealth.sum()
        wealth = wealth * (1 + epsilons * (p[i] - 0.5))
        total = wealth.sum()
        wealth /= total
        log_total += np.log(total)
        out[i] = log_total
    return out


@njit(cache=True)
def plugin(p: Any, n_bins: int = 400, burn_in: int = 100) -> Any:
    """MAPIE's plug-in martingale: bets by a kernel density of the p-values so far.

    They are mirrored at 0 and 1, so the density's integral over [0, 1] is a third. The p-values so
    far are kept in bins, which changes the statistic in its third digit.
    """
    counts, out = np.zeros(n_bins), np.zeros(len(p))
    log_wealth, total, squares = 0.0, 0.0, 0.0
    for i in range(len(p)):
        if i > burn_in:  # before that, it does not bet
            n = 3 * i
            mean = (2 * i - total) / n
            second = (3 * squares + 4 * i - 4 * total) / n
            scale = (n * 3 / 4) ** (-1 / 5) * np.sqrt((second - mean**2) * n / (n - 1))
            density = 0.0
            for j in range(n_bins):
                if counts[j]:
                    c = (j + 0.5) / n_bins
                    for at in (-c, c, 2 - c):
                        away = (p[i] - at) / scale
                        if abs(away) < 7:
                            density += counts[j] * np.exp(-0.5 * away**2)
            density /= i * scale * np.sqrt(2 * np.pi)
            log_wealth += np.log((1 - burn_in / i) * density + burn_in / i)
        out[i] = log_wealth
        counts[min(int(p[i] * n_bins), n_bins - 1)] += 1
        total += p[i]
        squares += p[i] ** 2
    return out


@njit(cache=True)
def stayer(p: Any, rate: float = 0.001) -> Any:
    """SleeperStayer of crepes: one may wake at each row, and then bets by a step for ever."""
    awake, asleep, out = np.full((9, 9), rate / 81), 1 - rate, np.empty(len(p))
    log_scale = 0.0  # wealth may be beyond the largest number
    for i in range(len(p)):
        total = 0.0
        for j in range(9):
            for k in range(9):
                a, b = GRID[j], GRID[k]
                awake[j, k] *= b / a if p[i] <= a else (1 - b) / (1 - a)
                total += awake[j, k]
        out[i] = np.log(asleep + total) + log_scale
        awake += rate * asleep / 81
        asleep *= 1 - rate
        if total > 1e100:
            awake, asleep, log_scale = awake / total, asleep / total, log_scale + np.log(total)
    return out


@njit(cache=True)
def drifter(p: Any, rate: float = 0.1, every: int = 100) -> Any:
    """SleeperDrifter of crepes: one wakes every 100 rows; its steps move as new rows mix in."""
    awake = np.zeros((len(p) // every + 1, 9, 9))
    asleep, out, log_scale = 1 - rate, np.empty(len(p)), 0.0
    awake[0] = rate / 81
    for i in range(len(p)):
        total = 0.0
        for s in range(i // every + 1):
            start = (s + 1) * every
            weight = start / (start + i - s * every)
            for j in range(9):
                for k in range(9):
                    b = GRID[k]
                    step = GRID[j] * weight + b * (1 - weight)
                    awake[s, j, k] *= b / step if p[i] <= step else (1 - b) / (1 - step)
                    total += awake[s, j, k]
        out[i] = np.log(asleep + total) + log_scale
        if (i + 1) % every == 0:
            awake[(i + 1) // every] = rate * asleep / 81
            asleep *= 1 - rate
        if total > 1e100:
            awake, asleep, log_scale = awake / total, asleep / total, log_scale + np.log(total)
    return out
