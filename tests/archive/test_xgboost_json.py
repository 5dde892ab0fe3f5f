"""An xgboost model written anew from its numbers predicts the same bits; no other gets through."""

import copy
import json

import numpy as np
import pytest

from helpers import raises
from locuscore._archive.xgboost_json import canonical_xgboost
from locuscore._archive.xgboost_models import read_xgboost, xgboost_parts
from locuscore._archive.xgboost_trees import DEEPEST

pytestmark = pytest.mark.extra

rng = np.random.default_rng(0)
N = 300
X = rng.normal(size=(N, 3)) * 10.0 ** rng.integers(-9, 9, size=(N, 1))
X[:, 2] = np.round(rng.uniform(0, 40, size=N))
X[rng.uniform(size=N) < 0.1, 1] = np.nan
Y = np.abs(rng.normal(size=N) + X[:, 2] % 2) + 0.1
CLASSES = (X[:, 2] % 3).astype(int)
TWO = np.column_stack([Y, -Y])
BY_CODES = {"feature_types": ["q", "q", "c"], "tree_method": "hist", "max_cat_to_onehot": 1}

MODELS = {
    "numbers": {},
    "absolute": {"objective": "reg:absoluteerror"},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": 0.9},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
    "poisson": {"objective": "count:poisson"},
    "gamma": {"objective": "reg:gamma"},
    "tweedie": {"objective": "reg:tweedie"},
    "huber": {"objective": "reg:pseudohubererror"},
    "logarithmic": {"objective": "reg:squaredlogerror"},
    "start": {"base_score": 0.25},
    "forest": {"num_parallel_tree": 4, "subsample": 0.5, "colsample_bynode": 0.5},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "monotone": {"monotone_constraints": (1, -1, 0)},
    "categories": {**BY_CODES, "enable_categorical": True},
    "one category at a time": {**BY_CODES, "enable_categorical": True, "max_cat_to_onehot": 99},
    "zeros are missing": {"missing": 0.0},
    "one leaf": {"max_depth": 1, "gamma": 1e9},
    "pruned": {"gamma": 1.0, "tree_method": "exact", "max_depth": 8},
    "leaf by leaf": {"grow_policy": "lossguide", "max_leaves": 9},
    "a loss of its own": {"objective": lambda y, g: (g - y, np.ones_like(g))},
}


def regressor(**settings):
    import xgboost

    return xgboost.XGBRegressor(**{"n_estimators": 5, "n_jobs": 1} | settings)


def classifier(**settings):
    import xgboost

    return xgboost.XGBClassifier(**{"n_estimators": 5, "n_jobs": 1} | settings)


def read_again(model):
    return read_xgboost(*xgboost_parts(model))


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_are_predicted(name):
    model = regressor(**MODELS[name]).fit(X, Y)
    again = read_again(model)
    for margin in (False, True):
        one, other = (each.predict(X, output_margin=margin) for each in (model, again))
        assert one.tobytes() == other.tobytes()
    data, settings = xgboost_parts(model)
    assert xgboost_parts(again)[0] == data
    assert settings["missing"] == 0.0 if "missing" in MODELS[name] else np.isnan(again.missing)
    assert canonical_xgboost(data.decode()).encode() == data
    assert name == "one leaf" or np.ptp(model.predict(X)) > 0


def test_several_outputs_predict_the_same_bits():
    model = regressor().fit(X, TWO)
    assert read_again(model).predict(X).tobytes() == model.predict(X).tobytes()


@pytest.mark.parametrize("objective", [None, "multi:softmax", "multi:softprob"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_predict_the_same_bits(n_classes, objective):
    given = {} if objective is None or n_classes == 2 else {"objective": objective}
    model = classifier(**given).fit(X, CLASSES % n_classes)
    again = read_again(model)
    assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert (again.predict(X) == model.predict(X)).all()
    assert again.classes_.tolist() == list(range(n_classes))


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_only_rounds_that_predict_are_kept(booster):
    held = {"eval_set": [(X[200:], Y[200:])], "verbose": False}
    model = regressor(n_estimators=60, early_stopping_rounds=3, booster=booster, learning_rate=1.0)
    model.fit(X[:200], Y[:200], **held)
    again = read_again(model)
    n_rounds = model.best_iteration + 1
    assert again.get_booster().num_boosted_rounds() == n_rounds
    assert n_rounds < model.get_booster().num_boosted_rounds()
    assert again.predict(X).tobytes() == model.predict(X).tobytes()


@pytest.mark.parametrize("levels", ["text", "int64", "int8"])
def test_columns_of_a_frame_keep_names_and_levels(levels):
    import pandas as pd

    codes = X[:, 2].astype(int) % 11
    texts = np.array([f"level {k}" for k in range(11)])
    kinds = pd.Categorical(texts[codes] if levels == "text" else codes.astype(levels))
    frame = pd.DataFrame({"a b": X[:, 0], "größe": X[:, 1], "kind": kinds})
    y = Y + 3.0 * np.isin(codes, [1, 4, 9])
    model = regressor(enable_categorical=True, max_cat_to_onehot=1).fit(frame, y)
    again = read_again(model)
    assert again.get_booster().feature_names == ["a b", "größe", "kind"]
    assert again.predict(frame).tobytes() == model.predict(frame).tobytes()
    # Other codes of the same levels: they are told by their names.
    levels = np.ascontiguousarray(kinds.categories[::-1])
    other = frame.assign(kind=frame["kind"].cat.reorder_categories(levels))
    assert again.predict(other).tobytes() == model.predict(frame).tobytes()


def test_a_booster_itself_comes_back_as_a_predictor_of_rows():
    import xgboost

    booster = xgboost.train({"max_depth": 2, "nthread": 1}, xgboost.DMatrix(X, Y), 5)
    expected = booster.predict(xgboost.DMatrix(X))
    assert read_again(booster).predict(X).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"booster": "gblinear"}, "'gblinear' are not held, only gbtree and dart"),
        ({"multi_strategy": "multi_output_tree", "tree_method": "hist"}, "vectors in their leaves"),
    ],
)
def test_what_is_not_held_is_said(settings, message):
    model = regressor(**settings).fit(np.nan_to_num(X), TWO)
    with raises(ValueError, message):
        xgboost_parts(model)


