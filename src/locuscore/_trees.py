"""Checks of trees that compiled code will follow without looking: links, features, sizes."""

import json

import numpy as np
from numpy.typing import ArrayLike


def check_links(
    left: ArrayLike, right: ArrayLike, feature: ArrayLike, n_nodes: int, n_features: int
) -> None:
    """Raise unless every path from node 0 ends, and every split reads a feature there is.

    One entry per split. A node that is nobody's child twice, and a root that is nobody's child,
    leave no way to come back to a node.
    """
    children = np.concatenate([np.asarray(left), np.asarray(right)])
    features = np.asarray(feature)
    for name, values, low, high in (
        ("node", children, 1, n_nodes),
        ("feature", features, 0, n_features),
    ):
        if len(values) and not (
            values.dtype.kind in "iu" and values.min() >= low and values.max() < high
        ):
            raise ValueError(f"a tree refers to a {name} that does not exist")
    if np.bincount(children.astype(np.int64)).max(initial=0) > 1 or n_nodes < 1:
        raise ValueError("a tree does not end: a node is reached in two ways")


def check_stochtree(text: str, n_trees: int, n_features: int) -> None:
    """Check the JSON of stochtree's forests, one per draw."""
    data = json.loads(text)
    lists = ("left", "right", "split_index", "threshold", "leaf_value", "node_type", "parent")
    for draw in range(data["num_samples"]):
        forest = data[f"forest_{draw}"]
        if forest["num_trees"] != n_trees or forest["output_dimension"] != 1:
            raise ValueError("a forest has another number of trees than it claims")
        for j in range(n_trees):
            tree = forest[f"tree_{j}"]
            n = tree["num_nodes"]
            if tree["has_categorical_split"] or any(len(tree[key]) != n for key in lists):
                raise ValueError("a tree has other nodes than it claims")
            left, right = np.array(tree["left"]), np.array(tree["right"])
            splits = (left != -1) | (right != -1)
            check_links(
                left[splits], right[splits], np.array(tree["split_index"])[splits], n, n_features
            )
