import math

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import (
    ExceedanceClaim,
    FlagRule,
    GroupRule,
    Locus,
    MeanLossClaim,
    Score,
    certify_claims,
    certify_threshold,
    combined_delta,
    mean_loss_p_value,
)


def rows(n, rng):
    score = rng.uniform(size=n)
    return score, np.minimum(score * rng.exponential(size=n), 2.0)


def slow_p_value(claim, z):
    if isinstance(claim, MeanLossClaim):
        return mean_loss_p_value(z, claim.eta, *claim.support)
    n, bad, eta = len(z), int(np.sum(z > claim.tau)), claim.eta
    return math.fsum(math.comb(n, k) * eta**k * (1 - eta) ** (n - k) for k in range(bad + 1))


def slow_claims(score, losses, claims, delta, grid):
    """Thresholds by the definition: one claim, one threshold, one test at a time."""
    passed = {(i, t): False for i in range(len(claims)) for t in grid}
    p = {(i, t): slow_p_value(c, losses[score <= t]) for i, c in enumerate(claims) for t in grid}
    while True:
        complete = [all(passed[i, t] for t in grid) for i in range(len(claims))]
        left = sum(c.weight for c, done in zip(claims, complete, strict=True) if not done)
        before = dict(passed)
        for i, claim in enumerate(claims):
            for t in grid:
                implied = any(passed[j, t] and o.implies(claim) for j, o in enumerate(claims))
                level = 0.0 if complete[i] else delta * claim.weight / left
                if not (implied or p[i, t] <= level):
                    break
                passed[i, t] = True
        if before == passed:
            return [
                max((t for t in grid if passed[i, t]), default=-np.inf) for i in range(len(claims))
            ]


CLAIMS = [
    ExceedanceClaim(1.0, 0.2),
    ExceedanceClaim(1.5, 0.2, weight=2.0),
    ExceedanceClaim(1.9, 0.3),
    MeanLossClaim(0.5, (0, 2)),
]


@pytest.mark.parametrize("n", [60, 150])
def test_agrees_with_the_definition(n, rng):
    for _ in range(2):
        score, losses = rows(n, rng)
        rules = certify_claims(score, losses, CLAIMS, 0.1, reference=rng.uniform(size=15))
        grid = np.array(rules[0].table["threshold"])
        assert_close([r.threshold for r in rules], slow_claims(score, losses, CLAIMS, 0.1, grid))


def test_a_part_that_is_not_needed_goes_to_the_others(rng):
    """The claim at tau = 9 is met by all rows, so the other one is tested with all of delta."""
    score, losses = rows(300, rng)
    reference, hard = rng.uniform(size=300), ExceedanceClaim(1.0, 0.15)
    alone = certify_claims(score, losses, [hard], 0.1, reference=reference)[0]
    easy = ExceedanceClaim(9.0, 0.1)
    both = certify_claims(score, losses, [hard, easy], 0.1, reference=reference)
    assert both[1].threshold == reference.max()
    assert both[0].threshold == alone.threshold > 0


def test_a_larger_tau_accepts_at_least_as_much(rng):
    for _ in range(20):
        score, losses = rows(100, rng)
        claims = [ExceedanceClaim(tau, 0.2, weight=w) for tau, w in ((0.8, 5.0), (1.0, 0.01))]
        hard, easy = certify_claims(score, losses, claims, 0.1, reference=rng.uniform(size=99))
        assert hard.threshold <= easy.threshold


def test_groups_have_their_own_rows(rng):
    score, losses = rows(400, rng)
    group = np.where(np.arange(400) < 200, "north", "south")
    claims = [ExceedanceClaim(1.0, 0.3, group=name) for name in ("north", "south")]
    known = rng.uniform(size=200)
    north, south = certify_claims(score, losses, claims, 0.1, reference=known, groups=group)
    assert north.evidence["group"] == "group 'north'"
    assert north.evidence["n_rows"] == south.evidence["n_rows"] == 200
    rule = GroupRule({"north": north, "south": south})
    assert rule.accepts([0.1, 0.1], groups=["north", "west"]).tolist() == [True, False]
    assert combined_delta(rule.values()) == 0.1


def test_rules_say_what_they_share_and_keep_it(rng):
    score, losses = rows(300, rng)
    rules = certify_claims(score, losses, CLAIMS, 0.1, reference=rng.uniform(size=100))
    for rule in rules:
        assert "4 claims" in rule.guarantee
        assert "0.9" in rule.guarantee
        assert FlagRule.from_dict(rule.to_dict()) == rule
    assert combined_delta(rules) == 0.1
    other = certify_threshold(score, losses, 1.0, 0.2, 0.05)
    assert other.evidence["rows_digest"] == rules[0].evidence["rows_digest"]
    again = certify_threshold(score[::-1], losses[::-1], 1.0, 0.2, 0.05)
    assert again.evidence["rows_digest"] == other.evidence["rows_digest"]
    assert_close(combined_delta([*rules, other]), 0.15, rtol=1e-12)
    more = certify_claims(score, losses, CLAIMS[:2], 0.1, reference=rng.uniform(size=100))
    assert_close(combined_delta([*rules, *more]), 0.2, rtol=1e-12)


