"""A second opinion on a classifier: how likely its class is, and what its answer costs."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from helpers import assert_close
from locuscore import Locus, cost
from locuscore._inputs.opinion import FEWEST_OF_CLASS
from locuscore._inputs.opinion_kinds import MOST_CLASSES
from locuscore._inputs.opinion_models import boosted_classes, folds_of
from opinions_for_tests import (
    COSTS,
    FEW,
    NAMES,
    classifier,
    kind_of,
    labels,
    of_classes,
    opinion_of,
    split_columns,
    waves,
)

X, Y = waves()
NEW, _ = waves(12, seed=1)
G = classifier()
CODES = np.digitize(Y, [0.0, 1.5])  # of NAMES
ORDINARY = {"engine": FEW, "random_state": 0}
IN_ORDER = np.argsort(np.argsort(NAMES))  # columns of G's probabilities, in the order of NAMES


def steps(y, g):
    """A loss of one's own: how far apart two classes are."""
    order = NAMES.tolist()
    pairs = zip(np.asarray(y).tolist(), np.asarray(g).tolist(), strict=True)
    return np.array([float(abs(order.index(a) - order.index(b))) for a, b in pairs])


def slow_probabilities(part, S):
    """Two models averaged, row by row and class by class."""
    p = np.zeros((len(S), len(part.labels)))
    for model, weight in ((part.boosted, part.weight), (part.linear, 1 - part.weight)):
        for i, row in enumerate(model.predict_proba(S)):
            for code, share in zip(model.classes_, row, strict=True):
                p[i, code] += weight * share
    return p


def slow_cost(name, true, said, p):
    """What g's answer, or its probabilities by label, cost if a class is the true one."""
    match name:
        case "zero_one":
            return float(true != said)
        case "log":
            return -np.log(p[true])
        case "brier":
            return sum((p[label] - (label == true)) ** 2 for label in p)
    a, b = NAMES.tolist().index(true), NAMES.tolist().index(said)
    # Both are measured in the power of two that brings the largest to between 1 and 2.
    return COSTS[a][b] / 8 if name == "cost" else abs(a - b) / 2


