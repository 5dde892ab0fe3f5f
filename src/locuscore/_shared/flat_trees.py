"""All trees of an ensemble in one set of arrays: quick for few rows, and as machine code for many.

scikit-learn spends a call into compiled code and several checks on every tree, which is most of the
time that one row takes. numpy follows few rows level by level. With many rows scikit-learn's own
`apply` and `predict` are faster than that, and the compiled loop of `loops` is faster than both.

`FlatTrees.of` checks every feature and child, so whatever an archive holds, nothing outside the
arrays is read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import Tree

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.machine_code import machine_code

LOOK_EVERY = 4  # levels: to see which paths have ended costs half a level
FEWEST_COMPILED = 8  # rows; fewer are followed as quickly by numpy
MOST_NODES = 4_000_000  # of all trees; larger ones would take too much memory twice

Floats = NDArray[np.floating[Any]]


def node_type(threshold: Any) -> np.dtype[Any]:
    """What the compiled loop takes for a node."""
    return np.dtype([("threshold", threshold), ("feature", np.int32), ("left", np.int32)])


@dataclass(frozen=True, eq=False)
class FlatTrees:
    """Nodes of several trees: the roots first, then siblings side by side, the left one first.

    A row goes right where its value is above the threshold, and where it is missing and
    `missing_right`. A leaf is its own left child, and nothing goes right there. `node` is the
    number of each node among those of all trees, one tree after the other.
    """

    feature: IntArray
    threshold: Floats
    left: IntArray
    missing_right: BoolArray
    node: IntArray
    n_trees: int
    n_features: int
    depth: int

    @classmethod
    def of(cls, trees: Sequence["_Nodes"], n_features: int) -> Self | None:
        """Arrange the nodes of trees; None where they are no trees, or enormous."""
        sizes = [len(tree.left) for tree in trees]
        if not sizes or min(sizes) < 1 or sum(sizes) > MOST_NODES:
            return None
        first = np.cumsum([0, *sizes[:-1]])
        # A split is a place among all nodes, and so are its children.
        places = [np.flatnonzero(tree.is_split) for tree in trees]
        splits = _joined(places, first)
        left, right = (
            _joined(
                [getattr(tree, side)[at] for tree, at in zip(trees, places, strict=True)], first
            )
            for side in ("left", "right")
        )
        # Everything but a root is the child of one node.
        children = np.column_stack([left, right]).ravel()
        order = np.concatenate([first, children])
        if len(order) != sum(sizes) or (np.bincount(order, minlength=len(order)) != 1).any():
            return None
        new = np.empty(len(order), dtype=np.intp)
        new[order] = np.arange(len(order))
        is_split = np.zeros(len(order), dtype=np.bool_)
        is_split[splits] = True
        feature, threshold, missing_right = (
            np.concatenate([getattr(tree, name) for tree in trees])
            for name in ("feature", "threshold", "missing_right")
        )
        if np.isnan(threshold[splits]).any():  # of an archive: who goes left there is not settled
            return None
        own_left = np.arange(len(order))
        own_left[new[splits]] = new[left]
        found = cls(
            np.where(is_split, feature, 0)[order].astype(np.intp),
            np.where(is_split, threshold, np.inf).astype(threshold.dtype)[order],
            own_left,
            (is_split & missing_right)[order],
            order,
            len(trees),
            n_features,
            _depth(own_left, len(trees)),
        )
        return found if found.feature.min() >= 0 and found.feature.max() < n_features else None

    def ends(self, rows: Floats) -> IntArray:
        """The leaf that each row reaches in each tree, (n, trees), as places in these arrays."""
        n, width = rows.shape
        if width != self.n_features:
            raise ValueError(f"the trees have {self.n_features} features; got {width}.")
        loops = machine_code()
        if loops is not None and n >= FEWEST_COMPILED and rows.dtype == self.threshold.dtype:
            return self._ends_by(loops, rows)
        at = np.tile(np.arange(self.n_trees), n)
        first = np.repeat(np.arange(n) * width, self.n_trees)
        values = rows.ravel()
        has_missing = bool(np.isnan(values).any())
        found, paths = at.copy(), np.arange(len(at))
        for level in range(1, self.depth + 1):
            value = values.take(self.feature.take(at) + first)
            right = value > self.threshold.take(at)
            if has_missing:
                right |= np.isnan(value) & self.missing_right.take(at)
            following = self.left.take(at) + right
            if level % LOOK_EVERY == 0:
                # The longest path is twice the usual one, so most are left behind on the way.
                found[paths] = following
                going = np.flatnonzero(following != at)
                if not len(going):
                    break
                paths, first, following = (one.take(going) for one in (paths, first, following))
            at = following
        found[paths] = at
        return found.reshape(n, self.n_trees)

    def _ends_by(self, loops: Any, rows: Floats) -> IntArray:
        """The same, by the compiled loop."""
        rows = np.ascontiguousarray(rows)
        missing = self.missing_right if np.isnan(rows).any() else None
        found: Any = np.empty((len(rows), self.n_trees), dtype=np.int32)
        loops.follow(rows, self._nodes, missing, found)
        return found

    @cached_property
    def _nodes(self) -> Any:
        """What a path needs of each node, side by side, so that it comes from memory at once."""
        nodes = np.empty(len(self.left), dtype=node_type(self.threshold.dtype))
        for name in ("threshold", "feature", "left"):
            nodes[name] = getattr(self, name)
        return nodes


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of one tree, by their numbers in it."""

    left: IntArray
    right: IntArray
    is_split: BoolArray
    feature: IntArray
    threshold: Floats
    missing_right: BoolArray


