"""Flow: its laws are zuko's, each member stops at its own best epoch, and what an atom becomes."""

import numpy as np
import pytest

from helpers import assert_close
from locuscore import Locus, engines
from locuscore.draws import SplineDraws

pytestmark = pytest.mark.extra


def small(**parameters):
    settings = {"n_draws": 3, "n_hidden": 8, "n_bins": 4, "max_epochs": 6, "random_state": 0}
    return engines.Flow(**settings | parameters)


def rows_and_losses(rng, n=200):
    S = rng.uniform(size=(n, 3))
    return S, (0.2 + 2 * S[:, 0]) * np.abs(rng.normal(size=n))


def standardised(flow, S, z):
    import torch

    x, y = (S - S.mean(axis=0)) / S.std(axis=0), flow.target_.forward(z)
    n_draws = len(flow.network_.weights[0])
    x, y = (torch.as_tensor(part).expand(n_draws, *part.shape) for part in (x, y))
    return [torch.as_tensor(part) for part in flow.network_.weights], x, y


def test_the_density_is_that_of_zuko(rng):
    from locuscore.engines._flow_network import log_density

    S, z = rows_and_losses(rng)
    flow = small(transform="identity").fit(S, z)
    draws = flow.predict_draws(S)
    assert isinstance(draws, SplineDraws)
    expected = np.exp(log_density(*standardised(flow, S, z)).numpy().T) / z.std()
    step = 1e-6 * z.std()
    low, high = (draws.sf((z + d)[:, None]) for d in (-step, step))
    assert_close((low - high) / (2 * step), expected, rtol=1e-4, atol=1e-6)


def test_members_differ_and_each_keeps_its_best_epoch(rng):
    from locuscore.engines._flow_network import log_density

    S, z = rows_and_losses(rng, 120)
    flow = small(max_epochs=60, patience=3, learning_rate=0.05).fit(S, z)
    assert len(flow.network_.history) == flow.network_.best_epoch + 4 < 60
    held = flow.held_out_rows_
    assert held.shape == (3, 24)
    assert len({tuple(np.sort(part)) for part in held}) == 3
    density = log_density(*standardised(flow, S, z)).numpy()
    kept = [-density[j, part].mean() for j, part in enumerate(held)]
    assert np.mean(kept) <= min(flow.network_.history) + 1e-5
    spread = np.std(flow.predict_draws(S).isf(np.full((120, 1), 0.1)), axis=1)
    assert (spread > 0).all()


def test_an_atom_becomes_a_steep_rise_and_ties_are_counted(rng):
    S = rng.uniform(size=(400, 2))
    z = np.where(rng.uniform(size=400) < 0.6, 0.0, 1.0 + rng.exponential(size=400))
    locus = Locus(None, engine=small(max_epochs=60, n_bins=8), signals=np.asarray, random_state=0)
    locus.fit_losses(S, z)
    law = locus.loss_dist(S)
    around = [law.sf(np.full(400, at)) for at in (-0.5, 0.5)]
    assert np.mean(around[0]) > 0.9
    assert 0.25 < np.mean(around[1]) < 0.5
    rows = locus.calibration_rows_
    assert np.mean(z[rows] <= locus.loss_bound(S[rows], 0.5)) >= 0.5
