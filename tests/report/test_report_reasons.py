"""Reasons of single rows: columns that belong together, and a second opinion in words."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from helpers import assert_close
from locuscore import Locus, Scorer, prediction_column
from locuscore.engines import Forest
from locuscore.report import report
from locuscore.report._attribution import shapley

PAIR = np.array([0, 1, 1])


def test_columns_of_one_player_are_switched_together(rng):
    rows, background = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    seen = []

    def additive(S):
        seen.append(S)
        return np.exp(S[:, 0]) + S[:, 1] * S[:, 2]

    values, logs, base, evaluations = shapley(additive, rows, background, 0, PAIR)
    first = np.exp(rows[:, 0]) - np.exp(background[:, 0]).mean()
    second = np.prod(rows[:, 1:], axis=1) - np.prod(background[:, 1:], axis=1).mean()
    assert_close(values, np.column_stack([first, second]), atol=1e-12)
    assert_close(values.sum(axis=1), logs - base, atol=1e-12)
    assert evaluations == 6 + 5 + 5 * 2 * 6
    pairs = {tuple(pair) for pair in np.vstack([rows, background])[:, 1:]}
    assert {tuple(pair) for pair in np.vstack(seen)[:, 1:]} == pairs


def test_columns_apart_would_be_mixed(rng):
    rows, background = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    apart, *_ = shapley(lambda S: S[:, 1] * S[:, 2], rows, background, 0)
    together, *_ = shapley(lambda S: S[:, 1] * S[:, 2], rows, background, 0, PAIR)
    assert_close(apart[:, 1:].sum(axis=1), together[:, 1], atol=1e-12)
    assert np.abs(apart[:, 1] - together[:, 1]).max() > 0.1


def test_one_player_that_is_everything(rng):
    rows, background = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    values, logs, base, evaluations = shapley(
        lambda S: S.sum(axis=1), rows, background, 0, np.array([0, 0])
    )
    assert_close(values[:, 0], logs - base, atol=1e-12)
    assert evaluations == 7


def data(n, seed):
    """The second column is all that g misses."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, 5000 + 1000 * X[:, 0] + 2000 * (X[:, 1] ** 2 - 0.3) + 10 * rng.normal(size=n)


def reported(locus, X, y):
    return report(Scorer(locus), X, y).summary


def reasons_of(summary):
    shown = summary["rows"]["riskiest"] + summary["rows"]["safest"]
    return [(row, reason) for row in shown for reason in row["reasons"]]


def test_the_opinion_on_a_number_is_said_beside_the_prediction():
    locus = Locus(lambda X: 5000 + 1000 * X[:, 0], engine=Forest(n_trees=10), random_state=0)
    summary = reported(locus.fit(*data(800, 0)), *data(200, 1))
    opinions = [(row, reason) for row, reason in reasons_of(summary) if "text" in reason]
    assert len(opinions) > 25
    pattern = re.compile(r"a second model expects ([\d,.]+), g says ([\d,.]+)")
    for row, reason in opinions:
        assert (reason["name"], reason["value"]) == ("second opinion", None)
        expected, answer = (
            float(part.replace(",", "")) for part in pattern.fullmatch(reason["text"]).groups()
        )
        prediction, _, loss, *_ = row["values"]
        assert abs(answer - prediction) <= 0.5
        assert abs(abs(expected - answer) - loss) < 200  # the second model knows what g misses
    first = summary["rows"]["riskiest"][0]["reasons"][0]
    assert "text" in first
    assert first["factor"] > 1.5
    facts = {fact["name"]: fact["value"] for fact in summary["facts"]}
    assert "a second opinion on the errors (2)" in facts["Signals of that model"]


def test_the_opinion_on_a_class_names_it(rng):
    X = rng.normal(size=(1000, 2))
    y = np.where(X[:, 0] + 2 * X[:, 1] + 0.5 * rng.normal(size=1000) > 0, "<b>buy</b>", "sell")
    g = LogisticRegression().fit(X[:200] * [1, 0], y[:200])
    locus = Locus(g, loss="zero_one", engine=Forest(n_trees=10), random_state=0)
    summary = reported(locus.fit(X[200:700], y[200:700]), X[700:], y[700:])
    opinions = [(row, reason["text"]) for row, reason in reasons_of(summary) if "text" in reason]
    assert opinions
    for row, text in opinions:
        start = f"a second model gives the predicted class {row['values'][0]} a probability "
        assert text.startswith(start)
    # Factors of probabilities near zero stay within what a loss model can tell apart.
    assert all(1e-3 <= reason["factor"] <= 1e3 for _, reason in reasons_of(summary))


def test_several_outputs_and_no_predictor_have_reasons_in_words(rng):
    X = rng.uniform(size=(900, 2))
    Y = np.column_stack([X[:, 0], X[:, 1] * rng.normal(size=900)])
    g = LinearRegression().fit(X[:100], Y[:100])
    locus = Locus(
        g, loss=lambda y, g: np.hypot(*(y - g).T), support=(0, np.inf), engine=Forest(n_trees=5)
    )
    locus = locus.set_params(random_state=0).fit(X[100:700], Y[100:700])
    logged = Locus(None, engine=Forest(n_trees=5), random_state=0)
    logged.fit_losses(X[:700], np.abs(Y[:700, 1]))
    own = report(Scorer(logged), X[700:], losses=np.abs(Y[700:, 1])).summary
    for summary in (reported(locus, X[700:], Y[700:]), own):
        texts = [reason["text"] for _, reason in reasons_of(summary) if "text" in reason]
        assert texts
        assert all(text.startswith("a second model puts the typical size") for text in texts)


@pytest.mark.extra
def test_a_stored_prediction_is_one_reason_under_its_own_name():
    import pandas as pd

    X, y = data(1000, 0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(quoted=5000 + 1000 * X[:, 0])
    locus = Locus(prediction_column("quoted"), engine=Forest(n_trees=10), random_state=0)
    summary = reported(locus.fit(frame[:700], y[:700]), frame[700:], y[700:])
    importance = [part["name"] for part in summary["attribution"]["importance"]]
    assert sorted(importance) == ["a", "b", "c", "quoted", "second opinion"]
    for row in summary["rows"]["riskiest"] + summary["rows"]["safest"]:
        names = [reason["name"] for reason in row["reasons"]]
        assert len(set(names)) == len(names)
        assert set(names) <= set(importance)
    signals = locus.row_signals(frame)
    assert len(np.unique(signals, axis=1).T) == signals.shape[1]  # no column is there twice
