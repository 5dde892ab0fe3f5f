"""Weighted levels: the formula written out, and what it is with equal weights."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import raises
from locuscore._laws.calibration import MarginalCalibration
from locuscore._protocols import Part
from locuscore.calibration._weighted import WeightedCalibration
from locuscore.calibration._weights import check_weights

# Few distinct values, so that ties are the rule.
eighths = st.integers(0, 8).map(lambda i: i / 8)
whole = st.integers(0, 9)
decimals = st.integers(1, 999).map(lambda p: Fraction(p, 1000))


def made(tails, weights):
    """A calibration from rows in any order."""
    part = Part(np.empty((len(tails), 1)), np.arange(len(tails)), np.empty((0, 1)), np.array(tails))
    return WeightedCalibration.of(part, np.array(weights, dtype=float), None, None)


def slow_share(tails, weights, survival, weight):
    """``(w + sum of w_i with tail_i <= survival) / (w + sum of w_i)``, in fractions."""
    below = sum(w for t, w in zip(tails, weights, strict=True) if t <= survival)
    return Fraction(weight + below, weight + sum(weights))


def slow_level(tails, weights, alpha, weight):
    """The smallest level at which survival just below it still fits alpha; 0 if none does."""
    if slow_share(tails, weights, -1, weight) > alpha:
        return 0.0
    counted = sorted(t for t, w in zip(tails, weights, strict=True) if w)
    return next(t for t in counted if slow_share(tails, weights, t, weight) > alpha)


@given(st.lists(st.tuples(eighths, whole), min_size=1, max_size=15), st.integers(1, 9), st.data())
def test_equal_to_the_formula(rows, weight, data):
    tails, weights = zip(*rows, strict=True)
    if not any(weights):
        return
    total = weight + sum(weights)
    quotients = st.integers(1, total - 1).map(lambda j: Fraction(j, total))
    alpha = data.draw(decimals | quotients if total > 1 else decimals)
    found = made(tails, weights)
    own, survivals = np.array([float(weight)]), np.arange(9) / 8
    level = found.level(float(alpha), own)
    assert level == slow_level(tails, weights, alpha, weight)
    shares = found.smallest_alpha(survivals[None, :], own)[0]
    assert shares.tolist() == [float(slow_share(tails, weights, s, weight)) for s in survivals]
    # The bound fits tau exactly when survival is below the level.
    assert ((shares <= float(alpha)) == (survivals < level)).all()


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(1e-9, 1e9)), min_size=1, max_size=20),
    st.floats(1e-9, 1e9),
    st.data(),
)
def test_bound_and_exceedance_agree_for_any_weights(rows, weight, data):
    tails, weights = zip(*rows, strict=True)
    found, own = made(tails, weights), np.array([weight])
    survivals = np.array([[*tails, 0.0, 0.5, 1.0]])
    shares = found.smallest_alpha(survivals, own)
    reached = st.sampled_from(shares[0].tolist()).filter(lambda share: 0 < share < 1)
    is_one = not np.any(shares < 1)
    alpha = data.draw(st.floats(1e-6, 1 - 1e-6) if is_one else reached | st.floats(1e-6, 0.999))
    levels = found.level(np.array([alpha]), own)
    assert ((shares <= alpha) == (survivals < levels)).all()
    # Nor does the level fall where alpha rises.
    assert (np.diff(found.level(np.linspace(0.01, 0.99, 60), own)[0]) >= 0).all()


@pytest.mark.parametrize("weight", [1.0, 0.1, 1 / 3, 7e200, 3e-300])
@pytest.mark.parametrize("n", [1, 2, 9, 100])
def test_equal_weights_are_marginal_calibration(n, weight, rng):
    tails = np.sort(rng.integers(0, 40, size=n) / 40)
    found, marginal = made(tails, np.full(n, weight)), MarginalCalibration(tails)
    alphas = np.concatenate([np.arange(1, 1000) / 1000, np.arange(1, n + 1) / (n + 1)])
    own = np.full(3, weight)
    assert (found.level(alphas, own) == marginal.level(alphas)).all()
    assert (found.level(0.7, own) == marginal.level(0.7)).all()
    survivals = np.tile(np.linspace(0, 1, 81), (3, 1))
    assert (found.smallest_alpha(survivals, own) == marginal.smallest_alpha(survivals)).all()
    assert found.effective_size == pytest.approx(n)
    assert (found.too_few(0.05) is None) == (marginal.too_few(0.05) is None)


def test_the_decimal_alpha_as_written():
    """Where floating point would be one rank off for marginal calibration."""
    found = made(np.arange(1, 10) / 10, np.full(9, 0.3))
    assert found.level(0.7, np.array([0.3]))[0] == 0.7


def test_a_factor_changes_nothing(rng):
    tails, weights, own = rng.uniform(size=50), rng.exponential(size=50), rng.exponential(size=20)
    alphas = np.array([0.1, 0.3])
    for factor in (2.0**-300, 2.0**300):
        scaled = made(tails, factor * weights)
        assert (scaled.level(alphas, factor * own) == made(tails, weights).level(alphas, own)).all()


def test_shapes(rng):
    found, own = made(rng.uniform(size=30), rng.exponential(size=30)), rng.exponential(size=5)
    assert found.level(0.1, own).shape == (5,)
    assert found.level(np.array([0.1, 0.2, 0.3]), own).shape == (5, 3)
    assert found.smallest_alpha(rng.uniform(size=(5, 2)), own).shape == (5, 2)
    # Row by row it is the same.
    one = np.array([found.level(0.1, own[i : i + 1])[0] for i in range(5)])
    assert (one == found.level(0.1, own)).all()


def test_a_heavy_row_has_no_bound(rng):
    """From the weight on that alone is more than alpha of all."""
    found = made(rng.uniform(0.1, 1, size=40), np.ones(40))
    limit = 40 * 0.1 / 0.9
    assert found.level(0.1, np.array([limit * 1.001, limit * 0.999, 1e300]))[[0, 2]].tolist() == [
        0,
        0,
    ]
    assert found.level(0.1, np.array([limit * 0.999]))[0] > 0
    assert found.smallest_alpha(np.array([[0.0]]), np.array([1e300])) == 1.0


def test_rows_of_weight_zero_do_not_count(rng):
    tails, weights, own = rng.uniform(size=20), rng.exponential(size=20), rng.exponential(size=7)
    more, zeros = np.append(tails, rng.uniform(size=9)), np.append(weights, np.zeros(9))
    assert (made(more, zeros).level(0.2, own) == made(tails, weights).level(0.2, own)).all()
    assert made(more, zeros).effective_size == pytest.approx(made(tails, weights).effective_size)


def test_too_few_for_half_of_the_new_rows():
    # Nine of ten new rows weigh 9, and one such row is 0.09 of all.
    weights = np.repeat([1.0, 9.0], [10, 10])
    found = made(np.linspace(0.1, 0.9, 20), weights)
    assert found.too_few(0.1) is None
    text = found.too_few(0.08, np.inf)
    assert "20 calibration rows" in text
    assert "alpha = 0.08" in text
    assert "is infinite" in text
    assert f"worth {100**2 / 820:.3g} rows" in text


@pytest.mark.parametrize(
    ("weights", "facts"),
    [
        ([1.0, -1.0, 2.0], ["1 weight is negative", "row 1"]),
        ([1.0, np.nan, np.inf], ["2 weights are not finite", "row 1, 2"]),
        ([1.0, 2.0, 0.0], ["1 weight is zero", "row 2", "nothing is promised"]),
        ([1.0, 2.0, 9.0], ["1 weight is above 5", "row 2", "declare a larger one"]),
        ([1.0, 2.0], ["3 in all", "(2,)"]),
        (1.0, ["3 in all", "()"]),
    ],
)
def test_bad_weights(weights, facts):
    with raises(ValueError, *facts):
        check_weights(weights, 3, 5.0, of_new_rows=True)


def test_bad_weights_of_calibration_rows():
    assert check_weights([0.0, 1.0], 2, None).tolist() == [0.0, 1.0]
    with raises(TypeError, "weights", "text"):
        check_weights(["a", "b"], 2, None)
    with raises(ValueError, "all 2 weights", "zero"):
        made([0.1, 0.2], [0.0, 0.0])
