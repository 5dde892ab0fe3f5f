"""Anytime certificates: the fast code against a slow one, ties, infinite scores, state, errors."""

import json

import numpy as np
import pytest
from scipy.special import logsumexp

from helpers import assert_close, raises
from locuscore import AnytimeCertificate, Score, anytime_certificate
from locuscore._rules.anytime_bets import RATES, WEIGHTS, bet_sizes, clean_rows

TAU, ETA, DELTA = 0.5, 0.1, 0.1


def stream(rng, n, least=1.0):
    """Scores with ties, infinite ones among them, losses that rise with the score, and chances."""
    score = np.round(rng.uniform(size=n), 2)
    losses = (rng.uniform(size=n) < 0.3 * score**2).astype(float)
    score[rng.uniform(size=n) < 0.02] = -np.inf
    score[rng.uniform(size=n) < 0.02] = np.inf
    return score, losses, rng.uniform(least, 1.0, size=n)


def slow_evidence(threshold, score, losses, chance, least, weights):
    """Log of the mixture, by the formula, row by row."""
    total = 0.0
    for share, weight in zip(RATES, weights, strict=True):
        size = (ETA - share * ETA) / (ETA * (1 - ETA))
        capital = 1.0
        for s, z, q in zip(score, losses, chance, strict=True):
            if np.isfinite(s) and s <= threshold:
                capital *= 1 + size * (least / q) * (ETA - (z > TAU))
        total += weight * capital
    return np.log(total)


def test_evidence_is_that_of_the_formula(rng):
    least = 0.3
    batches = [stream(rng, 150, least) for _ in range(3)]
    certificate = anytime_certificate(
        np.round(rng.uniform(size=300), 1), TAU, ETA, DELTA, least=least
    )
    largest = np.zeros(len(certificate.thresholds))
    seen = [np.empty(0)] * 3
    for batch in batches:
        seen = [np.append(a, b) for a, b in zip(seen, batch, strict=True)]
        certificate = certificate.after(*batch)
        now = [slow_evidence(t, *seen, least, WEIGHTS) for t in certificate.thresholds]
        largest = np.maximum(largest, now)
        assert_close(certificate.largest, largest, atol=1e-9)
    # Thresholds pass in order from each start.
    ends = []
    for start, level in zip(certificate.starts, certificate.levels, strict=True):
        end = int(start)
        while end < len(largest) and largest[end] >= -np.log(level):
            end += 1
        ends += [end - 1] if end > start else []
    assert certificate.rule.threshold == certificate.thresholds[max(ends)]


def test_it_begins_with_nothing_and_only_loosens(rng):
    certificate = anytime_certificate(rng.uniform(size=400), TAU, ETA, DELTA)
    found = [certificate.rule.threshold]
    for _ in range(15):
        certificate = certificate.after(*stream(rng, 100)[:2])
        found.append(certificate.rule.threshold)
    assert found[0] == -np.inf
    assert found == sorted(found)
    assert found[-1] > 0.6
    claim = certificate.rule.certificate
    assert claim.n_rows == certificate.n_labelled == 1_500
    assert claim.p_value <= DELTA
    assert claim.n_bad <= ETA * claim.n_accepted
    assert "all that this certificate" in certificate.rule.guarantee


def test_order_within_a_batch_is_no_matter(rng):
    score, losses, chance = stream(rng, 300, 0.5)
    begun = anytime_certificate(rng.uniform(size=100), TAU, ETA, DELTA, least=0.5)
    order = rng.permutation(300)
    one = begun.after(score, losses, chance)
    two = begun.after(score[order], losses[order], chance[order])
    assert_close(one.largest, two.largest, rtol=1e-12)
    assert one.rule.threshold == two.rule.threshold


def test_infinite_scores_and_rows_without_a_label(rng):
    begun = anytime_certificate([1.0, 2.0, np.inf, -np.inf], TAU, ETA, DELTA)
    assert begun.thresholds.tolist() == [1.0, 2.0]
    after = begun.after([-np.inf, np.inf], [1.0, 1.0])
    assert not after.gains.any()
    assert after.n_labelled == 2
    lost, bad = (begun.after([1.0], [z]) for z in (np.nan, 1.0))
    assert_close(lost.gains, bad.gains)
    assert lost.gains[0, 0] < 0


def test_the_least_rows_that_can_pass(rng):
    begun = anytime_certificate(np.zeros(10), TAU, ETA, DELTA, starts=[1.0])
    needed = clean_rows(begun.weights[0], ETA, DELTA)
    assert begun.rule.certificate.accepted_rows_needed_without_a_bad_one == needed
    assert str(needed) in begun.rule.guarantee
    assert begun.after(np.zeros(needed - 1), np.zeros(needed - 1)).rule.threshold == -np.inf
    assert begun.after(np.zeros(needed), np.zeros(needed)).rule.threshold == 0.0


