"""Mean loss among the accepted: exact p-values, bounds and certificates for bounded losses."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from helpers import assert_binomial
from locuscore import certify_mean_loss, mean_loss_bound
from locuscore._mean_loss import SHARE, _orders, _played, _rejected, _rounds, _stopped

REPEATS = 1_000
LEVELS = (0.01, 0.05, 0.1, 0.3)
ETA = 0.1
LAWS = {
    "rare": lambda rng, size: (rng.uniform(size=size) < ETA).astype(float),
    "skewed": lambda rng, size: rng.beta(0.2, 1.8, size=size),
    "narrow": lambda rng, size: rng.beta(20, 180, size=size),
    "atom": lambda rng, size: np.where(
        rng.uniform(size=size) < 0.5, 0.0, rng.beta(1, 4, size=size)
    ),
}


def played(losses, orders=_orders):
    """The games of each row of losses, (rounds, rows, orders)."""
    games = [_rounds(orders(row)) for row in losses]
    return [np.stack(column, axis=1) for column in zip(*games, strict=True)]


def check(losses, orders=_orders):
    """At the border the claim is rejected with at most the probability of each level."""
    means, spreads = played(losses, orders)
    for level in LEVELS:
        wrong = _rejected(means, spreads, ETA, np.array(level))
        assert_binomial(np.count_nonzero(wrong), len(losses), level, "greater")


def as_they_come(row):
    return row[None, :]


@pytest.mark.parametrize("n", [1, 6, 60])
@pytest.mark.parametrize("name", LAWS)
def test_p_values_are_valid_at_the_border(name, n, rng):
    check(LAWS[name](rng, (REPEATS, n)))


@pytest.fixture(scope="module", params=[5, 20, 50, 80])
def counts(request):
    """The games of all samples of 0-1 losses of one size, one per count of ones."""
    n = request.param
    return n, *played([np.repeat([0.0, 1.0], [n - k, k]) for k in range(n + 1)])


def test_the_false_rate_of_zero_one_losses_is_at_most_delta(counts):
    """Exactly: the orders are fixed by the count, so nothing is left to chance but the count."""
    n, means, spreads = counts
    for eta in (0.05, 0.1, 0.3, 0.5):
        weight = binom.pmf(np.arange(n + 1), n, eta)
        for delta in LEVELS:
            assert weight @ _rejected(means, spreads, eta, np.array(delta)) <= delta


def test_stopped_capital_does_not_grow_on_average_and_its_maximum_does(counts):
    """What Markov needs: averaging the largest capital so far would be no test."""
    n, means, spreads = counts
    if n < 50:
        return
    for eta in (0.1, 0.3):
        weight, start = binom.pmf(np.arange(n + 1), n, eta), SHARE * 0.1
        assert weight @ _stopped(means, spreads, eta, np.array(0.1)) <= 1.25 * start
        v = most = np.full(means.shape[1:], start)
        for x, spread in zip(means, spreads, strict=True):
            v = _played(v, x, spread, np.asarray(eta))
            most = np.maximum(most, v)
        assert weight @ most.mean(axis=-1) > 1.5 * start


def test_shopping_for_an_order_would_be_noticed(counts):
    """The best of ten orders, as a seed of one's own allowed, is wrong more often than delta."""
    n, means, spreads = counts
    if n < 80:
        return
    single = [
        _rejected(means[:, :, [j]], spreads[:, :, [j]], ETA, np.array(0.1))
        for j in range(means.shape[2])
    ]
    assert binom.pmf(np.arange(n + 1), n, ETA) @ np.any(single, axis=0) > 0.15


def test_p_values_are_not_idle(rng):
    losses = (rng.uniform(size=(300, 200)) < 0.03).astype(float)
    assert np.mean(_rejected(*played(losses), ETA, np.array(0.1))) > 0.8


def rising(n, rng):
    """Scores, and losses whose mean rises with the score to `ETA` overall."""
    score = rng.uniform(size=(REPEATS, n))
    return score, (rng.uniform(size=(REPEATS, n)) < 2 * ETA * score).astype(float)


def test_playing_in_the_order_of_the_scores_is_noticed(rng):
    score, losses = rising(200, rng)
    check(losses)
    with pytest.raises(AssertionError):
        check(np.take_along_axis(losses, np.argsort(score, axis=1), axis=1), orders=as_they_come)


def test_the_normal_approximation_is_noticed(rng):
    losses = LAWS["rare"](rng, (REPEATS, 20))
    error = np.maximum(losses.std(axis=1), 1e-9) / np.sqrt(20)
    p = norm.cdf((losses.mean(axis=1) - ETA) / error)
    with pytest.raises(AssertionError):
        assert_binomial(np.count_nonzero(p <= 0.05), len(p), 0.05, "greater")


def test_bounds_cover_the_mean(rng):
    missed = sum(mean_loss_bound(LAWS["skewed"](rng, 12), 0.2, 0, 1) < ETA for _ in range(300))
    assert_binomial(missed, 300, 0.2, "greater")


def without_correction(rule, delta):
    """The largest threshold that passes by itself."""
    passed = [
        t for t, p in zip(rule.table["threshold"], rule.table["p_value"], strict=True) if p <= delta
    ]
    return max(passed, default=-np.inf)


@pytest.fixture(scope="module")
def flat_rules():
    """Certificates for a mean of 0.3 where it is a little more at every threshold."""
    rng = np.random.default_rng(0)
    rules = []
    for _ in range(200):
        score = rng.uniform(size=50)
        losses = (rng.uniform(size=50) < 0.301).astype(float)
        rules.append(certify_mean_loss(score, losses, 0.3, 0.2, support=(0, 1), n_thresholds=12))
    return rules


def test_certificates_are_rarely_wrong(flat_rules):
    wrong = sum(rule.threshold > -np.inf for rule in flat_rules)
    assert_binomial(wrong, len(flat_rules), 0.2, "greater")


def test_testing_every_threshold_without_correction_is_wrong_far_more_often(flat_rules):
    wrong = sum(rule.threshold > -np.inf for rule in flat_rules)
    assert sum(without_correction(rule, 0.2) > -np.inf for rule in flat_rules) > 1.5 * wrong


def test_certificates_are_rarely_wrong_with_ties(rng):
    """Scores 0, 1, 2: up to 1 the mean is below eta, with 2 it is not."""
    wrong = accepted = 0
    for _ in range(200):
        score = rng.integers(3, size=45).astype(float)
        losses = (rng.uniform(size=45) < 0.1 + 0.25 * score).astype(float)
        reference = rng.integers(3, size=50)
        rule = certify_mean_loss(score, losses, 0.345, 0.2, support=(0, 1), reference=reference)
        accepted += rule.threshold > -np.inf
        wrong += rule.threshold == 2  # 0.35
    assert accepted > 40
    assert_binomial(wrong, 200, 0.2, "greater")
