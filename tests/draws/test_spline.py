"""Laws by a spline: a slow transcription, the upper inverse, and straight lines at the ends."""

import numpy as np
import pytest
from scipy.stats import norm

from helpers import assert_close
from locuscore.draws import NormalDraws, SplineDraws

N, S, M = 7, 3, 5
LEVELS = np.array([1 - 1e-9, 0.9, 0.5, 0.1, 1e-3, 1e-12])


@pytest.fixture
def laws(rng):
    places = np.cumsum(rng.exponential(size=(N, S, M)) + 0.01, axis=2) - 2.0
    values = 3 * np.cumsum(rng.exponential(size=(N, S, M)) + 0.01, axis=2) / M - 2.0
    return SplineDraws(places, values, np.exp(2 * rng.normal(size=(N, S, M))))


def slow_spline(places, values, slopes, z):
    """T at one z, piece by piece as the docstring has it."""
    if z < places[0]:
        return values[0] + slopes[0] * (z - places[0])
    if z >= places[-1]:
        return values[-1] + slopes[-1] * (z - places[-1])
    j = max(i for i in range(len(places) - 1) if places[i] <= z)
    w, h = places[j + 1] - places[j], values[j + 1] - values[j]
    s, t, a, b = h / w, (z - places[j]) / w, slopes[j], slopes[j + 1]
    top = s * t**2 + a * t * (1 - t)
    return values[j] + h * top / (s + (a + b - 2 * s) * t * (1 - t))


def test_survival_is_that_of_the_slow_spline(laws):
    for z in np.linspace(-6, 12, 41):
        expected = [
            [
                norm.sf(slow_spline(laws.places[i, j], laws.values[i, j], laws.slopes[i, j], z))
                for j in range(S)
            ]
            for i in range(N)
        ]
        assert_close(laws.sf(np.full((N, 1), z)), expected, rtol=1e-9, atol=1e-300)


def test_the_inverse_is_the_inverse(laws):
    for level in LEVELS:
        at = laws.isf(np.full((N, 1), level))
        assert_close(laws.sf(at), np.full((N, S), level), rtol=1e-6)
    grid = np.linspace(-8, 20, 2001)
    survival = np.stack([laws.sf(np.full((N, 1), z)) for z in grid])
    assert (np.diff(survival, axis=0) <= 0).all()


def test_a_straight_spline_is_a_normal_law(rng):
    location, scale = rng.normal(size=(N, S)), rng.exponential(size=(N, S)) + 0.1
    values = np.broadcast_to(np.array([-2.0, 0.5, 3.0]), (N, S, 3))
    places = location[:, :, None] + scale[:, :, None] * values
    spline = SplineDraws(places, values, np.broadcast_to(1 / scale[:, :, None], (N, S, 3)))
    plain = NormalDraws(location, scale)
    for z in (-30.0, -1.0, 0.3, 4.0):
        assert_close(spline.sf(np.full((N, 1), z)), plain.sf(z), rtol=1e-9)
    assert_close(spline.isf(np.full((N, 1), 0.2)), plain.isf(0.2), rtol=1e-9)
    moved, expected = spline.affine(5.0, 3.0), plain.affine(5.0, 3.0)
    assert_close(moved.sf(np.full((N, 1), 6.0)), expected.sf(6.0), rtol=1e-9)


def test_level_zero_is_infinite_and_infinity_has_no_survival(laws):
    assert np.isposinf(laws.isf(np.zeros((N, 1)))).all()
    assert np.isfinite(laws.isf(np.ones((N, 1)))).all()
    assert (laws.sf(np.full((N, 1), np.inf)) == 0).all()
    assert (laws.sf(np.full((N, 1), -np.inf)) == 1).all()
    assert (laws.sf(np.full((N, 1), 1e308)) == 0).all()
