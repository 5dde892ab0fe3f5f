import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from helpers import assert_close, raises
from locuscore._inputs.losses import finite_support
from locuscore._laws.calibration import calibrated_level, smallest_alpha
from locuscore._laws.distribution import SMALLEST_SURVIVAL, Floor, LossDistribution, Support
from locuscore.draws import Draws, GridDraws, NormalDraws, ShapeDraws, StackedDraws, StepDraws
from locuscore.draws._points import TAIL_INDEX

ALPHAS = ("0.5", "0.25", "0.1", "0.05")
gammas = st.floats(0.01, 0.99)


def normal_stack(rng, n, n_draws=7):
    return rng.uniform(1, 3, size=(n, n_draws)), rng.uniform(0.6, 1.5, size=(n, n_draws))


def row_laws(location, scale):
    return [
        [reference.normal_cdf(m, s) for m, s in zip(ms, ss, strict=True)]
        for ms, ss in zip(location, scale, strict=True)
    ]


def reduced(laws, gamma):
    if gamma is None:
        return [reference.average(draws) for draws in laws]
    return [reference.envelope(draws, g) for draws, g in zip(laws, gamma, strict=True)]


def assert_equals_reference(cal_dist, cal_laws, new_dist, new_laws, z):
    """Tails, bounds and exceedances against PIT values, F^{-1}(t) and the scan over alphas."""
    pits = reference.pit_values(cal_laws, z)
    tails = cal_dist.tail(z)
    assert_close(tails, 1 - np.array(pits), atol=1e-12)
    for alpha in ALPHAS:
        bound = new_dist.isf(calibrated_level(tails, float(alpha)))
        slow = [reference.loss_bound(law, pits, Fraction(alpha), -90.0, 90.0) for law in new_laws]
        assert_close(bound, slow, rtol=1e-9)
    for tau in (0.5, 2.0, 3.5):
        slow = [reference.exceedance(law, pits, tau, -90.0, 90.0) for law in new_laws]
        assert_close(smallest_alpha(tails, new_dist.sf(tau)), slow)


@pytest.mark.parametrize("with_gamma", [False, True])
def test_normal_draws_equal_the_reference(with_gamma, rng):
    cal, new = normal_stack(rng, 30), normal_stack(rng, 4)
    gamma_cal = rng.uniform(0.15, 0.9, size=30) if with_gamma else None
    gamma_new = rng.uniform(0.15, 0.9, size=4) if with_gamma else None
    assert_equals_reference(
        LossDistribution(NormalDraws(*cal), gamma_cal),
        reduced(row_laws(*cal), gamma_cal),
        LossDistribution(NormalDraws(*new), gamma_new),
        reduced(row_laws(*new), gamma_new),
        rng.normal(2, 0.8, size=30),
    )


@pytest.mark.parametrize("with_gamma", [False, True])
def test_grid_draws_equal_the_reference(with_gamma, rng):
    levels = np.array([1.0, 0.8, 0.4, 0.1])

    def laws(n):
        quantiles = np.sort(rng.uniform(0, 4, size=(n, 3, 4)), axis=2)
        # Each law starts below every loss: ties at survival 1 would make the law discontinuous.
        quantiles[:, :, 0] = -1.0
        scale = rng.uniform(0.5, 2, size=n)
        gamma = rng.uniform(0.15, 0.9, size=n) if with_gamma else None
        slow = [
            [reference.grid_cdf(list(q), list(1 - levels), s, TAIL_INDEX) for q in row]
            for row, s in zip(quantiles, scale, strict=True)
        ]
        return LossDistribution(GridDraws(quantiles, levels, scale), gamma), reduced(slow, gamma)

    assert_equals_reference(*laws(30), *laws(4), rng.uniform(0, 5, size=30))


