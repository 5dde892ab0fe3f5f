import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from engines_for_tests import ConstantNormal
from helpers import assert_close, raises, warns
from locuscore import Locus, LocusWarning, cost, pinball, prediction_column
from locuscore._inputs.losses import finite_support, resolve_loss, resolve_support


def fitted(loss, predictor, X, y, **kwargs):
    return Locus(predictor, loss=loss, engine=ConstantNormal(), random_state=0, **kwargs).fit(X, y)


@pytest.fixture
def regression(rng):
    X = rng.normal(size=(40, 2))
    return X, X[:, 0] + rng.normal(size=40)


@pytest.fixture
def classes(rng):
    X = rng.normal(size=(60, 2))
    y = np.array(["cat", "ant", "bee"])[np.digitize(X[:, 0] + rng.normal(size=60), [-0.5, 0.5])]
    return X, y, LogisticRegression().fit(X, y)


@pytest.mark.parametrize(
    ("loss", "one"),
    [
        ("absolute", lambda y, g: abs(y - g)),
        ("squared", lambda y, g: (y - g) ** 2),
        (pinball(0.9), lambda y, g: 0.9 * (y - g) if y >= g else 0.1 * (g - y)),
        (pinball(0.2), lambda y, g: 0.2 * (y - g) if y >= g else 0.8 * (g - y)),
        (lambda y, g: np.maximum(y - g, 0.0), lambda y, g: max(y - g, 0.0)),
    ],
)
def test_losses_of_numbers_equal_a_loop(loss, one, regression):
    X, y = regression
    locus = fitted(loss, lambda X: 0.5 * X[:, 0], X, y)
    expected = [one(target, 0.5 * row[0]) for row, target in zip(X, y, strict=True)]
    assert_close(locus.losses(X, y), expected, rtol=1e-14)


def test_zero_one_compares_labels(classes):
    X, y, g = classes
    expected = [float(a != b) for a, b in zip(y, g.predict(X), strict=True)]
    locus = fitted("zero_one", g, X, y)
    assert_close(locus.losses(X, y), expected)
    assert set(locus.loss_bound(X, alpha=0.3)) <= {0.0, 1.0}


def test_zero_one_refuses_to_compare_text_with_numbers(classes):
    X, y, _ = classes
    with raises(ValueError, "text"):
        fitted("zero_one", lambda X: np.zeros(len(X), dtype=int), X, y)


def test_log_and_brier_read_probabilities(classes):
    X, y, g = classes
    assert list(g.classes_) == ["ant", "bee", "cat"]
    log, brier = [], []
    for row, label in zip(X, y, strict=True):
        probabilities = g.predict_proba(row[None])[0]
        log.append(-np.log(probabilities[list(g.classes_).index(label)]))
        brier.append(
            sum((p - (c == label)) ** 2 for p, c in zip(probabilities, g.classes_, strict=True))
        )
    assert_close(fitted("log", g, X, y).losses(X, y), log, rtol=1e-12)
    assert_close(fitted("brier", g, X, y).losses(X, y), brier, rtol=1e-12)


def test_probabilities_may_come_from_a_function(classes):
    X, y, g = classes
    codes = np.searchsorted(g.classes_, y)
    by_function = fitted("log", g.predict_proba, X, codes)
    assert_close(by_function.losses(X, codes), fitted("log", g, X, y).losses(X, y))


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_certain_probabilities_stay_inside_the_support(loss):
    just_above = np.nextafter(1.0, 2.0)
    table = np.array([[just_above, 0.0], [1.0, 1e-4], [0.0, 1.0]] * 10)
    X, y = np.arange(30.0)[:, None], np.array([0, 1, 0] * 10)
    locus = fitted(loss, lambda X: table[X[:, 0].astype(int)], X, y)
    z = locus.losses(X, y)
    top = -np.log(np.finfo(float).eps) if loss == "log" else 2.0
    assert z.min() == 0.0
    assert_close(z[2], top, rtol=1e-12)


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ([[2.0, -1.0]], "add up to 1"),
        ([[3.0, 1.0]], "scores instead"),
        ([[np.nan, np.nan]], "add up to 1"),
    ],
)
def test_scores_are_no_probabilities(table, match):
    X, y = np.zeros((20, 1)), np.zeros(20, dtype=int)
    with pytest.raises(ValueError, match=match):
        fitted("log", lambda X: np.repeat(table, len(X), axis=0), X, y)


def test_a_class_beyond_the_probabilities_is_named():
    X, y = np.zeros((20, 1)), np.full(20, 2)
    with raises(ValueError, "2 classes", "class number 2", "y"):
        fitted("brier", lambda X: np.full((len(X), 2), 0.5), X, y)


def test_probabilities_of_the_wrong_shape():
    X, y = np.zeros((20, 1)), np.zeros(20, dtype=int)
    with raises(ValueError, "(20, classes)", "got (20,)"):
        fitted("log", lambda X: np.full(len(X), 0.5), X, y)


def test_one_class_has_no_log_loss():
    X, y = np.zeros((20, 1)), np.zeros(20, dtype=int)
    locus = fitted("log", lambda X: np.ones((len(X), 1)), X, y)
    assert_close(locus.losses(X, y), np.zeros(20))


def test_log_needs_predict_proba(classes, regression):
    X, y, _ = classes

    class Labels:
        def predict(self, X):
            return y

    with raises(TypeError, "Labels", "predict_proba"):
        fitted("log", Labels(), X, y)


