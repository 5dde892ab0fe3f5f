"""Rows and bad rows up to each threshold: what every rule from data is made of."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.checks import check_losses, check_numbers, check_scores, one_tau

MOST_ON_RECORD = 500


def checked_rows(score: ArrayLike, losses: ArrayLike, tau: float) -> tuple[FloatArray, BoolArray]:
    """Return the scores, and whether each loss is above tau."""
    s, z = check_scores(score=score, losses=losses)
    return s, check_losses(z, len(z), "losses") > one_tau(tau)


def check_grid(grid: ArrayLike) -> FloatArray:
    """Return thresholds in ascending order, without repetition."""
    values = check_numbers(np.atleast_1d(np.asarray(grid)), "grid")
    if np.isnan(values).any():
        raise ValueError("grid has missing values.")
    return np.unique(values)


def sorted_finite(score: FloatArray) -> FloatArray:
    """Finite scores in ascending order; there is none of -inf."""
    ranked = np.sort(score)
    return ranked[: np.searchsorted(ranked, np.inf, side="left")]


def sorted_bad(score: FloatArray, bad: BoolArray) -> FloatArray:
    """Finite scores of the bad rows in ascending order."""
    return sorted_finite(np.compress(bad, score))  # ten times as fast as indexing


def count_sorted(
    values: FloatArray, edges: FloatArray, side: Literal["left", "right"] = "right"
) -> IntArray:
    """Count the values up to each edge (strictly below it for "left"); both ascend.

    The shorter list is searched for in the longer one.
    """
    if not len(edges):
        return np.zeros(0, dtype=np.int64)
    first, last = np.searchsorted(values, edges[[0, -1]], side=side)
    between = values[first:last]
    if len(between) >= len(edges):
        return np.asarray(np.searchsorted(values, edges, side=side), dtype=np.int64)
    place = np.searchsorted(edges, between, side="right" if side == "left" else "left")
    numbers = np.arange(first, last + 1)
    return np.repeat(numbers, np.diff(place, prepend=0, append=len(edges)))


def counts_up_to(
    score: FloatArray, bad: BoolArray, thresholds: FloatArray
) -> tuple[IntArray, IntArray]:
    """Count the rows with a finite score up to each threshold, and the bad ones among them."""
    n = count_sorted(sorted_finite(score), thresholds)
    return n, count_sorted(sorted_bad(score, bad), thresholds)


def record(
    threshold: FloatArray, n: IntArray, bad: IntArray, keep: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Return the table of a rule: at most about `MOST_ON_RECORD` thresholds, `keep` among them."""
    kept = thinned(len(threshold), keep)
    columns = {"threshold": threshold, "n_accepted": n, "n_bad": bad}
    return {name: tuple(column[kept].tolist()) for name, column in columns.items()}


def thinned(size: int, keep: int | None = None) -> IntArray:
    """At most about `MOST_ON_RECORD` positions of a list, evenly spread, `keep` among them."""
    kept = np.linspace(0, size - 1, MOST_ON_RECORD).round().astype(np.int64)
    return np.unique(np.append(kept, [] if keep is None else [keep]).astype(np.int64))