def test_stacks_of_normal_mixtures_equal_the_reference(rng):
    """Each part of the stack is a mixture of normals, as a bagged mixture engine would give."""
    cal, new = normal_stack(rng, 25, 6), normal_stack(rng, 3, 6)

    def mixtures(location, scale):
        parts = [
            NormalDraws(location[:, start : start + 2], scale[:, start : start + 2])
            for start in (0, 2, 4)
        ]
        return LossDistribution(StackedDraws(parts))

    assert_equals_reference(
        mixtures(*cal),
        reduced(row_laws(*cal), None),
        mixtures(*new),
        reduced(row_laws(*new), None),
        rng.normal(2, 0.8, size=25),
    )


@given(st.integers(1, 30), gammas, st.integers(0, 2**20))
def test_envelope_is_the_rth_largest_survival_and_inverse(n_draws, gamma, seed):
    rng = np.random.default_rng(seed)
    draws = NormalDraws(rng.normal(size=(1, n_draws)), rng.uniform(0.5, 2, size=(1, n_draws)))
    dist = LossDistribution(draws, np.array([gamma]))
    r = max(1, math.ceil(gamma * n_draws))
    z, level = rng.normal(), rng.uniform(0.01, 0.9)
    assert dist.sf(z)[0] == sorted(draws.sf(np.array([[z]]))[0])[-r]
    expected = sorted(draws.isf(np.array([[level]]))[0])[-r]
    assert_close(dist.isf(level), [expected], rtol=1e-12, atol=1e-15)


@given(gammas, gammas, st.floats(1e-6, 0.99), st.integers(0, 2**20))
def test_a_smaller_gamma_never_lowers_the_bound(first, second, level, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, size=(3, 8, 4)).astype(float)
    draws = StepDraws(values, values.max(axis=(1, 2)), np.ones(3))
    careful, bold = sorted((first, second))
    low = LossDistribution(draws, np.full(3, careful))
    high = LossDistribution(draws, np.full(3, bold))
    assert (low.isf(level) >= high.isf(level)).all()
    assert (low.sf(2.0) >= high.sf(2.0)).all()


SUPPORTS = {
    "none": Support(),
    "interval": Support(0.0, 3.0),
    "half": Support(low=1.0),
    "set": finite_support([0.0, 1.0, 3.0, 4.0]),
}


def atomic(rng, n, n_draws=4):
    values = rng.integers(0, 5, size=(n, n_draws, 3)).astype(float)
    return StepDraws(values, values.max(axis=(1, 2)), np.ones(n))


