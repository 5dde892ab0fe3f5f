"""What a second opinion says of a row, and what the signals are called, in words."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from helpers import assert_close
from locuscore import Locus, Scorer, cost, prediction_column
from locuscore._inputs.encoder import Encoder
from locuscore._inputs.opinion_kinds import ClassOpinion, ErrorOpinion, SizeOpinion
from locuscore._inputs.outputs import Outputs
from locuscore._inputs.signals import Signals
from locuscore.engines import Forest


def said(answers):
    """Outputs of a g that gives these answers."""
    answers = np.asarray(answers)
    return Outputs(lambda X: answers, np.zeros((len(answers), 1)))


def errors(*values):
    return np.column_stack([values, np.abs(values)])


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, 1000 * X[:, 1] + 100 * X[:, 2] * rng.normal(size=n)


def fitted(predictor, *data, **options):
    return Locus(predictor, engine=Forest(n_trees=5), random_state=0, **options).fit(*data)


def test_an_expected_number_stands_beside_the_answer_of_g():
    words = ErrorOpinion(()).words(errors(-118_000, 0.03, 1e-9), said([530_000, 293.12, 5.3]))
    assert words == [
        "a second model expects 412,000, g says 530,000",
        "a second model expects 293.15, g says 293.12",
        "a second model expects 5.3, as g does",
    ]


@pytest.mark.parametrize(
    "outputs",
    [
        said([[1.0, 2.0]]),
        said(np.array([None])),
        said(["one"]),
        said([np.nan]),
        Outputs(None, np.zeros((1, 1))),
    ],
    ids=["several outputs", "none", "text", "nan", "no predictor"],
)
def test_without_one_number_of_g_there_is_the_error(outputs):
    words = ErrorOpinion(()).words(errors(-1180.4), outputs)
    assert words == ["a second model expects an error of -1,180"]


def test_an_expected_size_is_no_negative_loss():
    sizes = np.array([[3.2], [-0.01]])
    assert SizeOpinion((), 1.0).words(sizes, Outputs(None, sizes)) == [
        "a second model puts the typical size of the loss at 3.2",
        "a second model puts the typical size of the loss at 0",
    ]


def test_the_predicted_class_has_a_probability():
    zero_one = ClassOpinion(("buy", "sell"), 1.0 - np.eye(2))
    p = np.array([0.31, 0.999, 0.0])
    words = zero_one.words(np.column_stack([p, 1 - p]), said(["buy", "sell", "l" * 100]))
    assert words == [
        "a second model gives the predicted class buy a probability of 0.31",
        "a second model gives the predicted class sell a probability above 0.99",
        f"a second model gives the predicted class {'l' * 59}\u2026 a probability below 0.01",
    ]


@pytest.mark.parametrize("costs", [np.array([[0.0, 5.0], [1.0, 0.0]]), None])
def test_a_loss_that_differs_by_class_is_said_as_well(costs):
    opinion = ClassOpinion(("buy", "sell"), costs, "log" if costs is None else None)
    of_probabilities = said([[0.2, 0.8]])  # a function that gives probabilities
    assert opinion.words(np.array([[0.31, 3.2]]), of_probabilities) == [
        "a second model gives the predicted class sell a probability of 0.31 and expects a loss "
        "of 3.2"
    ]


def test_words_and_columns_are_of_the_same_row():
    X, y = rows(600, 0)
    locus = fitted(lambda X: 1000 * X[:, 0], X, y)
    outputs = locus.signals_.outputs(locus.predictor_, X[:20])
    S = locus.signals_(outputs)
    errors = locus.signals_.opinion.part.unit * S[:, -2]
    for text, g, error in zip(
        locus.signals_.words(S, outputs), outputs.predictions, errors, strict=True
    ):
        _, expected, *_, answer = text.replace(",", "").split("expects")[-1].split(" ")
        assert_close([float(expected), float(answer)], [g + error, g], rtol=1e-3, atol=1.0)


def test_the_columns_of_an_opinion_are_one_player():
    X, y = rows(600, 0)
    g = RandomForestRegressor(5, max_depth=1, random_state=0).fit(*rows(100, 1))
    signals = fitted(g, X, y).signals_
    assert signals.players(7).tolist() == [0, 1, 2, 3, 4, 5, 5]
    names = signals.names(g, list("abc"), 7)
    assert names == [*"abc", "prediction", "spread of the predictor", "second opinion"]
    alone = fitted(g, X, y, signals=["x", "predictor"]).signals_
    assert alone.players(5).tolist() == [0, 1, 2, 3, 4]
    assert alone.words(np.zeros((2, 5)), None) == [None, None]


def summary(predictor, *data, **options):
    return Scorer(fitted(predictor, *data, **options)).manifest["signals"]


def test_the_signals_in_words_count_their_columns():
    X, y = rows(600, 0)
    forest = RandomForestRegressor(5, max_depth=1, random_state=0).fit(*rows(100, 1))
    x, opinion = "x (3 columns)", "a second opinion on the errors (2)"
    assert summary(forest, X, y) == f"{x}, what the predictor says (2), {opinion}"
    stored = np.column_stack([X, 1000 * X[:, 0]])
    assert summary(prediction_column(3), stored, y) == f"x (4 columns), {opinion}"
    assert summary(forest, X, y, signals="x") == x
    assert summary(forest, X, y, signals=lambda X: X[:, :1]) == "your own functions of X (1 column)"
    both = summary(forest, X, y, signals=["all", lambda X: X[:, :2]])
    assert "says (2), your own functions of X (2), a second" in both


@pytest.mark.parametrize("loss", ["zero_one", cost([[0, 5], [1, 0]]), "log"])
def test_a_classifier_has_an_opinion_on_the_class(loss):
    X, y = rows(600, 0)
    y = y > 500
    g = LogisticRegression().fit(X[:100, :1], y[:100])
    said = (
        summary(lambda X: g.predict_proba(X[:, :1]), X, y, loss=loss)
        if loss == "log"
        else (summary(LogisticRegression().fit(X[:100] * [1, 0, 0], y[:100]), X, y, loss=loss))
    )
    width = 2 if loss == "log" else 3
    assert said == (
        f"x (3 columns), what the predictor says ({width}), a second opinion on the class (2)"
    )


def test_several_outputs_and_logged_losses_have_an_opinion_on_the_size():
    X, y = rows(900, 0)
    g = LinearRegression().fit(X[:100], np.column_stack([y, y])[:100])
    loss = {"loss": lambda y, g: np.abs(y - g).max(axis=1), "support": (0, np.inf)}
    said = summary(g, X, np.column_stack([y, y]), **loss)
    assert said.startswith("x (3 columns), what the predictor says (2), a second opinion on the si")
    locus = Locus(None, engine=Forest(n_trees=5), random_state=0).fit_losses(X, np.abs(y))
    assert Scorer(locus).manifest["signals"] == (
        "x (3 columns), a second opinion on the size of the loss (1)"
    )


def test_signals_of_an_earlier_archive_are_not_counted():
    encoder = Encoder().fit(np.zeros((1, 2)))
    assert Signals(encoder, encoder).summary(2) == "x (2 columns), what the predictor says"
    assert Signals(functions=(np.asarray,)).summary(2) == "your own functions of X"
