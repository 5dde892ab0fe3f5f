"""When a promise may have begun to break: the start times that are tried, with their weights.

Nobody knows beforehand when things go wrong, so evidence is gathered from many starts at once.
Start 0 is the first row and has the weight w_0 = 1/5, many times that of any other: a rule may be
wrong from its first day on. Start j > 0 has, for a constant c, ::

    w_j = (1 - w_0) log(c) / ((j + c) log(j + c)^2)

The weights are fixed beforehand, and their sum is at most 1: a sum of a decreasing function is at
most its integral, and ``1 / (x log(x)^2)`` has the integral ``1 / log(c)`` from c on. Up to about c
starts the weights are nearly equal; later ones pay little more than one over their number.
"""

import math

import numpy as np

from locuscore._protocols import FloatArray, IntArray

LIFETIME = 4  # of a start, in its own distance to the next of its kind or a rarer one
FIRST = 0.2  # weight of start 0


def log_weight(j: IntArray, c: float) -> FloatArray:
    """Logarithm of the weight of start j."""
    logs = np.log(j + c)
    later = math.log((1.0 - FIRST) * math.log(c)) - logs - 2.0 * np.log(logs)
    return np.where(j == 0, math.log(FIRST), later)


def active_starts(block: int) -> list[int]:
    """Starts that are still active in a block, ascending.

    There may be a start before every block. One whose number ends in v binary zeros is active for
    ``LIFETIME * 2^v`` blocks, and start 0 for ever. So of starts that are D blocks old there is one
    in every ``D / LIFETIME`` blocks or fewer, and only ``2 log2(block)`` are active at a time.
    """
    kinds = range(block.bit_length())
    last = [((block >> v) + 1) // 2 for v in kinds]  # as in `recent_starts`
    found = ((2 * (last[v] - i) - 1) << v for v in kinds for i in range(LIFETIME // 2))
    return [0, *sorted(j for j in found if j > 0)]


def recent_starts(blocks: IntArray, v: int) -> IntArray:
    """The active starts with v binary zeros at the end, for each block; -1 where there is none.

    The shape is ``(LIFETIME / 2, number of blocks)``. Starts of one kind are 2^(v + 1) apart and
    active for ``LIFETIME * 2^v`` blocks, so each block has half of LIFETIME, or fewer at first.
    """
    last = ((blocks >> v) + 1) // 2 - 1  # the start is (2 last + 1) 2^v
    numbers = last - np.arange(LIFETIME // 2)[:, None]
    return np.where(numbers >= 0, (2 * numbers + 1) << v, -1)