def _joined(parts: Sequence[IntArray], first: IntArray) -> IntArray:
    """Numbers within trees as numbers among the nodes of all."""
    moved = [np.asarray(part, np.intp) + start for part, start in zip(parts, first, strict=True)]
    return np.concatenate(moved)


def _depth(left: IntArray, n_trees: int) -> int:
    """Number of levels below the roots; every node has one parent, so this ends."""
    level, depth = np.arange(n_trees), 0
    while True:
        below = left[level]
        below = below[below != level]
        if not len(below):
            return depth
        level, depth = np.concatenate([below, below + 1]), depth + 1


def _nodes_of_tree(tree: Any) -> _Nodes | None:
    """The nodes of a tree of scikit-learn, which compares values in single precision."""
    if type(tree) is not Tree:
        return None
    # A value in single precision is above a threshold where it is above the next such number below.
    with np.errstate(over="ignore"):
        threshold = tree.threshold.astype(np.float32)
    threshold = np.where(
        threshold > tree.threshold, np.nextafter(threshold, np.float32(-np.inf)), threshold
    )
    is_split = tree.children_left != -1
    to_left = tree.missing_go_to_left.astype(np.bool_)
    left, right = tree.children_left, tree.children_right
    return _Nodes(left, right, is_split, tree.feature, threshold, ~to_left)


def _nodes_of_boosted(tree: Any) -> _Nodes | None:
    """The nodes of a boosted tree of scikit-learn; None if it splits by categories."""
    if type(tree) is not TreePredictor:
        return None
    nodes = tree.nodes
    is_split = nodes["is_leaf"] == 0
    if (nodes["is_categorical"][is_split] != 0).any():
        return None
    left, right, feature = (
        nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx")
    )
    to_left = nodes["missing_go_to_left"] != 0
    return _Nodes(left, right, is_split, feature, nodes["num_threshold"], ~to_left)


def _flat(
    trees: Sequence[Any], nodes_of: Callable[[Any], _Nodes | None], n_features: int
) -> FlatTrees | None:
    found = [nodes for tree in trees if (nodes := nodes_of(tree)) is not None]
    return FlatTrees.of(found, n_features) if len(found) == len(trees) else None


# Beside the models, so that neither pickles nor archives hold them twice.
_FOUND: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def once(model: Any, make: Callable[[], Any]) -> Any:
    """What is made of a model, kept for as long as the model lives."""
    found = _FOUND.get(model, _FOUND)  # a model may be made into None
    if found is _FOUND:
        found = _FOUND[model] = make()
    return found


def forget(model: Any) -> None:
    """Make it anew when it is next asked for: the model has changed."""
    _FOUND.pop(model, None)


def flat_forest(forest: Any) -> FlatTrees | None:
    """The trees of a fitted random forest, whose rows are in single precision."""
    trees = [getattr(tree, "tree_", None) for tree in forest.estimators_]
    return _flat(trees, _nodes_of_tree, forest.n_features_in_)


@dataclass(frozen=True, eq=False)
class FlatBoosting:
    """Boosted trees of scikit-learn: their nodes, what each leaf adds, and what they start from."""

    trees: FlatTrees
    values: FloatArray
    start: FloatArray

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """The trees of a fitted model; None where they are of another form than expected."""
        stages, start = model._predictors, np.asarray(model._baseline_prediction).ravel()
        if model._preprocessor is not None or any(len(stage) != len(start) for stage in stages):
            return None
        if start.dtype != np.float64:  # of an archive
            return None
        trees = [tree for stage in stages for tree in stage]
        flat = _flat(trees, _nodes_of_boosted, model.n_features_in_)
        if flat is None:
            return None
        values = np.concatenate([tree.nodes["value"] for tree in trees])[flat.node]
        return cls(flat, values, start)

    def raw(self, X: FloatArray) -> FloatArray:
        """Sums of all rounds, (n, trees per round), added and laid out as scikit-learn's are."""
        added = self.values.take(self.trees.ends(X)).reshape(len(X), -1, len(self.start))
        start = np.broadcast_to(self.start, (len(X), 1, len(self.start)))
        sums = np.add.accumulate(np.concatenate([start, added], axis=1), axis=1)[:, -1]
        return np.asfortranarray(sums)  # else a softmax adds up in another order


def flat_boosting(model: Any) -> FlatBoosting | None:
    """What stands for a boosted model with few rows, made once; None where there is nothing."""
    found: FlatBoosting | None = once(model, lambda: FlatBoosting.of(model))
    return found
