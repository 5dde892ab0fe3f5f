from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import reference
from helpers import assert_close
from locuscore._laws.distribution import LossDistribution
from locuscore._protocols import LossDraws
from locuscore.draws import (
    AverageDraws,
    GridDraws,
    MixtureDraws,
    NormalDraws,
    RankedDraws,
    ShapeDraws,
    StackedDraws,
    StepDraws,
    TransformedDraws,
    WeightedDraws,
    average,
    envelope,
    floats_per_row,
    joint_isf,
    smallest_scale,
)
from locuscore.draws._points import TAIL_INDEX
from locuscore.testing._draws_contract import check_overrides

# Few distinct values, negative ones and zero included, so that atoms, flats and ties are common.
points = st.lists(st.integers(-3, 4).map(float), min_size=1, max_size=6)
powers = st.integers(-4, 6).map(lambda p: 2.0**p)


@st.composite
def step_laws(draw):
    n_draws, m = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    flat = draw(st.lists(st.integers(-3, 4), min_size=n_draws * m, max_size=n_draws * m))
    values = np.array(flat, dtype=float).reshape(1, n_draws, m)
    gap = draw(st.sampled_from([0.0, 1.0]))
    mass = draw(st.sampled_from([0.01, 0.125]))
    return StepDraws(values, values.max(axis=(1, 2)) + gap, np.array([draw(powers)]), mass)


@st.composite
def shape_laws(draw):
    shape = np.sort(np.array(draw(points)))
    scale = np.array([[draw(powers) for _ in range(draw(st.integers(1, 3)))]])
    return ShapeDraws(scale, shape, draw(powers))


@st.composite
def grid_laws(draw):
    levels = np.array([1.0, *sorted(draw(st.sets(st.integers(1, 15), min_size=1)), reverse=True)])
    levels[1:] /= 16
    size = len(levels)
    rows = [
        sorted(draw(st.lists(st.integers(-3, 4), min_size=size, max_size=size)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    return GridDraws(np.array([rows], dtype=float), levels, np.array([draw(powers)]))


def candidates(draws):
    """Losses at, just below, just above and between the points of a law, and out in its tail."""
    if isinstance(draws, ShapeDraws):
        found = (draws.shape_points[:, None] * draws.scale[0]).ravel()
    elif isinstance(draws, StepDraws):
        found = np.append(draws.points.ravel(), draws.top)
    else:
        found = draws.quantiles.ravel()
    found = np.unique(found)
    around = [np.nextafter(found, -np.inf), found, np.nextafter(found, np.inf), found + 0.5]
    return np.unique(np.concatenate([*around, found - 0.5, found[-1:] + 3.0]))


def assert_upper_inverse(draws, gamma, tail_mass):
    """``tail(z) >= s`` exactly when ``z <= isf(s)``, at every attained level and between them.

    On a power tail the inverse is rounded, so "exactly" is for the levels above its mass.
    """
    dist = LossDistribution(draws, gamma)
    z = candidates(draws)
    tails = np.array([dist.tail(value)[0] for value in z])
    steps = np.unique(tails[tails > tail_mass])
    for level in np.concatenate([steps, (steps[1:] + steps[:-1]) / 2]):
        bound = dist.isf(level)[0]
        assert ((tails >= level) == (z <= bound)).all(), (level, bound)


@given(step_laws(), st.none() | st.floats(0.01, 0.99))
def test_step_laws_have_an_exact_upper_inverse(draws, gamma):
    assert_upper_inverse(draws, None if gamma is None else np.array([gamma]), draws.tail_mass)


@given(shape_laws(), st.floats(0.01, 0.99))
def test_shape_laws_have_an_exact_upper_inverse(draws, gamma):
    assert_upper_inverse(draws, np.array([gamma]), 1 / (len(draws.shape_points) + 1))


@given(shape_laws(), st.floats(0.001, 0.99))
def test_shape_laws_on_average_have_an_upper_inverse_to_rounding(draws, level):
    assert_inverse_to_rounding(LossDistribution(draws), level)


def test_the_upper_inverse_test_would_notice_the_lower_one():
    class Lower(StepDraws):
        """``inf{z : P(Z > z) <= level}``: the left end of a flat."""

        def isf(self, level):
            return super().isf(np.broadcast_to(level, self.shape) + 1e-9)

        def joint_isf(self, level):
            return self.isf(level)

    points, top, scale = np.array([[[0.0, 1.0, 3.0, 3.0]]]), np.array([3.0]), np.ones(1)
    assert_upper_inverse(StepDraws(points, top, scale), np.ones(1), 0.01)
    with pytest.raises(AssertionError):
        assert_upper_inverse(Lower(points, top, scale), np.ones(1), 0.01)


@given(grid_laws(), st.none() | st.floats(0.01, 0.99), st.floats(0.001, 0.999))
def test_grid_laws_have_an_upper_inverse_to_rounding(draws, gamma, level):
    dist = LossDistribution(draws, None if gamma is None else np.array([gamma]))
    assert_inverse_to_rounding(dist, level)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 5)), min_size=1, max_size=5), st.data())
