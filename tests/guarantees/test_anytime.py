"""Anytime certificates: wrong at any time at most as often as delta; wrong ways are wrong more."""

from collections import Counter

import numpy as np
import pytest

from helpers import assert_binomial, repeated
from locuscore import anytime_certificate, certify_threshold

ETA, DELTA, LEAST = 0.2, 0.2, 0.25
WEEKS, ROWS = 12, 120
GRID = np.arange(1.0, 11.0)


def chance_of_ever_passing(eta, delta, kinds, rows, weighted=True):
    """P(one threshold is ever certified), added up over all courses of labelled rows.

    `kinds` has the share, the chance of a label and the bad rate of each kind of row; the look is
    after every row.
    """
    least = min(q for _, q, _ in kinds)
    begun = anytime_certificate([1.0], 0.5, eta, delta, starts=[1.0], least=least)
    steps, gains = [], []
    for share, q, rate in kinds:
        for bad, chance in ((1.0, rate), (0.0, 1 - rate)):
            gains.append(begun.after([1.0], [bad], q if weighted else least).gains[0])
            steps.append(share * q * chance)
    skipped = 1.0 - sum(steps)
    at, passed = {(0,) * len(steps): 1.0}, 0.0
    for _ in range(rows):
        following = Counter()
        for counts, mass in at.items():
            following[counts] += mass * skipped
            for i, chance in enumerate(steps):
                more = (*counts[:i], counts[i] + 1, *counts[i + 1 :])
                following[more] += mass * chance
        all_counts = np.array(list(following))
        evidence = np.exp(all_counts @ gains) @ begun.weights[0]
        has_passed = evidence >= 1 / delta
        passed += sum(np.array(list(following.values()))[has_passed])
        at = {c: m for (c, m), out in zip(following.items(), has_passed, strict=True) if not out}
    return passed


def test_the_chance_of_ever_passing_is_at_most_delta():
    """Exactly, for a rate at eta: no row more can be wrong."""
    found = chance_of_ever_passing(0.2, 0.2, [(1.0, 1.0, 0.2)], 80)
    assert 0.05 < found <= 0.2


# Rows of the second kind are bad more often and labelled less: together eta are bad.
KINDS = [(0.5, 0.9, 0.1), (0.5, 0.3, 0.5)]


def test_the_same_with_chances_that_go_with_the_risk():
    assert chance_of_ever_passing(0.3, 0.4, KINDS, 22) <= 0.4


def test_leaving_out_the_weights_is_noticed():
    assert chance_of_ever_passing(0.3, 0.4, KINDS, 22, weighted=False) > 0.4


def tied(rng, n):
    """Few distinct scores, each threshold accepting six tenths of the next; one is infinite."""
    place = rng.geometric(0.4, size=n)
    return np.where(place == 1, np.inf, GRID[np.clip(len(GRID) + 1 - place, 0, len(GRID) - 1)])


@pytest.fixture(scope="module")
def lives():
    """Whether a threshold that breaks eta was ever certified: by us, and by wrong ways."""
    wrong = Counter()
    rng = np.random.default_rng(0)
    repeats = repeated(100)
    for _ in range(repeats):
        ours = anytime_certificate(GRID, 0.5, ETA, DELTA, least=LEAST, starts=[0.8])
        unordered = anytime_certificate(GRID, 0.5, ETA, DELTA)
        seen = [np.empty(0), np.empty(0)]
        found = Counter()
        for _ in range(WEEKS):
            score = tied(rng, ROWS)
            bad = (rng.uniform(size=ROWS) < 1.001 * ETA).astype(float)  # all thresholds break eta
            # Accepted rows are labelled always, others seldom: the chance follows the past.
            chance = np.where(score <= ours.rule.threshold, 1.0, LEAST)
            drawn = rng.uniform(size=ROWS) < chance
            rows = score[drawn], bad[drawn]
            ours = ours.after(*rows, chance[drawn])
            seen = [np.append(a, b) for a, b in zip(seen, (score, bad), strict=True)]
            naive = certify_threshold(*seen, 0.5, ETA, DELTA, reference=GRID, starts=[0.8])
            unordered = unordered.after(score, bad)
            passed = unordered.thresholds[unordered.largest >= -np.log(DELTA)]
            rules = {"ours": ours.rule, "naive": naive}
            found += Counter(name for name, rule in rules.items() if rule.threshold > -np.inf)
            found["no order"] += len(passed) > 0
        wrong += Counter(name for name, count in found.items() if count)
    return wrong, repeats


def test_no_rule_of_its_life_is_wrong_more_often_than_delta(lives):
    wrong, repeats = lives
    assert_binomial(wrong["ours"], repeats, DELTA, "greater")


def test_a_new_certificate_every_week_is_noticed(lives):
    wrong, repeats = lives
    with pytest.raises(AssertionError):
        assert_binomial(wrong["naive"], repeats, DELTA, "greater")


def test_thresholds_that_need_not_pass_in_order_are_wrong_more_often(lives):
    wrong, _ = lives
    assert wrong["no order"] > 2 * wrong["ours"]


def wrong_where_bad_labels_come_late(passed_when, repeats=60):
    """Lives with a wrong rule: all thresholds break eta, and bad rows get their label late."""
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(repeats):
        certificate = anytime_certificate(GRID, 0.5, ETA, DELTA, starts=[0.8])
        score, bad = tied(rng, WEEKS * ROWS), rng.uniform(size=WEEKS * ROWS) < 1.001 * ETA
        week = np.arange(WEEKS * ROWS) // ROWS
        week = week + 2 * bad if passed_when == "labelled" else week
        for now in range(WEEKS):
            certificate = certificate.after(score[week == now], bad[week == now].astype(float))
        wrong += certificate.rule.threshold > -np.inf
    return wrong


def test_late_labels_are_no_matter_if_rows_are_passed_in_the_order_they_came():
    assert_binomial(wrong_where_bad_labels_come_late("they came"), 60, DELTA, "greater")


def test_passing_rows_when_they_are_labelled_is_noticed():
    with pytest.raises(AssertionError):
        assert_binomial(wrong_where_bad_labels_come_late("labelled"), 60, DELTA, "greater")


def test_what_is_safe_is_found():
    """Of rows up to t, 0.1 t^2 are bad: thresholds up to 0.816 keep eta = 0.0667."""
    rng = np.random.default_rng(1)
    limit, found = (3 * 0.0667 / 0.3) ** 0.5, []
    for _ in range(40):
        certificate = anytime_certificate(rng.uniform(size=300), 0.5, 0.0667, 0.1)
        for _ in range(8):
            score = rng.uniform(size=250)
            certificate = certificate.after(score, rng.uniform(size=250) < 0.3 * score**2)
        found.append(certificate.rule.threshold)
    assert_binomial(np.count_nonzero(np.array(found) > limit), len(found), 0.1, "greater")
    assert np.median(found) > 0.6
