from importlib import import_module

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from engines_for_tests import ConstantNormal
from helpers import assert_close, raises
from locuscore import Locus, prediction_column
from locuscore._inputs.losses import resolve_loss
from locuscore._inputs.opinion import Labelled
from locuscore._inputs.outputs import Outputs
from locuscore._inputs.signals import fit_signals


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 4))
    return X, X[:, 0] ** 2 + rng.normal(size=120)


def asked(predictor, X, choice="all"):
    return Outputs.of(predictor, X, for_signals=choice == "all")


def learned(choice, outputs):
    """Signals learned from losses that are all the same, on which nobody has an opinion."""
    labelled = Labelled(resolve_loss("absolute"), np.zeros(len(outputs)))
    return fit_signals(choice, outputs, labelled, 0)[0]


def signals_of(predictor, X, choice="all"):
    outputs = asked(predictor, X, choice)
    return learned(choice, outputs)(outputs)


def naive(outputs):
    """Mean and standard deviation over members, by numpy: (members, n, outputs) -> columns."""
    stacked = np.array([np.asarray(output).reshape(len(output), -1) for output in outputs])
    return np.hstack([stacked.mean(axis=0), stacked.std(axis=0)])


def member_outputs(g, X):
    """Predictions of each member, the slow way."""
    if isinstance(g, BaggingRegressor):
        pairs = zip(g.estimators_, g.estimators_features_, strict=True)
        return [member.predict(X[:, features]) for member, features in pairs]
    return [member.predict(X) for member in g.estimators_]


ENSEMBLES = [
    RandomForestRegressor(12, random_state=0),
    RandomForestRegressor(12, random_state=0, n_jobs=2),
    RandomForestRegressor(12, random_state=0, max_samples=0.5, criterion="absolute_error"),
    ExtraTreesRegressor(7, random_state=0, n_jobs=2, min_samples_leaf=5),
    BaggingRegressor(DecisionTreeRegressor(), 8, random_state=0),
    BaggingRegressor(Ridge(), 8, max_features=0.5, random_state=0),
    VotingRegressor([("a", Ridge()), ("b", DecisionTreeRegressor(max_depth=3, random_state=0))]),
    VotingRegressor([("a", Ridge()), ("b", "drop"), ("c", LinearRegression())]),
    RandomForestRegressor(1, random_state=0),
]


def assert_members(predictor, ensemble, X, inside=None):
    """The default signals are x, the prediction and the spread over the ensemble's members."""
    S = signals_of(predictor, X)
    expected = naive(member_outputs(ensemble, X if inside is None else inside))
    half = expected.shape[1] // 2
    assert S.shape == (X.shape[0], X.shape[1] + 2 * half)
    assert_close(S[:, : X.shape[1]], X.toarray() if sparse.issparse(X) else X)
    assert_close(S[:, X.shape[1] :], expected, rtol=1e-10, atol=1e-12)
    prediction = S[:, X.shape[1] : X.shape[1] + half]
    assert_close(prediction, predictor.predict(X).reshape(len(S), -1), rtol=1e-12)


@pytest.mark.parametrize("g", ENSEMBLES)
def test_members_of_averaging_ensembles(g, data):
    X, y = data
    assert_members(g.fit(X, y), g, X)


@pytest.mark.parametrize("g", [ENSEMBLES[0], ENSEMBLES[5], ENSEMBLES[6]])
def test_members_in_parallel(g, data):
    X, y = data
    g = clone(g).fit(X, y)
    alone = signals_of(g, X)
    assert_close(signals_of(g.set_params(n_jobs=2), X), alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("g", [ENSEMBLES[0], ENSEMBLES[5], ENSEMBLES[6]])
def test_members_at_the_end_of_a_pipeline(g, data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), MinMaxScaler(), g).fit(X, y)
    assert_members(pipeline, pipeline[-1], X, pipeline[:-1].transform(X))
    alone = make_pipeline(g).fit(X, y)
    assert_members(alone, alone[-1], X)


def test_members_inside_a_search(data):
    X, y = data
    grid = {"max_depth": [2, 4]}
    search = GridSearchCV(RandomForestRegressor(5, random_state=0), grid, cv=2).fit(X, y)
    assert_members(search, search.best_estimator_, X)


