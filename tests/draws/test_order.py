"""Order statistics by keys are those of the sorted floats, whatever the floats are like."""

import numpy as np
import pytest

from locuscore.draws import _order
from locuscore.draws._order import FEWEST_NUMBERS, order_statistics

N, M = 50, 800
MADE = {
    "continuous": lambda rng: rng.exponential(size=(N, M)),
    "heavy tails": lambda rng: rng.pareto(0.3, size=(N, M)),
    "atoms": lambda rng: rng.integers(3, size=(N, M)) / 10,
    "some ties": lambda rng: np.round(rng.exponential(size=(N, M)), 2),
    "zeros of both signs": lambda rng: rng.choice([0.0, -0.0, 1.0], size=(N, M)),
    "negative": lambda rng: rng.normal(size=(N, M)),
    "one value": lambda rng: np.full((N, M), 0.1),
    "very small": lambda rng: 1e-310 * rng.random((N, M)),
    "very large": lambda rng: 1e300 * rng.random((N, M)),
    "close together": lambda rng: 1.0 + 1e-12 * rng.integers(50, size=(N, M)),
    "some close together": lambda rng: (
        rng.integers(1, 60, size=(N, M)) * (1.0 + 1e-13 * (rng.random((N, M)) < 0.01))
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_values_are_those_of_sorted_floats(name, rng):
    points = MADE[name](rng)
    assert points.size >= FEWEST_NUMBERS
    expected = np.sort(points, axis=1)
    assert np.array_equal(order_statistics(points, np.arange(M)), expected)
    assert np.array_equal(order_statistics(points, np.array([720, 3])), expected[:, [720, 3]])
    place = rng.integers(M, size=(N, 2))
    found = order_statistics(points, place)
    assert np.array_equal(found, np.take_along_axis(expected, place, axis=1))


def test_points_of_equal_code_are_looked_at(rng, monkeypatch):
    """The twin: without the second look, the example is answered wrongly."""
    points = MADE["some close together"](rng)
    expected = np.sort(points, axis=1)
    monkeypatch.setattr(_order, "_by_sorting", lambda points, place: np.zeros(place.shape))
    found = order_statistics(points, np.arange(M))
    assert not np.array_equal(found, expected)
    assert np.array_equal(found[found > 0], expected[found > 0])
