"""One shape of the loss for all rows, scaled by the mean loss that a forest expects of each.

Leaves of few rows know little of the shape of their losses, all of D1 knows more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.kept import Kept

EQUAL_WEIGHT = 100  # rows of D1 at which the shape of a leaf and that of all rows weigh the same
SMALLEST_WEIGHT = 1 / 16
PRIOR_ROWS = 20  # rows with the mean loss that each expectation is mixed with
MOST_POINTS = 1_000_000  # of the shape, in an archive
SMALLEST_SIZE = 1e-3  # of the mean loss: a ratio to less would be enormous


@dataclass(frozen=True, eq=False)
class SharedShape:
    """Ratios of the losses of D1 to what the other trees expected, and the means of all leaves.

    `ratios` are (trees, points per tree); `means` has one entry per leaf, in the order of the
    forest's table, as mixed with the mean of all losses.
    """

    ARCHIVE = Kept("SharedShape", numbers=("ratios", "means"))

    ratios: FloatArray
    means: FloatArray

    @classmethod
    def learned(
        cls, forest: Any, S: FloatArray, leaves: IntArray, z: FloatArray, n_points: int
    ) -> Self | None:
        """Learn from D1; None where it is large, or where losses tie, as those of classes do."""
        n, n_trees = leaves.shape
        per_tree = min(round(n_points * share_of_few_rows(n)), n_points - 1)
        typical = float(np.mean(z))
        if not per_tree or not is_continuous(z):
            return None
        ratios = np.sort(shape_ratios(forest, S, z))
        middle = (np.arange(n_trees * per_tree) + 0.5) / (n_trees * per_tree)
        # Neighbours go to different trees, so that every draw has points of all sizes.
        spread_out = ratios[(middle * n).astype(np.int64)].reshape(per_tree, n_trees).T
        means = [
            np.bincount(leaf, z)[nodes] / np.bincount(leaf)[nodes]
            for leaf in leaves.T
            for nodes in [np.unique(leaf)]
        ]
        found = size_of(np.concatenate(means), n, typical)
        return cls(np.ascontiguousarray(spread_out), found)

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the shape that an archive holds, if it takes no more memory than its forest."""
        ratios, means = parts["ratios"], parts["means"]
        are_arrays = isinstance(ratios, np.ndarray) and isinstance(means, np.ndarray)
        if not are_arrays or ratios.ndim != 2 or means.ndim != 1 or ratios.size > MOST_POINTS:
            raise ValueError("the shape of a forest is not one")
        return cls(ratios, means)

    @property
    def per_tree(self) -> int:
        """Points per tree."""
        return self.ratios.shape[1]

    def points(self, places: IntArray) -> FloatArray:
        """Points (n, trees, per tree) of rows, given their leaves as places in the table."""
        if len(self.ratios) != places.shape[1]:
            raise ValueError("the shape of a forest has other trees than it.")
        return self.means[places].mean(axis=1)[:, None, None] * self.ratios


def share_of_few_rows(n: int) -> float:
    """Weight of what all of D1 shares: a half with 100 rows, none above 1,500."""
    weight = EQUAL_WEIGHT / (EQUAL_WEIGHT + n)
    return weight if weight >= SMALLEST_WEIGHT else 0.0


def is_continuous(z: FloatArray) -> bool:
    """Whether losses are lengths, most of them different: neither tied as classes nor negative."""
    return bool(len(np.unique(z)) > len(z) / 2 and np.min(z) >= 0)


def size_of(mean: FloatArray, n: int, typical: float) -> FloatArray:
    """Expected losses, mixed with the mean of all n losses and not much below it."""
    mixed = (n * mean + PRIOR_ROWS * typical) / (n + PRIOR_ROWS)
    return np.maximum(mixed, SMALLEST_SIZE * typical)


def shape_ratios(forest: Any, S: FloatArray, z: FloatArray) -> FloatArray:
    """Each loss of D1 relative to what the trees expect that were grown without its row."""
    typical = float(np.mean(z))
    count, expected, _ = out_of_bag(forest, np.asarray(S, dtype=np.float32), z)
    return z / size_of(np.where(count > 0, expected, typical), len(z), typical)


def out_of_bag(
    forest: Any, rows: Any, values: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Number, mean and summed squared deviations of the trees' predictions of each row.

    A row is predicted by the trees that were grown without it, from the other rows of its leaf.
    """
    # Welford's running mean and variance: the predictions of all trees need not be kept.
    n, mean, spread = np.zeros((3, len(values)))
    for tree, grown_on in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        leaf = tree.apply(rows, check_input=False)
        others_sum = np.bincount(leaf, values)[leaf] - values
        others = np.bincount(leaf)[leaf] - 1
        new = others > 0
        new[grown_on] = False
        n[new] += 1
        step = others_sum[new] / others[new] - mean[new]
        mean[new] += step / n[new]
        spread[new] += step**2 * (1 - 1 / n[new])
    return n, mean, spread
