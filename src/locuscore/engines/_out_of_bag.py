"""Laws of the rows that a forest was grown on, from the trees and the losses without each row.

A row's own loss fills leaves of all trees, also of those that were grown without the row. So the
law of a row is that of the trees grown without it, with its loss taken out of their leaves: the
order statistics of the other losses in the leaf, exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from locuscore._laws.signed_errors import SignedErrors
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.blocks import row_blocks
from locuscore.draws import StepDraws, WeightedDraws
from locuscore.engines._forest import Forest, leaf_middles
from locuscore.engines._shared_shape import SharedShape, shape_ratios, size_of

Positions = NDArray[np.int32]  # there are rows times trees of them


def out_of_bag_laws(
    forest: Forest, S: FloatArray, z: FloatArray, errors: SignedErrors | None
) -> Iterator[tuple[IntArray, StepDraws | WeightedDraws]]:
    """Positions and laws of rows, a few at a time: those of the forest without each row.

    `S`, `z` and `errors` are what the forest was fitted on. A row that all trees have seen has no
    law, and is left out. What single rows hardly move stays as it is: the number of rows per tree,
    the mean loss, the unit.
    """
    unit = np.ones(len(z)) if forest.unit_ is None else forest.unit_(S)
    z, leaves = z / unit, forest._leaves(S)
    losses = _Leaves.of(leaves, z)
    unexpected = None if errors is None else _Leaves.of(leaves, errors.unexpected(S))
    shape = None
    if forest.shape_ is not None:
        shape = _ShapeWithout.of(forest.shape_, shape_ratios(forest.forest_, S, z), losses, z)
    is_out = losses.count > 1
    for j, grown_on in enumerate(forest.forest_.estimators_samples_):
        is_out[grown_on, j] = False
    middle = leaf_middles(forest.table_.shape[1])
    n_trees = is_out.sum(axis=1)
    for m in np.unique(n_trees[n_trees > 0]):
        those = np.flatnonzero(n_trees == m)
        for part in row_blocks(len(those), leaves.shape[1] * forest.n_points):
            rows = those[part]
            points = [losses.without_own(rows, middle)]
            if errors is not None and unexpected is not None:
                expected = S[rows, errors.column, None, None]
                points.append(errors.loss(expected + unexpected.without_own(rows, middle)))
            if shape is not None:
                points.append(shape.points(rows, is_out[rows]))
            # Equally many trees for each, so that the points of these make a matrix.
            flat = np.concatenate(points, axis=2)[is_out[rows]].reshape(len(rows), -1)
            yield rows, forest.laws(flat[:, None, :], S[rows])


@dataclass(frozen=True, eq=False)
class _Leaves:
    """Values of rows in the leaves of each tree, (n, trees): `ordered` by leaf, then by value.

    A row's leaf has `count` rows from `first` on; the row itself is at `place` among them, and the
    mean of the others is `others_mean`.
    """

    ordered: FloatArray
    first: Positions
    count: Positions
    place: Positions
    others_mean: FloatArray

    @classmethod
    def of(cls, leaves: IntArray, values: FloatArray) -> Self:
        ordered, others_mean = np.empty((2, *leaves.shape))
        first, count, place = (np.empty(leaves.shape, dtype=np.int32) for _ in range(3))
        ascending = np.argsort(values, kind="stable")
        for j, leaf in enumerate(leaves.T):
            order = ascending[np.argsort(leaf[ascending], kind="stable")]
            _, starts, which, sizes = np.unique(
                leaf[order], return_index=True, return_inverse=True, return_counts=True
            )
            ordered[:, j] = values[order]
            first[order, j], count[order, j] = starts[which], sizes[which]
            place[order, j] = np.arange(len(order)) - starts[which]
            others = np.add.reduceat(values[order], starts)[which] - values[order]
            others_mean[order, j] = others / np.maximum(sizes[which] - 1, 1)
        return cls(ordered, first, count, place, others_mean)

    def without_own(self, rows: IntArray, middle: FloatArray) -> FloatArray:
        """Order statistics of the other values in the leaf of each row, (n rows, trees, points).

        Where a row is alone they mean nothing.
        """
        others = np.maximum(self.count[rows] - 1, 1)[:, :, None]
        index = (middle * others).astype(np.int32)
        index += index >= self.place[rows][:, :, None]
        at = np.minimum(self.first[rows][:, :, None] + index, len(self.ordered) - 1)
        return self.ordered[at, np.arange(at.shape[1])[None, :, None]]


@dataclass(frozen=True, eq=False)
class _ShapeWithout:
    """The shape that all rows share, for each row without itself."""

    ratios: FloatArray  # (n,), ascending
    place: IntArray  # of each row's own among them
    sizes: FloatArray  # (n, trees): mean losses of the leaves without the row
    per_tree: int

    @classmethod
    def of(cls, shape: SharedShape, ratios: FloatArray, losses: _Leaves, z: FloatArray) -> Self:
        place = np.empty(len(ratios), dtype=np.int64)
        order = np.argsort(ratios, kind="stable")
        place[order] = np.arange(len(ratios))
        sizes = size_of(losses.others_mean, len(z), float(np.mean(z)))
        return cls(ratios[order], place, sizes, shape.per_tree)

    def points(self, rows: IntArray, is_out: BoolArray) -> FloatArray:
        """Points of rows, (n rows, trees, per tree); only those of trees that are out count."""
        n_trees = is_out.shape[1]
        index = (leaf_middles(n_trees * self.per_tree) * (len(self.ratios) - 1)).astype(np.int64)
        at = index + (index >= self.place[rows][:, None])
        ratios = self.ratios[at].reshape(len(rows), self.per_tree, n_trees).swapaxes(1, 2)
        size = np.where(is_out, self.sizes[rows], 0.0).sum(axis=1) / is_out.sum(axis=1)
        return size[:, None, None] * ratios
