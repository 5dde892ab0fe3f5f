"""What a scorer promises, as claims with their alarms."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from helpers import assert_close, raises
from locuscore import (
    Locus,
    Scorer,
    certify_groups,
    certify_mean_loss,
    conformal_rank,
    tune_threshold,
)
from locuscore.calibration import ByGroup, CrossFit, OutOfBag
from locuscore.engines import Forest
from locuscore.watch._claims import Claim, claims_of, group_text
from locuscore.watch._evidence.ranks import RankAlarm
from locuscore.watch._evidence.urn import UrnAlarm
from locuscore.watch._instruments import alarm_of, detector_of

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(size=600), rng.integers(3, size=600)])
    return X, X[:, 0] + (0.2 + X[:, 1] / 10) * rng.normal(size=600)


def fitted(data, *, clusters=None, **parameters):
    X, y = data
    small = {"engine": Forest(n_trees=5, min_samples_leaf=20), "signals": ["x", "predictor"]}
    parameters = {"random_state": 0} | small | parameters
    return Locus(lambda X: X[:, 0], **parameters).fit(X, y, clusters=clusters)


@pytest.fixture(scope="module")
def locus(data):
    return fitted(data)


def deployed(locus, rule=None, alphas=(0.1,)):
    """What claims are read from; a scorer would refuse a rule on a score of no name."""
    return SimpleNamespace(locus=locus, rule=rule, alphas=alphas)


def by_kind(claims):
    return {
        kind: [c for c in claims if c.kind == kind]
        for kind in dict.fromkeys(c.kind for c in claims)
    }


def check(claims):
    """Tested claims share the whole error and have instruments; all survive JSON."""
    tested = [claim for claim in claims if claim.is_tested]
    assert_close(sum(claim.share for claim in tested), 1.0, rtol=1e-12)
    for claim in claims:
        assert Claim.from_dict(json.loads(json.dumps(claim.to_dict()))) == claim
        if claim.is_tested:
            alarm = alarm_of(claim, 0.05)
            assert_close(alarm.delta, 0.05 * claim.share, rtol=1e-12)
            alarm.update([0.0, 1.0])
            detector_of(claim, 1_000).update([0.0, 1.0])
        else:
            assert claim.share == 0.0
            with raises(ValueError, "not tested", claim.why_not):
                alarm_of(claim, 0.05)
    return by_kind(claims)


def test_bounds_and_a_joint_share_have_the_urn_of_calibration(locus):
    n = locus.calibration_.n
    found = check(claims_of(Scorer(locus, locus.tau_rule(0.5, 0.1), alphas=(0.2, 0.05))))
    urns = [(n + 1 - conformal_rank(n, a), conformal_rank(n, a)) for a in (0.2, 0.05, 0.1)]
    assert [claim.urn for claim in found["coverage"] + found["joint"]] == urns
    (joint,), (exchangeable,) = found["joint"], found["exchangeable"]
    assert (joint.among, joint.labels, joint.tau, joint.promised) == ("all", "accepted", 0.5, 0.1)
    assert exchangeable.alphas == (0.05, 0.2)
    assert exchangeable.counts == (urns[1][0] - 1, urns[0][0] - urns[1][0], n + 1 - urns[0][0])
    assert isinstance(alarm_of(joint, 0.1), UrnAlarm)
    assert isinstance(alarm_of(exchangeable, 0.1), RankAlarm)


def test_values_are_what_the_claims_are_about(locus):
    claims = claims_of(Scorer(locus, locus.tau_rule(0.5, 0.1), alphas=(0.2, 0.05)))
    z, accepted = np.array([0.1, 0.6, 0.9, 2.0]), np.array([True, True, False, True])
    bounds = {0.2: np.full(4, 0.5), 0.05: np.full(4, 1.0)}
    seen = {claim.name: claim.values(z, accepted, bounds).tolist() for claim in claims}
    assert list(seen.values()) == [[0, 1, 1, 1], [0, 0, 0, 1], [0, 1, 0, 1], [2, 1, 1, 0]]


def test_a_certificate_is_tested_among_the_accepted(locus):
    rule = locus.certify(tau=1.2, eta=0.2, delta=0.1)
    found = check(claims_of(Scorer(locus, rule)))
    (claim,) = found["accepted"]
    assert (claim.promised, claim.tau, claim.delta) == (0.2, 1.2, 0.1)
    assert (claim.among, claim.labels, claim.unit) == ("accepted", "accepted", "row")
    assert claim.is_tested


def test_a_mean_loss_has_its_support(locus):
    score = np.arange(400) / 400
    rule = certify_mean_loss(score, score / 10, eta=0.2, delta=0.1, support=(0.0, 1.0))
    (claim,) = check(claims_of(deployed(locus, rule)))["mean loss"]
    assert (claim.kind, claim.low, claim.high, claim.promised) == ("mean loss", 0.0, 1.0, 0.2)
    assert claim.values(np.array([0.3]), np.array([True]), {}).tolist() == [0.3]
    assert alarm_of(claim, 0.1).bets.n_bets == 6


def test_groups_have_urns_and_certificates_of_their_own(data):
    locus = fitted(data, calibration=ByGroup(1))
    found = check(claims_of(Scorer(locus, locus.tau_rule(0.5, 0.2), alphas=(0.2,))))
    assert {claim.group for claim in found["coverage"]} == {("0",), ("1",), ("2",)}
    sizes = dict(zip(locus.calibration_.groups.names, locus.calibration_.sizes, strict=False))
    for claim in found["coverage"] + found["joint"]:
        assert sum(claim.urn) == sizes[float(claim.group[0])] + 1
    first = found["coverage"][0]
    (own,) = first.group
    assert first.holds_group([own, "7", None]).tolist() == [True, False, False]
    assert_close(first.share, 1 / 9, rtol=1e-12)


def test_a_pool_is_the_rest(data):
    X, y = data
    X = X.copy()
    X[:30, 1] = 7.0
    locus = fitted((X, y), calibration=ByGroup(1, pool_below=60))
    found = check(claims_of(Scorer(locus, alphas=(0.2,))))
    rest = found["coverage"][-1]
    assert rest.is_rest
    assert "other groups" in rest.name
    assert rest.holds_group(["0", "7", None]).tolist() == [False, True, True]


def test_a_rule_by_group_has_a_claim_for_each(locus):
    score, group = np.tile(np.arange(100) / 100, 3), np.repeat([1.0, 2.0, 3.0], 100)
    rule = certify_groups(score, score > 0.6, group, tau=0.5, eta=0.1, delta=0.1, pool=[2.0, 3.0])
    found = check(claims_of(deployed(locus, rule)))["accepted"]
    assert [claim.group for claim in found] == [("1",), ("2", "3")]
    assert_close([claim.share for claim in found], 1 / 6, rtol=1e-12)
    alone = claims_of(deployed(locus, rule[1.0]))[1]
    assert "one group alone" in alone.why_not


@pytest.mark.parametrize(
    ("calibration", "why"), [(CrossFit(3), "not known"), (OutOfBag(), "nothing is promised")]
)
def test_a_calibration_without_a_law_says_why_it_is_not_tested(data, calibration, why):
    locus = fitted(data, calibration=calibration)
    claims = claims_of(Scorer(locus))
    assert not any(claim.is_tested for claim in claims)
    assert all(why in claim.why_not for claim in claims)


def test_clusters_are_tested_by_their_certificate_alone(data):
    clusters = np.repeat(np.arange(150), 4)
    locus = fitted(data, clusters=clusters)
    rule = locus.certify(tau=1.5, eta=0.3, delta=0.2)
    found = check(claims_of(Scorer(locus, rule, alphas=(0.2,))))
    assert "clusters" in found["coverage"][0].why_not
    (claim,) = found["accepted"]
    assert (claim.unit, claim.is_tested) == ("cluster", not rule.accepts_nothing)


def test_heuristics_and_bounds_that_are_infinite_are_not_tested(data, locus):
    score = locus.loss_bound(data[0], alpha=0.1)
    rule = tune_threshold(score, locus.losses(*data), tau=0.5, eta=0.1)
    assert [claim.kind for claim in claims_of(deployed(locus, rule))] == [
        "coverage",
        "exchangeable",
    ]
    claims = claims_of(deployed(locus, alphas=(0.0001,)))
    assert "too few" in claims[0].why_not


def test_labels_of_groups_are_texts():
    assert [group_text(one) for one in (1, 1.0, np.int64(1), "1", 0.5, True)] == [
        "1", "1", "1", "1", "0.5", "True",
    ]  # fmt: skip
    with raises(ValueError, "claim", "kind"):
        Claim.from_dict({"name": "x"})