# Forged


def parts(model):
    """The parts that the forgeries change: learner, sizes, the trees' model, the first tree."""
    learner = model["learner"]
    trees = learner["gradient_booster"]["model"]
    return learner, learner["learner_model_param"], trees, trees["trees"][0]


def with_categories():
    import pandas as pd

    kinds = pd.Categorical([f"k{int(v) % 7}" for v in X[:, 2]])
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": kinds})
    model = regressor(enable_categorical=True, max_cat_to_onehot=1, n_estimators=2, max_depth=2)
    y = 5.0 * np.isin(kinds.codes, [1, 4])
    return json.loads(xgboost_parts(model.fit(frame, y))[0])


def put(place, name, index, value):
    def change(model):
        parts(model)[place][name][index] = value

    return change


def put_whole(place, name, value):
    def change(model):
        parts(model)[place][name] = value

    return change


def in_levels(name, change):
    def changed(model):
        levels = parts(model)[2]["cats"]
        levels[name] = change(levels[name])

    return changed


TREE, MODEL, SIZES, LEARNER = 3, 2, 1, 0
FORGED = {
    "child far away": put(TREE, "left_children", 0, 10**6),
    "child at the root": put(TREE, "left_children", 0, 0),
    "negative child": put(TREE, "right_children", 0, -2),
    "child of two": put(TREE, "right_children", 0, 1),
    "feature far away": put(TREE, "split_indices", 0, 3),
    "negative feature": put(TREE, "split_indices", 0, -1),
    "fewer parents of numbers": put_whole(TREE, "split_conditions", [1.0]),
    "no nodes": put_whole(TREE, "left_children", []),
    "text for numbers": put_whole(TREE, "base_weights", ["1"] * 7),
    "lists for numbers": put_whole(TREE, "base_weights", [[1.0]] * 7),
    "category far away": put(TREE, "categories", 0, 2**31 - 1),
    "negative category": put(TREE, "categories", 0, -1),
    "category of another node": put(TREE, "categories_nodes", 0, 1),
    "category before the first": put(TREE, "categories_segments", 0, -1),
    "more categories than there are": put(TREE, "categories_sizes", 0, 2**62),
    "no categories": put(TREE, "categories_sizes", 0, 0),
    "unknown split": put(TREE, "split_type", 0, 2),
    "split without its categories": put_whole(TREE, "categories_nodes", []),
    "vectors": put_whole(TREE, "tree_param", {"size_leaf_vector": "100000"}),
    "unknown part": put_whole(TREE, "leaf_weights", [1.0]),
    "group far away": put(MODEL, "tree_info", 0, 1),
    "negative group": put(MODEL, "tree_info", 0, -1),
    "fewer groups": put_whole(MODEL, "tree_info", [0]),
    "no trees": put_whole(MODEL, "trees", []),
    "rounds far away": put(MODEL, "iteration_indptr", 1, 10**6),
    "rounds backwards": put(MODEL, "iteration_indptr", 1, -5),
    "no rounds": put_whole(MODEL, "iteration_indptr", [2]),
    "offset far away": in_levels("enc", lambda e: [*e[:2], e[2] | {"offsets": [0, 10**6]}]),
    "offset backwards": in_levels("enc", lambda e: [*e[:2], e[2] | {"offsets": [0, 5, 2, 14]}]),
    "levels of fewer features": in_levels("enc", lambda e: e[:2]),
    "levels of an unknown type": in_levels("enc", lambda e: [*e[:2], {"type": 7, "values": [1]}]),
    "levels too large": in_levels("enc", lambda e: [*e[:2], {"type": 9, "values": [999]}]),
    "sorted far away": in_levels("sorted_idx", lambda order: [10**6, *order[1:]]),
    "sorted twice": in_levels("sorted_idx", lambda order: [order[1], *order[1:]]),
    "fewer sorted": in_levels("sorted_idx", lambda order: order[1:]),
    "many features": put_whole(SIZES, "num_feature", "2000000000"),
    "fewer features": put_whole(SIZES, "num_feature", "1"),
    "many classes": put_whole(SIZES, "num_class", "1000000000"),
    "many targets": put_whole(SIZES, "num_target", "1000000000"),
    "number for text": put_whole(SIZES, "num_feature", 3),
    "several starts": put_whole(SIZES, "base_score", "[1,2,3]"),
    "no start": put_whole(SIZES, "base_score", "[]"),
    "fewer names": put_whole(LEARNER, "feature_names", ["a"]),
    "unknown types": put_whole(LEARNER, "feature_types", ["x"] * 3),
    "unknown objective": put_whole(LEARNER, "objective", {"name": "x"}),
    "classes of an objective": put_whole(
        LEARNER,
        "objective",
        {"name": "multi:softprob", "softmax_multiclass_param": {"num_class": "1000000"}},
    ),
    "many quantiles": put_whole(
        LEARNER,
        "objective",
        {"name": "reg:quantileerror", "quantile_loss_param": {"quantile_alpha": "[.1,.2]"}},
    ),
    "linear": put_whole(LEARNER, "gradient_booster", {"name": "gblinear", "model": {}}),
    "fewer weights of trees": lambda model: model["learner"].update(
        gradient_booster={
            "name": "dart",
            "gbtree": model["learner"]["gradient_booster"],
            "weight_drop": [1.0],
        }
    ),
}


