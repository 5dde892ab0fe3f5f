"""MDN: the network, its stored masks, its bad input, and the price of its inverses."""

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import experiment
from experiment import make_pool, run
from helpers import assert_binomial, assert_close, raises
from locuscore import KNNGamma, Locus, engines
from locuscore._laws.calibration import conformal_rank
from locuscore._laws.distribution import LossDistribution
from locuscore.draws import EnvelopeDraws, MixtureDraws, TransformedDraws
from locuscore.testing._contracts import check_engine

pytestmark = pytest.mark.extra
ALPHAS = np.linspace(0.05, 0.5, 10)


def network(**parameters):
    return engines.MDN(**parameters)  # by name when called: the core lane reads this file too


def small(**parameters):
    return network(**{"n_draws": 8, "max_epochs": 15, "random_state": 0, **parameters})


def rows_and_losses(rng, n=300):
    S = rng.uniform(size=(n, 3))
    return S, (0.2 + 2 * S[:, 0]) * np.abs(rng.normal(size=n))


@pytest.mark.parametrize("transform", ["identity", "log"])
def test_mdn_keeps_the_contract(transform):
    check_engine(network(n_draws=8, max_epochs=10, transform=transform))


@pytest.mark.parametrize("loss", experiment.LOSSES)
@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)], ids=["average", "gamma"])
def test_marginal_validity(gamma, loss, rng, monkeypatch):
    monkeypatch.setitem(experiment.CASES, "MDN", (small(), gamma))
    pool = make_pool("MDN", loss, rng, size=20_000)
    for n, alpha in ((9, 0.1), (19, 0.5), (39, 0.02)):
        outcome = run(pool, n, alpha)
        probability = conformal_rank(n, alpha) / (n + 1)
        above = outcome.tail > outcome.level
        assert_binomial(above.sum(), len(above), probability, "greater")
        alternative = "two-sided" if loss == "continuous" else "less"
        assert_binomial(outcome.covered.sum(), len(above), probability, alternative)
        outcome.assert_one_event()


@pytest.mark.parametrize("transform", ["identity", "log"])
@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)], ids=["average", "gamma"])
def test_batches_pickles_and_clones_give_the_same_bounds(gamma, transform, rng):
    S, z = rows_and_losses(rng)
    engine = small(transform=transform)
    locus = Locus(None, engine=engine, gamma=gamma, signals=np.asarray, random_state=0)
    bound = locus.fit_losses(S, z).loss_bound(S, ALPHAS)
    for size in (1, 7):
        parts = [locus.loss_bound(S[i : i + size], ALPHAS) for i in range(0, 70, size)]
        assert_close(np.vstack(parts), bound[:70], rtol=1e-9)
    assert_close(locus.loss_bound(S, 0.05), bound[:, 0], rtol=1e-10)
    assert_close(pickle.loads(pickle.dumps(locus)).loss_bound(S, ALPHAS), bound)
    assert_close(clone(locus).fit_losses(S, z).loss_bound(S, ALPHAS), bound)


def test_the_seed_decides_and_the_global_generator_has_no_part(rng):
    import torch

    S, z = rows_and_losses(rng)
    before = torch.get_rng_state()
    first = small().fit(S, z).predict_draws(S)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    second = small().fit(S, z).predict_draws(S)
    other = small(random_state=1).fit(S, z).predict_draws(S)
    torch.set_rng_state(before)
    assert_close(first.location, second.location)
    assert not np.allclose(first.location, other.location)


def test_the_laws_are_those_of_a_forward_pass_with_the_stored_masks(rng):
    import torch

    from locuscore.engines._mixture_network import log_density

    S, z = rows_and_losses(rng)
    mdn = small().fit(S, z)
    assert mdn.masks_.shape == (8, 64)
    assert_close(np.unique(mdn.masks_), [0.0, 1 / 0.6])
    draws = mdn.predict_draws(S)
    assert isinstance(draws, MixtureDraws)
    assert draws.location.shape == (300, 8, 5)
    network = [torch.as_tensor(part) for part in mdn.network_.weights]
    x = torch.as_tensor((S - S.mean(axis=0)) / S.std(axis=0))
    y = torch.as_tensor((z - z.mean()) / z.std())
    expected = log_density(network, x, y, torch.as_tensor(mdn.masks_[:, None])).numpy()
    parts = norm.logpdf(z[:, None, None], draws.location, draws.scale)
    ours = logsumexp(parts, b=draws.weight, axis=2).T + np.log(z.std())
    assert_close(ours, expected, rtol=1e-9, atol=1e-9)


def test_early_stopping_keeps_the_best_epoch(rng):
    S, z = rows_and_losses(rng, 150)
    mdn = small(max_epochs=400, patience=10, learning_rate=0.02).fit(S, z)
    history, best = mdn.network_.history, mdn.network_.best_epoch
    assert best == np.argmin(history)
    assert len(history) == best + 11 < 400
    held = mdn.held_out_rows_
    assert len(held) == 30
    draws = mdn.predict_draws(S[held])
    parts = norm.logpdf(z[held, None, None], draws.location, draws.scale)
    average = logsumexp(parts, b=draws.weight / 8, axis=(1, 2)) + np.log(z.std())
    assert_close(-average.mean(), history[best], rtol=1e-5)
    assert abs(-average.mean() - history[-1]) > 1e-4