def test_only_the_very_same_call_counts_once(rng):
    """Other scores, thresholds or groups test other things, so their deltas add up."""
    score, losses = rows(300, rng)
    given = {"score": score, "reference": score + 0.1, "groups": np.arange(300) % 2}
    claims = [ExceedanceClaim(1.0, 0.2, group=0)]
    first = certify_claims(losses=losses, claims=claims, delta=0.1, **given)
    again = certify_claims(losses=losses, claims=claims, delta=0.1, **given)
    assert combined_delta([*first, *again]) == 0.1
    others = {"score": -score, "reference": score[:50], "groups": np.arange(300) % 3}
    for name, value in others.items():
        more = certify_claims(losses=losses, claims=claims, delta=0.1, **(given | {name: value}))
        assert_close(combined_delta([*first, *more]), 0.2, rtol=1e-12)


def test_nothing_certified_says_why(rng):
    score = rng.uniform(size=30)
    claims = [ExceedanceClaim(0.5, 0.1)]
    (rule,) = certify_claims(score, np.ones(30), claims, 0.1, reference=score + 0.1)
    assert rule.threshold == -np.inf
    assert "p-value" in rule.guarantee
    (empty,) = certify_claims([np.inf], [1.0], [MeanLossClaim(0.5, (0, 1))], 0.1, reference=[0.5])
    assert empty.threshold == -np.inf


def test_bad_input():
    good = {"score": [0.1, 0.2], "losses": [0.0, 1.0], "delta": 0.1, "reference": [0.1]}
    good["claims"] = [ExceedanceClaim(0.5, 0.1)]
    east = [ExceedanceClaim(0.5, 0.1, group="east")]
    with raises(TypeError, "at least one"):
        certify_claims(**{**good, "claims": []})
    with raises(TypeError, "ExceedanceClaim", "0.5"):
        certify_claims(**{**good, "claims": [0.5]})
    with raises(ValueError, "groups=", "'east'"):
        certify_claims(**{**good, "claims": east})
    with raises(ValueError, "'east'"):
        certify_claims(**{**good, "claims": east}, groups=["a", "b"])
    with raises(ValueError, "reference"):
        certify_claims(**{**good, "reference": [np.inf]})
    with raises(ValueError, "eta"):
        ExceedanceClaim(0.5, 1.5)
    with raises(ValueError, "weight"):
        MeanLossClaim(0.5, (0, 1), weight=0)


def test_a_locus_certifies_claims_on_its_calibration_rows(rng):
    X = rng.uniform(size=(900, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=900)
    locus = Locus(lambda rows: rows[:, 0], random_state=0).fit(X, y)
    claims = [ExceedanceClaim(1.0, 0.1), ExceedanceClaim(1.0, 0.2, group=True), CLAIMS[3]]
    rules = locus.certify_claims(claims, 0.1, by=lambda rows: rows[:, 1] < 0.5)

    tail = Score.tail(1.0)
    score = tail.before_calibration(locus.loss_model_, locus.calibration_signals_)
    known = tail.before_calibration(locus.loss_model_, locus.reference_signals_)
    groups = locus.calibration_inputs_[:, 1] < 0.5
    expected = certify_claims(
        score, locus.calibration_losses_, claims, 0.1, reference=known, groups=groups, of=tail
    )
    assert [rule.threshold for rule in rules] == [rule.threshold for rule in expected]
    assert rules[0].threshold > -np.inf
    assert combined_delta(rules) == 0.1
    assert 0 < locus.accepts(X, rules[0]).mean() < 1


def test_claims_of_a_locus_need_a_tau_rows_and_independent_ones(rng):
    X, days = rng.uniform(size=(400, 2)), np.repeat(np.arange(80), 5)
    y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    locus = Locus(lambda rows: rows[:, 0], random_state=0).fit(X, y)
    with raises(ValueError, "Score.tail(tau)"):
        locus.certify_claims([CLAIMS[3]], 0.1)
    with raises(ValueError, "takes its level from the calibration rows"):
        locus.certify_claims(CLAIMS, 0.1, of=Score.bound(0.1))
    clustered = Locus(lambda rows: rows[:, 0], random_state=0).fit(X, y, clusters=days)
    with raises(ValueError, "clusters or weights"):
        clustered.certify_claims(CLAIMS, 0.1)
