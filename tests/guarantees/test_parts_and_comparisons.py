"""Intervals of parts that hold together, and the exact test that two shares are equal."""

import numpy as np
import pytest
from scipy.stats import binom

from helpers import assert_binomial
from locuscore._shared.multiple_tests import shared_level
from locuscore._shared.share_interval import share_interval
from locuscore.report._equal_shares import equal_shares_p_value

SHARES = (0.02, 0.05, 0.1, 0.3, 0.5)


def chance_that_one_misses(n_parts, delta_each):
    """The exact probability that an interval of some independent part misses its share."""
    sizes = [20 + 13 * j for j in range(n_parts)]
    held = 1.0
    for j, n in enumerate(sizes):
        p, k = SHARES[j % len(SHARES)], np.arange(n + 1)
        low, high = share_interval(k, n, delta_each)
        held *= float(binom.pmf(k, n, p)[(low <= p) & (p <= high)].sum())
    return 1 - held


@pytest.mark.parametrize("n_parts", [1, 2, 7, 30])
def test_intervals_of_all_parts_hold_together(n_parts):
    delta = shared_level(0.05, n_parts)
    assert delta >= 0.05 / n_parts  # never worse than Bonferroni
    assert 0 < chance_that_one_misses(n_parts, delta) <= 0.05


def test_without_sharing_the_level_some_part_misses_too_often():
    assert chance_that_one_misses(30, 0.05) > 0.3


def test_families_share_the_level_whatever_their_dependence(rng):
    """Three ways of taking the same rows apart: the worst case is that they never miss together."""
    each = shared_level(0.05, 4, 3)
    assert 3 * (1 - (1 - each) ** 4) <= 0.05 + 1e-12
    wrong, n, p = 0, 400, 0.1
    for _ in range(2000):
        bad = rng.uniform(size=n) < p
        missed = False
        for labels in (np.arange(n) % 4, np.arange(n) // 100, rng.integers(4, size=n)):
            k, m = np.bincount(labels, bad, 4), np.bincount(labels, minlength=4)
            low, high = share_interval(k, m, each)
            missed |= bool(np.any((low > p) | (high < p)))
        wrong += missed
    assert_binomial(wrong, 2000, 0.05, "greater")


def chance_of_rejecting(n, m, p, level, p_value):
    """The exact probability that equal shares p are called different."""
    k, j = np.arange(n + 1), np.arange(m + 1)
    weight = np.outer(binom.pmf(k, n, p), binom.pmf(j, m, p))
    rejected = np.array([[p_value(a, n, b, m) <= level for b in j] for a in k])
    return float(weight[rejected].sum())


@pytest.mark.parametrize("p", [0.03, 0.2, 0.5])
def test_equal_shares_are_called_different_as_often_as_stated_at_most(p):
    assert chance_of_rejecting(18, 30, p, 0.05, equal_shares_p_value) <= 0.05


def test_half_of_the_p_value_would_be_caught():
    def one_sided(*counts):
        return equal_shares_p_value(*counts) / 2

    assert chance_of_rejecting(18, 30, 0.5, 0.05, one_sided) > 0.05