def test_normal_laws_have_an_upper_inverse_to_rounding(parameters, data):
    location, scale = np.array(parameters).T
    gamma = data.draw(st.none() | st.floats(0.01, 0.99))
    draws = NormalDraws(location[None], scale[None])
    dist = LossDistribution(draws, None if gamma is None else np.array([gamma]))
    assert_inverse_to_rounding(dist, data.draw(st.floats(1e-9, 0.99)))


def assert_inverse_to_rounding(dist, level):
    bound = dist.isf(level)[0]
    assert dist.sf(bound)[0] < level
    nearby = 1e-9 * (1 + abs(bound))
    assert dist.tail(bound - nearby)[0] >= level * (1 - 1e-12)


@given(step_laws(), st.integers(-6, 8))
def test_pooled_steps_are_the_mean_of_the_draws(draws, twice):
    z = np.array([[twice / 2]])
    pooled = draws.average()
    assert pooled.shape == (1, 1)
    assert_close(pooled.sf(z), AverageDraws(draws).sf(z), rtol=1e-14)


@given(step_laws(), st.floats(0.001, 0.99))
def test_pooled_steps_invert_like_the_general_average(draws, level):
    general = LossDistribution(AverageDraws(draws)).isf(level)
    assert_close(LossDistribution(draws).isf(level), general, rtol=1e-9, atol=1e-9)


@given(st.lists(points, min_size=2, max_size=3), st.integers(-6, 8), st.floats(0.001, 0.999))
def test_stacked_draws_are_their_parts_side_by_side(samples, twice, level):
    parts = [ShapeDraws(np.ones((2, 2)), np.sort(np.array(sample)), 1.0) for sample in samples]
    stack = StackedDraws(parts)
    assert stack.shape == (2, 2 * len(parts))
    for method, value in (("sf", twice / 2), ("isf", level)):
        together = getattr(stack, method)(np.full((2, 1), value))
        apart = [getattr(part, method)(np.full((2, 1), value)) for part in parts]
        assert_close(together, np.hstack(apart))


def test_an_average_of_one_draw_is_that_draw():
    draws = NormalDraws(np.zeros((3, 1)), np.ones((3, 1)))
    assert average(draws) is draws


def test_normal_average_equals_the_reference(rng):
    location, scale = rng.normal(size=(4, 6)), rng.uniform(0.3, 2, size=(4, 6))
    mean = average(NormalDraws(location, scale))
    for z in (-1.0, 0.2, 2.5):
        expected = [
            1 - reference.average([reference.normal_cdf(*p) for p in zip(m, s, strict=True)])(z)
            for m, s in zip(location, scale, strict=True)
        ]
        assert_close(mean.sf(np.full((4, 1), z))[:, 0], expected, rtol=1e-12)


