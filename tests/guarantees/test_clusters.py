"""Clusters: ``P(row of a new cluster within its bound) >= 1 - alpha``, and the same of all rows.

Given m + 1 exchangeable clusters, the new one is any of them. So both theorems can be added up
exactly: each cluster of a bag is left out once. For rows whose tails are independent, the closed
form tests the first theorem from both sides.
"""

from fractions import Fraction
from itertools import product
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_binomial
from locuscore._laws.calibration import MarginalCalibration
from locuscore._protocols import Part
from locuscore.calibration._clusters import ClusterCalibration, ClusterRowsCalibration

eighths = st.integers(0, 8).map(lambda i: i / 8)
bags = st.lists(st.lists(eighths, min_size=1, max_size=5), min_size=2, max_size=7)
percents = st.integers(1, 99)


def flat(clusters):
    return Part(
        None,
        None,
        None,
        np.concatenate(clusters),
        np.repeat(np.arange(len(clusters)), [len(tails) for tails in clusters]),
    )


def by_clusters(clusters):
    return ClusterCalibration.of(flat(clusters))


def by_rows(clusters, largest=5):
    found = by_clusters(clusters)
    return ClusterRowsCalibration(found.tails, found.clusters, largest)


def row_by_row(clusters):
    return MarginalCalibration(np.sort(flat(clusters).tails))


def left_out(bag, alpha, kind):
    """Size of each cluster of a bag, and how many of its rows the others' level misses."""
    for i, new in enumerate(bag):
        level = kind(bag[:i] + bag[i + 1 :]).level(alpha)
        yield len(new), sum(tail < level for tail in new)


def missed_by_cluster(bag, alpha, kind):
    """Probability that a random row of the random new cluster is missed, exactly."""
    found = [Fraction(missed, size) for size, missed in left_out(bag, alpha, kind)]
    return sum(found) / len(bag)


def missed_of_rows(bag, alpha, kind):
    """Expected number of missed rows of the new cluster over its expected number of rows."""
    found = list(left_out(bag, alpha, kind))
    return Fraction(sum(missed for _, missed in found), sum(size for size, _ in found))


@given(bags, percents)
def test_a_random_row_of_a_random_cluster(bag, percent):
    alpha = Fraction(percent, 100)
    assert missed_by_cluster(bag, float(alpha), by_clusters) <= alpha


@given(bags, percents)
def test_no_more_is_given_away_than_two_clusters(bag, percent):
    """Without ties, at least ``alpha - 2 / (m + 1)`` is missed."""
    alpha = Fraction(percent, 100)
    ranks = np.random.default_rng(0).permutation(sum(map(len, bag))).tolist()
    untied = [[ranks.pop() / 100 for _ in tails] for tails in bag]
    missed = missed_by_cluster(untied, float(alpha), by_clusters)
    assert alpha - Fraction(2, len(bag)) <= missed <= alpha


@given(bags, percents)
def test_all_rows_of_new_clusters(bag, percent):
    alpha = Fraction(percent, 100)
    assert missed_of_rows(bag, float(alpha), by_rows) <= alpha


def test_rows_one_by_one_are_noticed():
    """Small clusters are bad and large ones good, or the other way round."""
    good, bad = [0.9, 0.8, 0.7, 0.6, 0.5], [0.1]
    bag = [good, bad] * 4
    assert missed_by_cluster(bag, 0.2, row_by_row) > 0.4
    assert missed_by_cluster(bag, 0.2, by_clusters) <= 0.2
    bag = [[0.1, 0.2, 0.3, 0.4, 0.5], *[[0.9]] * 11]
    assert missed_of_rows(bag, 0.1, by_clusters) > 0.25
    assert missed_of_rows(bag, 0.1, by_rows) <= 0.1


def test_a_largest_cluster_that_is_too_small_is_noticed():
    bag = [[0.1] * 5, *[[0.9]] * 19]
    assert missed_of_rows(bag, 0.1, lambda clusters: by_rows(clusters, 1)) > 0.1
    assert missed_of_rows(bag, 0.1, by_rows) <= 0.1


# From both sides, in closed form


