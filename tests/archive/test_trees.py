"""Trees that compiled code would follow astray are refused."""

import json

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from archives_for_tests import rows
from helpers import raises
from locuscore._archive.fitted_models import check_fitted
from locuscore._archive.lightgbm_text import canonical_lightgbm
from locuscore._shared.tree_links import check_links
from locuscore.engines._stochtree_json import canonical_stochtree


@pytest.mark.parametrize(
    ("left", "right", "feature"),
    [
        ([1, 3], [2, 4], [0, 1]),
        ([], [], []),
    ],
)
def test_sound_links_pass(left, right, feature):
    check_links(left, right, feature, 5, 2)


@pytest.mark.parametrize(
    ("left", "right", "feature", "message"),
    [
        ([1, 3], [2, 5], [0, 1], "a node that does not exist"),
        ([1, -1], [2, 3], [0, 1], "a node that does not exist"),
        ([1, 0], [2, 3], [0, 1], "a node that does not exist"),  # back to the root
        ([1, 1], [2, 3], [0, 1], "does not end"),  # back to itself
        ([1, 2], [2, 3], [0, 1], "does not end"),
        ([1, 3], [2, 4], [0, 2], "a feature that does not exist"),
        ([1, 3], [2, 4], [0, -1], "a feature that does not exist"),
        ([1.5, 3], [2, 4], [0, 1], "a node that does not exist"),
    ],
)
def test_other_links_are_refused(left, right, feature, message):
    with pytest.raises(ValueError, match=message):
        check_links(left, right, feature, 5, 2)


def test_fitted_models_pass():
    X, y = rows()
    for model in (
        DecisionTreeRegressor(),
        DecisionTreeRegressor(max_leaf_nodes=9),
        RandomForestRegressor(3),
        RandomForestClassifier(3),
        BaggingRegressor(n_estimators=2, max_features=2),
        HistGradientBoostingRegressor(max_iter=3),
        HistGradientBoostingRegressor(max_iter=3, categorical_features=[1]),
        make_pipeline(StandardScaler(), RandomForestRegressor(2)),
    ):
        target = y > 0.5 if isinstance(model, RandomForestClassifier) else y
        data = np.round(9 * X) if isinstance(model, HistGradientBoostingRegressor) else X
        check_fitted({"inside": [model.fit(data, target)]})
    check_fitted(RandomForestRegressor())  # not fitted: nothing to follow


def with_state(tree, **changes):
    """A compiled tree with another state, as a forged file would make it."""
    kind, arguments, state = tree.__reduce__()
    forged = kind(*arguments)
    forged.__setstate__(state | changes)
    return forged


def forged_nodes(tree, **columns):
    nodes = tree.__getstate__()["nodes"].copy()
    for name, value in columns.items():
        nodes[name][0] = value
    return with_state(tree, nodes=nodes)


@pytest.mark.parametrize(
    "columns",
    [
        {"left_child": 10**9},
        {"right_child": -7},
        {"left_child": 0},
        {"left_child": -1},
        {"feature": 3},
        {"feature": -2},
    ],
)
def test_a_forged_node_is_refused(columns):
    X, y = rows()
    model = RandomForestRegressor(2, random_state=0).fit(X, y)
    model.estimators_[1].tree_ = forged_nodes(model.estimators_[1].tree_, **columns)
    with pytest.raises(ValueError, match=r"does not exist|does not end"):
        check_fitted(make_pipeline(StandardScaler(), model))


@pytest.mark.parametrize("count", [-1, 0, 3])
def test_a_tree_with_another_number_of_nodes_than_it_has_is_refused(count):
    X, y = rows()
    model = DecisionTreeRegressor().fit(X, y)
    model.tree_ = with_state(model.tree_, node_count=count)
    with raises(ValueError, "other nodes"):
        check_fitted(model)