LOSSES = {
    "zero_one": "zero_one",
    "log": "log",
    "brier": "brier",
    "cost": cost(COSTS, NAMES.tolist()),
    "own": steps,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_expected_loss_is_a_sum_over_classes(name):
    locus = of_classes(X, Y, loss=LOSSES[name])
    part = opinion_of(locus)
    S, columns = split_columns(locus.row_signals(NEW), locus)
    g = G.predict_proba(NEW)
    p = slow_probabilities(part, np.hstack([S, np.log(np.maximum(g, 1e-3))]))
    assert_close(p.sum(axis=1), np.ones(len(NEW)), rtol=1e-12)
    for row, said in enumerate(G.predict(NEW)):
        of_class = dict(zip(part.labels, p[row], strict=True))
        of_g = dict(zip(G.classes_.tolist(), g[row], strict=True))
        expected = sum(of_class[c] * slow_cost(name, c, said, of_g) for c in of_class)
        assert_close(columns[row], [of_class[said], expected], rtol=1e-10, atol=1e-14)


def test_what_it_expects_tells_right_from_wrong():
    """The classifier cannot follow the wave, and the second opinion can."""
    locus = of_classes(*waves(600))
    fresh, y = waves(1_000, seed=2)
    wrong = G.predict(fresh) != labels(y)
    agrees, expected = split_columns(locus.row_signals(fresh), locus)[1].T
    assert expected[wrong].mean() > 2 * expected[~wrong].mean()
    assert agrees[~wrong].mean() > 2 * agrees[wrong].mean()


@pytest.mark.parametrize("target", [labels, lambda y: 10 * CODES, lambda y: y > 0.5])
def test_labels_of_any_kind(target):
    g = LogisticRegression().fit(X, target(Y))
    locus = Locus(g, loss="zero_one", **ORDINARY).fit(X, target(Y))
    assert list(opinion_of(locus).labels) == g.classes_.tolist()
    agrees = split_columns(locus.row_signals(NEW), locus)[1][:, 0]
    assert ((agrees > 0) & (agrees <= 1)).all()


def test_a_class_that_occurs_once():
    """Most of the models have never seen it."""
    y = labels(Y)
    y[7] = "rare"
    for g in (G, LogisticRegression().fit(X, y)):
        for loss in ("zero_one", "log") if "rare" in g.classes_ else ("zero_one",):
            locus = Locus(g, loss=loss, **ORDINARY).fit(X, y)
            assert "rare" in opinion_of(locus).labels or 7 not in locus.fit_rows_
            assert np.isfinite(locus.fit_signals_).all()
            assert np.isfinite(locus.loss_bound(NEW)).all()


def test_an_answer_that_g_never_gave_is_unlikely_and_costly():
    def g(X):
        return np.where(X[:, 0] > 2, "new", np.where(X[:, 1] < 0.5, "high", "low"))

    locus = Locus(g, loss="zero_one", **ORDINARY).fit(X, labels(Y))
    assert set(opinion_of(locus).labels) == set(NAMES)
    far = NEW + np.array([3.0, 0.0, 0.0])
    columns = split_columns(locus.row_signals(far), locus)[1]
    assert_close(columns, np.tile([0.0, 1.0], (len(NEW), 1)), rtol=1e-12)
    assert np.isfinite(locus.loss_bound(far)).all()


class WithoutNames:
    """Probabilities of numbered classes, as a network gives them."""

    def predict_proba(self, X):
        return G.predict_proba(X)[:, IN_ORDER]

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


@pytest.mark.parametrize("loss", ["zero_one", "log", "brier", cost(COSTS)])
def test_a_classifier_without_names(loss):
    named = of_classes(X, Y, loss=cost(COSTS, NAMES) if hasattr(loss, "reads") else loss)
    plain = Locus(WithoutNames(), loss=loss, **ORDINARY).fit(X, CODES)
    assert list(opinion_of(plain).labels) == [0, 1, 2]
    assert np.corrcoef(plain.fit_signals_[:, -1], named.fit_signals_[:, -1])[0, 1] > 0.9


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_a_function_that_gives_probabilities(loss):
    model = WithoutNames()
    one = Locus(model.predict_proba, loss=loss, **ORDINARY).fit(X, CODES)
    assert kind_of(one) == "ClassOpinion"
    other = Locus(model, loss=loss, signals=["x", "opinion"], **ORDINARY).fit(X, CODES)
    assert one.fit_signals_.shape[1] == 3 + 3 + 2
    assert np.corrcoef(one.fit_signals_[:, -2], other.fit_signals_[:, -2])[0, 1] > 0.9


class Abstaining:
    """Gives no class where it is not sure."""

    classes_ = G.classes_

    def predict_proba(self, X):
        return G.predict_proba(X)

    def predict(self, X):
        p = self.predict_proba(X)
        return np.where(p.max(axis=1) > 0.45, self.classes_[p.argmax(axis=1)], "unsure")


@pytest.mark.parametrize("loss", ["zero_one", "log", "brier"])
def test_a_classifier_that_abstains(loss):
    locus = Locus(Abstaining(), loss=loss, **ORDINARY).fit(X, labels(Y))
    unsure = Abstaining().predict(X)[locus.fit_rows_] == "unsure"
    assert 0 < unsure.sum() < len(unsure)
    assert ("unsure" in opinion_of(locus).labels) == (loss == "zero_one")
    assert_close(locus.fit_signals_[unsure, -2], np.zeros(unsure.sum()), atol=1e-12)


def test_classifiers_without_probabilities():
    g = LinearSVC(random_state=0).fit(X, labels(Y))
    for predictor in (g, g.predict):
        locus = Locus(predictor, loss="zero_one", **ORDINARY).fit(X, labels(Y))
        assert kind_of(locus) == "ClassOpinion"
        assert sorted(opinion_of(locus).labels) == sorted(NAMES)


def test_a_cost_may_know_classes_that_g_does_not():
    """And the other way round, as long as they do not occur."""
    g = LogisticRegression().fit(X, labels(Y))
    g.classes_ = np.where(g.classes_ == "middle", "never", g.classes_)
    y = np.where(labels(Y) == "middle", "low", labels(Y))

    def answer(X):
        found = g.predict(X)
        return np.where(found == "never", "low", found)

    answer.classes_ = g.classes_
    locus = Locus(answer, loss=cost(COSTS, ["low", "high", "other"]), **ORDINARY).fit(X, y)
    assert list(opinion_of(locus).labels) == ["low", "high", "other"]


def test_a_loss_that_compares_no_single_labels():
    """It reads the whole sample, so there is no table of costs; its size can be learned."""

    def against_the_rest(y, g):
        assert len(y) > 50
        return (y != g) * (2.0 - np.mean(y == "high"))

    locus = of_classes(X, Y, loss=against_the_rest)
    assert kind_of(locus) in ("SizeOpinion", "NoneType")
    known = of_classes(X, Y, loss=lambda y, g: (y != g) * 1.5)
    assert kind_of(known) == "ClassOpinion"
    assert_close(np.diag(opinion_of(known).costs), np.zeros(3))


def test_numbers_as_text_are_classes():
    locus = Locus(
        lambda X: np.where(X[:, 0] > 0.5, "1", "0"), loss=lambda y, g: 1.0 * (y != g), **ORDINARY
    ).fit(X, np.where(Y > 1, "1", "0"))
    assert list(opinion_of(locus).labels) == ["0", "1"]


def test_too_many_classes_and_too_few_rows_of_them():
    many = np.array([f"{value:.4f}" for value in Y])
    g = np.unique(many)[0]
    locus = Locus(lambda X: np.full(len(X), g), loss="zero_one", **ORDINARY).fit(X, many)
    assert len(set(many)) > MOST_CLASSES
    assert kind_of(locus) != "ClassOpinion"
    # Two rows of D1 have a second class: a model may see none of them.
    lone = np.where(np.arange(len(Y)) < FEWEST_OF_CLASS - 1, "b", "a")
    locus = Locus(lambda X: np.full(len(X), "a"), loss="zero_one", **ORDINARY).fit(X, lone)
    assert kind_of(locus) != "ClassOpinion"


def test_many_classes_are_left_to_the_linear_model(rng):
    codes = rng.integers(0, 7, 200)
    assert boosted_classes(X, codes, folds_of(200, 0), 0, 7) is None
    assert boosted_classes(X, codes % 6, folds_of(200, 0), 0, 6) is not None


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**450, 2.0**-450])
def test_bounds_scale_with_costs(factor):
    one, other = (
        of_classes(X, Y, loss=cost(unit * np.array(COSTS), NAMES)) for unit in (1.0, factor)
    )
    assert np.array_equal(other.fit_signals_, one.fit_signals_)
    assert np.array_equal(other.loss_bound(NEW) / factor, one.loss_bound(NEW))


def test_probabilities_of_several_outputs_are_left_to_the_size():
    both = np.column_stack([CODES > 0, CODES > 1]).astype(int)
    g = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, both)
    locus = Locus(g, loss=lambda y, p: np.abs(y - p).sum(axis=1), **ORDINARY).fit(X, both)
    assert kind_of(locus) in ("SizeOpinion", "NoneType")
    assert np.isfinite(locus.loss_bound(NEW)).all()
