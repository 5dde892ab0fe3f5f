"""The JSON of stochtree's forests, with every number in it checked.

stochtree follows nodes and features without looking, so a forged number would lead it outside its
memory. It reads only text that was checked and written here.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from locuscore._shared.tree_links import check_links

# Lists with one entry per node: numbers, and places in lists that are empty here.
FLOATS = {"leaf_value", "threshold"}
WHOLE = {"left", "node_deleted", "node_type", "parent", "right", "split_index"}
PLACES = {"category_list_begin", "category_list_end", "leaf_vector_begin", "leaf_vector_end"}
NODE_LISTS = FLOATS | WHOLE | PLACES
LISTS_OF_NODES = {"deleted_nodes", "internal_nodes", "leaf_parents", "leaves"}
EMPTY_LISTS = {"category_list", "leaf_vector"}  # no splits on categories, one number in a leaf
FLAGS = {"has_categorical_split", "is_log_scale"}
COUNTS = {"num_deleted_nodes", "num_nodes", "output_dimension"}
TREE_KEYS = NODE_LISTS | LISTS_OF_NODES | EMPTY_LISTS | FLAGS | COUNTS


def canonical_stochtree(text: str, n_trees: int, is_exponentiated: bool, n_features: int) -> str:
    """Return the JSON of stochtree's forests, one per draw, with every number checked."""
    data = json.loads(text)
    # Both levels must say what the caller, who makes the containers, was told.
    said = {"is_leaf_constant": True, "num_trees": n_trees, "output_dimension": 1}
    said["is_exponentiated"] = is_exponentiated
    tops = said | {"initialized": True, "num_samples": data["num_samples"]}
    forests = [data[f"forest_{draw}"] for draw in _counted(data["num_samples"], data)]
    for record, expected, n_inside in (
        (data, tops, len(forests)),
        *((forest, said, n_trees) for forest in forests),
    ):
        if len(record) != len(expected) + n_inside or not _says(record, expected):
            raise ValueError("a forest has another number of trees than it claims")
    trees = [forest[f"tree_{j}"] for forest in forests for j in range(n_trees)]
    _check_trees(trees, n_features)
    # Written anew: a parser that reads repeated keys differently sees what was checked.
    return json.dumps(data, allow_nan=False)


def _counted(count: Any, record: Mapping[str, Any]) -> range:
    # A count that no record backs would be a loop as long as a file says.
    if type(count) is not int or not 0 < count <= len(record):
        raise ValueError("a forest has another number of draws than it claims")
    return range(count)


def _says(record: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    # Types too: 1, 1.0 and True are equal in Python, and three things in JSON.
    return all(
        type(record[key]) is type(value) and record[key] == value for key, value in expected.items()
    )


def _check_trees(trees: Sequence[Mapping[str, Any]], n_features: int) -> None:
    """Check all trees at once: their nodes are numbered through."""
    for tree in trees:
        n = tree["num_nodes"]
        is_right = (
            set(tree) == TREE_KEYS
            and type(n) is int
            and all(len(tree[key]) == n for key in NODE_LISTS)
            and not any(tree[key] for key in EMPTY_LISTS)
            and tree["has_categorical_split"] is False
            and type(tree["is_log_scale"]) is bool
            and tree["num_deleted_nodes"] == len(tree["deleted_nodes"])
            and tree["output_dimension"] == 1
        )
        if not is_right or n < 1:
            raise ValueError("a tree has other nodes than it claims")
    sizes = np.array([tree["num_nodes"] for tree in trees])
    ends = np.cumsum(sizes)
    flat = {key: _numbers(trees, key) for key in NODE_LISTS | LISTS_OF_NODES}
    left, right, start = flat["left"], flat["right"], np.repeat(ends - sizes, sizes)
    size = np.repeat(sizes, sizes)
    splits = (left != -1) | (right != -1)
    is_inside = all(
        np.all((child[splits] >= 1) & (child[splits] < size[splits])) for child in (left, right)
    )
    if not is_inside:
        raise ValueError("a tree refers to a node that does not exist")
    # All trees as one: their roots hang from a node 0 of our own, which is nobody's child.
    check_links(
        (left + start)[splits] + 1,
        (right + start)[splits] + 1,
        flat["split_index"][splits],
        int(ends[-1]) + 1,
        n_features,
    )
    lists = {key: np.repeat(sizes, [len(tree[key]) for tree in trees]) for key in LISTS_OF_NODES}
    is_right = (
        np.array_equal(flat["node_type"], splits)
        and not any(flat[key].any() for key in PLACES)
        and np.all((flat["parent"] >= -1) & (flat["parent"] < size))
        and all(np.all((flat[key] >= 0) & (flat[key] < lists[key])) for key in LISTS_OF_NODES)
    )
    if not is_right:
        raise ValueError("a tree refers to a node that does not exist")


def _numbers(trees: Sequence[Mapping[str, Any]], key: str) -> np.ndarray:
    """All numbers of one name, of one type that is right."""
    values = np.array([value for tree in trees for value in tree[key]])
    kinds = "fi" if key in FLOATS else "b" if key == "node_deleted" else "i"
    if len(values) and (values.ndim != 1 or values.dtype.kind not in kinds):
        raise ValueError(f"the {key} of a tree holds something else than it should")
    return values if len(values) else np.zeros(0, dtype=np.int64)
