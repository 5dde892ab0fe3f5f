"""PyMCBART, the paper's backend, at a tiny size: each model takes seconds to compile."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import experiment
from archives_for_tests import assert_cannot_be_kept
from helpers import assert_binomial, assert_close, raises
from locuscore import KNNGamma, Locus
from locuscore._laws.calibration import conformal_rank
from locuscore.metrics import pinball_loss
from locuscore.testing import GENERATORS, check_engine

pytestmark = [
    pytest.mark.extra,
    # Runs this short disagree, and say so.
    pytest.mark.filterwarnings(
        "ignore:the chains of PyMCBART disagree:locuscore._shared.checks.LocusWarning"
    ),
]


def small(n_draws=10, **parameters):
    from locuscore.engines import PyMCBART

    defaults = {"n_chains": 1, "n_samples": 10, "n_tune": 20, "n_trees": 10}
    return PyMCBART(n_draws, **(defaults | parameters))


def skewed(rng, n):
    S = np.column_stack([rng.uniform(size=n), rng.integers(0, 5, size=n)])
    return S, (0.2 + 2.0 * S[:, 0]) * rng.exponential(size=n)


def test_it_keeps_the_contract():
    check_engine(small(4, n_samples=4, n_tune=5, n_trees=5))


@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)], ids=["average", "gamma"])
def test_marginal_validity(gamma, rng, monkeypatch):
    monkeypatch.setitem(experiment.CASES, "PyMCBART", (small(), gamma))
    pool = experiment.make_pool("PyMCBART", "continuous", rng)
    for n, alpha in ((9, 0.1), (39, 0.02)):
        outcome = experiment.run(pool, n, alpha)
        outcome.assert_one_event()
        probability = conformal_rank(n, alpha) / (n + 1)
        assert_binomial(outcome.covered.sum(), len(outcome.covered), probability)


def test_laws_repeat_in_batches_pickles_and_clones(rng):
    S, z = skewed(rng, 80)
    engine = small(15, n_chains=2, n_samples=30, random_state=3).fit(S, z)
    laws = engine.predict_draws(S)
    assert laws.shape == (80, 15)
    for size in (1, 7):
        parts = [engine.predict_draws(S[i : i + size]) for i in range(0, 80, size)]
        assert_close(np.vstack([part.location for part in parts]), laws.location, rtol=1e-9)
        assert_close(np.vstack([part.scale for part in parts]), laws.scale, rtol=1e-9)
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - must be left alone
    for copy in (pickle.loads(pickle.dumps(engine)), clone(engine).fit(S, z)):
        assert_close(copy.predict_draws(S).location, laws.location)
        assert_close(copy.predict_draws(S).scale, laws.scale)
    # The caller's generator is left as it was.
    assert_close(np.random.get_state()[1], before)  # noqa: NPY002 - must be left alone


def test_location_and_scale_are_of_the_same_draw(rng):
    """The stored trees, added up at the rows of D1, are what the sampler itself recorded."""
    from locuscore.engines._pymc_bart import _run_chain

    S, u = rng.uniform(size=(50, 2)), rng.normal(size=50)
    trees, location, log_scale = _run_chain(S, u, 10, 20, 12, 4, seed=1)
    assert len(trees) == 4
    for draw, at in zip(trees, (2, 5, 8, 11), strict=True):
        for part, recorded in zip(draw, (location, log_scale), strict=True):
            assert_close(sum(tree.predict(S)[0] for tree in part), recorded[:, at], atol=1e-9)


def test_missing_values_are_refused_by_column(rng):
    S, z = skewed(rng, 60)
    S[[1, 5], 1] = np.nan
    with raises(ValueError, "2 of the signals", "1 columns", ": 1)"):
        small().fit(S, z)


@pytest.mark.parametrize(("n", "n_features"), [(10, 2), (16, 40)])
def test_little_data_gives_valid_bounds(n, n_features, rng):
    S = rng.uniform(size=(n, n_features))
    locus = Locus(lambda X: X[:, 0], engine=small(4, n_samples=4), random_state=0)
    bound = locus.fit_losses(S, rng.exponential(size=n)).loss_bound(S, alpha=0.4)
    assert not np.isnan(bound).any()


@pytest.mark.parametrize("name", ["smooth", "misfit"])
def test_it_beats_the_constant_bound(name, rng):
    data = GENERATORS[name]
    X, y = data.sample(600, rng)
    engine = small(20, n_samples=40, n_tune=60, n_trees=20)
    locus = Locus(data.predictor, engine=engine, random_state=0).fit(X, y)
    X_new, y_new = data.sample(2000, rng)
    z_new = locus.losses(X_new, y_new)
    constant = np.full(2000, np.quantile(locus.losses(X, y), 0.9))
    ours = pinball_loss(z_new, locus.loss_bound(X_new, 0.1), 0.1)
    assert ours < 0.95 * pinball_loss(z_new, constant, 0.1)


@pytest.mark.parametrize("parameters", [{"n_draws": 1, "n_chains": 2}, {"n_draws": 11}])
def test_bad_parameters_are_refused(parameters):
    with raises(ValueError, "n_draws", "between"):
        small(**parameters).fit(np.zeros((5, 1)), np.arange(5.0))


def test_an_archive_cannot_keep_it(path):
    assert_cannot_be_kept(small(4, n_samples=4, n_tune=5, n_trees=5), path)