def test_cost_follows_the_order_of_classes(classes):
    X, y, g = classes
    matrix = [[0, 1, 5], [2, 0, 7], [10, 3, 0]]
    position = {"ant": 0, "bee": 1, "cat": 2}
    expected = [matrix[position[a]][position[b]] for a, b in zip(y, g.predict(X), strict=True)]
    locus = fitted(cost(matrix), g, X, y)
    assert_close(locus.losses(X, y), expected)
    assert set(locus.loss_bound(X, alpha=[0.5, 0.2]).ravel()) <= {0, 1, 2, 3, 5, 7, 10}


def test_cost_without_classes_takes_whole_numbers():
    X, y = np.zeros((20, 1)), np.array([0, 1] * 10)
    locus = fitted(cost([[0, 4], [1, 0]]), lambda X: np.zeros(len(X), dtype=int), X, y)
    assert_close(locus.losses(X, y), [0.0, 1.0] * 10)
    with raises(ValueError, "0, 1, 2"):
        fitted(cost([[0, 4], [1, 0]]), lambda X: np.zeros(len(X)), X, y)
    with raises(ValueError, "2 classes", "class number 3"):
        fitted(cost([[0, 4], [1, 0]]), lambda X: np.full(len(X), 3), X, y)


def test_classes_the_predictor_does_not_know(classes):
    X, y, g = classes
    with raises(ValueError, "['dog']", "expected"):
        fitted("log", g, X, np.where(y == "ant", "dog", y))


@pytest.mark.parametrize("matrix", [[[0, 1]], [1, 2], [[0, np.nan], [1, 0]]])
def test_bad_cost_matrices(matrix):
    with raises(ValueError, "square", "finite"):
        cost(matrix)


@pytest.mark.parametrize("level", [0, 1, -0.5, float("nan")])
def test_bad_pinball_levels(level):
    with raises(ValueError, "between 0 and 1"):
        pinball(level)


def test_unknown_losses():
    with raises(ValueError, "'mae'", "'absolute'"):
        resolve_loss("mae")
    with raises(TypeError, "name", "function"):
        resolve_loss(3)


@pytest.mark.parametrize("loss", [pinball(0.9), cost([[0, 1], [2, 0]])])
def test_losses_with_parameters_survive_pickle(loss):
    again = pickle.loads(pickle.dumps(loss))
    y, g = np.array([0, 1, 1]), np.array([1, 0, 1])
    assert_close(again(y, g), loss(y, g))
    assert repr(again) == repr(loss)


def test_a_declared_interval_tops_the_bound(regression):
    X, y = regression
    bounded = fitted("absolute", lambda X: X[:, 0], X, y, support=(0, 50))
    with warns(LocusWarning, "top of the support, 50"):
        assert_close(bounded.loss_bound(X, alpha=0.001), np.full(len(X), 50.0))


def test_a_declared_set_gives_attainable_bounds(rng):
    X = rng.normal(size=(60, 1))
    y = rng.integers(0, 4, size=60)
    locus = fitted("absolute", lambda X: np.zeros(len(X)), X, y, support={0, 1, 2, 3})
    assert set(locus.loss_bound(X, alpha=[0.8, 0.5, 0.1]).ravel()) <= {0.0, 1.0, 2.0, 3.0}


def test_negative_losses_are_allowed_or_not_by_the_support(regression):
    X, y = regression

    def signed(y, g):
        return y - g

    free = fitted(signed, lambda X: X[:, 0], X, y)
    assert free.losses(X, y).min() < 0
    with raises(ValueError, "[0, inf]", "instance -"):
        fitted(signed, lambda X: X[:, 0], X, y, support=(0, np.inf))
    with raises(ValueError, "{0, 1}"):
        fitted(signed, lambda X: X[:, 0], X, y, support={0, 1})


@pytest.mark.parametrize(
    ("support", "match"),
    [
        (set(), "at least one value"),
        ({0.0, np.inf}, "all finite"),
        ((1, 0), "low < high"),
        ((0, np.nan), "low < high"),
        ((0, 1, 2), "a tuple"),
        (3, "a tuple"),
        ("ab", "a tuple"),
    ],
)
def test_bad_supports(support, match):
    with pytest.raises(ValueError, match=match):
        resolve_support(support, finite_support([0]))


def test_supports_are_described_as_people_write_them():
    assert str(resolve_support((0, np.inf), finite_support([0]))) == "[0, inf]"
    assert str(resolve_support(range(3), finite_support([0]))) == "{0, 1, 2}"


def test_a_list_is_a_set_of_values_and_a_tuple_an_interval():
    assert str(resolve_support([0, 1], None)) == "{0, 1}"
    assert str(resolve_support((0, 1), None)) == "[0, 1]"


def test_cost_is_compared_with_the_classes_of_the_predictor(classes):
    X, y, g = classes
    with raises(ValueError, "2 classes", "3: ['ant', "):
        fitted(cost([[0, 4], [1, 0]]), g, X, y)
    with raises(ValueError, "2 classes", "`classes` has 3"):
        cost([[0, 4], [1, 0]], classes=["a", "b", "c"])


def test_cost_of_stored_labels_names_its_classes():
    X = np.column_stack([np.arange(60.0), np.resize(["no", "yes"], 60)]).astype(object)
    y = np.resize(["yes", "yes", "no"], 60)
    matrix = np.array([[0.0, 3.0], [8.0, 0.0]])
    locus = fitted(cost(matrix, classes=["no", "yes"]), prediction_column(1), X, y)
    slow = [matrix[int(t == "yes"), int(p == "yes")] for t, p in zip(y, X[:, 1], strict=True)]
    assert_close(locus.losses(X, y), slow)


def test_log_loss_has_no_negative_zero():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert not np.signbit(resolve_loss("log")(np.array([0, 1]), sure)).any()