@pytest.fixture(scope="module")
def sound():
    return with_categories()


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_model_is_refused(name, sound):
    assert canonical_xgboost(json.dumps(sound, ensure_ascii=False)) == json.dumps(sound)
    assert parts(sound)[3]["categories_nodes"] == [0]
    forged = copy.deepcopy(sound)
    FORGED[name](forged)
    assert forged != sound
    with pytest.raises((ValueError, KeyError)):
        canonical_xgboost(json.dumps(forged))


def test_many_small_sets_of_large_categories_are_refused(sound):
    """Each of them makes room for 2 MB."""
    forged = copy.deepcopy(sound)
    model = parts(forged)[2]
    model["trees"][0]["categories"] = [2**24 - 1] * len(model["trees"][0]["categories"])
    n = 100
    model["trees"] = [model["trees"][0]] * n
    model["tree_info"], model["iteration_indptr"] = [0] * n, list(range(n + 1))
    with raises(ValueError, "more categories than there can be"):
        canonical_xgboost(json.dumps(forged))


def path(n_splits):
    """A tree that goes down to the right at every split."""
    n = 2 * n_splits + 1
    left, right = np.full(n, -1), np.full(n, -1)
    left[:-1:2], right[:-1:2] = np.arange(1, n, 2), np.arange(2, n, 2)
    whole = {name: [0] * n for name in ("default_left", "split_indices", "split_type")}
    names = ("base_weights", "loss_changes", "sum_hessian", "split_conditions")
    links = {"left_children": left.tolist(), "right_children": right.tolist()}
    return {"tree_param": {}, **whole, **links, **{name: [-1e30] * n for name in names}}


def unlabelled(booster):
    """Two rows for a model of numbers and categories."""
    import xgboost

    names, types = booster.feature_names, booster.feature_types
    return xgboost.DMatrix(np.ones((2, 3)), feature_names=names, feature_types=types)


def test_a_tree_is_not_deeper_than_recursion_can_go(sound):
    """A path of a million splits was a crash."""
    model = copy.deepcopy(sound)
    trees = parts(model)[MODEL]["trees"]
    trees[0] |= {name: [] for name in trees[0] if name.startswith("categories")} | path(DEEPEST)
    settings = {"kind": "regressor", "missing": float("nan"), "n_jobs": 1}
    again = read_xgboost(json.dumps(model).encode(), settings).get_booster()
    leaves = again.predict(unlabelled(again), pred_leaf=True)
    assert leaves[:, 0].tolist() == [2 * DEEPEST] * 2
    trees[0] |= path(DEEPEST + 1)
    with raises(ValueError, f"more than {DEEPEST} splits deep"):
        canonical_xgboost(json.dumps(model))


def test_nodes_that_no_path_reaches_are_dropped(sound):
    """Two that are each other's child, and a third that says it is the parent of all."""
    forged = copy.deepcopy(sound)
    tree = parts(forged)[3]
    n = len(tree["left_children"])
    for values in tree.values():
        if isinstance(values, list) and len(values) == n:
            values.extend(values[:1] * 4)
    tree["left_children"][n:] = [n + 1, n, -1, -1]
    tree["right_children"][n:] = [n + 2, n + 3, -1, -1]
    tree["split_type"][n:], tree["parents"] = [0] * 4, [10**9] * (n + 4)
    assert canonical_xgboost(json.dumps(forged)) == json.dumps(sound)


@pytest.mark.parametrize("change", [{"kind": "XGBRanker"}, {"missing": "1"}, {"n_jobs": 1.5}])
def test_it_is_called_in_known_ways_only(change):
    data, settings = xgboost_parts(regressor(n_estimators=1).fit(X, Y))
    with raises(ValueError, "unknown way"):
        read_xgboost(data, settings | change)
