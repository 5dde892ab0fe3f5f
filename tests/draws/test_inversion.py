import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from helpers import assert_close
from locuscore.draws._inversion import (
    decreasing_in_level,
    invert,
    kth_largest,
    raise_until_below,
)
from locuscore.draws._smooth_inversion import invert_smooth


class Counted:
    """A function that counts its evaluations."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


def as_column(values):
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_kth_largest_is_the_kth_from_the_top(values, data):
    k = data.draw(st.integers(1, len(values)))
    result = kth_largest(np.array([values], dtype=float), np.array([k]))
    assert result.shape == (1, 1)
    assert result[0, 0] == sorted(values, reverse=True)[k - 1]


@pytest.mark.parametrize("n_draws", [2, 5, 20, 200])
@pytest.mark.parametrize("level", [0.5, 0.1, 0.01, 1e-4])
def test_invert_needs_few_evaluations_of_a_smooth_law(n_draws, level, rng):
    location = 2 + 0.3 * rng.normal(size=(500, n_draws))
    scale = np.exp(0.3 * rng.normal(size=(500, n_draws)))
    sf = Counted(lambda z: ndtr((location - z) / scale).mean(axis=1, keepdims=True))
    level = np.full((500, 1), level)
    low, high = np.full((500, 1), -60.0), np.full((500, 1), 60.0)
    ends = np.sort(_normal_isf(location, scale, level), axis=1)
    result = invert(sf, level, ends[:, :1], ends[:, -1:])
    assert sf.calls <= 15
    slow = _bisection(sf, level, low, high)
    assert_close(result, slow, rtol=1e-10)
    assert (sf(result) < level).all()


def _normal_isf(location, scale, level):
    low, high = np.full(location.shape, -60.0), np.full(location.shape, 60.0)
    return _bisection(lambda z: ndtr((location - z) / scale), level, low, high)


def _bisection(sf, level, low, high):
    for _ in range(100):
        middle = (low + high) / 2
        below = sf(middle) < level
        low, high = np.where(below, low, middle), np.where(below, middle, high)
    return high


@given(st.floats(1e-9, 1e6), st.sampled_from([-1.0, 1.0]), st.floats(0.01, 0.99))
def test_invert_resolves_a_jump_to_neighbouring_floats(size, sign, height):
    """P(Z > z) is 1 below `place` and falls to 0 there: every level has the same inverse."""
    place = sign * size
    sf = Counted(lambda z: np.where(z < place, 1.0, 0.0))
    low, high = as_column([place - 7.0]), as_column([place + 3.0])
    assert invert(sf, as_column([height]), low, high)[0, 0] == place
    assert sf.calls <= 120


@pytest.mark.parametrize("low", [-7.0, -1e-3, 0.0])
@pytest.mark.parametrize("high", [0.0, 1e-3, 3.0])
def test_invert_finds_the_atom_at_zero(low, high):
    sf = Counted(lambda z: np.where(z < 0, 0.9, 0.3) - 1e-3 * np.tanh(z))
    assert invert(sf, as_column([0.5]), as_column([low]), as_column([high]))[0, 0] == 0.0
    assert sf.calls <= 15


@pytest.mark.parametrize("root", [0.0, 1e-13, -1e-13, 1e-4, -1e-4])
def test_invert_needs_few_evaluations_beside_zero(root):
    sf = Counted(lambda z: ndtr(root - z))
    result = invert(sf, as_column([0.5]), as_column([-1.0]), as_column([2.0]))
    assert sf.calls <= 35
    assert_close(result, [[root]], atol=1e-14)


@given(st.floats(0.5, 1e6), st.floats(0.45, 0.55))
def test_invert_finds_a_jump_inside_a_slope(place, level):
    sf = lambda z: np.where(z < place, 0.6, 0.4) - 1e-3 * np.tanh(z / place)  # noqa: E731 - one line
    result = invert(sf, as_column([level]), as_column([-place]), as_column([3 * place]))
    assert result[0, 0] == place


def test_invert_returns_the_right_end_of_a_flat():
    sf = lambda z: np.where(z < 1, 1.0, np.where(z < 2, 0.5, 0.0))  # noqa: E731 - one line
    level = as_column([0.5, 0.6])
    result = invert(sf, level, as_column([0.0, 0.0]), as_column([3.0, 3.0]))
    assert_close(result, [[2.0], [1.0]])


def test_invert_without_a_change_of_sign_returns_its_own_end():
    sf = lambda z: np.exp(-z)  # noqa: E731 - one line
    level = as_column([0.9, 1e-9, 0.0])
    low, high = as_column([1.0, 1.0, 1.0]), as_column([2.0, 2.0, np.inf])
    assert_close(invert(sf, level, low, high), [[1.0], [2.0], [np.inf]])


@given(st.floats(-1e9, 1e9), st.integers(0, 40))
def test_raise_until_below_ends_just_above_the_crossing(place, ulps):
    short = place
    for _ in range(ulps):
        short = np.nextafter(short, -np.inf)
    sf = lambda z: np.where(z < place, 1.0, 0.0)  # noqa: E731 - one line
    raised = raise_until_below(sf, as_column([0.5]), as_column([short]))[0, 0]
    assert raised >= place
    assert raised - place <= 2 * (place - short)


def test_raise_until_below_crosses_the_whole_range_and_leaves_hopeless_levels_alone():
    sf = lambda z: np.where(z < 1e300, 1.0, 0.0)  # noqa: E731 - one line
    with np.errstate(over="ignore"):
        raised = raise_until_below(sf, as_column([0.5, 0.0]), as_column([1e-300, 1.0]))
    assert raised[0, 0] >= 1e300
    assert raised[1, 0] == 1.0


@pytest.mark.parametrize("guess", ["right", "ulp", "far", "before", "nan"])
def test_a_guess_of_the_next_jump_changes_nothing_but_the_cost(guess, rng):
    jump = rng.uniform(1.0, 2.0, size=(200, 1))

    def law(z):
        return np.where(z < jump, 0.6, 0.3) - 0.01 * z

    off = {"right": 0.0, "ulp": np.spacing(jump), "far": 0.2, "before": -9.0, "nan": np.nan}[guess]
    ends = np.full((200, 1), 0.5), np.full((200, 1), 3.0)
    plain, guided = Counted(law), Counted(law)
    level = np.full((200, 1), 0.4)
    expected = invert(plain, level, *ends)
    found = invert(guided, level, *ends, lambda z: np.where(z < jump, jump + off, np.inf))
    assert_close(expected, jump)
    assert_close(found, expected)
    assert plain.calls > 45
    assert guided.calls < (30 if guess in ("right", "ulp") else 1.6 * plain.calls)


def _smooth(sf, level, low, high, guess, slope=1.0):
    """Solve for the levels of one law, known at any array of places."""
    level = np.asarray(level, dtype=float).reshape(1, -1)
    ends = (np.full(level.shape, float(value)) for value in (low, high, guess, slope))
    counted = Counted(lambda rows, z: sf(z))
    return invert_smooth(counted, level, *ends)[0], counted.calls


@pytest.mark.parametrize("guess", [-3.0, 1.9, 2.0, 7.0])
@pytest.mark.parametrize("slope", [0.1, 0.7, 5.0])
def test_invert_smooth_finds_a_normal_law_from_anywhere(guess, slope):
    levels = np.array([0.9, 0.5, 0.1, 1e-6])
    sf = lambda z: ndtr((2.0 - z) / 0.7)  # noqa: E731 - one line
    for level in levels:
        result, calls = _smooth(sf, [level], -40, 40, guess, slope)
        expected = _bisection(sf, level, np.array([-40.0]), np.array([40.0]))
        assert_close(result, expected, rtol=1e-11)
        assert (sf(result) < level).all()
        assert calls <= 12
    together, calls = _smooth(sf, levels, -40, 40, guess, slope)
    assert_close(together, _bisection(sf, levels, np.full(4, -40.0), np.full(4, 40.0)), rtol=1e-11)
    assert calls <= 12


@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.floats(-12, 2), st.floats(0.05, 1)), min_size=1, max_size=5
    ),
    st.lists(st.floats(1e-9, 0.999), min_size=1, max_size=7),
    st.floats(-10, 10),
)
def test_invert_smooth_ends_just_right_of_the_crossing(parts, levels, guess):
    """Components may be so narrow that the law is a staircase."""
    location, log_scale, weight = np.array(parts).T
    scale, weight = np.exp(log_scale), weight / weight.sum()

    def sf(z):
        # Not a product of matrices, whose last bit may depend on how many rows there are.
        return (ndtr((location - z[:, None]) / scale) * weight).sum(axis=1)

    result, _ = _smooth(sf, levels, -60, 60, guess)
    assert (sf(result) < levels).all()
    nearby = 1e-9 * (1 + np.abs(result))
    assert (sf(result - nearby) >= np.array(levels) * (1 - 1e-12)).all()


def test_invert_smooth_leaves_infinite_ends_alone():
    level = np.array([[0.0, 0.3]])
    low, high = np.array([[np.inf, -9.0]]), np.array([[np.inf, 9.0]])
    guess = np.array([[np.inf, 0.0]])
    result = invert_smooth(lambda rows, z: ndtr(-z), level, low, high, guess, np.ones((1, 2)))
    assert np.isposinf(result[0, 0])
    assert_close(ndtr(-result[0, 1]), 0.3, rtol=1e-10)


def test_decreasing_in_level_orders_the_values_and_joins_ties():
    level = np.array([[0.1, 0.5, 0.1, 0.3, 0.9]])
    value = np.array([[3.0, 1.0, 3.1, 0.9, 0.5]])
    assert_close(decreasing_in_level(value, level), [[3.1, 1.0, 3.1, 1.0, 0.5]])


def test_levels_shared_by_all_rows_order_like_those_of_each_row(rng):
    value = rng.normal(size=(5, 9))
    for level in (rng.integers(0, 4, size=9) / 4, np.arange(9) / 9):
        each = np.tile(level, (5, 1))
        assert_close(decreasing_in_level(value, level), decreasing_in_level(value, each))


def test_values_in_the_right_order_are_left_alone(rng):
    level, value = np.array([0.3, 0.1, 0.2]), np.array([[1.0, 3.0, 2.0]])
    assert decreasing_in_level(value, level) is value