def test_it_learns(rng):
    S, z = rows_and_losses(rng, 1000)
    bound = LossDistribution(small(max_epochs=60).fit(S, z).predict_draws(S)).isf(0.1)
    truth = 1.645 * (0.2 + 2 * S[:, 0])
    assert np.corrcoef(bound, truth)[0, 1] > 0.97
    assert 0.8 < np.mean(bound / truth) < 1.2


@pytest.fixture
def evaluations(monkeypatch):
    """How often the averaged law, or the stack of laws, of each of 300 rows is evaluated."""
    count = np.zeros(300)

    def watch(family, method, is_counted):
        original = getattr(family, method)

        def counted(self, rows, *arguments):
            if is_counted(self):
                np.add.at(count, rows, 1)
            return original(self, rows, *arguments)

        monkeypatch.setattr(family, method, counted)

    monkeypatch.setattr("locuscore._laws.loss_model.FIRST_ROWS", 300)  # all of them at once
    watch(MixtureDraws, "_sf", lambda laws: laws.location.shape[1:] == (1, 500))
    watch(EnvelopeDraws, "_ranked", lambda laws: True)
    return count


@pytest.mark.parametrize("transform", ["identity", "log"])
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)], ids=["average", "gamma"])
def test_a_bound_needs_few_evaluations(gamma, alpha, transform, rng, evaluations):
    S, z = rows_and_losses(rng)
    engine = small(n_draws=100, transform=transform)
    locus = Locus(None, engine=engine, gamma=gamma, signals=np.asarray, random_state=0)
    locus.fit_losses(S, z)
    evaluations[:] = 0
    locus.loss_bound(S, alpha)
    assert evaluations.min() >= 2
    assert evaluations.max() <= 12
    assert evaluations.mean() <= 6


@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)], ids=["average", "gamma"])
def test_levels_solved_together_need_fewer_evaluations(gamma, rng, evaluations):
    S, z = rows_and_losses(rng)
    locus = Locus(None, engine=small(n_draws=100), gamma=gamma, signals=np.asarray, random_state=0)
    locus.fit_losses(S, z)
    evaluations[:] = 0
    locus.loss_bound(S, ALPHAS)
    assert evaluations.mean() <= 4.5 * len(ALPHAS)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_signals_are_refused_by_column(value, rng):
    S, z = rows_and_losses(rng)
    mdn = small().fit(S, z)
    S[4, 1] = S[9, 2] = value
    for call in (lambda: small().fit(S, z), lambda: mdn.predict_draws(S)):
        with raises(ValueError, "[1, 2]"):
            call()


def test_training_that_diverges_says_what_to_try(rng):
    S, z = rows_and_losses(rng)
    with raises(ValueError, "learning_rate"):
        small(learning_rate=1e30).fit(S, z)


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [
        ({"n_draws": 0}, ["n_draws"]),
        ({"n_components": 0}, ["n_components"]),
        ({"dropout": 1.0}, ["dropout"]),
        ({"transform": "root"}, ["'identity'", "'log'", "'sqrt'"]),
    ],
)
def test_bad_parameters_are_refused(parameters, facts):
    with raises(ValueError, *facts):
        small(**parameters).fit(np.zeros((5, 1)), np.arange(5.0))


def test_it_asks_to_be_fitted():
    with pytest.raises(NotFittedError):
        small().predict_draws(np.zeros((2, 1)))


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


@pytest.mark.parametrize("transform", ["identity", "log"])
@pytest.mark.parametrize("n", [4, 10, 60])
@pytest.mark.parametrize("kind", LOSSES)
def test_odd_losses_give_bounds_that_are_numbers(kind, n, transform, rng):
    """Ten rows and more signals than rows among them."""
    S, z = rng.normal(size=(n, 20)), LOSSES[kind](rng, n)
    engine = small(transform=transform, max_epochs=5)
    for gamma in (None, KNNGamma(k=5)):
        locus = Locus(
            None,
            engine=engine,
            gamma=gamma,
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


@pytest.mark.parametrize("transform", ["sqrt", "log"])
def test_other_scales_are_a_transform_of_mixtures(transform, rng):
    S, z = rows_and_losses(rng)
    draws = small(transform=transform).fit(S, z).predict_draws(S)
    assert isinstance(draws, TransformedDraws)
    assert abs(draws.forward(z).mean()) < 1e-12
    wide = np.array([-1e9, -3.0, -0.01, 0.01, 0.7, 1e9])
    assert_close(draws.backward(draws.forward(wide)), wide, rtol=1e-12)
    assert (np.diff(draws.forward(wide)) > 0).all()
