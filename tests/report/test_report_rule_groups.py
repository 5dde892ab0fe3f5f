"""The report of a rule with a threshold for each group: counts, one exact test per group, words."""

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import (
    GroupRule,
    Locus,
    Score,
    Scorer,
    certify_groups,
    match_acceptance,
    tune_threshold,
)
from locuscore._shared.share_interval import share_interval
from locuscore.engines import Forest
from locuscore.report import report

TAU, ETA, DELTA = 0.7, 0.15, 0.05
TAIL = Score.tail(TAU)


def labelled(n, seed):
    """The third column is the group: 0 is safe, 1 is not, 2 is rare."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    X[:, 2] = rng.choice(3, size=n, p=[0.5, 0.47, 0.03])
    spread = np.array([0.4, 1.0, 2.0])[X[:, 2].astype(int)]
    return X, X[:, 0] + spread * X[:, 1] * rng.normal(size=n)


@pytest.fixture(scope="module")
def locus():
    small = {"engine": Forest(n_trees=3, min_samples_leaf=20), "signals": "x", "random_state": 0}
    return Locus(lambda X: X[:, 0], calibration_size=600, **small).fit(*labelled(1_600, 0))


@pytest.fixture(scope="module")
def fresh():
    return labelled(2_000, 1)


@pytest.fixture(scope="module")
def rule(locus):
    return locus.certify_groups(2, TAU, ETA, DELTA)


def test_the_report_tests_every_group(rule, locus, fresh):
    X, y = fresh
    X = X.copy()
    X[:7, 2] = 9.0
    found = report(Scorer(locus, rule), X, y).summary
    accepted, z = locus.accepts(X, rule), locus.losses(X, y)
    table = found["rule_groups"]
    assert table["by"] == "2"
    assert table["rows_of_other_groups"] == 7
    for row in table["rows"]:
        label = float(row["group"])
        rows = X[:, 2] == label
        seen = (rows.sum(), accepted[rows].sum(), (z[rows & accepted] > TAU).sum())
        assert (row["n"], row["accepted"], row["bad"]) == seen
        assert row["certified"] == (not rule[label].accepts_nothing)
        assert (row["threshold"] is None) == np.isinf(rule[label].threshold)
    claims = [c for c in found["verdict"]["claims"] if c["kind"] == "conditional"]
    certified = [row for row in table["rows"] if row["certified"]]
    assert len(claims) == len(certified) == 2
    assert {c["n"] for c in claims} == {row["accepted"] for row in certified}
    assert [row["verdict"] for row in table["rows"] if not row["certified"]] == [None]
    assert found["explorer"]["threshold"] is None
    assert found["verdict"]["kind"] == "good"
    assert "threshold of its group" in " ".join(found["guarantee"]["sentences"])


def test_the_report_notices_one_group_that_breaks_its_share(rule, locus, fresh):
    X, y = fresh
    z = locus.losses(X, y)
    wrong = locus.accepts(X, rule) & (X[:, 2] == 1.0)
    z[np.flatnonzero(wrong)[::3]] = 2 * TAU  # a third of them, where 15 % is promised
    found = report(Scorer(locus, rule), X, losses=z)
    verdicts = {r["group"]: r["verdict"] for r in found.summary["rule_groups"]["rows"]}
    assert verdicts == {"0.0": "kept", "1.0": "contradicted", "2.0": None}
    assert found.is_broken
    assert "group 1.0" in found.summary["verdict"]["sentence"]


def test_the_report_of_rules_that_aim_at_nothing(locus, fresh):
    X, y = fresh
    hand = match_acceptance(locus.scores(X, TAIL), 0.5, of=TAIL)
    found = report(Scorer(locus, GroupRule({0.0: hand, 1.0: hand}, 2)), X, y).summary
    assert [c["kind"] for c in found["verdict"]["claims"]] == ["coverage"]
    (row,) = found["rule_groups"]["rows"]
    assert (row["group"], row["pooled"], row["certified"]) == ("0.0, 1.0", 2, False)
    told = GroupRule({0.0: hand})
    with raises(ValueError, "groups="):
        report(Scorer(locus, told), X, y)


def test_the_rule_of_one_group_promises_nothing_of_other_groups(rule, locus, fresh):
    """Alone, it accepts rows of every group, and is certified for those of one."""
    X, y = fresh
    alone = next(iter(rule.values()))
    found = report(Scorer(locus, alone), X, y, groups={"kind": X[:, 2].astype(int)}).summary
    assert found["measure"]["kind"] == "coverage"
    together = report(Scorer(locus, rule), X, y, groups={"kind": X[:, 2].astype(int)}).summary
    assert together["measure"]["kind"] == "conditional"
    assert together["measure"]["promised"] == ETA


def test_a_tuned_rule_promises_nothing_to_parts(locus, fresh):
    X, y = fresh
    tuned = tune_threshold(locus.scores(X, TAIL), locus.losses(X, y), TAU, ETA, of=TAIL)
    groups = {"kind": X[:, 2].astype(int)}
    found = report(Scorer(locus, tuned), X, 3 * y, groups=groups).summary
    (part,) = found["parts"]
    assert found["measure"]["word"] == "aimed at"
    assert part["finding"].startswith("Worse than aimed at, beyond chance")
    assert not any("promised" in text for text in found["verdict"]["attention"])


def test_the_line_over_the_page_stays_short(locus, fresh):
    X, y = fresh
    labels = np.arange(2_000) % 8
    z = locus.losses(X, y)
    rule = certify_groups(locus.scores(X, TAIL), z, labels, 5.0, ETA, DELTA, of=TAIL)
    found = report(Scorer(locus, rule), X, losses=z, groups=labels).summary
    assert "and 5 more, listed below" in found["verdict"]["sentence"]
    assert len(found["verdict"]["claims"]) == 9


def test_intervals_of_groups_are_simultaneous(locus, fresh):
    X, y = fresh
    found = report(Scorer(locus), X, y, groups=X[:, 2]).summary["groups"]
    assert len(found["rows"]) == 3
    for part in found["rows"]:
        exact = share_interval(part["covered"], part["n"], 1 - 0.95 ** (1 / 3))
        assert_close([part["ci_low"], part["ci_high"]], [exact[0], exact[1]], rtol=1e-12)
    assert "simultaneous" in found["sentence"]
    one = report(Scorer(locus), X, y, groups=["a"] * 2_000).summary["groups"]
    exact = share_interval(one["rows"][0]["covered"], 2_000, 0.05)
    assert_close(one["rows"][0]["ci_low"], exact[0], rtol=1e-12)
    assert "simultaneous" not in one["sentence"]
