"""Checks of fitted trees and forests of scikit-learn, whose nodes compiled code follows.

A number of a node, a feature or a category that is too large is an address outside the memory of
the model. Each check raises ValueError.
"""

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from locuscore._shared.tree_links import check_links


def features_of(model: Any) -> int:
    """Number of features that a model compares its rows with."""
    # From the object itself: some classes compute it from parts that are not checked yet.
    n_features = vars(model).get("n_features_in_")
    if type(n_features) is not int or n_features < 1:
        raise ValueError(f"a {type(model).__name__} does not know its features")
    return n_features


def check_decision_tree(model: Any) -> None:
    """Check that all paths of a tree end, on features and outputs of its model."""
    own = vars(model)
    if "tree_" not in own:
        return
    tree = own["tree_"]
    # First of all: its arrays are views as long as it claims, whatever memory it has.
    if type(tree) is not Tree or tree.node_count != tree.capacity or tree.node_count < 1:
        raise ValueError("a tree claims other nodes than it has")
    if tree.n_features != features_of(model):
        raise ValueError("a tree was grown on other features than its model")
    _check_outputs(model, tree)
    # A leaf is known by its left child alone, so a node with one child counts as a split.
    splits = (tree.children_left != -1) | (tree.children_right != -1)
    check_links(
        tree.children_left[splits],
        tree.children_right[splits],
        tree.feature[splits],
        tree.node_count,
        tree.n_features,
    )


def _check_outputs(model: Any, tree: Any) -> None:
    """Check that a tree gives as many numbers as its model makes room for."""
    own = vars(model)
    n_classes = own.get("n_classes_", [1] * tree.n_outputs)
    counts = [int(count) for count in np.atleast_1d(n_classes)]
    if own.get("n_outputs_") != tree.n_outputs or counts != tree.n_classes.tolist():
        raise ValueError("a tree has other outputs than its model")


def check_forest(model: Any) -> None:
    """Check that all members are trees like their forest, which hands them rows unchecked."""
    members = vars(model).get("estimators_", [])
    if not isinstance(members, list):
        raise ValueError("a forest holds something that is no tree")
    for member in members:
        if not isinstance(member, BaseDecisionTree) or "tree_" not in vars(member):
            raise ValueError("a forest holds something that is no tree")
        if features_of(member) != features_of(model):
            raise ValueError("a forest holds trees on other features than its own")
        _check_outputs(model, member.tree_)


def check_boosted(model: Any) -> None:
    """Check boosted trees: what prepares and bins their rows, and the nodes."""
    own = vars(model)
    if "_predictors" not in own:
        return
    n_features, mapper = features_of(model), own["_bin_mapper"]
    # Rows would be taken for binned already.
    if own.get("_in_fit"):
        raise ValueError("boosted trees stand in the middle of their fit")
    if type(mapper) is not _BinMapper or mapper.is_categorical_.shape != (n_features,):
        raise ValueError("boosted trees were binned on other features than their own")
    _check_known_categories(mapper)
    _check_preprocessor(own.get("_preprocessor"), n_features)
    width, start = own["n_trees_per_iteration_"], own["_baseline_prediction"]
    if type(width) is not int or start.size != width or start.dtype.kind != "f":
        raise ValueError("boosted trees have other outputs than they claim")
    for stage in own["_predictors"]:
        if not isinstance(stage, list) or len(stage) != width:
            raise ValueError("boosted trees have other outputs than they claim")
        for tree in stage:
            _check_boosted_tree(tree, mapper.is_categorical_ != 0)


def _check_known_categories(mapper: Any) -> None:
    """Check that known categories are bytes: each sets a bit in a mask of 256."""
    known, is_categorical = mapper.bin_thresholds_, mapper.is_categorical_
    is_list = isinstance(known, list) and len(known) == len(is_categorical)
    if not is_list or is_categorical.dtype.kind not in "bu":
        raise ValueError("boosted trees were binned on other features than their own")
    for feature in np.flatnonzero(mapper.is_categorical_):
        codes = np.asarray(known[feature], dtype=np.float64)
        if not np.isin(codes, np.arange(256)).all():
            raise ValueError("boosted trees know categories that cannot be")


def _check_boosted_tree(tree: Any, is_categorical: np.ndarray) -> None:
    if type(tree) is not TreePredictor:
        raise ValueError("boosted trees hold something that is no tree")
    nodes, bits = tree.nodes, tree.raw_left_cat_bitsets
    # Nobody else looks inside a tree; what is masked would be compared with nothing.
    if type(nodes) is not np.ndarray or type(bits) is not np.ndarray:
        raise ValueError("a boosted tree holds something else than arrays")
    if nodes.ndim != 1 or nodes.dtype != PREDICTOR_RECORD_DTYPE:
        raise ValueError("a boosted tree has unknown nodes")
    splits = nodes[nodes["is_leaf"] == 0]
    check_links(
        splits["left"], splits["right"], splits["feature_idx"], len(nodes), len(is_categorical)
    )
    # A category is looked up in the bits at a split's own place, of 256 in eight words.
    by_category = splits[splits["is_categorical"] != 0]
    is_bits = bits.ndim == 2 and bits.shape[1] == 8 and bits.dtype == np.uint32
    if (
        not is_bits
        or by_category["bitset_idx"].max(initial=0) >= max(1, len(bits))
        or (len(by_category) and not len(bits))
        # Of other features the value is a float, which need not fit the mask.
        or not is_categorical[by_category["feature_idx"]].all()
    ):
        raise ValueError("a tree refers to categories that do not exist")


def _check_preprocessor(preprocessor: Any, n_features: int) -> None:
    """Check that what prepares the rows of boosted trees keeps their number of columns.

    The trees index the rows that come out of it, and compare their width with nothing.
    """
    if preprocessor is None:
        return
    if type(preprocessor) is not ColumnTransformer or features_of(preprocessor) != n_features:
        raise ValueError("boosted trees prepare their rows in an unknown way")
    own = vars(preprocessor)
    names = own.get("feature_names_in_", np.array([""] * n_features, dtype=object))
    is_known = names.shape == (n_features,) and all(type(name) is str for name in names)
    width = 0
    for name, step, columns in own["transformers_"]:
        if isinstance(step, str) and step == "drop":
            continue
        mask = np.asarray(columns)
        indices = own["_transformer_to_input_indices"][name]
        is_known &= (
            type(step) in (OrdinalEncoder, FunctionTransformer)
            and mask.dtype == np.bool_
            and mask.shape == (n_features,)
            and list(indices) == np.flatnonzero(mask).tolist()
        )
        width += int(mask.sum())
    if not is_known or width != n_features:
        raise ValueError("boosted trees prepare their rows in an unknown way")
