"""The predictor is asked about each row once, whoever needs its answer."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from engines_for_tests import ConstantNormal
from helpers import assert_close
from locuscore import Locus, Score, Scorer
from locuscore._inputs.outputs import Outputs
from locuscore.engines import Forest
from locuscore.report import report


class Counting:
    """A predictor that writes down which rows it was asked about; column 0 numbers them."""

    def __init__(self):
        self.asked = []

    def predict(self, X):
        self.asked.append(np.asarray(X)[:, 0].astype(int))
        return np.asarray(X)[:, 1]

    @property
    def times(self):
        return np.bincount(np.concatenate(self.asked))


class CountingClassifier(Counting):
    def __init__(self, X, y):
        super().__init__()
        self.model = LogisticRegression().fit(X, y)
        self.classes_ = self.model.classes_
        self.asked_shares = []

    def predict(self, X):
        super().predict(X)
        return self.model.predict(X)

    def predict_proba(self, X):
        self.asked_shares.append(np.asarray(X)[:, 0].astype(int))
        return self.model.predict_proba(X)


def data(rng, n=1000):
    X = np.column_stack([np.arange(n), rng.normal(size=n), rng.uniform(size=n)])
    return X, X[:, 1] + X[:, 2] * rng.normal(size=n)


@pytest.mark.parametrize("signals", ["all", "x"])
def test_fit_asks_once_per_row(signals, rng):
    X, y = data(rng)
    g = Counting()
    Locus(g, engine=ConstantNormal(), signals=signals).fit(X, y)
    assert g.times.tolist() == [1] * 1000


def test_fit_losses_asks_once_per_row(rng):
    X, y = data(rng)
    g = Counting()
    Locus(g, engine=ConstantNormal()).fit_losses(X, np.abs(y))
    assert g.times.tolist() == [1] * 1000


@pytest.mark.parametrize("loss", ["zero_one", "log"])
def test_a_classifier_is_asked_once_for_classes_and_once_for_probabilities(loss, rng):
    X, y = data(rng)
    g = CountingClassifier(X, y > 0)
    locus = Locus(g, loss=loss, engine=ConstantNormal(), random_state=0).fit(X, y > 0)
    # Of the classes, only those of some rows are needed to know the predictor again.
    assert np.bincount(np.concatenate(g.asked_shares)).tolist() == [1] * 1000
    assert g.times.max() == 1
    scorer = Scorer(locus)
    g.asked.clear()
    g.asked_shares.clear()
    scorer(X)
    assert g.times.tolist() == [1] * 1000
    assert np.bincount(np.concatenate(g.asked_shares)).tolist() == [1] * 1000


@pytest.mark.parametrize("of", [None, Score.bound(0.1), Score.exceedance(1.0)])
def test_certify_asks_once_per_row(of, rng):
    X, y = data(rng)
    g = Counting()
    locus = Locus(g, engine=Forest(n_trees=4), random_state=0).fit(X, y)
    X_new, y_new = data(rng, 500)
    g.asked.clear()
    locus.certify(1.0, 0.2, 0.1, X_new, y_new, of=of)
    assert g.times.tolist() == [1] * 500


@pytest.mark.parametrize("signals", ["all", "x"])
def test_scoring_and_reports_ask_once_per_row(signals, rng):
    X, y = data(rng)
    g = Counting()
    locus = Locus(g, engine=Forest(n_trees=4), signals=signals, random_state=0).fit(X, y)
    scorer = Scorer(locus, locus.tau_rule(1.0, 0.1))
    X_new, y_new = data(rng, 500)
    calls = [
        lambda: scorer(X_new),
        lambda: locus.losses(X_new, y_new),
        lambda: locus.route_by_cost(X_new[:1], 1.0, 1.0, 5.0, X_val=X_new[1:], y_val=y_new[1:]),
        lambda: scorer.tolerate(X_new),
    ]
    for call in calls:
        g.asked.clear()
        call()
        assert g.times.max() == 1
    g.asked.clear()
    locus.loss_bound(X_new)
    assert len(g.asked) == (signals == "all")
    g.asked.clear()
    report(scorer, X_new, y_new)
    # Some rows of a report are read twice: they lay its grid before all are counted.
    assert g.times.max() <= 2


def test_a_part_of_the_rows_knows_what_was_answered(rng):
    X, _ = data(rng, 10)
    g = Counting()
    outputs = Outputs(g, X)
    whole = outputs.predictions
    part = outputs.take(np.array([7, 2]))
    assert_close(part.predictions, whole[[7, 2]])
    assert_close(part.X, X[[7, 2]])
    assert len(g.asked) == 1
    assert (part.n_outputs, part.spread, part.probabilities, len(part)) == (1, None, (), 2)


def test_rows_without_a_predictor():
    assert Outputs(None, np.zeros((2, 1))).n_outputs == 0


class Rounded(Pipeline):
    """A pipeline with a `predict` of its own, which is not the mean over the members inside."""

    def predict(self, X, **parameters):
        return np.round(super().predict(X, **parameters) / 2) * 2


def rounded(X, y):
    return Rounded([("forest", RandomForestRegressor(20, random_state=0))]).fit(X, y)


def changed_on_the_object(X, y):
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    forest.predict = lambda X: np.zeros(len(X))
    return forest


def plain_forest(X, y):
    return RandomForestRegressor(10, random_state=0, max_depth=3).fit(X, y > 0)


@pytest.mark.parametrize("make", [rounded, changed_on_the_object, plain_forest])
@pytest.mark.parametrize("signals", ["all", "x"])
def test_losses_are_those_of_predict_to_the_last_bit(make, signals, rng):
    X, y = data(rng, 400)
    X = X[:, 1:]
    g = make(X[:200], y[:200])

    def loss(y, prediction):  # one ulp decides
        return np.where(prediction > 0.3, np.abs(y - prediction), 1e-3)

    locus = Locus(g, loss=loss, engine=ConstantNormal(), signals=signals, random_state=0)
    locus.fit(X[200:], y[200:])
    expected = loss(y[200:], np.asarray(g.predict(X[200:])))
    assert locus.losses(X[200:], y[200:]).tolist() == expected.tolist()
    assert locus.calibration_losses_.tolist() == expected[locus.calibration_rows_].tolist()
    assert_close(Scorer(locus)(X)["prediction"], g.predict(X), rtol=1e-12, atol=1e-12)


def test_an_answer_in_a_reused_buffer(rng, monkeypatch):
    monkeypatch.setattr("locuscore._inputs.signals.MOST_ROWS_AT_ONCE", 7)
    buffer = np.empty(400)

    def g(X):
        buffer[: len(X)] = X[:, 1]
        return buffer[: len(X)]

    X, y = data(rng, 100)
    scorer = Scorer(Locus(g, engine=ConstantNormal(), random_state=0).fit(X, y))
    assert_close(scorer(X)["prediction"], X[:, 1])


def test_single_precision_may_round_by_the_size_of_a_batch(rng):
    """The rows kept to recognise g were answered among all rows, and later by themselves."""

    def g(X):
        return (X[:, 1] * (1 + 3e-6 * (len(X) > 50))).astype(np.float32)

    X, y = data(rng, 400)
    assert Scorer(Locus(g, engine=ConstantNormal(), random_state=0).fit(X, y)) is not None


def test_certify_counts_bad_losses_over_all_rows(rng, monkeypatch):
    monkeypatch.setattr("locuscore._inputs.signals.MOST_ROWS_AT_ONCE", 7)
    X, y = data(rng, 200)
    locus = Locus(Counting(), loss=lambda y, g: np.where(y > 90, np.inf, 1.0), engine=Forest(4))
    locus.fit(X, y)
    y[[3, 50]] = 99.0
    with pytest.raises(ValueError, match="2 non-finite values out of 200"):
        locus.certify(0.5, 0.2, 0.1, X, y)
