"""BayesianMDN: networks that are trained side by side as if alone, and what an archive holds."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import experiment
from experiment import check_theorem, make_pool, run
from helpers import assert_close, raises
from locuscore import KNNGamma, engines
from locuscore._laws.distribution import LossDistribution
from locuscore.draws import MixtureDraws
from locuscore.testing._contracts import check_engine

pytestmark = pytest.mark.extra


def small(**parameters):
    settings = {"n_draws": 4, "n_hidden": 8, "max_epochs": 5, "random_state": 0}
    return engines.BayesianMDN(**settings | parameters)


def rows_and_losses(rng, n=200):
    S = rng.uniform(size=(n, 3))
    return S, (0.2 + 2 * S[:, 0]) * np.abs(rng.normal(size=n))


def test_it_keeps_the_contract():
    check_engine(small(n_draws=2, n_hidden=4, n_components=2, max_epochs=2, random_state=None))


@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20, phi="engine")], ids=["average", "gamma"])
def test_marginal_validity(gamma, rng, monkeypatch):
    monkeypatch.setitem(experiment.CASES, "BayesianMDN", (small(), gamma))
    pool = make_pool("BayesianMDN", "continuous", rng, size=8_000)
    for n, alpha in ((9, 0.1), (19, 0.5)):
        outcome = run(pool, n, alpha)
        check_theorem(outcome, n, alpha)
        outcome.assert_one_event()


def test_laws_are_those_of_a_forward_pass(rng):
    import torch

    from locuscore.engines._mixture_network import log_density

    S, z = rows_and_losses(rng)
    engine = small().fit(S, z)
    draws = engine.predict_draws(S)
    assert isinstance(draws, MixtureDraws)
    assert draws.location.shape == (200, 4, 5)
    x = torch.as_tensor((S - S.mean(axis=0)) / S.std(axis=0))
    y = torch.as_tensor((z - z.mean()) / z.std())
    parts = norm.logpdf(z[:, None, None], draws.location, draws.scale)
    ours = logsumexp(parts, b=draws.weight, axis=2).T + np.log(z.std())
    for member, found in enumerate(ours):
        network = [torch.as_tensor(part[member]) for part in engine.network_.weights]
        network = [network[0], network[1][0], network[2], network[3][0]]
        expected = log_density(network, x, y, torch.ones(()))
        assert_close(found, expected.numpy(), rtol=1e-9, atol=1e-9)


def test_members_differ_and_agree_with_the_same_ones_trained_again(rng):
    S, z = rows_and_losses(rng)
    first, second = (small().fit(S, z).predict_draws(S).location for _ in range(2))
    assert_close(first, second)
    spread = first.mean(axis=2).std(axis=1)
    assert (spread > 0).all()
    assert not np.allclose(small(random_state=1).fit(S, z).predict_draws(S).location, first)


def test_gradients_are_clipped_one_network_at_a_time():
    import torch

    from locuscore.engines._network_ensemble import _clip_each

    parts = [torch.zeros(2, 1, 2, requires_grad=True), torch.zeros(2, 2, 1, requires_grad=True)]
    parts[0].grad = torch.tensor([[[3.0, 0.0]], [[30.0, 0.0]]])
    parts[1].grad = torch.tensor([[[0.0], [4.0]], [[0.0], [40.0]]])
    _clip_each(parts)
    assert_close(parts[0].grad.numpy()[:, 0, 0], [3.0, 3.0], rtol=1e-6)
    assert_close(parts[1].grad.numpy()[:, 1, 0], [4.0, 4.0], rtol=1e-6)


def test_it_learns_and_stops(rng):
    S, z = rows_and_losses(rng, 500)
    engine = small(max_epochs=300, patience=5, learning_rate=0.02).fit(S, z)
    history, best = engine.network_.history, engine.network_.best_epoch
    assert len(history) == best + 6 < 300
    bound = LossDistribution(engine.predict_draws(S)).isf(0.1)
    assert np.corrcoef(bound, 0.2 + 2 * S[:, 0])[0, 1] > 0.9


def test_the_embedding_is_the_hidden_layer_of_the_first_network(rng):
    S, z = rows_and_losses(rng)
    engine = small().fit(S, z)
    first, bias = (part[0] for part in engine.network_.weights[:2])
    standard = (S - S.mean(axis=0)) / S.std(axis=0)
    assert_close(engine.embed(S), np.maximum(standard @ first + bias, 0.0))


@pytest.mark.parametrize("name", ["n_draws", "n_components", "n_hidden", "batch_size"])
def test_bad_parameters_are_refused(name):
    with raises(ValueError, name, "from 1"):
        small(**{name: 0}).fit(np.zeros((5, 1)), np.arange(5.0))


def test_a_dropout_of_everything_is_refused():
    with raises(ValueError, "dropout", "1.0"):
        small(dropout=1.0).fit(np.zeros((5, 1)), np.arange(5.0))


def test_missing_signals_and_divergence_are_said(rng):
    S, z = rows_and_losses(rng)
    with raises(ValueError, "learning_rate", "BayesianMDN"):
        small(learning_rate=1e30).fit(S, z)
    S[4, 1] = np.nan
    with raises(ValueError, "BayesianMDN", "[1]"):
        small().fit(S, z)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda w: w[:3], "no stack"),
        (lambda w: [*w[:3], w[3][:, 0]], "no stack"),
        (lambda w: [w[0], w[1][:, :, 1:], *w[2:]], "fit together"),
        (lambda w: [*w[:2], w[2][:, :, 1:], w[3][:, :, 1:]], "fit together"),
        (lambda w: [np.broadcast_to(part[:1], (2**17, *part.shape[1:])) for part in w], "memory"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change, fact, rng):
    from dataclasses import replace

    S, z = rows_and_losses(rng)
    engine = small(max_epochs=1).fit(S, z)
    engine.network_ = replace(engine.network_, weights=change(engine.network_.weights))
    for call in (engine.predict_draws, engine.embed):
        with raises(ValueError, fact):
            call(S)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_equal_losses_and_a_single_row(value, rng):
    S = rng.normal(size=(1 if value else 40, 2))
    draws = small().fit(S, np.full(len(S), value)).predict_draws(S)
    assert_close(draws.isf(0.1), np.full(draws.shape, value), rtol=1e-6, atol=1e-6)
