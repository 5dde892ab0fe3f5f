"""A rule's certificate: typed for each kind of claim, and the same from its evidence."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers import raises
from locuscore import (
    FlagRule,
    Score,
    certify_groups,
    certify_mean_loss,
    certify_threshold,
    certify_threshold_holm,
    certify_threshold_paper,
    match_acceptance,
    tau_rule,
    tune_threshold,
)
from locuscore._rules.certificate import (
    ExceedanceCertificate,
    GroupCertificate,
    JointClaim,
    MatchedAcceptance,
    MeanLossCertificate,
    OtherEvidence,
    TunedExceedance,
    certificate_from,
)
from locuscore._rules.rule import with_rows_of_fit

SCORE = np.linspace(0, 1, 900)
LOSSES = (np.arange(900) % 10 == 0) * SCORE
GRID = [0.2, 0.5]
CLAIM = (SCORE, LOSSES, 0.5)

RULES = {
    "tau": (tau_rule(0.5, 0.1), JointClaim),
    "tau with rows": (tau_rule(0.5, 0.1, n_calibration=99, level=0.1), JointClaim),
    "sequence": (certify_threshold(*CLAIM, 0.1, 0.1), ExceedanceCertificate),
    "sequence that fails": (certify_threshold(*CLAIM, 1e-4, 0.1), ExceedanceCertificate),
    "too high": (certify_threshold(SCORE, LOSSES, -1.0, 0.1, 0.1), ExceedanceCertificate),
    "holm": (certify_threshold_holm(*CLAIM, 0.1, 0.1, GRID), ExceedanceCertificate),
    "paper": (certify_threshold_paper(*CLAIM, 0.1, 0.1, GRID), ExceedanceCertificate),
    "group": (certify_groups(*CLAIM[:2], ["a"] * 900, 0.5, 0.1, 0.1)["a"], GroupCertificate),
    "small group": (certify_groups([1.0], [0.0], ["a"], 0.5, 0.1, 0.1)["a"], GroupCertificate),
    "mean": (certify_mean_loss(SCORE, LOSSES, 0.2, 0.1, support=(0, 1)), MeanLossCertificate),
    "mean that fails": (
        certify_mean_loss(SCORE, LOSSES, 1e-6, 0.1, support=(0, 1)),
        MeanLossCertificate,
    ),
    "tuned": (tune_threshold(*CLAIM, 0.1), TunedExceedance),
    "nothing to tune": (
        tune_threshold([np.inf, 1.0], [0, 1], 0.5, 0.1, min_acceptance=1.0),
        TunedExceedance,
    ),
    "matched": (match_acceptance(SCORE, 0.5), MatchedAcceptance),
}


@pytest.mark.parametrize(("rule", "kind"), RULES.values(), ids=RULES)
def test_the_certificate_comes_back_from_what_archives_hold(rule, kind):
    assert type(rule.certificate) is kind
    again = FlagRule.from_dict(json.loads(json.dumps(rule.to_dict(), allow_nan=False)))
    assert again.certificate == rule.certificate
    assert list(again.evidence.items()) == list(rule.evidence.items())
    assert str(again) == str(rule)


def test_fields_and_evidence_are_the_same_numbers():
    rule, _ = RULES["sequence"]
    assert rule.certificate.eta == rule.evidence["eta"] == 0.1
    assert rule.certificate.p_value == rule.evidence["p_value"] <= 0.1
    assert "rows_needed_at_this_rate" not in rule.evidence
    group, _ = RULES["group"]
    assert list(group.evidence)[:2] == ["group", "n_rows"]
    assert group.certificate.within.tau == 0.5


def test_a_number_of_rows_that_does_not_exist_is_infinite():
    rule, _ = RULES["too high"]
    assert rule.certificate.rows_needed_at_this_rate == np.inf
    assert rule.evidence["rows_needed_at_this_rate"] is None


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        ({"delta": 0.1, "tau": 1, "eta": 0.1}, ExceedanceCertificate),
        ({"tau": 1.0, "eta": 0.1}, TunedExceedance),
        ({"group": "a", "tau": 1.0, "eta": 0.1, "delta": 0.1}, GroupCertificate),
        ({"tau": 1.0, "alpha": 0.1}, JointClaim),
        ({"eta": 0.1, "delta": 0.1, "low": 0.0, "high": 1.0}, MeanLossCertificate),
        ({}, OtherEvidence),
        ({"tau": 1.0, "eta": 0.1, "note": "mine"}, OtherEvidence),
        ({"tau": "high", "eta": 0.1}, OtherEvidence),
        ({"tau": None, "eta": 0.1}, OtherEvidence),
        ({"group": 3, "tau": 1.0, "eta": 0.1, "delta": 0.1}, OtherEvidence),
        ({"group": "a", "tau": 1.0, "alpha": 0.1}, OtherEvidence),
    ],
    ids=str,
)
def test_evidence_given_by_hand_makes_the_certificate_that_it_fits(evidence, kind):
    rule = FlagRule(Score.other(""), 1.0, "heuristic", "", evidence=evidence)
    assert type(rule.certificate) is kind
    assert rule.evidence == evidence
    assert certificate_from(rule.evidence) == rule.certificate


def test_a_rule_changes_its_certificate_by_either_name():
    rule, _ = RULES["matched"]
    evidence = {"n_rows": 10, "n_accepted": 5, "acceptance": 0.5}
    certificate = MatchedAcceptance(**evidence)
    assert replace(rule, evidence=evidence) == replace(rule, certificate=certificate) != rule


def test_rows_of_fit_are_counted_and_make_a_heuristic_where_they_were_used():
    rule, _ = RULES["sequence"]
    few = with_rows_of_fit(rule, 3, 900, were_used=False)
    assert (few.standing, few.guarantee) == ("certificate", rule.guarantee)
    assert few.evidence == {**rule.evidence, "rows_also_in_fit": 3}
    used = with_rows_of_fit(rule, 800, 900, were_used=True)
    assert used.standing == "heuristic"
    assert "800 of the 900" in used.guarantee
    assert used.certificate.rows_also_in_fit == 800


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sequence", {"n_rows": "many"}),
        ("sequence", {"n_rows": -1}),
        ("sequence", {"n_rows": True}),
        ("sequence", {"eta": 1.5}),
        ("sequence", {"delta": -0.1}),
        ("sequence", {"p_value": "small"}),
        ("sequence", {"starts_at_n": [1, "x"]}),
        ("sequence", {"thresholds": 3}),
        ("sequence", {"tau": "high"}),
        ("group", {"n_accepted": [1]}),
        ("mean", {"high": "inf"}),
        ("tau with rows", {"coverage_beta": [1.0]}),
        ("tau with rows", {"calibration": 3}),
    ],
    ids=str,
)
def test_a_claim_from_a_file_has_numbers_that_are_possible(name, changes):
    rule = RULES[name][0].to_dict()
    rule["evidence"] |= changes
    with raises(ValueError, "evidence", next(iter(changes))):
        FlagRule.from_dict(rule)


TOO_LARGE = {"a": [10**400]}  # for a float, as which a card shows it


@pytest.mark.parametrize(
    "table", [{"a": ["x"]}, {"a": [1.0], "b": []}, {"a": 3}, TOO_LARGE], ids=lambda t: str(t)[:20]
)
def test_a_table_has_columns_of_numbers(table):
    with raises(ValueError, "columns of numbers"):
        FlagRule.from_dict(RULES["tau"][0].to_dict() | {"table": table})


def test_the_card_takes_whatever_a_heuristic_says():
    odd = {"coverage_beta": "x", "p_value": "small", "n_rows": {"a": [1]}}
    assert "small" in str(FlagRule(Score.other("s"), 1.0, "heuristic", "", evidence=odd))
