"""Mean loss among the accepted: exact p-values, bounds and certificates for bounded losses."""

import numpy as np
import pytest
from scipy.stats import norm

from helpers import assert_binomial
from locuscore import certify_mean_loss, mean_loss_bound
from locuscore._mean_loss import _p_values, _rounds

REPEATS = 4_000
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


def p_values(losses):
    """P-value of each row of losses, played from left to right."""
    played = [_rounds(row) for row in losses]
    means, spreads = (np.stack(column, axis=1) for column in zip(*played, strict=True))
    return _p_values(means, spreads, ETA)


def check_p_values(p):
    for level in LEVELS:
        assert_binomial(np.count_nonzero(p <= level), len(p), level, "greater")


@pytest.mark.parametrize("n", [1, 6, 60])
@pytest.mark.parametrize("name", LAWS)
def test_p_values_are_valid_at_the_border(name, n, rng):
    check_p_values(p_values(LAWS[name](rng, (REPEATS, n))))


def test_p_values_are_not_idle(rng):
    """At the border the level is nearly used up, and beyond it the test finds out."""
    p = p_values(LAWS["rare"](rng, (1_000, 200)))
    assert 0.05 < np.mean(p <= 0.1) < 0.14
    p = p_values((rng.uniform(size=(500, 200)) < 0.03).astype(float))
    assert np.mean(p <= 0.1) > 0.8


def rising(n, rng):
    """Scores, and losses whose mean rises with the score to `ETA` overall."""
    score = rng.uniform(size=(REPEATS, n))
    return score, (rng.uniform(size=(REPEATS, n)) < 2 * ETA * score).astype(float)


def test_playing_in_the_order_of_the_scores_is_noticed(rng):
    score, losses = rising(60, rng)
    check_p_values(p_values(losses))
    with pytest.raises(AssertionError):
        check_p_values(p_values(np.take_along_axis(losses, np.argsort(score, axis=1), axis=1)))


def test_the_normal_approximation_is_noticed(rng):
    losses = LAWS["rare"](rng, (REPEATS, 20))
    error = np.maximum(losses.std(axis=1), 1e-9) / np.sqrt(20)
    with pytest.raises(AssertionError):
        check_p_values(norm.cdf((losses.mean(axis=1) - ETA) / error))


def test_bounds_cover_the_mean(rng):
    missed = sum(mean_loss_bound(LAWS["skewed"](rng, 12), 0.2, 0, 1) < ETA for _ in range(2_000))
    assert_binomial(missed, 2_000, 0.2, "greater")


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
    for i in range(2_000):
        score = rng.uniform(size=40)
        losses = (rng.uniform(size=40) < 0.301).astype(float)
        rules.append(
            certify_mean_loss(
                score, losses, 0.3, 0.2, support=(0, 1), n_thresholds=12, random_state=i
            )
        )
    return rules


def test_certificates_are_rarely_wrong(flat_rules):
    wrong = sum(rule.threshold > -np.inf for rule in flat_rules)
    assert_binomial(wrong, len(flat_rules), 0.2, "greater")


def test_testing_every_threshold_without_correction_is_noticed(flat_rules):
    wrong = sum(without_correction(rule, 0.2) > -np.inf for rule in flat_rules)
    with pytest.raises(AssertionError):
        assert_binomial(wrong, len(flat_rules), 0.2, "greater")


def test_certificates_are_rarely_wrong_with_ties(rng):
    """Scores 0, 1, 2: up to 1 the mean is below eta, with 2 it is not."""
    wrong = accepted = 0
    for i in range(2_000):
        score = rng.integers(3, size=45).astype(float)
        losses = (rng.uniform(size=45) < 0.1 + 0.25 * score).astype(float)
        reference = rng.integers(3, size=50)
        rule = certify_mean_loss(
            score, losses, 0.345, 0.2, support=(0, 1), reference=reference, random_state=i
        )
        accepted += rule.threshold > -np.inf
        wrong += rule.threshold == 2  # 0.35
    assert accepted > 500
    assert_binomial(wrong, 2_000, 0.2, "greater")
