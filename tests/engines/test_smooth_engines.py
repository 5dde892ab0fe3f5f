"""Flow and VariationalGP: contract, Theorem 1, repeatable answers and bad input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import experiment
from experiment import Outcome, Repetitions, check_theorem, make_pool, run
from helpers import assert_binomial, assert_close, raises
from locuscore import KNNGamma, Locus, engines
from locuscore._laws.calibration import conformal_rank
from locuscore._laws.distribution import LossDistribution
from locuscore.testing._contracts import check_engine

pytestmark = pytest.mark.extra
SMALL = {
    "Flow": {"n_draws": 3, "n_hidden": 8, "n_bins": 4, "max_epochs": 4},
    "VariationalGP": {"n_draws": 5, "n_points": 8, "n_steps": 10},
}
LEARNING = {
    "Flow": {"n_draws": 2, "n_hidden": 16, "max_epochs": 40},
    "VariationalGP": {"n_draws": 9, "n_points": 16, "n_steps": 60},
}
ALPHAS = np.linspace(0.05, 0.5, 4)
EACH = pytest.mark.parametrize("name", SMALL)


def small(name, **parameters):
    # By name when called: the core lane reads this file too.
    return getattr(engines, name)(**{"random_state": 0, **SMALL[name], **parameters})


def rows_and_losses(rng, n=200):
    S = rng.uniform(size=(n, 3))
    return S, (0.2 + 2 * S[:, 0]) * np.abs(rng.normal(size=n))


@pytest.mark.parametrize(("name", "transform"), [("Flow", "identity"), ("VariationalGP", "log")])
def test_they_keep_the_contract(name, transform):
    check_engine(small(name, transform=transform, random_state=None))


@pytest.mark.parametrize(
    ("loss", "gamma"),
    [("continuous", None), ("continuous", KNNGamma(k=20)), ("zero-inflated", None), ("0-1", None)],
    ids=["average", "gamma", "zero-inflated", "0-1"],
)
@EACH
def test_marginal_validity(name, loss, gamma, rng, monkeypatch):
    monkeypatch.setitem(experiment.CASES, name, (small(name), gamma))
    pool = make_pool(name, loss, rng, size=10_000)
    for n, alpha in ((9, 0.1), (19, 0.5)):
        outcome = run(pool, n, alpha)
        check_theorem(outcome, n, alpha)
        outcome.assert_one_event()
        if loss == "continuous":
            # No ties: both sides of the theorem meet.
            probability = conformal_rank(n, alpha) / (n + 1)
            assert_binomial(outcome.covered.sum(), len(outcome.covered), probability)


@EACH
def test_a_rank_one_too_low_is_noticed(name, rng, monkeypatch):
    monkeypatch.setitem(experiment.CASES, name, (small(name), None))
    pool = make_pool(name, "continuous", rng, size=10_000)
    n, alpha = 9, 0.1
    repetitions = Repetitions.cut(pool, n)
    k = conformal_rank(n, alpha) - 1
    levels = np.sort(repetitions.cal_tail, axis=1)[:, n - k]
    rows = repetitions.test_rows
    outcome = Outcome(pool.z[rows], pool.tail[rows], levels, pool.law(rows).isf(levels))
    with pytest.raises(AssertionError):
        check_theorem(outcome, n, alpha)


@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)], ids=["average", "gamma"])
@EACH
def test_batches_pickles_and_clones_give_the_same_bounds(name, gamma, rng):
    S, z = rows_and_losses(rng)
    locus = Locus(None, engine=small(name), gamma=gamma, signals=np.asarray, random_state=0)
    bound = locus.fit_losses(S, z).loss_bound(S, ALPHAS)
    for size in (1, 7):
        parts = [locus.loss_bound(S[i : i + size], ALPHAS) for i in range(0, 14, size)]
        assert_close(np.vstack(parts), bound[:14], rtol=1e-9)
    assert_close(pickle.loads(pickle.dumps(locus)).loss_bound(S, ALPHAS), bound)
    assert_close(clone(locus).fit_losses(S, z).loss_bound(S, ALPHAS), bound)


@EACH
def test_the_seed_decides_and_the_global_generator_has_no_part(name, rng):
    import torch

    S, z = rows_and_losses(rng)
    level = np.full((len(S), 1), 0.3)
    before = torch.get_rng_state()
    first = small(name).fit(S, z).predict_draws(S).isf(level)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    second = small(name).fit(S, z).predict_draws(S).isf(level)
    other = small(name, random_state=1).fit(S, z).predict_draws(S).isf(level)
    torch.set_rng_state(before)
    assert np.array_equal(first, second)
    assert not np.allclose(first, other)


@EACH
def test_they_learn(name, rng):
    S, z = rows_and_losses(rng, 600)
    engine = small(name, **LEARNING[name]).fit(S, z)
    bound = LossDistribution(engine.predict_draws(S)).isf(0.1)
    truth = 1.645 * (0.2 + 2 * S[:, 0])
    assert np.corrcoef(bound, truth)[0, 1] > 0.93
    assert 0.8 < np.mean(bound / truth) < 1.25


@pytest.mark.parametrize("value", [np.nan, np.inf])
@EACH
def test_missing_and_infinite_signals_are_refused_by_column(name, value, rng):
    S, z = rows_and_losses(rng)
    engine = small(name).fit(S, z)
    S[4, 1] = S[9, 2] = value
    for call in (lambda: small(name).fit(S, z), lambda: engine.predict_draws(S)):
        with raises(ValueError, name, "[1, 2]"):
            call()


@EACH
def test_rows_with_other_signals_are_refused(name, rng):
    engine = small(name).fit(*rows_and_losses(rng))
    with raises(ValueError, name, "3 signals", "got 2"):
        engine.predict_draws(np.zeros((4, 2)))


@pytest.mark.parametrize(("name", "rate"), [("Flow", 1e30), ("VariationalGP", 1e300)])
def test_training_that_diverges_says_what_to_try(name, rate, rng):
    S, z = rows_and_losses(rng)
    with raises(ValueError, name, "learning_rate"):
        small(name, learning_rate=rate).fit(S, z)


@pytest.mark.parametrize(
    ("name", "parameters", "facts"),
    [
        ("Flow", {"n_draws": 0}, ["n_draws", "0"]),
        ("Flow", {"n_bins": 1}, ["n_bins", "1"]),
        ("Flow", {"transform": "root"}, ["'identity'", "'log'", "'sqrt'"]),
        ("VariationalGP", {"n_points": 0}, ["n_points", "0"]),
        ("VariationalGP", {"n_steps": -1}, ["n_steps", "-1"]),
        ("VariationalGP", {"transform": "root"}, ["'identity'", "'log'", "'sqrt'"]),
    ],
)
def test_bad_parameters_are_refused(name, parameters, facts):
    with raises(ValueError, *facts):
        small(name, **parameters).fit(np.zeros((5, 1)), np.arange(5.0))


@EACH
def test_they_ask_to_be_fitted(name):
    with pytest.raises(NotFittedError):
        small(name).predict_draws(np.zeros((2, 1)))


LOSSES = {
    "constant": lambda rng, n: np.full(n, 3.0),
    "zero": lambda rng, n: np.zeros(n),
    "many zeros": lambda rng, n: np.where(rng.uniform(size=n) < 0.9, 0.0, rng.exponential(size=n)),
    "one not zero": lambda rng, n: np.eye(n)[0],
    "heavy": lambda rng, n: np.abs(rng.standard_cauchy(size=n)) ** 3,
    "negative": lambda rng, n: -rng.exponential(size=n),
    "tiny": lambda rng, n: 1e-100 * rng.exponential(size=n),
    "huge": lambda rng, n: 1e150 * rng.exponential(size=n),
}


@pytest.mark.parametrize("n", [4, 30])
@pytest.mark.parametrize("kind", LOSSES)
@EACH
def test_odd_losses_give_bounds_that_are_numbers(name, kind, n, rng):
    """Few rows, and more signals than rows among them."""
    S, z = rng.normal(size=(n, 10)), LOSSES[kind](rng, n)
    locus = Locus(
        None,
        engine=small(name),
        gamma=KNNGamma(k=5),
        signals=np.asarray,
        support=(-np.inf, np.inf),
        random_state=0,
    )
    bound = locus.fit_losses(S, z).loss_bound(np.vstack([S, 1e6 * S]), [0.34, 0.5])
    assert not np.isnan(bound).any()
    if n >= 10:
        assert np.isfinite(bound).all()
    if kind == "constant":
        assert (bound >= 3.0).all()
        assert_close(bound, np.full(bound.shape, 3.0), rtol=1e-6)
