"""Laws given by their survival at shared places: lines, atoms, flats, the tail, the inverse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import assert_close
from locuscore._laws.distribution import LossDistribution
from locuscore.draws import AverageDraws, SurvivalDraws
from locuscore.draws._points import TAIL_INDEX
from locuscore.testing._draws_contract import check_overrides


@st.composite
def survival_laws(draw):
    """Few places and levels, so that atoms, flats and a jump at the first place are common."""
    m, n_draws = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    places = sorted(draw(st.lists(st.integers(-2, 3), min_size=m, max_size=m)))
    levels = st.lists(st.integers(1, 16), min_size=m, max_size=m)
    rows = [sorted(draw(levels), reverse=True) for _ in range(n_draws)]
    scale = np.array([2.0 ** draw(st.integers(-4, 4))])
    return SurvivalDraws(np.array([rows]) / 16.0, np.array(places, dtype=float), scale)


def slow_survival(places, survival, scale, z):
    """The definition, place by place."""
    if z < places[0]:
        return 1.0
    if z >= places[-1]:
        return survival[-1] * (1 + (z - places[-1]) / scale) ** -TAIL_INDEX
    i = max(j for j, place in enumerate(places) if place <= z)
    share = (z - places[i]) / (places[i + 1] - places[i])
    return survival[i] + (survival[i + 1] - survival[i]) * share


@given(survival_laws(), st.floats(-3, 5))
def test_survival_is_that_of_the_definition(draws, z):
    expected = [
        slow_survival(draws.places.tolist(), row.tolist(), draws.scale[0], z)
        for row in draws.survival[0]
    ]
    assert_close(draws.sf(np.array([[z]]))[0], expected, rtol=1e-12)


@settings(max_examples=40)
@given(survival_laws(), st.none() | st.floats(0.01, 0.99))
def test_the_inverse_is_the_upper_one(draws, gamma):
    """At the levels that are attained, between them, and in the tail."""
    law = LossDistribution(draws, None if gamma is None else np.array([gamma]))
    levels = np.unique(draws.survival)
    for level in np.concatenate([levels, (levels[1:] + levels[:-1]) / 2, [levels[0] / 2]]):
        bound = law.isf(level)[0]
        assert law.sf(np.array([bound]))[0] < level
        below = np.array([bound - 1e-9 * (1 + abs(bound))])
        assert law.sf(below)[0] >= level - 1e-12


def test_atoms_and_flats_have_their_right_ends():
    # Half of the mass at 0, none between 1 and 2, the rest on a line from 2 to 3 and a tail.
    places = np.array([0.0, 0.0, 1.0, 2.0, 3.0])
    survival = np.array([[[1.0, 0.5, 0.25, 0.25, 0.125]]])
    draws = SurvivalDraws(survival, places, np.ones(1))
    at = [[-0.1], [0.0], [0.5], [1.0], [1.7], [2.5], [3.0]]
    many = SurvivalDraws(np.repeat(survival, 7, axis=0), places, np.ones(7))
    assert_close(many.sf(np.array(at))[:, 0], [1.0, 0.5, 0.375, 0.25, 0.25, 0.1875, 0.125])
    inverses = [draws.isf(np.array([[s]]))[0, 0] for s in (1.0, 0.7, 0.5, 0.25, 0.1875)]
    assert_close(inverses, [0.0, 0.0, 0.0, 2.0, 2.5])
    assert draws.isf(np.array([[0.125 / 8]]))[0, 0] == pytest.approx(4.0)


@settings(max_examples=20)
@given(survival_laws())
def test_what_it_overrides_is_what_defines_it(draws):
    check_overrides(draws, np.linspace(-3, 5, 9), np.array([0.9, 0.6, 0.31, 0.1, 0.01]))
    z = np.array([[0.3]])
    assert_close(draws.average().sf(z), AverageDraws(draws).sf(z), rtol=1e-12)
