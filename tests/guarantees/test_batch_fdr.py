"""Conformal selection: the expected share of bad rows among the accepted is at most `fdr`."""

import numpy as np
import pytest

from helpers import SMALLEST_P, assert_binomial, repeated
from locuscore import select_batch

REPEATS = repeated(4_000)


def assert_mean_at_most(values, limit):
    """Fail if numbers from 0 to 1 are incompatible with a mean of `limit` (Hoeffding)."""
    slack = np.sqrt(np.log(1 / SMALLEST_P) / (2 * len(values)))
    assert values.mean() <= limit + slack, f"{values.mean():.4f} > {limit} + {slack:.4f}"


def benjamini_hochberg(p, fdr):
    ordered = np.sort(p)
    passed = np.flatnonzero(ordered <= fdr * np.arange(1, len(p) + 1) / len(p) + 1e-12)
    return p <= (ordered[passed[-1]] if len(passed) else -1.0)


def without_the_plus_one(new, cal, losses, tau, fdr):
    bad = np.sort(cal[losses > tau])
    return benjamini_hochberg(np.searchsorted(bad, new, side="right") / len(cal), fdr)


def ties_in_favour_of_a_row(new, cal, losses, tau, fdr):
    bad = np.sort(cal[losses > tau])
    return benjamini_hochberg((1 + np.searchsorted(bad, new)) / (len(cal) + 1), fdr)


def each_row_by_itself(new, cal, losses, tau, fdr):
    return select_batch(new, cal, losses, tau, fdr).p_values(new) <= fdr


def proper(new, cal, losses, tau, fdr):
    return select_batch(new, cal, losses, tau, fdr).accepted


def false_shares(method, rng, n, m, fdr, law, repeats=REPEATS):
    """Share of bad rows among the accepted, one number per repetition."""
    shares = np.empty(repeats)
    for i in range(repeats):
        score, losses = law(n + m, rng)
        accepted = method(score[n:], score[:n], losses[:n], 0.5, fdr)
        shares[i] = np.count_nonzero(accepted & (losses[n:] > 0.5)) / max(1, accepted.sum())
    return shares


def all_bad(size, rng):
    return rng.uniform(size=size), np.ones(size)


def rising(size, rng):
    score = rng.uniform(size=size)
    return score, (rng.uniform(size=size) < 0.1 + 0.8 * score).astype(float)


def tied(size, rng):
    score, losses = rising(size, rng)
    return np.floor(3 * score), losses


def useless(size, rng):
    return np.zeros(size), (rng.uniform(size=size) < 0.5).astype(float)


@pytest.mark.parametrize(("n", "m", "fdr"), [(19, 1, 0.1), (99, 5, 0.1), (59, 3, 0.25)])
def test_exact_where_every_row_is_bad(n, m, fdr, rng):
    """There the share is 0 or 1, and its mean is `fdr` itself: an exact test, from both sides."""
    shares = false_shares(proper, rng, n, m, fdr, all_bad)
    assert_binomial(shares.sum(), REPEATS, fdr)


@pytest.mark.parametrize("law", [rising, tied, useless])
@pytest.mark.parametrize(("n", "m", "fdr"), [(30, 10, 0.3), (200, 40, 0.15)])
def test_false_discoveries_are_controlled(n, m, fdr, law, rng):
    assert_mean_at_most(false_shares(proper, rng, n, m, fdr, law), fdr)


def test_one_row_at_a_time_with_ties(rng):
    """A batch of one: the share is an indicator, and the test exact."""
    shares = false_shares(proper, rng, 19, 1, 0.3, tied)
    assert_binomial(shares.sum(), REPEATS, 0.3, "greater")


def all_bad_tied(size, rng):
    return np.floor(3 * rng.uniform(size=size)), np.ones(size)


def minus_infinite(size, rng):
    """Every row is bad, and 40 % have a score of -inf."""
    score = rng.uniform(size=size)
    return np.where(rng.uniform(size=size) < 0.4, -np.inf, score), np.ones(size)


def rising_with_minus_infinity(size, rng):
    score, losses = rising(size, rng)
    return np.where(rng.uniform(size=size) < 0.4, -np.inf, score), losses


@pytest.mark.parametrize("law", [all_bad_tied, minus_infinite])
@pytest.mark.parametrize(("n", "m", "fdr"), [(19, 4, 0.3), (99, 10, 0.1)])
def test_batches_of_bad_rows_by_an_exact_test(n, m, fdr, law, rng):
    """Where every row is bad the share is an indicator, ties and infinite scores or not."""
    shares = false_shares(proper, rng, n, m, fdr, law)
    assert set(shares) <= {0.0, 1.0}
    assert_binomial(shares.sum(), REPEATS, fdr, "greater")


def test_batches_with_minus_infinity(rng):
    shares = false_shares(proper, rng, 200, 40, 0.3, rising_with_minus_infinity)
    assert_mean_at_most(shares, 0.3)


def minus_infinity_at_most_itself(new, cal, losses, tau, fdr):
    """The twin: a threshold of -inf, for nothing, accepts the scores of -inf."""
    return new <= select_batch(new, cal, losses, tau, fdr).threshold


@pytest.mark.parametrize(
    ("twin", "law"),
    [(ties_in_favour_of_a_row, all_bad_tied), (minus_infinity_at_most_itself, minus_infinite)],
)
def test_twins_are_noticed_by_the_exact_test(twin, law, rng):
    shares = false_shares(twin, rng, 19, 4, 0.3, law)
    with pytest.raises(AssertionError):
        assert_binomial(shares.sum(), REPEATS, 0.3, "greater")


def test_something_is_accepted(rng):
    score, losses = rising(2_000, rng)
    assert select_batch(score[:1000], score[1000:], losses[1000:], 0.5, 0.3).n_accepted > 200


def test_p_values_without_the_plus_one_are_noticed(rng):
    shares = false_shares(without_the_plus_one, rng, 10, 1, 0.1, all_bad)
    with pytest.raises(AssertionError):
        assert_binomial(shares.sum(), REPEATS, 0.1, "greater")


def test_ties_in_favour_of_a_row_are_noticed(rng):
    shares = false_shares(ties_in_favour_of_a_row, rng, 30, 10, 0.3, useless)
    with pytest.raises(AssertionError):
        assert_mean_at_most(shares, 0.3)


def test_testing_each_row_by_itself_is_noticed(rng):
    shares = false_shares(each_row_by_itself, rng, 99, 5, 0.1, all_bad)
    with pytest.raises(AssertionError):
        assert_mean_at_most(shares, 0.1)
