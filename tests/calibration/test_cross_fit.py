"""CrossFit: equal to its formula, coherent, and at home in the rest of the library."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression

from archives_for_tests import assert_same_scores, forged, rows
from engines_for_tests import ConstantNormal, FirstSignalNormal, quick
from helpers import assert_close, raises, warns
from locuscore import ArchiveError, KNNGamma, Locus, LocusWarning, Reuse, Score, Scorer
from locuscore._shared.boosting import BoostedTrees
from locuscore.calibration import CrossFit, Marginal
from locuscore.engines import Bagged, Forest, Gaussian, QuantileGrid, Scale
from locuscore.report import report

ALPHAS = (0.02, 0.05, 0.1, 1 / 3, 0.5, 0.9)


class Noting(BaseEstimator):
    """An engine that keeps the signals it was fitted on."""

    def __init__(self, engine):
        self.engine = engine

    def fit(self, S, z):
        self.seen_, self.engine_ = S, clone(self.engine).fit(S, z)
        return self

    def predict_draws(self, S):
        return self.engine_.predict_draws(S)


class Brute:
    """The formula, row by row; a fold is whatever its model has not seen."""

    def __init__(self, locus, X, z):
        self.models, self.locus = locus.engine_.models, locus
        seen = [{tuple(row) for row in model.engine.seen_} for model in self.models]
        self.folds = [[i for i, x in enumerate(X) if tuple(x) not in known] for known in seen]
        self.tails = [
            [float(model.dist(X[[i]]).tail(z[[i]])[0]) for i in fold]
            for model, fold in zip(self.models, self.folds, strict=True)
        ]

    def exceedance(self, x, tau):
        if tau >= self.locus.support_.high:
            return 0.0
        count, n = 0, sum(map(len, self.folds))
        for model, tails in zip(self.models, self.tails, strict=True):
            survival = float(model.dist(x[None, :]).sf(tau)[0])
            count += sum(tail <= survival for tail in tails)
        return (1 + count) / (n + 1)


def cross_fitted(X, z, k=5, **settings):
    engine = Noting(settings.pop("engine", Gaussian(LinearRegression(), LinearRegression())))
    settings = {"signals": "x", "random_state": 0} | settings
    return Locus(engine=engine, calibration=CrossFit(k), **settings).fit_losses(X, z)


ENGINES = {
    "Gaussian": {},
    "Forest": {"engine": Forest(n_trees=4, min_samples_leaf=5)},
    "gamma": {
        "engine": Bagged(Scale(LinearRegression()), n_draws=3),
        "gamma": KNNGamma(k=5),
    },
    "QuantileGrid": {"engine": QuantileGrid((0.5, 0.9), BoostedTrees(loss="quantile", max_iter=3))},
}


@pytest.mark.parametrize("name", ENGINES)
def test_it_is_its_formula(name, rng):
    X, z = rng.uniform(size=(33, 2)), rng.exponential(size=33)
    locus = cross_fitted(X, z, **ENGINES[name])
    brute, new = Brute(locus, X, z), rng.uniform(size=(3, 2))
    for tau in rng.exponential(size=4):
        expected = [brute.exceedance(x, tau) for x in new]
        assert_close(locus.exceedance(new, tau), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LocusWarning)  # 30 rows are too few for alpha = 0.02
        bounds = locus.loss_bound(new, ALPHAS)
    assert np.isposinf(bounds[:, 0]).all()
    for x, row in zip(new, bounds, strict=True):
        for alpha, bound in zip(ALPHAS[1:], row[1:], strict=True):
            near = 1e-6 * max(bound, 1e-6)
            assert brute.exceedance(x, bound + near) <= alpha
            assert bound == 0 or brute.exceedance(x, bound - near) > alpha


def test_losses_of_two_values(rng):
    X = rng.uniform(size=(60, 2))
    z = (rng.uniform(size=60) < X[:, 0]).astype(float)
    locus = cross_fitted(X, z, engine=Forest(n_trees=10), loss="zero_one")
    brute, new = Brute(locus, X, z), rng.uniform(size=(25, 2))
    expected = np.array([brute.exceedance(x, 0.0) for x in new])
    assert_close(locus.exceedance(new, 0.0), expected)
    assert_close(locus.loss_bound(new, 0.2), expected > 0.2)
    assert 0 < np.mean(expected > 0.2) < 1
    assert_close(locus.exceedance(new, 1.0), 0.0)


@pytest.mark.parametrize(("n", "k"), [(20, 2), (23, 5), (12, 12), (29, 10)])
def test_folds_are_equal_and_each_row_has_one(n, k, rng):
    X, z = rng.uniform(size=(n, 2)), rng.exponential(size=n)
    locus = cross_fitted(X, z, k, engine=ConstantNormal())
    folds = Brute(locus, X, z).folds
    assert [len(fold) for fold in folds] == [n // k] * k
    together = np.sort(np.concatenate(folds))
    assert len(np.unique(together)) == k * (n // k) == locus.calibration_.n
    assert_close(locus.calibration_rows_, together)
    assert_close(locus.fit_rows_, np.arange(n))
    assert_close(locus.tails_, np.sort(np.concatenate(locus.engine_.tails)))
    again = cross_fitted(X, z, k, engine=ConstantNormal())
    other = cross_fitted(X, z, k, engine=ConstantNormal(), random_state=1)
    assert Brute(again, X, z).folds == folds
    assert k == n or Brute(other, X, z).folds != folds


def test_bound_and_exceedance_are_one_statement(rng):
    X, z = rng.uniform(size=(57, 2)), np.round(rng.exponential(size=57), 1)
    locus = cross_fitted(X, z, 3, engine=Forest(n_trees=5))
    new = rng.uniform(size=(20, 2))
    alphas = np.arange(2, 56, 5) / 58
    bounds = locus.loss_bound(new, alphas)
    assert (np.diff(bounds, axis=1) <= 0).all()
    for j, alpha in enumerate(alphas):
        for tau in (bounds[0, j], np.nextafter(bounds[0, j], -1)):
            assert_close(locus.exceedance(new, tau) <= alpha, bounds[:, j] <= tau)
    one_by_one = [locus.loss_bound(x[None, :], 0.1)[0] for x in new]
    assert_close(locus.loss_bound(new, 0.1), one_by_one, rtol=1e-9)


def test_probability_is_the_mean_over_folds(rng):
    X, z = rng.uniform(size=(40, 2)), rng.exponential(size=40)
    locus = cross_fitted(X, z, 4, engine=Forest(n_trees=5, min_samples_leaf=4))
    new = rng.uniform(size=(6, 2))
    each = [model.dist(new).estimate().sf(1.0) for model in locus.engine_.models]
    assert_close(locus.probability(new, 1.0), np.mean(each, axis=0), rtol=1e-12)
    assert_close(locus.loss_dist(new).sf(1.0), locus.exceedance(new, 1.0))


def test_scale(rng):
    X, z = rng.uniform(size=(40, 2)), rng.exponential(size=40)
    bounds = cross_fitted(X, z).loss_bound(X, [0.1, 0.5])
    assert_close(cross_fitted(X, 8 * z).loss_bound(X, [0.1, 0.5]), 8 * bounds, rtol=1e-9)


def test_its_words(rng):
    X, z = rng.uniform(size=(60, 2)), rng.exponential(size=60)
    locus = cross_fitted(X, z, 10, engine=ConstantNormal())
    card = Scorer(locus, alphas=(0.1, 0.5)).card
    for fact in ("60 rows", "10 folds", "0.724 at alpha = 0.1", "nothing at alpha = 0.5", "0.9"):
        assert fact in card
    rule = locus.tau_rule(tau=1.0, alpha=0.1)
    assert rule.standing == "theorem"
    assert "0.724" in rule.guarantee
    assert locus.tau_rule(tau=1.0, alpha=0.5).standing == "heuristic"
    assert locus.calibration_.coverage_law(0.1, 100) is None
    with warns(LocusWarning, "60", "0.01", "infinite", 99):
        assert np.isposinf(locus.loss_bound(X[:2], 0.01)).all()
    small = quick().fit_losses(X[:20], z[:20])
    with warns(LocusWarning, "CrossFit"):
        small.loss_bound(X, 0.01)


def test_rules(rng):
    X, y = rows(80)
    locus = quick(engine=FirstSignalNormal(), calibration=CrossFit(4)).fit(X, y)
    with raises(ValueError, "all rows of fit", "certify", "X and y"):
        locus.certify(1.0, 0.2, 0.1)
    fresh_X, fresh_y = rows(300, seed=1)
    for score in (Score.tail(1.0), Score.bound(0.2)):
        rule = locus.certify(2.0, 0.3, 0.2, fresh_X, fresh_y, of=score)
        assert rule.standing == "certificate"
        assert locus.accepts(fresh_X, rule).any()
    with raises(ValueError, "used to fit"):
        locus.certify(1.0, 0.2, 0.1, X, y)
    verdict = Reuse(locus.used_rows_, locus.schema_, "y").add(fresh_X, fresh_y).verdict
    assert verdict.outcome == "fresh"


def test_a_second_fit_leaves_nothing_of_the_first(rng):
    X, y = rows(80)
    locus = quick().fit(X, y)
    locus.certify(1.0, 0.2, 0.1)
    locus.set_params(calibration=CrossFit(4)).fit(X, y)
    with raises(ValueError, "certify"):
        locus.certify(1.0, 0.2, 0.1)
    assert_close(clone(locus).fit(X, y).tails_, locus.tails_)
    locus.set_params(calibration=Marginal()).fit(X, y)
    assert len(locus.tails_) == len(locus.calibration_rows_) < 80


def test_other_rows_can_calibrate_and_certify_afterwards():
    """For them all rows of fit are D1, so Theorem 1 holds with the cross-fitted law."""
    X, y = rows(80)
    locus = quick(engine=FirstSignalNormal(), calibration=CrossFit(4)).fit(X, y)
    new = locus.recalibrate(*rows(120, seed=1))
    assert "Theorem 1" in new.calibration_.sentence([0.1])
    z = np.sort(new.calibration_losses_)
    covered = new.loss_bound(rows(120, seed=1)[0], 0.1) >= new.calibration_losses_
    assert covered.sum() >= 109  # contract 11: the rank of 120 rows
    assert new.certify(float(z[-5]), 0.3, 0.2).standing == "certificate"


def test_the_predictor_is_asked_once():
    asked = []

    class Predictor:
        def predict(self, X):
            asked.append(len(X))
            return X[:, 0]

    X, y = rows(60)
    quick(Predictor(), calibration=CrossFit(5)).fit(X, y)
    assert asked[0] == 60
    assert sum(asked) <= 60 + 32  # and the few rows that recognise the predictor


def frame(n, seed=0):
    import pandas as pd

    rng = np.random.default_rng(seed)
    kind = rng.choice(["a", "b", "c"], size=n).astype(object)
    size = rng.uniform(size=n)
    return pd.DataFrame({"size": size, "kind": kind}), size + (kind == "b") * rng.normal(size=n)


def g_of_frame(X):
    return X["size"].to_numpy()


@pytest.mark.extra
def test_frames_and_categories():
    import pandas as pd

    X, y = frame(90)
    X.loc[7, "kind"] = "rare"  # whose fold's model does not know it
    locus = Locus(
        g_of_frame, engine=Forest(n_trees=5), calibration=CrossFit(3), random_state=0
    ).fit(X, y)
    bound = locus.loss_bound(X.iloc[[7]].sample(30, replace=True, random_state=0), 0.2)
    assert isinstance(bound, pd.Series)
    with warns(LocusWarning, "kind"):
        locus.loss_bound(X.assign(kind="unheard of"), 0.2)


@pytest.mark.extra
def test_reports_and_archives(path):
    X, y = frame(90)
    fresh_X, fresh_y = frame(60, seed=1)
    locus = Locus(
        g_of_frame, engine=Forest(n_trees=4), calibration=CrossFit(3), random_state=0
    ).fit(X, y)
    scorer = Scorer(locus, locus.tau_rule(1.0, 0.2), alphas=(0.1, 0.5))
    found = report(scorer, fresh_X, fresh_y).summary
    facts = {fact["name"]: fact["value"] for fact in found["facts"]}
    assert facts["Rows that calibrate (no D2)"] == "90"
    assert "in each of 3 folds" in facts["Signals of that model"]
    assert found["verdict"]["claims"][0]["promised"] == locus.calibration_.promised(0.2)
    assert "promised" in found["coverage"][0]["sentence"]
    known = {"size", "kind", "prediction", "second opinion"}
    assert {part["name"] for part in found["attribution"]["importance"]} <= known
    with pytest.warns(LocusWarning, match="no safe format"):
        scorer.save(path)
    assert_same_scores(scorer, Scorer.load(path, g_of_frame), fresh_X)
    assert_same_scores(scorer, scorer.without_rows(), fresh_X)


@pytest.mark.extra
def test_an_opinion_that_some_folds_lack():
    """The columns of one meaning stand under one name, also where folds have other widths."""
    X, y = frame(90)
    locus = Locus(
        g_of_frame, engine=Forest(n_trees=2), calibration=CrossFit(3), random_state=0
    ).fit(X, y)
    signals = locus.signals_
    without = [type(fold)(**vars(fold) | {"opinion": None}) for fold in signals.folds[:2]]
    some = type(signals)([*without, signals.folds[2]])
    outputs = some.outputs(g_of_frame, X)
    S = some(outputs)
    names = some.names(g_of_frame, list(X.columns), S.shape[1])
    players = some.players(S.shape[1])
    assert set(players) == set(range(len(names)))
    if signals.folds[2].opinion is not None:
        assert names[-1] == "second opinion"
    assert len(some.words(S, outputs)) == 90
    assert_close(S[:, np.flatnonzero(players == 0)], np.repeat(X[["size"]].to_numpy(), 3, axis=1))


@pytest.mark.extra
@pytest.mark.parametrize("gamma", [None, KNNGamma(k=7)])
def test_round_trips(gamma, path):
    X, y = rows(80)
    engine = Bagged(Scale(LinearRegression()), n_draws=3)
    g = LinearRegression().fit(X, y)
    settings = {"engine": engine, "gamma": gamma, "signals": ["x", np.exp], "random_state": 0}
    scorer = Scorer(Locus(g, calibration=CrossFit(4), **settings).fit(X, y), alphas=(0.1, 0.3))
    scorer.save(path)
    assert_same_scores(scorer, Scorer.load(path, signals=np.exp), X)
    with raises(ArchiveError, "function", "signals"):
        Scorer.load(path)


def drop_a_model(locus):
    locus["engine_"]["state"]["models"].pop()


def nest(locus):
    model = locus["engine_"]["state"]["models"][0]["state"]
    model["engine"] = {"is": "object", "kind": "Support", "state": model["support"]["state"]}


def widen(locus):
    locus["engine_"]["state"]["widths"][0] = -1


def fewer_folds(locus):
    locus["calibration_"]["state"]["k"] = 0


def no_signals(locus):
    locus["signals_"]["state"]["folds"] = [1, 2, 3, 4]


def one_fold(locus):
    locus["signals_"]["state"]["folds"] = locus["signals_"]["state"]["folds"][:1]


@pytest.mark.extra
@pytest.mark.parametrize(
    "change",
    [drop_a_model, nest, widen, fewer_folds, no_signals, one_fold],
    ids=lambda f: f.__name__,
)
def test_forged_archives_are_refused(change, path):
    X, y = rows(40)
    settings = {"engine": Forest(n_trees=2), "signals": "x", "random_state": 0}
    locus = Locus(LinearRegression().fit(X, y), calibration=CrossFit(4), **settings).fit(X, y)
    Scorer(locus).save(path)
    forged(path, path, lambda locus, _: change(locus))
    with pytest.raises(ArchiveError):
        Scorer.load(path)


@pytest.mark.parametrize(
    ("k", "facts"),
    [
        (1, ["k = 1", "40 rows"]),
        (41, ["k = 41", "40 rows"]),
        (0, ["k of CrossFit", 0]),
        (2.5, ["k of CrossFit", 2.5]),
        ("ten", ["k of CrossFit", "ten"]),
    ],
)
def test_bad_numbers_of_folds(k, facts):
    X, y = rows(40)
    with raises((TypeError, ValueError), *facts):
        quick(calibration=CrossFit(k)).fit(X, y)


def test_bad_input():
    X, y = rows(40)
    with raises(ValueError, "CrossFit", "clusters"):
        quick(calibration=CrossFit()).fit(X, y, clusters=np.arange(40))
    with raises(ValueError, "CrossFit", "target"):
        quick(calibration=CrossFit()).fit(X, y, target=X)
    with raises(ValueError, "CrossFit", "calibration_size"):
        quick(calibration=CrossFit(), calibration_size=0.5).fit(X, y)
    with raises(ValueError, "2 rows outside"):
        quick(calibration=CrossFit(2)).fit(X[:2], y[:2])
    assert quick(calibration=CrossFit(3)).fit(X[:3], y[:3]).calibration_.n == 3