def test_the_least_rows_that_can_pass_at_a_tiny_eta():
    """Found without an array of all numbers up to it, of which there are billions."""
    begun = anytime_certificate(np.zeros(10), TAU, 1e-10, DELTA, starts=[1.0])
    needed = begun.rule.certificate.accepted_rows_needed_without_a_bad_one
    steps = np.log1p(1e-10 * bet_sizes(1e-10))
    assert logsumexp(needed * steps, b=WEIGHTS) >= -np.log(DELTA)
    assert logsumexp((needed - 1) * steps, b=WEIGHTS) < -np.log(DELTA)


def test_a_week_without_a_drawn_row_changes_nothing(rng):
    begun = anytime_certificate(rng.uniform(size=50), TAU, ETA, DELTA, least=0.2)
    quiet = begun.after([], [], []).after(np.empty(0), np.empty(0), 0.5, cursor=9)
    assert quiet.state() == begun.state() | {"cursor": 9}
    with raises(ValueError, "one non-zero length"):
        begun.after([], [0.0])


def test_losses_of_the_reference_choose_start_and_bets(rng):
    score, losses, _ = stream(rng, 2_000)
    plain = anytime_certificate(score, TAU, ETA, DELTA)
    planned = anytime_certificate(score, TAU, ETA, DELTA, reference_losses=losses)
    # The risk up to t is 0.1 t^2; evidence grows fastest where t times the entropy is largest.
    assert 0.25 < planned.thresholds[int(planned.starts[-1])] < 0.6
    assert_close(planned.weights.sum(axis=1), 1.0, rtol=1e-12)
    assert_close(plain.weights, np.tile(WEIGHTS, (len(plain.thresholds), 1)))
    assert_close(planned.levels.sum(), DELTA, rtol=1e-12)


def test_state_goes_through_json(rng):
    certificate = anytime_certificate(
        rng.uniform(size=300), TAU, ETA, DELTA, of=Score.tail(TAU), least=0.5
    )
    for _ in range(6):
        certificate = certificate.after(*stream(rng, 150, 0.5), cursor=7)
    again = AnytimeCertificate.from_state(json.loads(json.dumps(certificate.state())))
    assert again.rule.to_dict() == certificate.rule.to_dict()
    assert again.cursor == 7
    more = stream(rng, 100, 0.5)
    assert_close(again.after(*more).largest, certificate.after(*more).largest)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("largest", [0.0]),
        ("levels", [0.9, 0.9, 0.9]),
        ("eta", 2.0),
        ("least", 0.0),
        ("starts", [0, 1, 10_000]),
        ("cursor", -1),
        ("of", {"kind": "nothing"}),
        ("gains", "text"),
    ],
)
def test_a_forged_state_is_refused(rng, part, value):
    state = anytime_certificate(rng.uniform(size=50), TAU, ETA, DELTA).state()
    with raises(ValueError, "no state of an anytime certificate"):
        AnytimeCertificate.from_state(state | {part: value})
    with raises(ValueError, "has the parts", part):
        AnytimeCertificate.from_state({k: v for k, v in state.items() if k != part})


def test_evidence_above_what_was_ever_reached_is_refused(rng):
    certificate = anytime_certificate(np.zeros(9), TAU, ETA, DELTA).after(
        np.zeros(20), np.zeros(20)
    )
    with raises(ValueError, "contradict"):
        AnytimeCertificate.from_state(certificate.state() | {"largest": [0.0]})


def test_a_state_of_another_shape_is_refused():
    state = anytime_certificate(np.zeros(9), TAU, ETA, DELTA).state()
    assert AnytimeCertificate.from_state(state).rule.threshold == -np.inf
    for part, value in (
        ("thresholds", []),  # nothing to accept with, and yet evidence of one
        ("thresholds", [[0.0]]),
        ("starts", [[0, 0]]),
        ("thresholds", [10**400]),
        ("tau", 10**400),
    ):
        with raises(ValueError, "no state of an anytime certificate"):
            AnytimeCertificate.from_state(state | {part: value})


def test_bad_input_is_refused(rng):
    begun = anytime_certificate(rng.uniform(size=50), TAU, ETA, DELTA, least=0.2)
    with raises(ValueError, "chances of 1 rows", "0.2", "0.1"):
        begun.after([0.1, 0.2], [0.0, 0.0], [0.1, 1.0])
    with raises(ValueError, "one non-zero length"):
        begun.after([0.1, 0.2], [0.0])
    with raises(ValueError, "missing values", "score"):
        begun.after([np.nan], [0.0])
    with raises(ValueError, "no finite score"):
        anytime_certificate([np.inf], TAU, ETA, DELTA)
    with raises(ValueError, "least", "above 0"):
        anytime_certificate([1.0], TAU, ETA, DELTA, least=0)
    with raises(ValueError, "both choose the start"):
        anytime_certificate([1.0], TAU, ETA, DELTA, reference_losses=[0.0], starts=[0.4])
