"""Mean loss among the accepted: exact p-values, bounds and certificates for bounded losses."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm

from helpers import assert_binomial
from locuscore import certify_mean_loss, mean_loss_bound
from locuscore._rules import betting
from locuscore._rules.betting import SHARE, Games, rejected, stopped_capital

REPEATS = 2_000
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


def check(losses):
    """At the border the claim is rejected with at most the probability of each level."""
    games = Games.of(losses)
    for level in LEVELS:
        wrong = rejected(games, ETA, np.array(level))
        assert_binomial(np.count_nonzero(wrong), len(losses), level, "greater")


@pytest.mark.parametrize("n", [1, 6, 60])
@pytest.mark.parametrize("name", LAWS)
def test_p_values_are_valid_at_the_border(name, n, rng):
    check(LAWS[name](rng, (REPEATS, n)))


@pytest.fixture(scope="module", params=[5, 20, 50, 80, 150])
def counts(request):
    """The games of all samples of 0-1 losses of one size, one per count of ones."""
    n = request.param
    return n, Games.of([np.repeat([0.0, 1.0], [n - k, k]) for k in range(n + 1)])


def test_the_false_rate_of_zero_one_losses_is_at_most_delta(counts):
    """Exactly: the orders are fixed by the count, so nothing is left to chance but the count."""
    n, games = counts
    for eta in (0.02, 0.05, 0.1, 0.3, 0.5, 0.8):
        weight = binom.pmf(np.arange(n + 1), n, eta)
        for delta in LEVELS:
            assert weight @ rejected(games, eta, np.array(delta)) <= delta


@pytest.mark.parametrize("eta", [0.1, 0.3, 0.6])
def test_stopped_capital_does_not_grow_on_average_and_its_maximum_does(eta, monkeypatch):
    """What Markov needs, exactly, over all sequences; the largest capital so far has it not."""
    monkeypatch.setattr(betting, "ORDERS", 1)
    monkeypatch.setattr(betting, "in_orders", lambda row: row[None, :])
    sequences = np.array(list(product([0.0, 1.0], repeat=12)))
    weight = np.prod(np.where(sequences == 1, eta, 1 - eta), axis=1)
    games, start = Games.of(sequences), SHARE * 0.3
    assert weight @ stopped_capital(games, eta, np.array(0.3))[:, 0] <= start * (1 + 1e-12)
    most = np.full(games.losses.shape[1:], start)
    for i in range(1, 13):  # the capital after so many rounds: no bets after them
        left = np.where(np.arange(12)[:, None, None] < i, games.left, np.inf)
        v = stopped_capital(games._replace(left=left), eta, np.array(0.3))
        most = np.maximum(most, v)
    assert weight @ most[:, 0] > 1.1 * start


def test_shopping_for_an_order_would_be_noticed(counts):
    """The best of 20 orders, as a seed of one's own allowed, is wrong more often than delta."""
    n, games = counts
    if n < 80:
        return
    best = stopped_capital(games, ETA, np.array(0.1)).max(axis=-1) >= SHARE
    assert binom.pmf(np.arange(n + 1), n, ETA) @ best > 0.1


def test_p_values_are_not_idle(rng):
    losses = (rng.uniform(size=(1_000, 200)) < 0.03).astype(float)
    assert np.mean(rejected(Games.of(losses), ETA, np.array(0.1))) > 0.85


def rising(n, rng):
    """Scores, and losses whose mean rises with the score to `ETA` overall."""
    score = rng.uniform(size=(REPEATS, n))
    return score, (rng.uniform(size=(REPEATS, n)) < 2 * ETA * score).astype(float)


def test_playing_in_the_order_of_the_scores_is_noticed(rng, monkeypatch):
    score, losses = (part[:1_500] for part in rising(200, rng))
    check(losses)
    monkeypatch.setattr(betting, "in_orders", lambda row: np.tile(row, (betting.ORDERS, 1)))
    with pytest.raises(AssertionError):
        check(np.take_along_axis(losses, np.argsort(score, axis=1), axis=1))


def test_the_normal_approximation_is_noticed(rng):
    losses = LAWS["rare"](rng, (REPEATS, 20))
    error = np.maximum(losses.std(axis=1), 1e-9) / np.sqrt(20)
    p = norm.cdf((losses.mean(axis=1) - ETA) / error)
    with pytest.raises(AssertionError):
        assert_binomial(np.count_nonzero(p <= 0.05), len(p), 0.05, "greater")


def test_bounds_cover_the_mean(rng):
    missed = sum(mean_loss_bound(LAWS["skewed"](rng, 12), 0.2, 0, 1) < ETA for _ in range(400))
    assert_binomial(missed, 400, 0.2, "greater")


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
    for _ in range(300):
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
    for _ in range(300):
        score = rng.integers(3, size=45).astype(float)
        losses = (rng.uniform(size=45) < 0.1 + 0.25 * score).astype(float)
        reference = rng.integers(3, size=50)
        rule = certify_mean_loss(score, losses, 0.345, 0.2, support=(0, 1), reference=reference)
        accepted += rule.threshold > -np.inf
        wrong += rule.threshold == 2  # 0.35
    assert accepted > 60
    assert_binomial(wrong, 300, 0.2, "greater")
