import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from helpers import assert_close
from locuscore._laws.calibration import (
    calibrated_level,
    conformal_rank,
    smallest_alpha,
    smallest_n,
)

sizes = st.integers(1, 3000)
decimals = st.integers(1, 99_999).map(lambda p: Fraction(p, 100_000))
# Few distinct values, so that ties and equal levels are the rule.
eighths = st.integers(0, 8).map(lambda i: i / 8)


@given(sizes, decimals)
def test_rank_is_exact_in_the_decimal_as_written(n, alpha):
    assert conformal_rank(n, float(alpha)) == reference.rank(n, alpha)


def test_rank_where_floating_point_is_one_too_high():
    assert math.ceil((1 - 0.7) * (9 + 1)) == 4
    assert conformal_rank(9, 0.7) == 3


@given(sizes, st.data())
def test_rank_of_a_quotient_is_that_of_its_fraction(n, data):
    j = data.draw(st.integers(1, n))
    assert conformal_rank(n, j / (n + 1)) == n + 1 - j


@given(sizes, st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1 - 1e-6))
def test_rank_never_rises_with_alpha(n, first, second):
    low, high = sorted((first, second))
    assert conformal_rank(n, low) >= conformal_rank(n, high)


@given(decimals)
def test_smallest_n_gives_a_finite_bound_and_one_less_does_not(alpha):
    n = smallest_n(float(alpha))
    assert conformal_rank(n, float(alpha)) <= n
    assert n == 1 or conformal_rank(n - 1, float(alpha)) > n - 1


@given(st.integers(2, 3000))
def test_smallest_n_of_a_quotient(n):
    assert smallest_n(1 / n) == n - 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), decimals)
def test_level_is_one_minus_the_papers_t(tails, alpha):
    pits = [Fraction(1) - Fraction(tail) for tail in tails]
    expected = float(1 - Fraction(reference.calibrated_t(pits, alpha)))
    assert calibrated_level(np.array(tails), float(alpha)) == expected


def test_level_is_zero_where_rows_are_too_few():
    assert calibrated_level(np.array([0.5, 0.7]), 0.1) == 0.0


@given(st.lists(eighths, min_size=1, max_size=30), eighths, st.data())
def test_exceedance_and_bound_are_the_same_statement(tails, survival, data):
    n = len(tails)
    quotients = st.integers(1, n).map(lambda j: j / (n + 1))
    alpha = data.draw(quotients | decimals.map(float) | st.floats(1e-6, 1 - 1e-6))
    tails = np.array(tails)
    # loss_bound <= tau exactly when P(Z > tau | x) is below the level.
    is_below = survival < calibrated_level(tails, alpha)
    assert is_below == (smallest_alpha(tails, np.array([survival]))[0] <= alpha)


def test_smallest_alpha_equals_the_scan_over_alphas(rng):
    laws = [reference.normal_cdf(m, s) for m, s in rng.uniform(0.5, 2.0, size=(15, 2))]
    pits = reference.pit_values(laws, rng.uniform(0, 3, size=15))
    for location, scale, tau in rng.uniform(0.5, 2.5, size=(10, 3)):
        cdf = reference.normal_cdf(location, scale)
        expected = reference.exceedance(cdf, pits, tau, -50.0, 50.0)
        assert_close(smallest_alpha(1 - np.array(pits), np.array([1 - cdf(tau)])), [expected])


@pytest.mark.parametrize("n", [1, 2, 7])
def test_smallest_alpha_lies_on_the_grid(n, rng):
    tails = rng.uniform(size=n)
    values = smallest_alpha(tails, np.array([-1.0, *np.sort(tails), 2.0]))
    assert values[0] == 1 / (n + 1)
    assert_close(values[1:-1], np.arange(2, n + 2) / (n + 1))
    assert values[-1] == 1.0
