"""Very large and very small losses: scaled bounds, or one sentence."""

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import Locus
from locuscore.engines import Auto, Bagged, Ensemble, Forest, Gaussian, QuantileGrid, Scale

FOREST = Forest(n_trees=4)
CORE = {
    "Auto": Auto([FOREST, Scale()], cv=2),
    "Bagged": Bagged(Gaussian(), n_draws=2),
    "Ensemble": Ensemble([FOREST, Gaussian()], weights="stacked", cv=2),
    "Forest": FOREST,
    "Gaussian": Gaussian(),
    "QuantileGrid": QuantileGrid((0.5, 0.9)),
    "Scale": Scale(),
}


def rows(rng):
    S = rng.uniform(size=(150, 3))
    return S, (0.2 + 2.0 * S[:, 0]) * np.abs(rng.normal(size=150))


def bounds(engine, S, z):
    locus = Locus(None, engine=engine, random_state=0).fit_losses(S, z)
    return locus.loss_bound(S[:20], [0.5, 0.1])


def assert_scales(engine, rng):
    S, z = rows(rng)
    expected = bounds(engine, S, z)
    for factor in (2.0**450, 2.0**-450):
        assert_close(bounds(engine, S, factor * z) / factor, expected, rtol=1e-9)


@pytest.mark.parametrize("name", CORE)
def test_bounds_follow_losses_far_beyond_single_precision(name, rng):
    assert_scales(CORE[name], rng)


@pytest.mark.extra
@pytest.mark.parametrize("name", ["BART", "MDN"])
def test_engines_on_other_packages_do_too(name, rng):
    from locuscore import engines

    small = {"BART": {"n_draws": 4, "n_trees": 4}, "MDN": {"n_draws": 4, "max_epochs": 3}}[name]
    assert_scales(getattr(engines, name)(**small), rng)


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("factor", [2.0**1000, 1e300, 2.0**-1000, 2.0**-1060])
def test_losses_whose_squares_are_no_floats_are_refused(name, factor, rng):
    S, z = rows(rng)
    with raises(ValueError, "largest loss", "1e-150", "1e+151"):
        bounds(CORE[name], S, factor * z)
    y = np.where(S[:, 0] > 0.5, factor, 0.0)
    with raises(ValueError, "largest loss", "1e-150", "1e+151"):
        Locus(lambda X: np.zeros(len(X)), engine=CORE[name], random_state=0).fit(S, y)


def test_only_the_largest_loss_counts(rng):
    S, z = rows(rng)
    tiny = np.where(S[:, 1] > 0.5, 1e-310 * z, z)
    assert np.isfinite(bounds(FOREST, S, tiny)).all()
    assert_close(bounds(FOREST, S, np.zeros(150)), np.zeros((20, 2)), atol=1e-6)
