"""A check of trees from outside, for code that follows their links without looking."""

import numpy as np
from numpy.typing import ArrayLike


def check_links(
    left: ArrayLike, right: ArrayLike, feature: ArrayLike, n_nodes: int, n_features: int
) -> None:
    """Raise unless every path from node 0 ends, and every split reads a feature there is.

    One entry per split. If every node has at most one parent and the root has none, no path can
    revisit a node.
    """
    children = np.concatenate([np.asarray(left), np.asarray(right)])
    features = np.asarray(feature)
    for name, values, low, high in (
        ("node", children, 1, n_nodes),  # from 1: the root is nobody's child
        ("feature", features, 0, n_features),
    ):
        if len(values) and not (
            values.dtype.kind in "iu" and values.min() >= low and values.max() < high
        ):
            raise ValueError(f"a tree refers to a {name} that does not exist")
    if np.bincount(children.astype(np.int64)).max(initial=0) > 1 or n_nodes < 1:
        raise ValueError("a tree does not end: a node is reached in two ways")
