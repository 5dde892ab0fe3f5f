"""One tree of xgboost: its numbers, checked, without the nodes that no path reaches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from locuscore._shared.tree_links import check_links

NO_PARENT = 2**31 - 1  # as xgboost writes it
MOST_CATEGORIES = 2**24  # above these a float has no place for the ones
MOST_WORDS = 2**25  # of 32 categories each, in all splits of a model
DEEPEST = 10_000  # a path of a million splits ends the process that predicts with it
# Statistics of the nodes that predicting does not read.
STATISTICS = ("base_weights", "loss_changes", "sum_hessian")
WHOLE = ("default_left", "left_children", "right_children", "split_indices")
CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
KEYS = {"id", "parents", "split_conditions", "split_type", "tree_param", *STATISTICS, *WHOLE}
KEYS |= set(CATEGORIES)


def known_keys(value: Any, names: set[str]) -> dict[str, Any]:
    """Return an object of JSON; raise where it is none, or has a key that is not known."""
    unknown = set(value) - names if isinstance(value, dict) else {""}
    if unknown:
        one = min(unknown)[:40]
        raise ValueError(f"an xgboost model has an unknown part {one!r}")
    found: dict[str, Any] = value
    return found


def whole_numbers(values: Any) -> np.ndarray:
    """Return a list of whole numbers as an array."""
    numbers = np.array(values) if isinstance(values, list) else np.empty((0, 0))
    is_empty = isinstance(values, list) and not values
    if numbers.ndim != 1 or (numbers.dtype.kind not in "bi" and not is_empty):
        raise ValueError("an xgboost model has something else where whole numbers belong")
    return numbers.astype(np.int64)


def single_floats(values: Any) -> np.ndarray:
    """Return a list of numbers in single precision, which is what xgboost makes of them."""
    numbers = np.array(values) if isinstance(values, list) else np.empty((0, 0))
    if numbers.ndim != 1 or numbers.dtype.kind not in "fi":
        raise ValueError("an xgboost model has something else where numbers belong")
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


@dataclass(frozen=True)
class Tree:
    """The numbers of one tree, by their names; one of each for every node."""

    floats: dict[str, np.ndarray]
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    goes_left: np.ndarray  # rows without a value
    sets: dict[int, np.ndarray]  # categories by the node that splits by them

    @classmethod
    def read(cls, block: Any, n_features: int) -> "Tree":
        """Read a tree; raise where xgboost would be led astray."""
        # Such leaves hold several numbers each.
        if str(block["tree_param"].get("size_leaf_vector", "0")) not in ("0", "1"):
            raise ValueError(
                "xgboost models with vectors in their leaves are not held; fit it with "
                "multi_strategy='one_output_per_tree'"
            )
        given = known_keys(block, KEYS)
        goes_left, left, right, feature = (whole_numbers(given[name]) for name in WHOLE)
        names = (*STATISTICS, "split_conditions")
        floats = {name: single_floats(given[name]) for name in names}
        n = len(left)
        sizes = {len(one) for one in (goes_left, right, feature, *floats.values())}
        if sizes != {n} or not 0 < n < NO_PARENT:
            raise ValueError("a tree has other nodes than it claims")
        splits = np.flatnonzero(left != -1)
        check_links(left[splits], right[splits], feature[splits], n, n_features)
        sets = _sets(given, n)
        is_kept = _reached(left, right)
        place = np.cumsum(is_kept) - 1
        is_split = (left != -1)[is_kept]
        return cls(
            {name: values[is_kept] for name, values in floats.items()},
            np.where(is_split, place[left[is_kept]], -1),
            np.where(is_split, place[right[is_kept]], -1),
            np.where(is_split, feature[is_kept], 0),
            np.where(is_split, goes_left[is_kept] != 0, False),
            {int(place[node]): found for node, found in sets.items() if left[node] != -1},
        )

    @property
    def n_words(self) -> int:
        """Words of 32 bits that xgboost makes room for."""
        return sum(int(found.max()) // 32 + 1 for found in self.sets.values())

    def to_json(self, position: int, n_features: int) -> dict[str, Any]:
        """Return the tree as xgboost writes it."""
        n, splits = len(self.left), np.flatnonzero(self.left != -1)
        parents = np.full(n, NO_PARENT)
        parents[self.left[splits]] = parents[self.right[splits]] = splits
        nodes = sorted(self.sets)
        sizes = [len(self.sets[node]) for node in nodes]
        kinds = np.zeros(n, dtype=np.int64)
        kinds[nodes] = 1
        return {
            **{name: shortest(values) for name, values in self.floats.items()},
            "categories": [code for node in nodes for code in self.sets[node].tolist()],
            "categories_nodes": nodes,
            "categories_segments": np.cumsum([0, *sizes])[:-1].tolist(),
            "categories_sizes": sizes,
            "default_left": self.goes_left.astype(int).tolist(),
            "id": position,
            "left_children": self.left.tolist(),
            "parents": parents.tolist(),
            "right_children": self.right.tolist(),
            "split_indices": self.feature.tolist(),
            "split_type": kinds.tolist(),
            "tree_param": {
                "num_deleted": "0",
                "num_feature": str(n_features),
                "num_nodes": str(n),
                "size_leaf_vector": "1",
            },
        }


def _reached(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Which nodes a path from the root reaches; pruning leaves others behind."""
    is_reached = np.zeros(len(left), dtype=bool)
    front = np.zeros(1, dtype=np.int64)
    for _ in range(DEEPEST + 1):
        is_reached[front] = True
        splits = front[left[front] != -1]
        if not len(splits):
            return is_reached
        front = np.concatenate([left[splits], right[splits]])
    raise ValueError(f"a tree of an xgboost model is more than {DEEPEST} splits deep")


def _sets(given: Mapping[str, Any], n_nodes: int) -> dict[int, np.ndarray]:
    """Return the categories of each node that splits by them."""
    kinds = whole_numbers(given.get("split_type", [0] * n_nodes))
    codes, nodes, starts, sizes = (whole_numbers(given.get(name, [])) for name in CATEGORIES)
    is_right = (
        len(kinds) == n_nodes
        and set(kinds.tolist()) <= {0, 1}
        and np.array_equal(nodes, np.flatnonzero(kinds))
        and len(sizes) == len(nodes)
        and np.all((sizes > 0) & (sizes <= len(codes)))
        and np.array_equal(starts, np.cumsum([0, *sizes])[:-1])
        and sizes.sum() == len(codes)
        and np.all((codes >= 0) & (codes < MOST_CATEGORIES))
    )
    if not is_right:
        raise ValueError("a tree refers to categories that do not exist")
    found = np.split(codes, starts[1:])
    return {int(node): found[i] for i, node in enumerate(nodes)}


def shortest(values: np.ndarray) -> list[float]:
    """Return numbers with no more digits than single precision has: xgboost reads no more."""
    found: list[float] = values.astype(str).astype(np.float64).tolist()
    return found