@pytest.mark.parametrize("g", [ENSEMBLES[0], ENSEMBLES[3], ENSEMBLES[4]])
def test_members_with_several_outputs(g, data):
    X, y = data
    assert_members(g.fit(X, np.column_stack([y, 10 * X[:, 1], y**2])), g, X)


@pytest.mark.parametrize("g", [ENSEMBLES[1], ENSEMBLES[5]])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_members_on_sparse_rows(g, kind, data):
    X, y = data
    X = kind(np.where(X > 0.5, X, 0.0))
    assert_members(g.fit(X, y), g, X)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_members_on_other_numbers(dtype, data):
    X, y = data
    X = (3 * X).astype(dtype)
    g = ENSEMBLES[0].fit(X, y)
    assert_members(g, g, X)


def test_the_spread_vanishes_exactly_where_members_agree(data):
    X, y = data
    g = RandomForestRegressor(9, random_state=0).fit(X, np.full(len(y), 1e9 + 0.5))
    assert_close(signals_of(g, X)[:, -1], np.zeros(len(X)))


def test_missing_values_pass_through_a_forest(data):
    X, y = data
    X[::7, 1] = np.nan
    g = RandomForestRegressor(5, random_state=0).fit(X, y)
    assert_members(g, g, X)


@pytest.mark.parametrize(
    ("transformation", "back"),
    [
        ({"func": np.cbrt, "inverse_func": lambda t: t**3}, lambda t: t**3),
        ({"transformer": StandardScaler()}, None),
    ],
)
def test_members_of_a_transformed_target(transformation, back, data):
    X, y = data
    forest = make_pipeline(StandardScaler(), RandomForestRegressor(6, random_state=0))
    g = TransformedTargetRegressor(forest, **transformation).fit(X, y)
    back = back or (lambda t: g.transformer_.inverse_transform(t[:, None])[:, 0])
    inner = g.regressor_
    outputs = [back(tree.predict(inner[0].transform(X))) for tree in inner[-1].estimators_]
    S = signals_of(g, X)
    assert_close(S[:, 4], g.predict(X), rtol=1e-12)
    assert_close(S[:, 5], np.std(outputs, axis=0), rtol=1e-9, atol=1e-12)
    assert S.shape[1] == 6


class Median(RandomForestRegressor):
    """A forest that does not predict the mean of its members."""

    def predict(self, X):
        return np.median([tree.predict(X) for tree in self.estimators_], axis=0)


@pytest.mark.parametrize(
    "g",
    [
        Ridge(),
        make_pipeline(StandardScaler(), Ridge()),
        TransformedTargetRegressor(Ridge(), func=np.cbrt, inverse_func=lambda t: t**3),
        VotingRegressor([("a", Ridge()), ("b", LinearRegression())], weights=[1, 3]),
        Median(5, random_state=0),
    ],
)
def test_other_predictors_add_their_output_only(g, data):
    X, y = data
    g.fit(X, y)
    assert_close(signals_of(g, X), np.column_stack([X, g.predict(X)]))


def test_functions_and_their_columns(data):
    X, _ = data
    assert_close(signals_of(lambda X: X[:, 0] > 0, X), np.column_stack([X, X[:, 0] > 0]))
    assert_close(signals_of(lambda X: 2 * X[:, :2], X), np.column_stack([X, 2 * X[:, :2]]))
    assert_close(signals_of(prediction_column(1), X), X)  # it is a column of X already
    assert_close(signals_of(None, X), X)


def test_text_from_a_function_is_encoded_on_the_fitting_rows(data):
    X, _ = data

    def g(X):
        return np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [0, 10])]

    signals = learned("all", asked(g, X))
    new = np.zeros((3, 4))
    new[:, 0] = [-1.0, 1.0, 11.0]
    assert_close(signals(asked(g, new))[:, 4], [0.0, 1.0, np.nan])


def test_classifiers_give_code_margin_and_entropy(data):
    X, y = data
    labels = np.array(["c", "a", "b"])[np.digitize(y, [0.0, 1.0])]
    for g in (LogisticRegression(), make_pipeline(RandomForestClassifier(9, random_state=0))):
        g.fit(X, labels)
        rows = []
        for p in g.predict_proba(X):
            second, first = np.sort(p)[-2:]
            rows.append([np.argmax(p), first - second, -sum(q * np.log(q) for q in p if q > 0)])
        assert_close(signals_of(g, X)[:, 4:], rows, rtol=1e-12, atol=1e-14)


