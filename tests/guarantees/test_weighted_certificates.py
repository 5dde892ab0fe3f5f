"""Certificates by known weights: wrong at most as often as delta; without weights, more often."""

from itertools import combinations_with_replacement
from math import factorial

import numpy as np
import pytest

from helpers import assert_binomial
from locuscore import certify_threshold, certify_weighted
from locuscore._rules import weighted as module
from locuscore._rules.betting import Games, rejected

ETA, DELTA, LARGEST = 0.3, 0.2, 4.0
# Two kinds of rows, half of the labelled ones each. The second comes four times as often among new
# rows, where a little more than eta are bad: a fifth of 0.1 and four fifths of 0.3513.
WEIGHTS, RATES = np.array([1.0, 4.0]), np.array([0.1, 0.3513])
assert WEIGHTS @ RATES / WEIGHTS.sum() > ETA > RATES.mean()


def sample(rng, n):
    """Scores that say nothing, whether rows are bad, and their weights."""
    kind = rng.integers(2, size=n)
    return rng.uniform(size=n), (rng.uniform(size=n) < RATES[kind]).astype(float), WEIGHTS[kind]


def value(bad, weight):
    """What is tested to have a mean of at most eta."""
    return ETA + weight / LARGEST * (bad - ETA)


OUTCOMES = [
    (kind, bad, (0.5 * RATES[kind] if bad else 0.5 * (1 - RATES[kind])))
    for kind in (0, 1)
    for bad in (0, 1)
]


def false_rate(n, of):
    """P("above eta" is rejected), added up over all samples of n rows, in no order."""
    samples, chances = [], []
    for rows in combinations_with_replacement(range(4), n):
        counts = np.bincount(rows, minlength=4)
        ways = factorial(n)
        for count in counts:
            ways //= factorial(int(count))
        chances.append(ways * np.prod([OUTCOMES[i][2] ** c for i, c in enumerate(counts)]))
        samples.append(np.array([of(OUTCOMES[i][1], WEIGHTS[OUTCOMES[i][0]]) for i in rows]))
    assert abs(sum(chances) - 1) < 1e-9
    return float(np.dot(chances, rejected(Games.of(samples), ETA, np.array(DELTA))))


def test_the_false_rate_of_one_threshold_is_at_most_delta():
    assert false_rate(15, value) <= DELTA


def test_leaving_out_the_weights_is_noticed():
    assert false_rate(15, lambda bad, weight: float(bad)) > DELTA


@pytest.fixture(scope="module")
def rules():
    """Certificates where every threshold breaks eta a little."""
    rng = np.random.default_rng(0)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_THRESHOLDS", 5)
        for _ in range(100):
            s, losses, w = sample(rng, 50)
            found.append(
                (
                    certify_weighted(s, losses, w, 0.5, ETA, DELTA, largest_weight=LARGEST),
                    certify_threshold(s, losses, 0.5, ETA, DELTA),
                )
            )
    return found


def test_certificates_are_rarely_wrong(rules):
    wrong = sum(rule.threshold > -np.inf for rule, _ in rules)
    assert_binomial(wrong, len(rules), DELTA, "greater")


def test_unweighted_certificates_are_wrong_for_new_rows(rules):
    wrong = sum(rule.threshold > -np.inf for _, rule in rules)
    with pytest.raises(AssertionError):
        assert_binomial(wrong, len(rules), DELTA, "greater")


def test_thresholds_in_order_without_correction_are_wrong_more_often(rules):
    """The largest threshold that passes by itself, whatever came before it."""
    wrong = sum(rule.threshold > -np.inf for rule, _ in rules)
    assert sum(min(rule.table["p_value"]) <= DELTA for rule, _ in rules) > 1.5 * wrong


def rising(rng, n):
    """Scores s with weights 2 s and P(bad) = s^3: of new rows up to t, 0.4 t^3 are bad."""
    s = rng.uniform(size=n)
    return s, (rng.uniform(size=n) < s**3).astype(float), 2 * s


def test_where_risk_rises_with_the_score(monkeypatch):
    """In closed form: thresholds above 0.794 break eta = 0.2, and many below are found."""
    monkeypatch.setattr(module, "MOST_THRESHOLDS", 6)
    rng = np.random.default_rng(1)
    other = rng.uniform(size=400)
    more = {"largest_weight": 2.0, "reference": other, "reference_weights": 2 * other}
    found = [certify_weighted(*rising(rng, 250), 0.5, 0.2, 0.2, **more) for _ in range(15)]
    thresholds = np.array([rule.threshold for rule in found])
    limit = (0.2 / 0.4) ** (1 / 3)
    assert_binomial(np.count_nonzero(thresholds > limit), len(found), 0.2, "greater")
    assert np.mean(thresholds > 0.5) > 0.5


def test_a_factor_changes_nothing(rng, monkeypatch):
    monkeypatch.setattr(module, "MOST_THRESHOLDS", 6)
    s, losses, w = rising(rng, 200)
    one = certify_weighted(s, losses, w, 0.5, 0.2, 0.1, largest_weight=2.0)
    two = certify_weighted(s, losses, 8 * w, 0.5, 0.2, 0.1, largest_weight=16.0)
    assert one.threshold == two.threshold
    assert one.table == two.table