def missed_exactly(m, largest, alpha):
    """Probability of a miss where sizes are uniform on 1 to `largest` and all tails independent.

    Given its own tail w, each of the k tails of a cluster is below it with probability w; and
    the integral of ``w^a (1 - w)^b`` is ``a! b! / (a + b + 1)!``.
    """
    cluster = [(size, below) for size in range(1, largest + 1) for below in range(size + 1)]
    total = Fraction(0)
    for chosen in product(cluster, repeat=m):
        if (1 + sum(Fraction(below, size) for size, below in chosen)) / (m + 1) > alpha:
            continue
        ways = 1
        for size, below in chosen:
            ways *= comb(size, below)
        a = sum(below for _, below in chosen)
        b = sum(size for size, _ in chosen) - a
        total += Fraction(ways * factorial(a) * factorial(b), factorial(a + b + 1))
    return total / largest**m


@pytest.mark.parametrize(("m", "alpha"), [(3, 0.3), (4, 0.5)])
def test_clusters_of_random_sizes(m, alpha, rng):
    repeats, largest = 4_000, 3
    missed = 0
    for _ in range(repeats):
        clusters = [rng.uniform(size=size) for size in rng.integers(1, largest + 1, size=m)]
        missed += rng.uniform() < by_clusters(clusters).level(alpha)
    exact = missed_exactly(m, largest, Fraction(str(alpha)))
    assert exact <= alpha
    assert_binomial(missed, repeats, float(exact))


def test_another_closed_form_would_be_noticed(rng):
    """The exact probability of another alpha, one step away."""
    m, repeats = 4, 4_000
    missed = 0
    for _ in range(repeats):
        clusters = [rng.uniform(size=size) for size in rng.integers(1, 4, size=m)]
        missed += rng.uniform() < by_clusters(clusters).level(0.5)
    with pytest.raises(AssertionError):
        assert_binomial(missed, repeats, float(missed_exactly(m, 3, Fraction(3, 5))))


# Busy days


def days(rng, n_days):
    """One day in ten is busy: six times the rows, and far more losses that the model misses."""
    is_busy = rng.uniform(size=n_days) < 0.1
    size = np.where(is_busy, rng.integers(60, 121, n_days), rng.integers(10, 21, n_days))
    return [
        rng.uniform(size=n) ** (4 if busy else 1) for n, busy in zip(size, is_busy, strict=True)
    ]


@pytest.fixture(scope="module")
def busy():
    """Shares missed at alpha = 0.1: of a random row of a random day, and of all rows."""
    rng = np.random.default_rng(0)
    found = {by_clusters: [], by_rows: []}
    for _ in range(150):
        cal, new = days(rng, 99), days(rng, 99)
        for kind, seen in found.items():
            calibration = kind(cal, 120) if kind is by_rows else kind(cal)
            level = calibration.level(0.1)
            missed = [int(np.sum(tails < level)) for tails in new]
            one = rng.integers(99)
            row = rng.integers(len(new[one]))
            seen.append((new[one][row] < level, sum(missed), sum(map(len, new))))
    return {kind: np.array(values).T for kind, values in found.items()}


def test_busy_days_are_kept_by_day_and_not_by_row(busy):
    """Each day counts once, so all rows may be missed twice as often; about 0.09 and 0.22."""
    of_day, missed, rows = busy[by_clusters]
    assert_binomial(of_day.sum(), len(of_day), 0.1, "greater")
    assert 0.2 < missed.sum() / rows.sum() < 0.24


def test_counting_rows_repairs_busy_days(busy):
    _, missed, rows = busy[by_rows]
    assert 0.03 < missed.sum() / rows.sum() < 0.1


def test_rows_one_by_one_would_miss_small_clusters(rng):
    """With small clusters bad, the level of all rows misses a random row of a random cluster."""
    missed = {by_clusters: 0, row_by_row: 0}
    for _ in range(600):
        cal = [rng.uniform(0.3, 1, size=20) if rng.uniform() < 0.5 else rng.uniform(size=1)
               for _ in range(40)]  # fmt: skip
        for kind in missed:
            new = rng.uniform(0.3, 1) if rng.uniform() < 0.5 else rng.uniform()
            missed[kind] += new < kind(cal).level(0.1)
    assert_binomial(missed[by_clusters], 600, 0.1, "greater")
    with pytest.raises(AssertionError):
        assert_binomial(missed[row_by_row], 600, 0.1, "greater")