def test_a_classifier_of_one_class(data):
    X, _ = data
    g = RandomForestClassifier(3).fit(X, np.full(len(X), "only"))
    assert_close(signals_of(g, X)[:, 4:], np.tile([0.0, 1.0, 0.0], (len(X), 1)))


def test_a_classifier_with_several_outputs(data):
    X, y = data
    labels = np.column_stack([y > 0, X[:, 1] > 0]).astype(int)
    g = RandomForestClassifier(5, random_state=0).fit(X, labels)
    own = signals_of(g, X)[:, 4:]
    assert own.shape == (len(X), 6)
    assert_close(own[:, [0, 3]], g.predict(X))


def test_a_classifier_without_probabilities_gives_its_code(data):
    X, y = data
    g = LinearSVC().fit(X, np.where(y > 0, "yes", "no"))
    assert_close(signals_of(g, X)[:, 4], g.predict(X) == "yes")


def test_x_alone_never_calls_the_predictor(data):
    X, _ = data

    def g(X):
        raise AssertionError("not to be called")

    assert_close(signals_of(g, X, "x"), X)


def test_an_embedding_is_all_the_engine_sees(data):
    X, y = data
    locus = Locus(Ridge().fit(X, y), engine=ConstantNormal(), signals=lambda X: X[:, :2] ** 2)
    locus.fit(X, y)
    assert_close(locus.row_signals(X), X[:, :2] ** 2)


@pytest.mark.parametrize(
    ("embed", "shape"), [(lambda X: X[:, 0], "(120,)"), (lambda X: X[:3], "(3, 4)")]
)
def test_embeddings_of_the_wrong_shape(embed, shape, data):
    X, _ = data
    with raises(ValueError, "per row of X", f"got {shape}"):
        signals_of(None, X, embed)


@pytest.mark.parametrize("choice", ["X", None, 3])
def test_unknown_choices(choice, data):
    with raises(ValueError, "signals", "'all'", "'x'", "function"):
        signals_of(None, data[0], choice)


@pytest.mark.parametrize("choice", ["all", "x"])
def test_infinity_in_x_is_refused_by_column(choice, data):
    X, _ = data
    outputs = asked(lambda X: np.zeros(len(X)), X)
    signals = learned(choice, outputs)
    X[3, 1], X[5, 2] = np.inf, -np.inf
    with raises(ValueError, "infinity", "[1, 2]"):
        signals(outputs)


def test_infinity_in_an_embedding_is_refused(data):
    X, _ = data
    with raises(ValueError, "infinity", "[0]"):
        signals_of(None, X, lambda X: np.full((len(X), 1), np.inf))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_predictions_that_are_no_numbers_are_refused(value, data):
    X, _ = data

    def g(X):
        return np.where(X[:, 0] > 9, value, 0.0)

    signals = learned("all", asked(g, X))
    new = np.zeros((2, 4))
    assert_close(signals(asked(g, new)), np.zeros((2, 5)))
    new[1, 0] = 10.0
    with raises(ValueError, "predictor", "1 rows out of 2"):
        signals(asked(g, new))


@pytest.mark.extra
def test_infinity_in_a_frame_is_refused_by_name():
    X = import_module("pandas").DataFrame({"a": [1.0, 2.0], "b": [np.inf, 0.0]})
    with raises(ValueError, "infinity", "['b']"):
        signals_of(None, X)


@pytest.mark.extra
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("g", [ENSEMBLES[0], ENSEMBLES[5], ENSEMBLES[6]])
def test_members_on_frames(library, g, data):
    X, y = data
    names = ["a", "b", "c", "d"]
    frame = import_module(library).DataFrame({name: X[:, j] for j, name in enumerate(names)})
    g.fit(frame, y)
    S = signals_of(g, frame)
    assert_close(S[:, 4], g.predict(frame), rtol=1e-12)
    if not isinstance(g, VotingRegressor):
        assert_close(S[:, 4:], naive(member_outputs(g, X)), rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        signals_of(g, frame[names[::-1]])