def test_trees_on_other_features_are_refused():
    X, y = rows()
    model = RandomForestRegressor(2).fit(X, y)
    model.n_features_in_ = 2
    with pytest.raises(ValueError, match="other features"):
        check_fitted(model)
    single = DecisionTreeRegressor().fit(X, y)
    single.n_features_in_ = 2
    with pytest.raises(ValueError, match="other features"):
        check_fitted(single)
    model.estimators_ = [object()]
    with pytest.raises(ValueError, match="no tree"):
        check_fitted(model)


@pytest.mark.parametrize(
    ("column", "value"),
    [("left", 10**6), ("right", 0), ("feature_idx", 3), ("feature_idx", -1), ("bitset_idx", 9)],
)
def test_forged_boosted_trees_are_refused(column, value):
    X, y = rows()
    X = np.round(9 * X)
    y = y + 5 * (X[:, 0] % 2)  # so that the first split is on categories
    model = HistGradientBoostingRegressor(max_iter=2, categorical_features=[0]).fit(X, y)
    nodes = model._predictors[0][0].nodes
    assert nodes["is_categorical"][0]
    nodes[column][0] = value
    with pytest.raises(ValueError, match=r"does not exist|do not exist|does not end"):
        check_fitted(model)


def test_boosted_trees_with_a_forged_preparation_are_refused():
    X, y = rows()
    model = HistGradientBoostingRegressor(max_iter=2).fit(X, y)
    model._preprocessor = StandardScaler()
    with pytest.raises(ValueError, match="unknown way"):
        check_fitted(model)
    model._preprocessor = None
    model._bin_mapper.is_categorical_ = np.zeros(1)
    with pytest.raises(ValueError, match="other features"):
        check_fitted(model)


@pytest.mark.extra
def test_boosted_trees_on_categories_of_a_frame_pass():
    import pandas as pd

    X, y = rows()
    for columns in ({"a": X[:, 0], "k": "category"}, {"k": "category"}):
        frame = pd.DataFrame(columns | {"k": pd.Categorical(np.round(3 * X[:, 1]))})
        check_fitted(HistGradientBoostingRegressor(max_iter=2).fit(frame, y))


def stochtree_tree():
    return {
        "category_list": [],
        "category_list_begin": [0] * 5,
        "category_list_end": [0] * 5,
        "deleted_nodes": [],
        "has_categorical_split": False,
        "internal_nodes": [0, 2],
        "is_log_scale": False,
        "leaf_parents": [2],
        "leaf_value": [0.0, 0.1, 0.0, 1.0, 2.0],
        "leaf_vector": [],
        "leaf_vector_begin": [0] * 5,
        "leaf_vector_end": [0] * 5,
        "leaves": [1, 3, 4],
        "left": [1, -1, 3, -1, -1],
        "node_deleted": [False] * 5,
        "node_type": [1, 0, 1, 0, 0],
        "num_deleted_nodes": 0,
        "num_nodes": 5,
        "output_dimension": 1,
        "parent": [-1, 0, 0, 2, 2],
        "right": [2, -1, 4, -1, -1],
        "split_index": [0, -1, 1, -1, -1],
        "threshold": [0.5] * 5,
    }