@pytest.mark.parametrize("name", SUPPORTS)
@given(st.integers(0, 2**20), st.booleans(), st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.7]))
def test_bound_and_exceedance_agree_with_ties_and_atoms(name, seed, with_gamma, alpha):
    """``loss_bound <= tau`` exactly when ``exceedance <= alpha``."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    support = SUPPORTS[name]
    gamma = rng.uniform(0.1, 0.9, size=n) if with_gamma else None
    z = rng.choice([0.0, 1.0, 3.0, 4.0], size=n)
    z = np.clip(z, support.low, support.high)
    floor = Floor(4.0, 1.0)
    tails = LossDistribution(atomic(rng, n), gamma, support, floor).tail(z)
    new = LossDistribution(atomic(rng, n), gamma, support, floor)
    level = calibrated_level(tails, alpha)
    bound = new.isf(level)
    for tau in [t for t in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0) if t < support.high]:
        assert_close(bound <= tau, smallest_alpha(tails, new.sf(tau)) <= alpha)
        if support.contains(np.array(tau)):
            assert_close(new.tail(tau) >= level, bound >= tau)
    if support.points is not None:
        assert np.isin(bound, support.points).all()


@given(st.integers(0, 2**20), st.booleans())
def test_the_bound_never_rises_with_the_level(seed, with_gamma):
    rng = np.random.default_rng(seed)
    gamma = rng.uniform(0.1, 0.9, size=5) if with_gamma else None
    levels = np.sort(np.append(rng.uniform(size=20), [0.0, 1e-310, 1e-200, 0.01, 1.0]))
    for draws in (atomic(rng, 5), NormalDraws(*normal_stack(rng, 5))):
        dist = LossDistribution(draws, gamma, floor=Floor(4.0, 1.0))
        bounds = dist.isf(levels[None, :])
        assert (bounds[:, 1:] <= bounds[:, :-1]).all()


def test_an_interval_clips_the_law_and_the_bound():
    draws = NormalDraws(np.array([[1.0]]), np.array([[1.0]]))
    dist = LossDistribution(draws, support=Support(0.0, 2.0))
    assert dist.sf(-1e-9) == 1.0
    assert_close(dist.tail(0.0), [1.0], rtol=1e-14)
    assert dist.sf(2.0) == 0.0
    assert dist.tail(2.0) > 0.1
    assert_close(dist.isf(np.array([[0.0, 1e-9, 0.99]])), [[2.0, 2.0, 0.0]])


def test_a_set_rounds_the_bound_down_to_an_attainable_loss():
    draws = NormalDraws(np.array([[1.5]]), np.array([[1.0]]))
    dist = LossDistribution(draws, support=finite_support([0, 1, 2, 5]))
    assert_close(dist.isf(np.array([[0.0, 1e-9, 0.5, 0.9]])), [[5.0, 5.0, 1.0, 0.0]])
    # Between two attainable losses nothing can happen.
    assert_close(dist.sf(np.array([[2.0]])), dist.sf(np.array([[4.9]])))
    assert_close(dist.tail(5.0), dist.sf(2.0), rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_with_a_floor_no_law_reaches_zero(scale):
    draws = NormalDraws(np.zeros((2, 1)), scale * np.ones((2, 1)))
    assert (LossDistribution(draws).sf(50 * scale) == 0).all()
    dist = LossDistribution(draws, floor=Floor(scale, scale))
    far = scale * np.array([[50.0, 1e3, 1e9, 1e20]])
    tails = dist.tail(far)
    assert (tails > 0).all()
    assert (np.diff(tails[:, 1:], axis=1) < 0).all()
    for column in range(far.shape[1]):
        bound = dist.isf(tails[:, column])
        assert np.isfinite(bound).all()
        assert (bound >= far[0, column]).all()


def test_the_floor_is_no_part_of_ordinary_levels():
    floor = Floor(1.0, 1.0)
    assert np.isneginf(floor.isf(np.array([2 * SMALLEST_SURVIVAL])))
    assert_close(floor.isf(np.array([SMALLEST_SURVIVAL / 4])), [4.0], rtol=1e-12)
    # The largest float stands for infinity when a loss is the last of a finite set.
    assert floor.sf(np.array([np.finfo(float).max])) == 0.0
    assert Floor(1.0, 0.4).sf(np.array([np.finfo(float).max])) == 0.0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_end_of_a_finite_set_raises_no_overflow(scale):
    """Tails beyond the last attainable loss are not evaluated."""
    values = scale * np.array([[[0.0, 0.0, 1.0]]])
    step = StepDraws(values, scale * np.ones(1), 1e-9 * scale * np.ones(1))
    shape = ShapeDraws(1e-6 * scale * np.ones((1, 1)), 1e6 * values[0, 0] / scale, 1e-9)
    for draws in (step, shape):
        support = finite_support([0.0, scale])
        dist = LossDistribution(draws, support=support, floor=Floor(scale, scale))
        assert dist.sf(scale) == 0.0
        assert dist.sf(1e308) == 0.0
        assert dist.tail(scale) > 0.2
        assert LossDistribution(draws).sf(1e308) == 0.0


def test_level_zero_is_infinite_and_level_one_is_finite():
    draws = NormalDraws(np.zeros((2, 3)), np.ones((2, 3)))
    for gamma in (None, np.full(2, 0.5)):
        dist = LossDistribution(draws, gamma, floor=Floor(1.0, 1.0))
        assert np.isposinf(dist.isf(0.0)).all()
        assert np.isfinite(dist.isf(1.0)).all()


@pytest.mark.parametrize("method", ["sf", "cdf", "tail", "isf", "ppf"])
def test_shapes(method, rng):
    dist = LossDistribution(NormalDraws(*normal_stack(rng, 4)))
    function = getattr(dist, method)
    assert len(dist) == 4
    assert function(0.5).shape == (4,)
    row = np.array([[0.2, 0.4, 0.6]])
    assert function(row).shape == (4, 3)
    assert_close(function(np.repeat(row, 4, axis=0)), function(row))
    # The average of normals is inverted by iteration, in which the levels of a row help each other.
    assert_close(function(row)[:, 1], function(0.4), rtol=1e-11 if method in ("isf", "ppf") else 0)
    per_row = rng.uniform(0.1, 0.9, size=4)
    assert_close(function(per_row), function(per_row[:, None])[:, 0])
    assert function(np.empty((1, 0))).shape == (4, 0)


def test_cdf_and_ppf_are_the_complements(rng):
    dist = LossDistribution(NormalDraws(*normal_stack(rng, 4)))
    assert_close(dist.cdf(1.3), 1 - dist.sf(1.3))
    assert_close(dist.ppf(0.75), dist.isf(0.25))
    assert_close(dist.cdf(dist.ppf(0.75)), np.full(4, 0.75), rtol=1e-9)


@given(st.integers(0, 2**20), st.floats(1e-12, 0.999))
def test_every_inverse_falls_below_its_level(seed, level):
    """The rounding guard: without it the row that set the level is missed now and then."""
    rng = np.random.default_rng(seed)
    draws = NormalDraws(*normal_stack(rng, 20))
    for gamma in (None, rng.uniform(0.1, 0.9, size=20)):
        dist = LossDistribution(draws, gamma)
        assert (dist.sf(dist.isf(level)) < level).all()
        z = rng.normal(2, 1, size=20)
        assert (z <= dist.isf(dist.tail(z))).all()


@pytest.mark.parametrize("level", [np.nan, -0.1, 1.5])
def test_levels_are_probabilities(level):
    dist = LossDistribution(NormalDraws(np.zeros((3, 1)), np.ones((3, 1))))
    with raises(ValueError, "levels", "0 to 1"):
        dist.isf(level)


def test_a_wrong_shape_is_told_what_would_do():
    dist = LossDistribution(NormalDraws(np.zeros((3, 1)), np.ones((3, 1))))
    for method in (dist.isf, dist.sf):
        with raises(ValueError, "(1, m)", "(3, m)", "got shape (2,)"):
            method([0.1, 0.2])


@pytest.mark.parametrize("is_shared", [True, False])
def test_many_levels_of_step_laws_invert_together_as_one_by_one(is_shared, rng):
    # Ties among the points, levels at the jumps, in the tail and at both ends.
    levels = np.array([0.0, 1e-9, 0.005, 0.01, 0.0225, 0.26, 0.5, 0.505, 0.9, 1.0])
    for n, n_points in ((1, 1), (4, 4), (7, 12)):
        points = rng.integers(0, 5, size=(n, 3, n_points)).astype(float)
        draws = StepDraws(points, points.max(axis=(1, 2)), np.ones(n))
        dist = LossDistribution(draws, floor=Floor(5.0, 1.0))
        given = levels[None, :] if is_shared else rng.permuted(np.tile(levels, (n, 1)), axis=1)
        alone = Draws.joint_isf(draws.average(), np.broadcast_to(given, (n, len(levels))))
        assert_close(dist.isf(given), np.where(given > 0, alone, np.inf))


@pytest.mark.parametrize("with_gamma", [False, True])
def test_bounds_of_every_family_never_rise_with_the_level(with_gamma, rng):
    """Searches at close levels may end in the wrong order, so neighbouring floats are asked for."""
    gamma = rng.uniform(0.1, 0.9, size=5) if with_gamma else None
    draws = StackedDraws([NormalDraws(*normal_stack(rng, 5)), atomic(rng, 5)])
    dist = LossDistribution(draws, gamma)
    levels = 0.1 * (1 + 1e-13 * np.arange(40))
    for shape in (levels[None, :], np.tile(levels, (5, 1))):
        assert (np.diff(dist.isf(shape), axis=1) <= 0).all()
