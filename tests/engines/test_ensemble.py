"""Mixtures of engines: their laws against loops, their weights, and what they promise."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from engines_for_tests import ConstantNormal
from helpers import assert_close, raises
from locuscore import KNNGamma, Locus
from locuscore._laws.distribution import LossDistribution
from locuscore.draws import WeightedDraws, average
from locuscore.engines import Bagged, Ensemble, Forest, Gaussian, QuantileGrid, Scale
from locuscore.engines._ensemble import _crps_matrix, _smallest_on_simplex
from locuscore.metrics import crps, pinball_loss
from locuscore.testing import GENERATORS, check_engine


def boosted(**parameters):
    return HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=8, **parameters)


FOREST = Forest(n_trees=4)
GRID = QuantileGrid((0.3, 0.6, 0.9), boosted(loss="quantile", quantile=0.5))
SCALE = Scale(boosted(loss="poisson"), cv=3)
ENSEMBLES = {
    "equal": Ensemble([FOREST, SCALE]),
    "stacked": Ensemble(
        [FOREST, Gaussian(LinearRegression(), LinearRegression())], weights="stacked", cv=2
    ),
    "given": Ensemble([FOREST, Bagged(SCALE, n_draws=3), GRID], weights=[1, 2, 0.5]),
}
each = pytest.mark.parametrize("name", ENSEMBLES)


def data(rng, n):
    S = rng.uniform(size=(n, 3))
    return S, (0.1 + 2 * S[:, 0] ** 2) * np.abs(rng.normal(size=n))


@pytest.mark.parametrize("name", ["equal", "stacked"])
def test_the_contract(name):
    check_engine(ENSEMBLES[name])


@each
@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)])
def test_batches_clones_and_pickles_agree(name, gamma, rng):
    S, z = data(rng, 300)
    new = rng.uniform(size=(15, 3))
    locus = Locus(None, engine=ENSEMBLES[name], gamma=gamma, signals="x", random_state=0)
    expected = locus.fit_losses(S, z).loss_bound(new, 0.1)
    for size in (1, 7):
        parts = [locus.loss_bound(new[i : i + size], 0.1) for i in range(0, 15, size)]
        assert_close(np.concatenate(parts), expected, rtol=1e-9)
    assert_close(clone(locus).fit_losses(S, z).loss_bound(new, 0.1), expected)
    assert_close(pickle.loads(pickle.dumps(locus)).loss_bound(new, 0.1), expected)


@each
def test_the_average_is_the_weighted_mean_of_the_members_averages(name, rng):
    S, z = data(rng, 200)
    ensemble = clone(ENSEMBLES[name]).set_params(random_state=1).fit(S, z)
    mean, value = average(ensemble.predict_draws(S)), np.full((200, 1), 0.7)
    assert mean.shape == (200, 1)
    expected = sum(
        w * average(engine.predict_draws(S)).sf(value)
        for w, engine in zip(ensemble.weights_, ensemble.engines_, strict=True)
    )
    assert_close(mean.sf(value), expected, rtol=1e-14)


def test_draws_are_paired_and_start_over(rng):
    """Five draws beside twelve: draw s takes s mod 5; one argument per draw or one for all."""
    S, z = data(rng, 100)
    few, many = Bagged(SCALE, n_draws=5, random_state=0).fit(S, z), Forest(n_trees=12).fit(S, z)
    parts = [engine.predict_draws(S[:6]) for engine in (few, many)]
    draws = WeightedDraws(parts, np.array([0.3, 0.7]))
    assert draws.shape == (6, 12)
    for argument in (rng.uniform(0, 3, size=(6, 1)), rng.uniform(0, 3, size=(6, 12))):
        full = np.broadcast_to(argument, (6, 12))
        expected = np.empty((6, 12))
        for s in range(12):
            first = parts[0].sf(full[:, [s]])[:, s % 5]
            expected[:, s] = 0.3 * first + 0.7 * parts[1].sf(full[:, [s]])[:, s]
        assert_close(draws.sf(argument), expected, rtol=1e-14)


def test_gamma_needs_several_draws_of_one_member_only(rng):
    S, z = data(rng, 200)
    careful = Locus(None, engine=ENSEMBLES["equal"], gamma=KNNGamma(k=10), signals="x")
    assert np.isfinite(careful.fit_losses(S, z).loss_bound(S, 0.2)).all()
    single = Locus(None, engine=Ensemble([SCALE, GRID]), gamma=KNNGamma(k=10), signals="x")
    with pytest.raises(ValueError, match="Bagged"):
        single.fit_losses(S, z)


def test_stacked_weights_go_to_the_better_engine(rng):
    S, z = data(rng, 600)
    for engines, best in (([ConstantNormal(), SCALE], 1), ([SCALE, ConstantNormal()], 0)):
        weights = Ensemble(engines, weights="stacked", cv=3, random_state=0).fit(S, z).weights_
        assert weights[best] > 0.9


def test_a_member_without_weight_is_not_asked(rng):
    class Silent(ConstantNormal):
        def predict_draws(self, S):
            raise AssertionError

    S, z = data(rng, 50)
    ensemble = Ensemble([SCALE, Silent()], weights=[2, 0]).fit(S, z)
    alone = ensemble.engines_[0].predict_draws(S)
    value = np.full((50, 1), 0.5)
    assert_close(ensemble.predict_draws(S).sf(value), alone.sf(value))


def test_the_crps_matrix_is_the_score_of_the_mixture(rng):
    S, z = data(rng, 300)
    engines = [clone(engine).set_params(random_state=0).fit(S, z) for engine in (FOREST, SCALE)]
    S_new, z_new = data(rng, 100)
    draws = [engine.predict_draws(S_new) for engine in engines]
    matrix = _crps_matrix([LossDistribution(part) for part in draws], z_new) / 100
    for w in ([1.0, 0.0], [0.5, 0.5], [0.2, 0.8]):
        used = np.flatnonzero(w)
        mixture = WeightedDraws([draws[j] for j in used], np.array(w)[used])
        score = crps(z_new, LossDistribution(mixture))
        assert_close(np.array(w) @ matrix @ np.array(w), score, rtol=0.02)


def test_weights_on_the_simplex_are_the_smallest(rng):
    for _ in range(20):
        root = rng.normal(size=(4, 6)) * np.array([[1.0], [1.0], [2.0], [5.0]])
        matrix = root @ root.T
        weights = _smallest_on_simplex(matrix)
        assert (weights >= 0).all()
        assert_close(weights.sum(), 1.0, rtol=1e-12)
        others = rng.dirichlet(np.full(4, 0.5), size=2000)
        smallest = np.einsum("nj,jk,nk->n", others, matrix, others).min()
        assert weights @ matrix @ weights <= smallest * (1 + 1e-6)
    assert_close(_smallest_on_simplex(np.zeros((3, 3))), np.full(3, 1 / 3), rtol=1e-9)


@pytest.mark.parametrize("name", GENERATORS)
def test_not_worse_than_its_worst_member(name, rng):
    generator = GENERATORS[name]
    members = {"forest": FOREST, "grid": GRID, "gaussian": Gaussian(boosted(), boosted())}
    pairs = {**members, "ensemble": Ensemble(list(members.values()))}
    X, y = generator.sample(1200, rng)
    X_new, y_new = generator.sample(2000, rng)
    score = {}
    for key, engine in pairs.items():
        shown = {"signals": ["x", "predictor"], "calibration_size": 0.25, "random_state": 0}
        locus = Locus(generator.predictor, engine=engine, **shown).fit(X, y)
        z_new = locus.losses(X_new, y_new)
        score[key] = pinball_loss(z_new, locus.loss_bound(X_new, 0.1), 0.1)
    assert score["ensemble"] <= max(score[key] for key in members)


@pytest.mark.parametrize("rows", [2, 3, 9, 12])
def test_few_rows(rows, rng):
    S, z = data(rng, rows)
    ensemble = Ensemble([FOREST, SCALE], weights="stacked", random_state=0).fit(S, z)
    assert_close(ensemble.weights_.sum(), 1.0, rtol=1e-12)
    law = LossDistribution(ensemble.predict_draws(S))
    assert np.isfinite(law.isf(0.3)).all()


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_losses(value, rng):
    S = rng.uniform(size=(60, 2))
    for weights in ("equal", "stacked"):
        engine = Ensemble([FOREST, SCALE], weights=weights)
        locus = Locus(None, engine=engine, signals="x", random_state=0)
        bound = locus.fit_losses(S, np.full(60, value)).loss_bound(S, 0.2)
        assert_close(bound, np.full(60, value), rtol=1e-6, atol=1e-6 if value == 0 else 0.0)


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [
        ({"engines": []}, ["non-empty list", "[]"]),
        ({"engines": "Forest"}, ["non-empty list", "'Forest'"]),
        ({"engines": None}, ["non-empty list", "None"]),
        ({"weights": "best"}, ["'equal'", "'stacked'", "got 'best'"]),
        ({"weights": [1.0]}, ["weights", "2 numbers"]),
        ({"weights": [0.5, -0.5]}, ["none negative", "-0.5"]),
        ({"weights": [0.0, 0.0]}, ["zero"]),
        ({"weights": [np.nan, 1.0]}, ["weights", "2 numbers"]),
        ({"weights": "stacked", "cv": 1}, ["cv", "2"]),
    ],
)
def test_bad_parameters_are_refused(parameters, facts, rng):
    S, z = data(rng, 30)
    with raises(ValueError, *facts):
        Ensemble([FOREST, SCALE]).set_params(**parameters).fit(S, z)


def test_a_member_that_is_no_engine_is_named(rng):
    with raises(TypeError, "engines[1]", "fit"):
        Ensemble([FOREST, Forest]).fit(*data(rng, 20))


def test_asks_to_be_fitted():
    with pytest.raises(NotFittedError):
        Ensemble([FOREST]).predict_draws(np.zeros((1, 1)))