def stochtree_forests():
    said = {"is_leaf_constant": True, "output_dimension": 1, "is_exponentiated": False}
    said["num_trees"] = 2
    forest = said | {"tree_0": stochtree_tree(), "tree_1": stochtree_tree()}
    return said | {"num_samples": 1, "initialized": True, "forest_0": forest}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left", [1, -1, 9, -1, -1]),
        ("left", [1, -1, 0, -1, -1]),
        ("left", [1, -1, -5, -1, -1]),
        ("left", [1, -1, 3.0, -1, -1]),
        ("right", [2, -1, 2, -1, -1]),
        ("right", [2, -1, 6, -1, -1]),  # a node of the next tree
        ("split_index", [0, -1, 2, -1, -1]),
        ("threshold", [0.5]),
        ("threshold", ["a"] * 5),
        ("threshold", [float("nan")] * 5),
        ("node_type", [1, 0, 2, 0, 0]),
        ("has_categorical_split", True),
        ("category_list", [1]),
        ("category_list_end", [10**9] * 5),
        ("leaf_vector_end", [10**9] * 5),
        ("output_dimension", 3),
        ("leaves", [1, 3, 40]),
        ("parent", [-1, 0, 0, 20, 2]),
        ("num_nodes", 10**9),
        ("num_deleted_nodes", -1),
        ("unknown", 1),
    ],
)
@pytest.mark.parametrize("tree", ["tree_0", "tree_1"])
def test_forged_trees_of_stochtree_are_refused(tree, name, value):
    forged = stochtree_forests()
    assert json.loads(canonical_stochtree(json.dumps(forged), 2, False, 2)) == forged
    forged["forest_0"][tree][name] = value
    with pytest.raises(ValueError, match=r"does not exist|does not end|other nodes|else|Out of"):
        canonical_stochtree(json.dumps(forged), 2, False, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"num_samples": 2},
        {"num_samples": 0},
        {"num_samples": 1.0},
        {"num_trees": 3},
        {"output_dimension": 2},
        {"is_leaf_constant": False},
        {"is_exponentiated": True},
        {"forest_7": {}},
        {"forest_0": {}},
    ],
)
def test_forged_forests_of_stochtree_are_refused(change):
    forged = stochtree_forests() | change
    with pytest.raises((ValueError, KeyError)):
        canonical_stochtree(json.dumps(forged), 2, False, 2)
    if "num_samples" not in change:
        forged = stochtree_forests()
        forged["forest_0"] |= change
        with pytest.raises((ValueError, KeyError)):
            canonical_stochtree(json.dumps(forged), 2, False, 2)


LIGHTGBM = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=a b
feature_infos=1:2 [0:1]
tree_sizes=7

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
threshold=0.0 0.5
decision_type=1 2
left_child=1 -1
right_child=-3 -2
leaf_value=1.0 2.0 3.0
cat_boundaries=0 1
cat_threshold=5
is_linear=0


end of trees
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("left_child=1 -1", "left_child=7 -1"),
        ("left_child=1 -1", "left_child=0 -1"),
        ("left_child=1 -1", "left_child=-9 -1"),
        ("left_child=1 -1", "left_child=1"),
        ("split_feature=0 1", "split_feature=0 2"),
        ("leaf_value=1.0 2.0 3.0", "leaf_value=1"),
        ("threshold=0.0 0.5", "threshold=3 0.5"),
        ("threshold=0.0 0.5", "threshold=0"),
        ("cat_boundaries=0 1", "cat_boundaries=0 900"),
        ("is_linear=0", "is_linear=1"),
        ("Tree=0", "Wood=0"),
        ("Tree=0", "Tree=1"),
        ("decision_type=1 2", "decision_type=1 12"),
        ("cat_threshold=5", "cat_threshold=-5"),
        ("num_leaves=3", "num_leaves=3\nnum_leaves=3"),
        ("num_leaves=3", "num_leaves=3\nx=3"),
        ("num_leaves=3", "num_leaves=\r3"),
        ("version=v4", "version=v9"),
        ("num_class=1", "num_class=2"),
        ("num_class=1", "num_class=0"),
        ("max_feature_idx=1", "max_feature_idx=2"),
        ("feature_names=a b", "feature_names=a b c"),
        ("feature_names=a b", "feature_names=a  b"),
        ("feature_infos=1:2 [0:1]", "feature_infos=1:2 x"),
        ("objective=regression", "objective=multiclass num_class:2"),
        ("objective=regression", "objective=binary sigmoid:-1"),
        ("objective=regression", "objective=mystery"),
    ],
)
def test_forged_models_of_lightgbm_are_refused(old, new):
    assert old in canonical_lightgbm(LIGHTGBM)
    with pytest.raises((ValueError, KeyError)):
        canonical_lightgbm(LIGHTGBM.replace(old, new, 1))
