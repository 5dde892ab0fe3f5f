"""Trees in one set of arrays lead each row to the leaf that scikit-learn finds, to the last bit."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

from locuscore._shared import boosting
from locuscore._shared.boosting import FEW_ROWS, BoostedClasses, BoostedTrees
from locuscore._shared.flat_trees import (
    FlatBoosting,
    FlatTrees,
    _Nodes,
    flat_boosting,
    flat_forest,
)

N = 400


@pytest.fixture
def rows(rng):
    """Rows with missing values, ties, and values beyond single precision."""
    X = rng.normal(size=(N, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 1] = np.round(X[:, 1], 1)
    X[::50, 2] = 1e300
    return X


def each_few(predict, X):
    sizes = [1, 2, 7, FEW_ROWS]
    starts = np.cumsum([0, *sizes])
    return np.concatenate([predict(X[a:b]) for a, b in pairwise(starts)])


def test_boosted_numbers_are_those_of_scikit_learn(rows, rng):
    y = 1e4 * np.nan_to_num(rows[:, 0]) + rng.normal(size=N)
    model = BoostedTrees(max_iter=30, random_state=0).fit(rows, y)
    few = each_few(model.predict, rows)
    plain = HistGradientBoostingRegressor._raw_predict(model, rows)[:, 0]
    assert flat_boosting(model) is not None
    assert np.array_equal(few, plain[: len(few)])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosted_classes_are_those_of_scikit_learn(rows, rng, n_classes):
    codes = rng.integers(n_classes, size=N)
    model = BoostedClasses(max_iter=10, random_state=0).fit(rows, codes)
    few = each_few(model.predict_proba, rows)
    many = model.predict_proba(rows)
    assert flat_boosting(model) is not None
    assert np.array_equal(few, many[: len(few)])


def test_a_tree_of_categories_is_left_to_scikit_learn(rng):
    X = np.column_stack([rng.integers(6, size=N), rng.normal(size=N)]).astype(np.float64)
    y = np.isin(X[:, 0], [1, 4]) + 0.1 * X[:, 1]
    model = BoostedTrees(max_iter=5, categorical_features=[0], random_state=0).fit(X, y)
    assert flat_boosting(model) is None
    assert np.array_equal(model.predict(X[:3]), model.predict(X)[:3])


def test_other_rows_are_left_to_scikit_learn(rows):
    model = BoostedTrees(max_iter=5).fit(rows, np.nan_to_num(rows[:, 0]))
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict(rows[:1, :3])
    few = rows[1:4].astype(np.float32)
    assert np.array_equal(model.predict(few), model.predict(few.astype(np.float64)))


def test_a_model_that_is_fitted_again_is_seen_again(rows, rng):
    y = rng.normal(size=N)
    model = BoostedTrees(max_iter=5, warm_start=True, random_state=0).fit(rows, y)
    first = model.predict(rows[:2])
    model.set_params(max_iter=40).fit(rows, y)
    assert not np.array_equal(first, model.predict(rows[:2]))
    assert np.array_equal(model.predict(rows)[:2], model.predict(rows[:2]))


def test_a_model_is_pickled_without_its_arrays(rows):
    model = BoostedClasses(max_iter=5).fit(rows, np.isnan(rows[:, 0]))
    assert isinstance(model, HistGradientBoostingClassifier)
    before = len(pickle.dumps(model))
    model.predict_proba(rows[:1])
    assert len(pickle.dumps(model)) == before


def test_what_only_a_forged_archive_holds_is_left_to_scikit_learn(rows, rng):
    """Thresholds that are NaN, and a start in another precision."""
    model = BoostedTrees(max_iter=5, random_state=0).fit(rows, rng.normal(size=N))
    assert FlatBoosting.of(model) is not None
    model._baseline_prediction = model._baseline_prediction.astype(np.float32)
    assert FlatBoosting.of(model) is None
    model._baseline_prediction = model._baseline_prediction.astype(np.float64)
    nodes = model._predictors[0][0].nodes
    nodes["num_threshold"][nodes["is_leaf"] == 0] = np.nan
    assert FlatBoosting.of(model) is None


def test_many_trees_take_no_more_memory(rows, rng, monkeypatch):
    """Rows are taken a few at a time where each takes much."""
    model = BoostedTrees(max_iter=20, random_state=0).fit(rows, rng.normal(size=N))
    sizes = []
    raw = FlatBoosting.raw
    monkeypatch.setattr(boosting, "machine_code", lambda n: object())
    monkeypatch.setattr(boosting, "FLOATS", 3 * 20 * 50)
    monkeypatch.setattr(FlatBoosting, "raw", lambda self, X: sizes.append(len(X)) or raw(self, X))
    expected = HistGradientBoostingRegressor._raw_predict(model, rows)
    assert np.array_equal(model._raw_predict(rows), expected)
    assert max(sizes) == 50


def test_a_forest_leads_to_the_same_leaves(rows, rng):
    y = np.column_stack([np.nan_to_num(rows[:, 0]), rng.normal(size=N)])
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    single[np.isinf(single)] = np.float32(3e38)
    forest = RandomForestRegressor(20, min_samples_leaf=2, random_state=0).fit(single, y)
    flat = flat_forest(forest)
    first = np.cumsum([0, *(tree.tree_.node_count for tree in forest.estimators_[:-1])])
    # Values at the thresholds themselves, and those next to them, go where they should.
    edge = forest.estimators_[0].tree_.threshold.astype(np.float32)
    for step in (-np.inf, np.inf):
        at = np.nextafter(edge, np.float32(step))
        single = np.vstack([single, np.tile(at[:, None], (1, 4)), np.tile(edge[:, None], (1, 4))])
    expected = np.column_stack([tree.tree_.apply(single) for tree in forest.estimators_])
    assert np.array_equal(flat.node[flat.ends(single)] - first, expected)


def test_one_leaf_is_a_tree():
    forest = RandomForestRegressor(3, random_state=0).fit(np.zeros((9, 1)), np.ones(9))
    flat = flat_forest(forest)
    assert flat.depth == 0
    assert np.array_equal(flat.ends(np.zeros((2, 1), dtype=np.float32)), [[0, 1, 2]] * 2)


@pytest.mark.parametrize(
    ("left", "right", "feature"),
    [
        ([1, 0, -1], [2, 2, -1], 0),  # back to the root
        ([1, -1, -1], [1, -1, -1], 0),  # one child twice
        ([1, -1, -1], [2, -1, -1], 7),  # a feature that there is not
    ],
)
def test_what_is_no_tree_is_not_followed(left, right, feature):
    nodes = _Nodes(
        np.array(left),
        np.array(right),
        np.array(left) != -1,
        np.full(3, feature),
        np.zeros(3),
        np.zeros(3, dtype=np.bool_),
    )
    assert FlatTrees.of([nodes], 2) is None
