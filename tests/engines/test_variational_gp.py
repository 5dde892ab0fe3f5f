"""VariationalGP: moments as gpytorch has them, its objective, and draws by fixed quantiles."""

import numpy as np
import pytest
from scipy.stats import norm

from helpers import assert_close
from locuscore import engines
from locuscore.draws import NormalDraws

pytestmark = pytest.mark.extra


def small(**parameters):
    settings = {"n_draws": 5, "n_points": 8, "n_steps": 10, "random_state": 0}
    return engines.VariationalGP(**settings | parameters)


def rows_and_losses(rng, n=200):
    S = rng.uniform(size=(n, 3))
    return S, (0.2 + 2 * S[:, 0]) * np.abs(rng.normal(size=n))


def test_the_moments_are_those_of_gpytorch(rng, monkeypatch):
    import torch

    from locuscore.engines import _latent_processes

    kept = []

    def arrays(latents):
        kept.append(latents)
        return original(latents)

    original = _latent_processes._arrays
    monkeypatch.setattr(_latent_processes, "_arrays", arrays)
    S, z = rows_and_losses(rng)
    gp = small().fit(S, z)
    (latents,) = kept
    x = (S - S.mean(axis=0)) / S.std(axis=0)
    with torch.no_grad():
        both = latents.eval()(torch.as_tensor(x))
    mean, deviation = gp.processes_.moments(x)
    assert_close(mean, both.mean.numpy(), rtol=1e-8, atol=1e-10)
    assert_close(deviation**2, both.variance.numpy(), rtol=1e-6, atol=1e-8)


def test_the_objective_is_the_expected_log_density(rng):
    import torch

    from locuscore.engines._latent_processes import expected_log_density

    mean, variance, y = rng.normal(size=(2, 4)), rng.uniform(0.1, 0.5, (2, 4)), rng.normal(size=4)
    found = expected_log_density(*(torch.as_tensor(part) for part in (mean, variance, y))).numpy()
    f, s = (mean + np.sqrt(variance) * rng.normal(size=(100_000, 2, 4))).swapaxes(0, 1)
    sampled = norm.logpdf(y, f, np.exp(s))
    error = sampled.std(axis=0) / np.sqrt(len(sampled))
    assert (np.abs(sampled.mean(axis=0) - found) < 6 * error).all()


def test_draws_are_fixed_quantiles_of_both_latents(rng):
    S, z = rows_and_losses(rng)
    gp = small(transform="identity", n_draws=200).fit(S, z)
    draws = gp.predict_draws(S)
    assert isinstance(draws, NormalDraws)
    assert draws.shape == (200, 200)
    mean, deviation = gp.processes_.moments((S - S.mean(axis=0)) / S.std(axis=0))
    location = z.mean() + z.std() * mean[0]
    assert_close(draws.location.mean(axis=1), location, rtol=1e-9)
    assert_close(draws.location.std(axis=1), z.std() * deviation[0], rtol=0.03)
    assert np.abs(np.corrcoef(gp.quantiles_.T)[0, 1]) < 0.03
    assert_close(gp.quantiles_.mean(axis=0), np.zeros(2), atol=0.02)
