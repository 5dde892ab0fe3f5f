"""Checks of trees that compiled code will follow without looking: links, features, sizes."""

import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.tree import BaseDecisionTree

FORESTS = (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
BOOSTED = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)


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


def check_fitted_trees(model: Any) -> None:
    """Check every tree inside a fitted scikit-learn object."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or value is None or isinstance(value, str | bytes | int | float):
            continue
        seen.add(id(value))
        if isinstance(value, BaseDecisionTree):
            _check_decision_tree(value)
        elif isinstance(value, FORESTS):
            _check_forest(value)
        elif isinstance(value, BOOSTED):
            _check_boosted(value)
        waiting += _parts(value)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype.kind == "O" else []
    return list(getattr(value, "__dict__", {}).values())


def _check_decision_tree(model: Any) -> None:
    tree = getattr(model, "tree_", None)
    if tree is None:
        return
    # Nothing else of a tree may be looked at before this is known.
    if tree.node_count != tree.capacity or tree.node_count < 1:
        raise ValueError("a tree claims other nodes than it has")
    if tree.n_features != model.n_features_in_:
        raise ValueError("a tree was grown on other features than its model")
    splits = (tree.children_left != -1) | (tree.children_right != -1)
    check_links(
        tree.children_left[splits],
        tree.children_right[splits],
        tree.feature[splits],
        tree.node_count,
        tree.n_features,
    )


def _check_forest(model: Any) -> None:
    for member in getattr(model, "estimators_", []):
        if not isinstance(member, BaseDecisionTree):
            raise ValueError("a forest holds something that is no tree")
        if member.tree_.n_features != model.n_features_in_:
            raise ValueError("a forest holds trees on other features than its own")


def _check_boosted(model: Any) -> None:
    if not hasattr(model, "_predictors"):
        return
    n_features = model.n_features_in_
    if model._bin_mapper.is_categorical_.shape != (n_features,):
        raise ValueError("boosted trees were binned on other features than their own")
    _check_preprocessor(getattr(model, "_preprocessor", None), n_features)
    for tree in (tree for stage in model._predictors for tree in stage):
        nodes, bits = tree.nodes, tree.raw_left_cat_bitsets
        splits = nodes[nodes["is_leaf"] == 0]
        check_links(splits["left"], splits["right"], splits["feature_idx"], len(nodes), n_features)
        categorical = splits["bitset_idx"][splits["is_categorical"] != 0]
        is_bits = bits.ndim == 2 and bits.shape[1] == 8 and bits.dtype == np.uint32
        if not is_bits or (len(categorical) and categorical.max() >= len(bits)):
            raise ValueError("a tree refers to categories that do not exist")


def _check_preprocessor(preprocessor: Any, n_features: int) -> None:
    """Raise unless what prepares the rows of boosted trees keeps their number of columns."""
    if preprocessor is None:
        return
    fitted = preprocessor.transformers_ if type(preprocessor) is ColumnTransformer else []
    widths = [
        (type(step), np.sum(columns)) for _, step, columns in fitted if np.asarray(columns).any()
    ]
    is_known = {kind for kind, _ in widths} <= {OrdinalEncoder, FunctionTransformer}
    if not is_known or sum(width for _, width in widths) != n_features:
        raise ValueError("boosted trees prepare their rows in an unknown way")


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


def check_lightgbm(text: str) -> None:
    """Check the trees of a LightGBM model text."""
    head, *trees = text.split("\nTree=")
    n_features = int(_entries(head)["max_feature_idx"]) + 1
    if not trees:
        raise ValueError("a LightGBM model has no trees")
    for part in trees:
        entries = _entries(part)
        n_leaves = int(entries["num_leaves"])
        if int(entries.get("is_linear", 0)):
            raise ValueError("LightGBM models with linear trees cannot be checked")
        if len(entries["leaf_value"].split()) != n_leaves:
            raise ValueError("a tree has other leaves than it claims")
        if n_leaves < 2:
            continue
        # Leaves are counted -1, -2, ...: give them the numbers after the splits.
        left, right, feature = (
            np.array(entries[key].split(), dtype=np.int64)
            for key in ("left_child", "right_child", "split_feature")
        )
        if not len(left) == len(right) == len(feature) == n_leaves - 1:
            raise ValueError("a tree has other splits than it claims")
        left, right = (np.where(v < 0, n_leaves - 2 - v, v) for v in (left, right))
        check_links(left, right, feature, 2 * n_leaves - 1, n_features)
        _check_lightgbm_categories(entries, n_leaves)


def _check_lightgbm_categories(entries: dict[str, str], n_leaves: int) -> None:
    n_sets = int(entries["num_cat"])
    kinds = np.array(entries["decision_type"].split(), dtype=np.int64)
    thresholds = np.array(entries["threshold"].split(), dtype=np.float64)
    if len(kinds) != n_leaves - 1 or len(thresholds) != n_leaves - 1:
        raise ValueError("a tree has other splits than it claims")
    used = thresholds[(kinds & 1) == 1]
    if not len(used):
        return
    ends = np.array(entries["cat_boundaries"].split(), dtype=np.int64)
    words = len(entries["cat_threshold"].split())
    is_right = len(ends) == n_sets + 1 and ends[0] == 0 and ends[-1] == words
    if not is_right or np.any(np.diff(ends) < 0) or used.min() < 0 or used.max() >= n_sets:
        raise ValueError("a tree refers to categories that do not exist")


def _entries(text: str) -> dict[str, str]:
    """Lines ``key=value`` up to the first empty one."""
    lines = text.split("\n\n", 1)[0].splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
