"""Which leaf of each tree of a forest a row falls into: quick for one row, and for many."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.blocks import row_blocks
from locuscore._shared.flat_trees import FlatTrees, flat_forest
from locuscore._shared.threads import in_threads

FEW_ROWS = 32  # are faster in all trees at once than tree by tree
FEWEST_TO_SORT = 256
ROWS_AT_A_TIME = 8192  # so many, with their leaves, stay in the cache from tree to tree


def as_float32(S: FloatArray) -> Any:
    """Rows as trees of scikit-learn read them; a value beyond their range goes right."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(S, dtype=np.float32)


def leaves_of(
    forest: Any, S: FloatArray, n_jobs: int | None, names: Sequence[IntArray] | None = None
) -> IntArray:
    """The leaf each row reaches in each tree, (n, trees): its node, or what `names` calls that.

    Rows are followed in an order in which neighbours take the same way, since a processor that
    guesses the next step is right then: half the time for many rows.
    """
    return ordered_leaves(forest, S, n_jobs, names)[0]


def ordered_leaves(
    forest: Any,
    S: FloatArray,
    n_jobs: int | None,
    names: Sequence[IntArray] | None = None,
    flat: "FlatForest | None" = None,
) -> tuple[IntArray, IntArray]:
    """The leaves as `leaves_of` gives them, and an order of the rows in which similar ones meet.

    They are those of `flat`, the same forest with its names, if that is given.
    """
    rows, trees = as_float32(S), forest.estimators_
    for tree in trees:
        if rows.shape[1] != tree.n_features_in_:  # it would read beyond the rows
            raise ValueError(
                f"Forest was fitted on {tree.n_features_in_} signals; got {rows.shape[1]}."
            )
    order = _similar_together(trees, rows)
    found: Any = np.empty((len(rows), len(trees)), dtype=np.int32)  # half the memory of the usual

    def one_by_one(taken: Any) -> Any:
        leaves = np.empty((len(taken), len(trees)), dtype=np.int32)
        for j, tree in enumerate(trees):
            leaf = tree.tree_.apply(taken)
            leaves[:, j] = leaf if names is None else names[j].take(leaf)
        return leaves

    reached = one_by_one if flat is None else flat.leaves

    def follow(part: slice) -> None:
        found[order[part]] = reached(rows.take(order[part], axis=0))

    in_threads(follow, row_blocks(len(rows), 1, ROWS_AT_A_TIME), n_jobs)
    return found, order


def _similar_together(trees: Sequence[Any], rows: Any) -> IntArray:
    """An order of the rows by their leaves in the first trees; few rows stay as they are."""
    if len(rows) < FEWEST_TO_SORT:
        return np.arange(len(rows))
    key = np.zeros(len(rows), dtype=np.int64)
    for tree in trees[:2]:
        key = key * tree.tree_.node_count + tree.tree_.apply(rows)
    return np.argsort(key)


class FlatForest:
    """A forest in one set of arrays, with the name of each leaf."""

    def __init__(self, trees: FlatTrees, names: IntArray) -> None:
        self.trees, self.names = trees, names

    @classmethod
    def of(cls, forest: Any, names: Sequence[IntArray]) -> "FlatForest | None":
        """Arrange a forest; None where that is not possible."""
        trees = flat_forest(forest)
        sizes = [tree.tree_.node_count for tree in forest.estimators_]
        if trees is None or [np.shape(part) for part in names] != [(size,) for size in sizes]:
            return None
        if any(np.asarray(part).dtype != np.int32 for part in names):  # of an archive
            return None
        return cls(trees, np.concatenate(names)[trees.node])

    def leaves(self, S: Any) -> IntArray:
        """The leaves as `leaves_of` gives them."""
        return self.names.take(self.trees.ends(as_float32(S)))
