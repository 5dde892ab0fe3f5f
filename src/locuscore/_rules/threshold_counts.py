"""Rows and bad rows up to each threshold: what every rule from data is made of."""

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.accepted import sorted_finite
from locuscore._shared.checks import check_losses, check_numbers, check_scores, one_tau

MOST_IN_TABLE = 500
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of splitmix64


def checked_rows(score: ArrayLike, losses: ArrayLike, tau: float) -> tuple[FloatArray, BoolArray]:
    """Return the scores, and whether each loss is above tau."""
    s, z = check_scores(score=score, losses=losses)
    return s, check_losses(z, len(z), "losses") > one_tau(tau)


def digest_of_rows(losses: ArrayLike) -> str:
    """Tells labelled rows from others by their losses, in whatever order these are given.

    Two certificates with one digest were made on the same rows, so that their deltas add up. Equal
    losses of other rows have the same digest too, which errs on the safe side.
    """
    # Plus zero turns -0.0 into 0.0. Sums forget the order, at a fraction of the cost of sorting.
    bits = (np.ravel(np.asarray(losses, dtype=np.float64)) + 0.0).view(np.uint64)
    for shift, factor in MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    total = int(np.sum(bits ^ (bits >> np.uint64(31)), dtype=np.uint64))
    return f"{total:016x}"


def check_grid(grid: ArrayLike) -> FloatArray:
    """Return thresholds in ascending order, without repetition."""
    values = check_numbers(np.atleast_1d(np.asarray(grid)), "grid")
    if np.isnan(values).any():
        raise ValueError("grid has missing values.")
    return np.unique(values)


def sorted_bad(score: FloatArray, bad: BoolArray) -> FloatArray:
    """Finite scores of the bad rows in ascending order."""
    return sorted_finite(np.compress(bad, score))  # ten times as fast as indexing


def threshold_table(
    threshold: FloatArray, n: IntArray, bad: IntArray, keep: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Return the table of a rule: about `MOST_IN_TABLE` thresholds at most, `keep` among them."""
    kept = evenly_spread(len(threshold), keep)
    columns = {"threshold": threshold, "n_accepted": n, "n_bad": bad}
    return {name: tuple(column[kept].tolist()) for name, column in columns.items()}


def evenly_spread(size: int, keep: int | None = None, most: int = MOST_IN_TABLE) -> IntArray:
    """About so many positions of a list at most, evenly spread, `keep` among them."""
    kept = np.linspace(0, size - 1, most).round().astype(np.int64)
    return np.unique(np.append(kept, [] if keep is None else [keep]).astype(np.int64))