def test_grid_law_equals_the_reference(rng):
    levels = np.array([1.0, 0.7, 0.3, 0.1])
    quantiles = np.sort(rng.uniform(size=(5, 2, 4)), axis=2)
    scale = rng.uniform(0.5, 2, size=5)
    draws = GridDraws(quantiles, levels, scale)
    for z in (-0.5, 0.1, 0.4, 0.8, 1.5, 20.0):
        expected = [
            [
                1 - reference.grid_cdf(list(q), list(1 - levels), scale[i], TAIL_INDEX)(z)
                for q in quantiles[i]
            ]
            for i in range(5)
        ]
        assert_close(draws.sf(np.full((5, 1), z)), expected, rtol=1e-9)


FAMILIES = {
    "step": StepDraws(np.array([[[0.0, 1.0], [1.0, 2.0]]]), np.array([2.0]), np.array([0.5])),
    "shape": ShapeDraws(np.array([[1.0, 3.0]]), np.array([0.0, 0.5, 2.0]), 0.5),
    "grid": GridDraws(np.array([[[0.0, 1.0], [1.0, 2.0]]]), np.array([1.0, 0.25]), np.array([0.5])),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_no_step_shape_or_grid_law_ends_early(name):
    draws = FAMILIES[name]
    assert isinstance(draws, LossDraws)
    assert (draws.sf(np.array([[1e60]])) > 0).all()
    assert np.isfinite(draws.isf(np.array([[1e-100]]))).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_levels_zero_and_one_are_answered(name):
    draws = FAMILIES[name]
    assert np.isposinf(draws.isf(np.array([[0.0]]))).all()
    # At level 1 the inverse is the largest loss that is surely reached.
    lowest = draws.isf(np.array([[1.0]]))
    assert_close(draws.sf(np.nextafter(lowest, -np.inf)), np.ones(draws.shape))
    assert (draws.sf(lowest + 1e-6) < 1).all()


@pytest.mark.parametrize("scale", [0.25, 1.0, 2.0, 3.0, 1e6])
def test_the_tail_of_a_shape_at_zero_counts_the_atom(scale):
    """Dividing the float just below zero by a scale rounds to zero itself."""
    draws = ShapeDraws(np.array([[scale]]), np.array([0.0, 0.0, 1.0]), 1.0)
    assert_close(LossDistribution(draws).tail(0.0), [1.0], rtol=1e-14)


@pytest.mark.parametrize("m", [3, 7, 49, 103])
def test_below_its_points_a_step_law_survives_surely(m):
    values = np.arange(m, dtype=float).reshape(1, 1, m)
    draws = StepDraws(values, np.array([m - 1.0]), np.ones(1))
    assert draws.sf(np.array([[-1.0]])) == 1.0
    assert draws.sf(np.array([[m - 1.0]])) == draws.tail_mass


@pytest.mark.parametrize("values", [np.zeros(3), np.full(3, 5.0), np.array([1.0, 2.0])])
def test_smallest_scale_is_positive_and_follows_the_losses(values):
    assert smallest_scale(values) > 0
    assert not values.any() or smallest_scale(4 * values) == 4 * smallest_scale(values)


def _mixture(rng, n=40, n_draws=3, n_parts=4):
    weight = rng.dirichlet(np.ones(n_parts), size=(n, n_draws))
    location = rng.normal(5.0, 2.0, size=weight.shape)
    return MixtureDraws(weight, location, rng.uniform(0.2, 2.0, size=weight.shape))


def test_mixture_is_the_weighted_sum_of_its_parts_and_its_inverse_goes_with_it(rng):
    draws = _mixture(rng)
    z = rng.normal(5.0, 3.0, size=(40, 1))
    slow = sum(
        draws.weight[:, :, k] * ndtr((draws.location[:, :, k] - z) / draws.scale[:, :, k])
        for k in range(4)
    )
    assert_close(draws.sf(z), slow, rtol=1e-13)
    for level in (0.9, 0.1, 1e-6):
        assert_close(draws.sf(draws.isf(np.full((1, 1), level))), level, rtol=1e-7)


def test_pooled_mixture_is_the_mean_of_the_draws(rng):
    draws = _mixture(rng)
    z = rng.normal(5.0, 3.0, size=(40, 1))
    assert_close(average(draws).sf(z)[:, 0], draws.sf(z).mean(axis=1), rtol=1e-13)


def test_transformed_laws_keep_their_probabilities(rng):
    draws = _mixture(rng)
    moved = TransformedDraws(draws, np.log, np.exp)
    z = np.exp(rng.normal(5.0, 3.0, size=(40, 1)))
    assert_close(moved.sf(z), draws.sf(np.log(z)))
    level = np.full((1, 1), 0.1)
    assert_close(moved.isf(level), np.exp(draws.isf(level)))
    assert_close(average(moved).isf(level), np.exp(average(draws).isf(level)))


@st.composite
def weighted_laws(draw):
    """Two or three stacks of steps, shapes and grids over one row, not equally many draws each."""
    parts = draw(st.lists(step_laws() | shape_laws() | grid_laws(), min_size=2, max_size=3))
    weights = np.array([draw(st.integers(1, 4)) for _ in parts], dtype=float)
    return WeightedDraws(parts, weights / weights.sum())


@given(weighted_laws(), st.lists(st.integers(-6, 10), min_size=3, max_size=3))
def test_weighted_draws_mix_draw_by_draw(draws, twice):
    n_draws = draws.shape[1]
    z = np.resize(np.array(twice) / 2, n_draws)[None]
    for values in (z, z[:, :1]):
        expected = np.zeros((1, n_draws))
        for s in range(n_draws):
            at = np.broadcast_to(values, (1, n_draws))[:, [s]]
            for part, weight in zip(draws.parts, draws.weights, strict=True):
                expected[:, s] += weight * part.sf(at)[:, s % part.shape[1]]
        assert_close(draws.sf(values), expected, rtol=1e-13, atol=1e-15)


@given(weighted_laws(), st.integers(-6, 10))
def test_the_mean_of_weighted_draws_is_the_weighted_mean_of_means(draws, twice):
    z = np.array([[twice / 2]])
    pairs = zip(draws.parts, draws.weights, strict=True)
    expected = sum(weight * part.sf(z).mean() for part, weight in pairs)
    assert average(draws).shape == (1, 1)
    assert_close(average(draws).sf(z).item(), expected, rtol=1e-13)


@given(weighted_laws(), st.none() | st.floats(0.01, 0.99), st.floats(0.001, 0.99))
def test_weighted_draws_have_an_upper_inverse_to_rounding(draws, gamma, level):
    dist = LossDistribution(draws, None if gamma is None else np.array([gamma]))
    assert_inverse_to_rounding(dist, level)


@given(weighted_laws(), st.none() | st.floats(0.01, 0.99), st.integers(-6, 10))
def test_weighted_draws_find_their_atoms(draws, gamma, twice):
    """At the very level that a law takes at z, the inverse is not below z."""
    dist = LossDistribution(draws, None if gamma is None else np.array([gamma]))
    z = twice / 2
    assert dist.isf(dist.tail(z)[0])[0] >= z


def test_weighted_draws_of_agreeing_parts_are_certain():
    """Weights that do not sum to 1 exactly leave survival 1 where every part has it."""
    part = ShapeDraws(np.ones((1, 1)), np.array([1.0, 2.0]), 1.0)
    draws = WeightedDraws([part] * 10, np.full(10, 0.1))
    assert draws.sf(np.array([[0.5]])).item() == 1.0
    assert_close(draws.isf(np.array([[1.0]])).item(), 1.0)


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_envelope_of_mixtures_is_the_order_statistic_of_the_draws(rank, rng):
    draws = _mixture(rng, n_draws=7)
    ranks = np.full(40, rank)
    law = envelope(draws, ranks)
    z = rng.normal(5.0, 3.0, size=(40, 1))
    assert law.shape == (40, 1)
    assert_close(law.sf(z)[:, 0], np.sort(draws.sf(z), axis=1)[:, -rank])
    levels = np.tile([0.9, 0.3, 0.01], (40, 1))
    bound = joint_isf(law, levels)
    for j in range(3):
        inverses = draws.isf(levels[:, [j]])
        assert_close(bound[:, j], np.sort(inverses, axis=1)[:, -rank], rtol=1e-11)
        assert_close(law.isf(levels[:, [j]])[:, 0], bound[:, j])


def test_envelope_of_equal_mixtures_is_the_mixture(rng):
    one = _mixture(rng, n_draws=1)
    parts = (np.repeat(part, 6, axis=1) for part in (one.weight, one.location, one.scale))
    law = envelope(MixtureDraws(*parts), rng.integers(1, 7, size=40))
    level = np.full((40, 1), 0.1)
    assert_close(law.isf(level), one.isf(level))


def test_envelope_gives_up_on_trials_in_time(rng, monkeypatch):
    from locuscore.draws import _normal

    draws, ranks = _mixture(rng, n_draws=7), np.full(40, 3)
    level = np.full((40, 1), 0.1)
    expected = envelope(draws, ranks).isf(level)
    monkeypatch.setattr(_normal, "MOST_TRIALS", 1)
    assert_close(envelope(draws, ranks).isf(level), expected, rtol=1e-11)


def test_closed_forms_have_no_envelope_of_their_own(rng):
    draws = NormalDraws(rng.normal(size=(2, 3)), np.ones((2, 3)))
    law, level, z = envelope(draws, np.array([1, 2])), np.full((2, 1), 0.1), np.zeros((2, 1))
    assert type(law) is RankedDraws
    for values, stack in ((law.sf(z), draws.sf(z)), (law.isf(level), draws.isf(level))):
        ordered = np.sort(stack, axis=1)
        assert_close(values[:, 0], [ordered[0, -1], ordered[1, -2]])
    assert joint_isf(draws, np.full((2, 4), 0.1)) is None
    moved = TransformedDraws(draws, np.log1p, np.expm1)
    assert joint_isf(moved, np.full((2, 4), 0.1)) is None


@pytest.mark.parametrize("shift", [-2000.0, -30.0, 0.0, 30.0])
def test_transformed_inverses_never_fall_short(shift, rng):
    """Far below, the inverse overflows; the lowest number stands for it."""

    def forward(z):
        return np.copysign(np.log1p(np.abs(z)), z)

    def backward(t):
        with np.errstate(over="ignore"):
            return np.copysign(np.expm1(np.abs(t)), t)

    inner = _mixture(rng)
    inner = MixtureDraws(inner.weight, inner.location + shift, inner.scale)
    dist = LossDistribution(TransformedDraws(inner, forward, backward))
    levels = np.array([[0.9, 0.5, 0.1, 1e-4]])
    bound = dist.isf(levels)
    assert np.isfinite(bound).all()
    assert (dist.sf(bound) < levels).all()


def test_survival_of_a_mixture_never_exceeds_one(rng):
    draws = _mixture(rng, n=500)
    assert draws.sf(np.full((500, 1), -1e3)).max() <= 1.0


def test_survival_of_a_mixture_does_not_depend_on_the_other_rows(rng):
    draws = average(_mixture(rng, n=50, n_draws=20))
    z = rng.normal(5.0, 3.0, size=(50, 1))
    together = draws.sf(z)
    for i in range(50):
        alone = MixtureDraws(draws.weight[[i]], draws.location[[i]], draws.scale[[i]])
        assert_close(alone.sf(z[[i]]), together[[i]])


def _stacks(rng, n=6):
    points = rng.integers(0, 9, size=(n, 3, 4)).astype(float)
    steps = StepDraws(points, points.max(axis=(1, 2)), np.ones(n))
    normal = NormalDraws(rng.normal(4, 2, size=(n, 3)), rng.uniform(0.5, 2, size=(n, 3)))
    quantiles = np.sort(rng.uniform(0, 9, size=(n, 3, 4)), axis=2)
    return {
        "steps": steps,
        "normal": normal,
        "grid": GridDraws(quantiles, np.array([1.0, 0.6, 0.2, 0.05]), np.ones(n)),
        "shape": ShapeDraws(rng.uniform(1, 3, size=(n, 3)), np.sort(rng.uniform(size=9)), 0.5),
        "mixture": _mixture(rng, n=n),
        "transformed": TransformedDraws(_mixture(rng, n=n), np.arcsinh, np.sinh),
        "transformed, closed": TransformedDraws(normal, np.arcsinh, np.sinh),
        "stacked": StackedDraws([steps, normal]),
        "weighted": WeightedDraws([steps, normal], np.array([0.25, 0.75])),
    }


STACKS = [*_stacks(np.random.default_rng(0))]
LEVELS = np.array([0.9, 0.3, 0.004, 0.1])
HALVES = np.array([0.5, 0.5])


@pytest.mark.parametrize("name", STACKS)
def test_families_keep_the_contract_of_the_base(name, rng):
    check_overrides(_stacks(rng)[name], np.linspace(-2.0, 12.0, 15), LEVELS)


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("gamma", [None, 0.5])
def test_laws_of_the_bare_protocol_give_the_same_bounds(name, gamma, rng):
    draws = _stacks(rng)[name]
    bare = SimpleNamespace(shape=draws.shape, sf=draws.sf, isf=draws.isf)
    gamma = None if gamma is None else np.full(6, gamma)
    ours, theirs = LossDistribution(draws, gamma), LossDistribution(bare, gamma)
    # The general average is inverted by another search, to 1e-11 before a transformation.
    assert_close(theirs.isf(LEVELS[None]), ours.isf(LEVELS[None]), rtol=1e-9)
    assert_close(theirs.sf(3.0), ours.sf(3.0), rtol=1e-13)
    assert_close(theirs.estimate().sf(3.0), LossDistribution(bare).sf(3.0))
    assert theirs.knots(LEVELS[None]).shape == (6, 4)


@pytest.mark.parametrize(
    "combine", [StackedDraws, lambda parts: WeightedDraws(parts, np.ones(2) / 2)]
)
def test_laws_of_the_bare_protocol_can_be_parts(combine, rng):
    parts = [_stacks(rng)[name] for name in ("steps", "grid")]
    bare = [SimpleNamespace(shape=part.shape, sf=part.sf, isf=part.isf) for part in parts]
    check_overrides(combine(bare), np.linspace(-2.0, 12.0, 15), LEVELS)
    moved = TransformedDraws(bare[1], np.arcsinh, np.sinh)
    check_overrides(moved, np.linspace(-2.0, 12.0, 15), LEVELS)


def test_families_say_how_many_numbers_describe_a_row(rng):
    stacks = _stacks(rng)
    counted = {name: floats_per_row(draws) for name, draws in stacks.items()}
    assert counted == {
        "steps": 3 * 4 + 2,
        "normal": 2 * 3,
        "grid": 3 * 4 + 1,
        "shape": 3,
        "mixture": 3 * 3 * 4,
        "transformed": 3 * 3 * 4,
        "transformed, closed": 2 * 3,
        "stacked": 14 + 6,
        "weighted": 14 + 6,
    }
    for name in ("stacked", "normal"):
        assert floats_per_row(AverageDraws(stacks[name])) == counted[name]
        assert floats_per_row(envelope(stacks[name], np.ones(6, dtype=int))) == counted[name]
    bare = SimpleNamespace(shape=(6, 3), sf=None, isf=None)
    assert floats_per_row(bare) >= 3
