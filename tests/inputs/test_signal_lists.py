"""``signals=`` as a list: which columns stand where, their names, and who is asked how often."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor

from helpers import assert_close, raises
from locuscore import Locus, prediction_column
from opinions_for_tests import FEW, classifier, first, kind_of, labels, opinion_of, waves

X, Y = waves(150)
NEW, _ = waves(9, seed=1)
FOREST = RandomForestRegressor(4, max_depth=3, random_state=0).fit(*waves(100, seed=2))
X_NAMES = ["x0", "x1", "x2"]
SAID = ["prediction", "spread of the predictor"]
OPINION = ["second opinion"]


def squares(X):
    return np.asarray(X)[:, :2] ** 2


def sums(X):
    return np.asarray(X).sum(axis=1, keepdims=True)


def fit(signals, predictor=FOREST, **settings):
    given = {"engine": FEW, "random_state": 0} | settings
    return Locus(predictor, signals=signals, **given).fit(X, Y)


def names_of(locus):
    return locus.signals_.names(locus.predictor_, X_NAMES, locus.fit_signals_.shape[1])


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("all", [*X_NAMES, *SAID, *OPINION]),
        ("x", X_NAMES),
        ("predictor", SAID),
        (["x"], X_NAMES),
        (("x", "predictor"), [*X_NAMES, *SAID]),
        (["opinion", "x"], [*X_NAMES, *OPINION]),
        (["opinion", "predictor"], [*SAID, *OPINION]),
        (["predictor", "opinion", "x"], [*X_NAMES, *SAID, *OPINION]),
        (["all", "x"], [*X_NAMES, *SAID, *OPINION]),
        (squares, ["signal 0", "signal 1"]),
        ([squares, sums], ["signal 0", "signal 1", "signal 2"]),
        ([squares, "x"], [*X_NAMES, "signal 0", "signal 1"]),
        (["all", squares], [*X_NAMES, *SAID, "signal 0", "signal 1", *OPINION]),
        ([squares, "opinion"], ["signal 0", "signal 1", *OPINION]),
        ([sums, "predictor", squares], [*SAID, "signal 0", "signal 1", "signal 2"]),
    ],
)
def test_columns_and_their_names(choice, names):
    locus = fit(choice)
    assert names_of(locus) == names
    S = locus.row_signals(NEW)
    # The opinion's columns have one name, and are the last.
    columns = dict(zip(names, S.T, strict=False))
    for j, name in enumerate(X_NAMES):
        if name in columns:
            assert_close(columns[name], NEW[:, j])
    if "prediction" in columns:
        assert_close(columns["prediction"], FOREST.predict(NEW), rtol=1e-12)
    parts = choice if isinstance(choice, list | tuple) else [choice]
    functions = [part(NEW) for part in parts if callable(part)]
    given = [columns[name] for name in names if name.startswith("signal ")]
    assert_close(np.array(given).reshape(-1, 9).T, np.hstack([np.empty((9, 0)), *functions]))
    assert S.shape[1] == len(names) + (OPINION[0] in names)
    if OPINION[0] in names:
        assert_close(S[:, -1], np.abs(S[:, -2]))


def test_the_former_default_is_a_list():
    """x and what g says; a prediction that is a column of x is there once."""
    plain = fit(["x", "predictor"])
    expected = np.column_stack([NEW, FOREST.predict(NEW)])
    assert_close(plain.row_signals(NEW)[:, :4], expected, rtol=1e-12)
    column = fit("all", prediction_column(0))
    assert names_of(column) == [*X_NAMES, *OPINION]
    assert names_of(fit(["predictor", sums], prediction_column(0))) == ["prediction", "signal 0"]


def test_an_opinion_sees_the_functions_columns():
    def told(X):
        """A wave that x and g do not show to trees of a hundred rows as plainly."""
        return np.sin(6 * np.asarray(X)[:, [1]])

    with_it, without = fit(["all", told]), fit("all")
    errors = (Y - FOREST.predict(X))[with_it.fit_rows_]
    unit = with_it.engine_.error_loss_.above
    n_features = [opinion_of(locus).model.n_features_in_ for locus in (with_it, without)]
    assert n_features == [6, 5]
    correction = unit * with_it.fit_signals_[:, -2]
    assert np.corrcoef(correction, errors)[0, 1] > 0.3


def test_opinions_of_functions_alone():
    locus = fit([squares, "opinion"], first)
    assert kind_of(locus) == "ErrorOpinion"
    assert opinion_of(locus).model.n_features_in_ == 2 + 1  # and what g says
    assert locus.signals_.needs_functions
    assert not fit("all").signals_.needs_functions


@pytest.mark.parametrize("choice", [["x", "y"], ["x", 3], ["x", None], [["x"]], {"x"}, b"x", X[:2]])
def test_wrong_entries_are_named(choice):
    with raises(ValueError, "signals must be", "'opinion'", "function of X", "list"):
        fit(choice, first)


@pytest.mark.parametrize("choice", ["opinion", ["opinion"], ("opinion", "opinion")])
def test_an_opinion_on_nothing_is_refused(choice):
    with raises(ValueError, "other signals", "['x', 'opinion']", repr(choice)):
        fit(choice, first)


@pytest.mark.parametrize("choice", [[], ()])
def test_no_signals_at_all_are_refused(choice):
    with raises(ValueError, "empty", "'all'"):
        fit(choice, first)


@pytest.mark.parametrize("choice", ["predictor", ["predictor"], ["predictor", "opinion"]])
def test_what_no_predictor_says_is_refused(choice):
    with raises(ValueError, "this Locus has none", "'x'"):
        Locus(signals=choice).fit_losses(X, np.abs(Y))


@pytest.mark.parametrize(
    ("function", "facts"),
    [
        (lambda X: np.asarray(X)[:, 0], ["values[:, None]"]),
        (lambda X: np.full((len(X), 1), "Yes"), ["numbers", "ndarray", "Yes"]),
        (lambda X: sparse.csr_array(np.ones((len(X), 2))), ["dense"]),
        (lambda X: np.empty((len(X), 0)), [", 0)"]),
    ],
)
def test_functions_that_give_no_matrix_of_numbers(function, facts):
    with raises(ValueError, *facts):
        Locus(first, signals=function, calibration_size=0.25, random_state=0).fit(X, Y)


def test_wrong_signals_are_refused_before_anything_is_asked():
    def g(X):
        raise AssertionError("not to be called")

    with raises(ValueError, "signals must be"):
        fit(["x", "everything"], g)


class Counting:
    """A function that writes down how many rows it was given."""

    def __init__(self, function):
        self.function, self.asked = function, []

    def __call__(self, X):
        self.asked.append(len(X))
        return self.function(X)


def test_everybody_is_asked_once_per_row():
    embed, g = Counting(squares), Counting(first)
    locus = fit(["all", embed], g)
    assert opinion_of(locus) is not None
    assert sum(embed.asked) == len(X)
    assert g.asked == [len(X)]
    locus.loss_bound(NEW, [0.5, 0.1])
    assert embed.asked[-1] == g.asked[-1] == len(NEW)
    assert sum(embed.asked) == sum(g.asked) == len(X) + len(NEW)


def test_a_classifier_is_asked_once_per_row_and_question():
    model = classifier()

    class Asked:
        classes_ = model.classes_

        def __init__(self):
            self.predict, self.predict_proba = (
                Counting(model.predict),
                Counting(model.predict_proba),
            )

    for loss in ("zero_one", "log"):
        g = Asked()
        locus = Locus(g, loss=loss, engine=FEW, random_state=0).fit(X, labels(Y))
        assert kind_of(locus) == "ClassOpinion"
        assert sum(g.predict.asked) == sum(g.predict_proba.asked) == len(X)
        locus.loss_bound(NEW)
        assert sum(g.predict.asked) == sum(g.predict_proba.asked) == len(X) + len(NEW)


def test_the_paper_s_setting_asks_g_for_losses_alone():
    g = Counting(first)
    locus = fit("x", g)
    locus.loss_bound(NEW)
    assert g.asked == [len(X)]
