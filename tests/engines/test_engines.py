"""What each engine does with losses and signals that are unlike the usual."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits

from helpers import assert_close, raises
from locuscore import KNNGamma, Locus
from locuscore._laws.distribution import LossDistribution
from locuscore._shared.boosting import BoostedTrees
from locuscore.draws import GridDraws, NormalDraws, ShapeDraws, StackedDraws, StepDraws
from locuscore.engines import Bagged, Forest, Gaussian, QuantileGrid, Scale, default_engine


def boosted(**parameters):
    return HistGradientBoostingRegressor(max_iter=30, **parameters)


ENGINES = {
    "Forest": Forest(n_trees=30, random_state=0),
    "Scale": Scale(boosted(loss="poisson"), random_state=0),
    "Gaussian": Gaussian(boosted(), boosted(), random_state=0),
    "QuantileGrid": QuantileGrid(model=boosted(loss="quantile", quantile=0.5), random_state=0),
    "Bagged": Bagged(Scale(boosted(loss="poisson"), cv=3), n_draws=4, random_state=0),
}
each_engine = pytest.mark.parametrize("name", ENGINES)


def law(name, S, z, S_new):
    draws = clone(ENGINES[name]).fit(S, z).predict_draws(S_new)
    return LossDistribution(draws)


@each_engine
def test_missing_signals_are_accepted(name, rng):
    S = rng.normal(size=(200, 3))
    S[rng.uniform(size=S.shape) < 0.2] = np.nan
    z = np.abs(rng.normal(size=200)) + 2 * np.isnan(S[:, 0])
    new = np.array([[np.nan, 0.0, 0.0], [0.0, 0.0, np.nan]])
    bound = law(name, S, z, new).isf(0.2)
    assert np.isfinite(bound).all()
    # A missing value is itself informative here.
    assert bound[0] > bound[1]


@each_engine
def test_zero_inflated_losses_keep_mass_at_zero(name, rng):
    S = rng.uniform(size=(600, 2))
    z = np.where(rng.uniform(size=600) < 0.6, 0.0, rng.exponential(size=600))
    dist = law(name, S, z, rng.uniform(size=(50, 2)))
    at_zero = np.mean(dist.tail(0.0) - dist.sf(0.0))
    if name == "Gaussian":
        assert at_zero < 1e-9  # a normal law has no atom; calibration makes up for it
    else:
        assert 0.3 < at_zero < 0.9


@each_engine
@pytest.mark.parametrize("value", [0.0, 3.0, -3.0, 1e-9, 1e9])
def test_constant_losses_give_bounds_at_that_constant(name, value, rng):
    S = rng.uniform(size=(60, 2))
    locus = Locus(lambda X: X[:, 0], loss=lambda y, _: y, engine=ENGINES[name], random_state=0)
    locus.fit(S, np.full(60, value))
    bound = locus.loss_bound(S, alpha=0.2)
    assert (bound >= value).all()
    assert_close(bound, np.full(60, value), rtol=1e-6, atol=1e-6 if value == 0 else 0.0)


@each_engine
def test_three_rows_are_enough_to_fit(name, rng):
    S = rng.normal(size=(3, 2))
    dist = law(name, S, np.array([0.0, 1.0, 2.0]), rng.normal(size=(5, 2)))
    assert np.isfinite(dist.isf(0.3)).all()
    assert (dist.sf(1e6) < 0.01).all()


@each_engine
def test_one_loss_that_is_not_zero(name, rng):
    """A good classifier: in most folds there is nothing but zeros."""
    S, z = rng.normal(size=(60, 2)), np.zeros(60)
    z[7] = 1.0
    assert (law(name, S, z, rng.normal(size=(5, 2))).isf(0.3) < 0.5).all()


@each_engine
def test_more_features_than_rows(name, rng):
    S = rng.normal(size=(30, 100))
    dist = law(name, S, np.abs(S[:, 0]), rng.normal(size=(5, 100)))
    assert np.isfinite(dist.isf(0.1)).all()


@each_engine
def test_constant_and_empty_features(name, rng):
    z = rng.exponential(size=80)
    bound = law(name, np.ones((80, 1)), z, np.ones((3, 1))).isf(0.25)
    assert_close(bound, np.full(3, bound[0]))
    assert np.quantile(z, 0.3) < bound[0] < z.max()


@each_engine
def test_negative_losses(name, rng):
    """A profit is a negative loss; the bound must follow it below zero."""
    S = rng.uniform(size=(500, 2))
    z = -5.0 + 2 * S[:, 0] * np.abs(rng.normal(size=500))
    locus = Locus(lambda X: X[:, 0], loss=lambda y, _: y, engine=ENGINES[name], random_state=0)
    bound = locus.fit(S, z).loss_bound(S, alpha=0.2)
    assert (bound < 0).mean() > 0.9
    assert np.mean(z <= bound) > 0.7


def heteroskedastic(rng, n):
    S = rng.uniform(size=(n, 3))
    return S, (0.1 + 3 * S[:, 0] ** 2) * np.abs(rng.normal(size=n))


def shifted(rng, n):
    """The centre of the loss moves, as under a misfit of g, and its spread with it."""
    S = rng.uniform(-1, 1, size=(n, 3))
    return S, 4 * S[:, 1] ** 2 + (0.2 + np.abs(S[:, 1])) * rng.gamma(2.0, 0.3, size=n)


def pinball(z, bound, alpha):
    return np.mean(np.maximum((1 - alpha) * (z - bound), -alpha * (z - bound)))


@each_engine
@pytest.mark.parametrize("generate", [heteroskedastic, shifted])
def test_each_engine_beats_the_constant_bound(name, generate, rng):
    S, z = generate(rng, 1200)
    S_new, z_new = generate(rng, 2000)
    locus = Locus(lambda X: X[:, 0], engine=ENGINES[name], random_state=0).fit_losses(S, z)
    constant = np.quantile(z, 0.9)
    ours = pinball(z_new, locus.loss_bound(S_new, alpha=0.1), 0.1)
    assert ours < 0.85 * pinball(z_new, constant, 0.1)


@pytest.mark.parametrize(
    ("name", "family", "n_draws"),
    [
        ("Forest", StepDraws, 10),
        ("Scale", ShapeDraws, 1),
        ("Gaussian", NormalDraws, 1),
        ("QuantileGrid", GridDraws, 1),
        ("Bagged", StackedDraws, 4),
    ],
)
def test_families_and_number_of_draws(name, family, n_draws, rng):
    S = rng.uniform(size=(60, 2))
    draws = clone(ENGINES[name]).fit(S, S[:, 0]).predict_draws(S[:7])
    assert isinstance(draws, family)
    assert draws.shape == (7, n_draws)


@each_engine
def test_engines_ask_to_be_fitted_and_repeat_with_their_seed(name, rng):
    S = rng.uniform(size=(100, 2))
    z = S[:, 0] * rng.exponential(size=100)
    with pytest.raises(NotFittedError):
        clone(ENGINES[name]).predict_draws(S)
    assert_close(law(name, S, z, S).isf(0.1), law(name, S, z, S).isf(0.1))


def test_the_default_engine_is_a_forest():
    assert isinstance(default_engine(), Forest)


def test_bagged_parts_are_drawn_without_replacement(rng):
    class Recorder(Gaussian):
        def fit(self, S, z):
            self.rows_ = np.sort(z)
            return self

    z = rng.permutation(np.arange(100.0))
    bagged = Bagged(Recorder(), n_draws=6, share=0.4, random_state=0).fit(np.zeros((100, 1)), z)
    parts = [engine.rows_ for engine in bagged.engines_]
    assert all(len(np.unique(part)) == len(part) == 40 for part in parts)
    assert len({tuple(part) for part in parts}) == 6


@pytest.mark.parametrize(
    ("engine", "facts"),
    [
        (Bagged(Scale(), n_draws=0), ["n_draws", "1"]),
        (Bagged(Scale(), share=0.0), ["share"]),
        (QuantileGrid(probabilities=[]), ["between 0 and 1"]),
        (QuantileGrid(probabilities=[0.5, 1.0]), ["between 0 and 1"]),
    ],
)
def test_bad_parameters_are_refused(engine, facts):
    with raises(ValueError, *facts):
        engine.fit(np.zeros((5, 1)), np.arange(5.0))


def test_quantile_grid_sorts_crossing_quantiles(rng):
    S = rng.uniform(size=(60, 4))
    grid = QuantileGrid((0.5, 0.52, 0.54), boosted(loss="quantile", quantile=0.5), random_state=0)
    draws = grid.fit(S, rng.normal(size=60)).predict_draws(rng.uniform(size=(200, 4)))
    assert (np.diff(draws.quantiles, axis=2) >= 0).all()


def test_scale_follows_the_mean_loss(rng):
    S = rng.uniform(size=(2000, 1))
    z = np.where(S[:, 0] > 0.5, 10.0, 1.0) * rng.exponential(size=2000)
    bound = law("Scale", S, z, S).isf(0.1)
    ratio = np.median(bound[S[:, 0] > 0.5]) / np.median(bound[S[:, 0] <= 0.5])
    assert_close(ratio, 10.0, rtol=0.3)


def test_one_draw_engines_say_how_to_use_gamma(rng):
    S = rng.uniform(size=(60, 2))
    locus = Locus(lambda X: X[:, 0], engine=ENGINES["Scale"], gamma=KNNGamma(k=5))
    with pytest.raises(ValueError, match="Bagged"):
        locus.fit_losses(S, S[:, 0])


@pytest.mark.parametrize(("n", "n_threads"), [(30_000, 1), (30_001, 2)])
def test_small_boosted_trees_take_one_thread_and_give_it_back(n, n_threads, monkeypatch):
    def threads():
        return {part["num_threads"] for part in threadpool_info() if part["user_api"] == "openmp"}

    seen = []
    monkeypatch.setattr(
        HistGradientBoostingRegressor, "fit", lambda *_, **__: seen.append(threads())
    )
    with threadpool_limits(2, user_api="openmp"):
        BoostedTrees().fit(np.zeros((n, 1)), np.zeros(n))
        assert threads() == {2}
    assert seen == [{n_threads}]
