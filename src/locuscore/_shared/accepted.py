"""Which scores a threshold accepts, and how many of them.

Scores come from `check_scores`, which turns -inf into inf; inf is above every threshold.
"""

from typing import Literal

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray


def is_accepted(score: FloatArray, threshold: float | FloatArray) -> BoolArray:
    """Whether each score is at most the threshold; an infinite one is not, even at inf."""
    return np.asarray((score <= threshold) & (score < np.inf))


def sorted_finite(score: FloatArray) -> FloatArray:
    """Finite scores in ascending order."""
    ranked = np.sort(score)
    return ranked[: np.searchsorted(ranked, np.inf, side="left")]


def count_up_to(
    ranked: FloatArray, edges: FloatArray, side: Literal["left", "right"] = "right"
) -> IntArray:
    """Count the values up to each edge (strictly below it for "left"); both ascend."""
    if not len(edges):
        return np.zeros(0, dtype=np.int64)
    first, last = np.searchsorted(ranked, edges[[0, -1]], side=side)
    between = ranked[first:last]
    # Searching the shorter list in the longer one is cheaper.
    if len(between) >= len(edges):
        return np.asarray(np.searchsorted(ranked, edges, side=side), dtype=np.int64)
    place = np.searchsorted(edges, between, side="right" if side == "left" else "left")
    numbers = np.arange(first, last + 1)
    return np.repeat(numbers, np.diff(place, prepend=0, append=len(edges)))


def distinct_counts(ranked: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct values of an ascending list, and how many of its values are up to each."""
    is_last = np.append(ranked[1:] > ranked[:-1], True)[: len(ranked)]
    count = np.flatnonzero(is_last) + 1
    # Without ties, and there are often a million scores, no copy is needed.
    return (ranked if len(count) == len(ranked) else ranked[is_last]), count
