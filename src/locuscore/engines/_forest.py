"""Forest: each tree's leaf sample is one draw."""

from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, IntArray
from locuscore._random import spawn_seeds
from locuscore.draws import StepDraws, smallest_scale

MOST_ROWS_PER_TREE = 100_000  # bounds memory on large samples


class Forest(BaseEstimator):
    """Leaf samples of a random forest grown on the ranks of the losses; one draw per tree.

    Each leaf keeps `n_points` order statistics of the losses of all rows of D1 that fall into it,
    so every draw is a step law with equal weights, and the average over trees is the leaf-weight
    law. Beyond a row's largest point the law falls off like a power with the row's own scale. Ranks
    make the splits blind to outliers and to the unit of the loss. Takes missing values.

    The gamma-envelope of step laws takes few distinct values, so calibration tails tie and coverage
    lies somewhat above its target: valid, coarser. More points and larger leaves refine it.

    Parameters
    ----------
    n_trees
        Number of trees, hence of draws.
    min_samples_leaf
        Smallest leaf, in the rows that a tree is grown on; the leaves are filled by all of D1.
    max_features
        Share of the signals tried at each split.
    n_points
        Order statistics kept per leaf.
    max_samples
        Rows that each tree is grown on. None for ``n ** 0.9`` of n, at most 100,000: a falling
        share, so that leaves hold more rows the more there are.
    n_jobs
        Threads for growing and for following the trees.
    random_state
        Seed of the forest.
    """

    def __init__(
        self,
        n_trees: int = 100,
        *,
        min_samples_leaf: int = 3,
        max_features: float = 0.5,
        n_points: int = 8,
        max_samples: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_trees = n_trees
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.n_points = n_points
        self.max_samples = max_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Grow the trees on the ranks of z, then fill their leaves with the losses themselves."""
        if self.n_points < 1:
            raise ValueError(f"n_points must be at least 1; got {self.n_points}.")
        self.forest_ = RandomForestRegressor(
            self.n_trees,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            max_samples=min(self.max_samples or _rows_per_tree(len(z)), len(z)),
            n_jobs=self.n_jobs,
            random_state=spawn_seeds(self.random_state, 1)[0],
        ).fit(S, rankdata(z) / len(z))
        leaves = self._leaves(S)
        ascending = np.argsort(z, kind="stable")
        tables, first_row = [], 0
        self.table_row_ = []  # per tree: node number -> row of the table
        for tree, leaf in zip(self.forest_.estimators_, leaves.T, strict=True):
            nodes, table = _leaf_points(leaf[ascending], z[ascending], self.n_points)
            row = np.zeros(tree.tree_.node_count, dtype=np.int32)
            row[nodes] = first_row + np.arange(len(nodes))
            self.table_row_.append(row)
            tables.append(table)
            first_row += len(nodes)
        self.table_ = np.vstack(tables)
        self.smallest_ = smallest_scale(z)
        return self

    def predict_draws(self, S: FloatArray) -> StepDraws:
        """Return the leaf samples each row falls into."""
        check_is_fitted(self)
        leaves = self._leaves(S)
        for row, leaf in zip(self.table_row_, leaves.T, strict=True):
            leaf[:] = row[leaf]
        points = self.table_[leaves]
        flat = points.reshape(len(points), -1)
        scale = np.maximum(flat.mean(axis=1) - flat.min(axis=1), self.smallest_)
        return StepDraws(points, flat.max(axis=1), scale)

    def _leaves(self, S: FloatArray) -> IntArray:
        """Return the leaf each row reaches in each tree, shape (n, trees)."""
        with np.errstate(over="ignore"):  # beyond the range of a float32 a row goes right
            rows = np.ascontiguousarray(S, dtype=np.float32)
        leaves = np.empty((len(rows), self.n_trees), dtype=np.int64)

        def follow(j: int, tree: Any) -> None:
            leaves[:, j] = tree.apply(rows, check_input=False)

        Parallel(n_jobs=self.n_jobs, require="sharedmem")(
            delayed(follow)(j, tree) for j, tree in enumerate(self.forest_.estimators_)
        )
        return leaves


def _rows_per_tree(n: int) -> int:
    return min(round(n**0.9), MOST_ROWS_PER_TREE)


def _leaf_points(leaf: IntArray, z: FloatArray, n_points: int) -> tuple[IntArray, FloatArray]:
    """For rows in ascending order of z: the occupied leaves, and evenly spaced order statistics."""
    by_leaf = np.argsort(leaf, kind="stable")
    nodes, first, count = np.unique(leaf[by_leaf], return_index=True, return_counts=True)
    middle = (np.arange(n_points) + 0.5) / n_points
    position = first[:, None] + (middle * count[:, None]).astype(np.int64)
    return nodes, z[by_leaf][position]
