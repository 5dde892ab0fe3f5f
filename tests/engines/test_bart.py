"""BART on stochtree: the contract, Theorem 1, and what is special to it."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import experiment
from helpers import assert_binomial, assert_close, raises, warns
from locuscore import KNNGamma, Locus
from locuscore._laws.calibration import conformal_rank
from locuscore._shared.checks import LocusWarning
from locuscore.draws import NormalDraws, TransformedDraws
from locuscore.metrics import pinball_loss
from locuscore.testing import GENERATORS, check_engine

pytestmark = [
    pytest.mark.extra,
    # Runs this short disagree, and say so.
    pytest.mark.filterwarnings(
        "ignore:the chains of BART disagree:locuscore._shared.checks.LocusWarning"
    ),
]


def small(n_draws=20, **parameters):
    from locuscore.engines import BART

    defaults = {"n_trees": 15, "n_burn": 5, "thin": 1}
    return BART(n_draws, **(defaults | parameters))


def skewed(rng, n):
    S = rng.uniform(size=(n, 3))
    return S, (0.2 + 2.0 * S[:, 0]) * rng.exponential(size=n)


def identity(y, _):
    return y


each_transform = pytest.mark.parametrize("transform", ["identity", "sqrt", "log"])


@each_transform
def test_it_keeps_the_contract(transform):
    check_engine(small(8, n_trees=8, transform=transform))


@pytest.mark.parametrize("loss", experiment.LOSSES)
@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)], ids=["average", "gamma"])
def test_marginal_validity(gamma, loss, rng, monkeypatch):
    monkeypatch.setitem(experiment.CASES, "BART", (small(), gamma))
    pool = experiment.make_pool("BART", loss, rng)
    for n, alpha in ((9, 0.1), (19, 0.5), (39, 0.02)):
        outcome = experiment.run(pool, n, alpha)
        outcome.assert_one_event()
        # A normal law has no atoms, so both sides of the theorem meet for continuous losses.
        side = "two-sided" if loss == "continuous" else "less"
        probability = conformal_rank(n, alpha) / (n + 1)
        assert_binomial(outcome.covered.sum(), len(outcome.covered), probability, side)


@each_transform
@pytest.mark.parametrize("gamma", [None, KNNGamma(k=10)], ids=["average", "gamma"])
def test_batches_give_the_same_bounds(transform, gamma, rng):
    S, z = skewed(rng, 200)
    locus = Locus(lambda X: X[:, 0], engine=small(transform=transform), gamma=gamma, random_state=0)
    locus.fit_losses(S, z)
    new, _ = skewed(rng, 40)
    together = locus.loss_bound(new, [0.05, 0.3])
    for size in (1, 7):
        parts = [locus.loss_bound(new[i : i + size], [0.05, 0.3]) for i in range(0, 40, size)]
        assert_close(np.vstack(parts), together, rtol=1e-9)


@each_transform
def test_pickles_and_clones_repeat_its_laws(transform, rng):
    S, z = skewed(rng, 80)
    engine = small(21, transform=transform, random_state=3).fit(S, z)
    expected = engine.predict_draws(S)
    assert expected.shape == (80, 21)  # also where the chains do not divide it
    for copy in (pickle.loads(pickle.dumps(engine)), clone(engine).fit(S, z)):
        actual = copy.predict_draws(S)
        assert_close(actual.isf(np.array([[0.1]])), expected.isf(np.array([[0.1]])))


def test_families_by_transform(rng):
    S, z = skewed(rng, 60)
    assert isinstance(small(transform="identity").fit(S, z).predict_draws(S), NormalDraws)
    for transform in ("sqrt", "log"):
        laws = small(transform=transform).fit(S, z).predict_draws(S)
        assert isinstance(laws, TransformedDraws)
        back = pickle.loads(pickle.dumps(laws)).isf(np.array([[0.3]]))
        assert_close(laws.sf(back), np.full(laws.shape, 0.3), rtol=1e-9)


def test_missing_values_are_refused_by_column(rng):
    S, z = skewed(rng, 60)
    engine = small(random_state=0).fit(S, z)
    S[[1, 5], 2] = np.nan
    for call in (lambda: small().fit(S, z), lambda: engine.predict_draws(S)):
        with raises(ValueError, "2 of the signals", "1 columns", ": 2)"):
            call()


def test_another_number_of_signals_is_refused(rng):
    S, z = skewed(rng, 60)
    with raises(ValueError, "3 signals", "got 2"):
        small(random_state=0).fit(S, z).predict_draws(S[:, :2])


@pytest.mark.parametrize("value", [0.0, 3.3, -3.0, 1e-9, 1e9])
@each_transform
def test_constant_losses_give_bounds_at_that_constant(transform, value, rng):
    S = rng.uniform(size=(60, 2))
    engine = small(transform=transform)
    locus = Locus(lambda X: X[:, 0], loss=identity, engine=engine, random_state=0)
    bound = locus.fit(S, np.full(60, value)).loss_bound(S, alpha=0.2)
    assert (bound >= value).all()
    assert_close(bound, np.full(60, value), rtol=1e-6, atol=1e-6 if value == 0 else 0.0)


@each_transform
@pytest.mark.parametrize(
    ("n", "n_features", "zeros"), [(4, 2, 0.0), (10, 2, 0.0), (30, 100, 0.0), (100, 2, 0.9)]
)
def test_little_data_gives_valid_bounds(transform, n, n_features, zeros, rng):
    S = rng.uniform(size=(n, n_features))
    z = np.where(rng.uniform(size=n) < zeros, 0.0, rng.exponential(size=n))
    locus = Locus(lambda X: X[:, 0], engine=small(transform=transform), random_state=0)
    bound = locus.fit_losses(S, z).loss_bound(S, alpha=0.4)
    assert not np.isnan(bound).any()
    n_cal = len(locus.calibration_rows_)
    covered = np.count_nonzero(z[locus.calibration_rows_] <= bound[locus.calibration_rows_])
    assert covered >= conformal_rank(n_cal, 0.4)


@each_transform
@pytest.mark.parametrize("name", ["smooth", "misfit"])
def test_it_beats_the_constant_bound(name, transform, rng):
    data = GENERATORS[name]
    X, y = data.sample(800, rng)
    locus = Locus(data.predictor, engine=small(40, n_burn=20, transform=transform), random_state=0)
    locus.fit(X, y)
    X_new, y_new = data.sample(2000, rng)
    z_new = locus.losses(X_new, y_new)
    constant = np.full(2000, np.quantile(locus.losses(X, y), 0.9))
    ours = pinball_loss(z_new, locus.loss_bound(X_new, 0.1), 0.1)
    assert ours < 0.85 * pinball_loss(z_new, constant, 0.1)


def test_chains_that_disagree_are_told(rng):
    S = rng.uniform(size=(600, 3))
    z = np.abs(np.sin(20 * S[:, 0])) + 0.01 * rng.exponential(size=600)
    with warns(LocusWarning, "R-hat", "thin", "n_burn"):
        engine = small(80, n_chains=2, n_burn=0, random_state=0).fit(S, z)
    assert engine.split_rhat_ > 1.5


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [
        ({"n_draws": 1, "n_chains": 2}, ["n_draws", "2"]),
        ({"n_chains": 11}, ["n_chains", "10"]),
        ({"thin": 0}, ["thin", "1"]),
        ({"n_trees": 0}, ["n_trees", "1"]),
        ({"n_burn": -1}, ["n_burn", "0"]),
        ({"transform": "cube"}, ["transform", "'log'"]),
    ],
)
def test_bad_parameters_are_refused(parameters, facts):
    with raises(ValueError, *facts):
        small(**parameters).fit(np.zeros((5, 1)), np.arange(5.0))
