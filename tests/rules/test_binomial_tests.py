import numpy as np
import pytest
from scipy.stats import binom

from helpers import assert_close
from locuscore._rules.binomial_tests import (
    MOST_ROWS,
    allowed_bad,
    binomial_p_value,
    first_failure,
    is_rejected,
    rows_needed,
    rows_needed_at_rate,
)
from locuscore._shared.multiple_tests import holm


def test_p_value_is_the_binomial_distribution_function():
    n = np.arange(60)
    for eta in (0.01, 0.1, 0.5):
        for bad in (0, 1, 7, 59):
            usable = n >= bad
            expected = np.where(usable, binom.cdf(bad, n, eta), 1.0)
            assert_close(binomial_p_value(np.minimum(bad, n), n, eta), expected, rtol=1e-10)


def test_p_value_keeps_its_digits_in_large_samples():
    assert_close(binomial_p_value(99_000, 1_000_000, 0.1), binom.cdf(99_000, 10**6, 0.1), rtol=1e-8)


@pytest.mark.parametrize("level", [0.1, 0.01, 1e-6])
def test_the_cheap_bound_changes_no_decision(level):
    n = np.arange(5_000)
    for eta in (0.02, 0.1, 0.3, 0.7):
        for more in range(7):
            bad = np.minimum(np.floor(0.7 * eta * n + more), n)
            exact = binomial_p_value(bad, n, eta) <= level
            # Blocks that overlap, so that the first failure lies anywhere in one.
            for start in range(10 * more, 3_000, 70):
                block = slice(start, start + 2_000)
                stop = exact[block].argmin() + 1 if not exact[block].all() else 2_000
                got = is_rejected(bad[block], n[block], eta, level)
                assert np.array_equal(got[:stop], exact[block][:stop])


def test_rows_for_and_allowed_bad_are_inverse():
    assert [rows_needed(b, 0.1, 0.1) for b in range(4)] == [22, 38, 52, 65]
    for bad in (0, 3, 20):
        n = rows_needed(bad, 0.05, 0.02)
        assert allowed_bad(n, 0.05, 0.02) == bad
        assert allowed_bad(n - 1, 0.05, 0.02) == bad - 1


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05, 0.08])
def test_rows_at_rate_is_the_smallest_number(rate):
    n = np.arange(1, 2_000)
    enough = binomial_p_value(np.floor(rate * n), n, 0.1) <= 0.1
    assert rows_needed_at_rate(rate, 0.1, 0.1) == n[np.argmax(enough)]


def test_rows_at_rate_gives_up_where_no_number_does():
    assert rows_needed_at_rate(0.1, 0.1, 0.1) is None
    assert rows_needed_at_rate(0.1 - 1e-6, 0.1, 0.1) is None
    assert MOST_ROWS >= 10**6


def end_of_sequence(p, start, level):
    p = np.asarray(p)
    return first_failure(lambda rows, level: p[rows] <= level, len(p), start, level)


def test_a_sequence_stops_at_its_first_failure():
    p = [0.5, 0.01, 0.02, 0.2, 0.01, 0.04]
    assert end_of_sequence(p, 0, 0.05) == 0
    assert end_of_sequence(p, 1, 0.05) == 3
    assert end_of_sequence(p, 4, 0.05) == 6
    assert end_of_sequence(p, 4, 0.025) == 5


def test_a_sequence_over_many_blocks():
    p = np.zeros(10_000)
    p[7_777] = 1.0
    assert end_of_sequence(p, 0, 0.1) == 7_777
    assert end_of_sequence(np.zeros(5_000), 0, 0.1) == 5_000
    assert end_of_sequence([], 0, 0.1) == 0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005], 0.05).tolist() == [True, False, False, True]
    assert holm([0.01, 0.02, 0.03], 0.05).tolist() == [True, True, True]
    assert not holm([0.9], 0.05).any()
