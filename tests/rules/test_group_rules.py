"""A rule with a threshold for each group, from its thresholds to every place it is deployed in."""

import copy
import json
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from helpers import assert_binomial, assert_close, raises, warns
from locuscore import (
    ArchiveError,
    FlagRule,
    GroupRule,
    Kept,
    Locus,
    LocusWarning,
    Score,
    Scorer,
    certify_groups,
    tune_threshold,
)
from locuscore._laws.calibration import MarginalCalibration
from locuscore._rules.group_rule import rule_from_dict
from locuscore.engines import Forest
from locuscore.report import report

TAU, ETA, DELTA = 0.7, 0.15, 0.05
TAIL = Score.tail(TAU)
SMALL = {"engine": Forest(n_trees=3, min_samples_leaf=20), "signals": "x", "random_state": 0}


def labelled(n, rng):
    """The third column is the group: 0 is safe, 1 is not, 2 is rare."""
    X = rng.uniform(size=(n, 3))
    X[:, 2] = rng.choice(3, size=n, p=[0.5, 0.47, 0.03])
    spread = np.array([0.4, 1.0, 2.0])[X[:, 2].astype(int)]
    return X, X[:, 0] + spread * X[:, 1] * rng.normal(size=n)


def first(X):
    return X[:, 0]


@pytest.fixture(scope="module")
def locus():
    X, y = labelled(1_600, np.random.default_rng(0))
    return Locus(first, calibration_size=600, **SMALL).fit(X, y)


@pytest.fixture(scope="module")
def fresh():
    return labelled(2_000, np.random.default_rng(1))


@pytest.fixture(scope="module")
def rule(locus):
    return locus.certify_groups(2, TAU, ETA, DELTA)


def slow(rule, values, labels):
    """Row by row: the threshold of the row's group, or nothing."""
    return [
        label in list(rule) and bool(rule[label].accepts([v], rule.score)[0])
        for v, label in zip(values, labels, strict=True)
    ]


def test_it_reads_like_a_mapping(rule):
    assert set(rule) == {0.0, 1.0, 2.0}
    assert len(rule) == 3
    assert 0.0 in rule
    assert 7.0 not in rule
    assert rule.get(7.0) is None
    assert [label for label, _ in rule.items()] == list(rule)
    assert all(isinstance(part, FlagRule) for part in rule.values())
    assert (rule.score, rule.standing, rule.by, rule.asks) == (TAIL, "certificate", 2, None)
    assert not rule.accepts_nothing


def test_each_row_meets_the_threshold_of_its_group(rule, locus, fresh):
    X, _ = fresh
    values = locus.scores(X, TAIL)
    labels = X[:, 2].tolist()
    labels[:6] = [9.0, None, np.nan, "0", True, 0]  # True equals 1, and 0 equals 0.0
    accepted = rule.accepts(values, TAIL, labels)
    assert accepted.tolist() == slow(rule, values, labels)
    assert not accepted[:4].any()
    assert 0 < accepted.mean() < 1
    infinite = rule.accepts([np.inf, -np.inf, 0.0], TAIL, [0.0] * 3)
    assert infinite.tolist() == [False, False, True]
    assert rule.accepts([], TAIL, []).tolist() == []


def test_one_threshold_for_all_would_be_noticed(rule, locus, fresh):
    X, _ = fresh
    values = locus.scores(X, TAIL)
    every = rule[0.0].accepts(values, TAIL)
    assert every.tolist() != slow(rule, values, X[:, 2])


def test_locus_certifies_on_the_calibration_rows(rule, locus):
    X, y = labelled(1_600, np.random.default_rng(0))
    at = locus.calibration_rows_
    score, z = locus.scores(X[at], TAIL), locus.losses(X[at], y[at])
    # So few trees tie, so thresholds are tails of rows of D1.
    known = locus.loss_model_.survival(locus.reference_signals_, TAU)
    options = {"of": TAIL, "reference": known}
    by_hand = certify_groups(score, z, X[at, 2], TAU, ETA, DELTA, **options)
    for label, part in by_hand.items():
        assert rule[label].threshold == part.threshold
        assert rule[label].guarantee == part.guarantee
    for by in (lambda X: X[:, 2], X[:, 2]):
        told = locus.certify_groups(by, TAU, ETA, DELTA)
        assert dict(told) == dict(rule)
        assert (told.by, told.asks) == (None, "groups")
    pooled = locus.certify_groups(2, TAU, ETA, DELTA, pool=[1.0, 2.0])
    assert pooled[1.0] is pooled[2.0]


def test_after_recalibration_the_rows_given_to_it_certify(locus):
    X, y = labelled(700, np.random.default_rng(2))
    again = locus.recalibrate(X, y)
    rule = again.certify_groups(2, TAU, ETA, DELTA)
    assert sum(part.certificate.within.n_rows for part in rule.values()) == 700
    assert dict(again.certify_groups(X[:, 2], TAU, ETA, DELTA)) == dict(rule)


def test_thresholds_of_tied_tails_come_from_d1(rng):
    X = rng.integers(0, 2, size=(3_000, 2)).astype(float)
    y = (rng.uniform(size=3_000) < np.where(X[:, 0] == 0, 0.001, 0.4)).astype(float)
    locus = Locus(lambda X: np.zeros(len(X)), engine=Forest(n_trees=20), random_state=0).fit(X, y)
    rule = locus.certify_groups(1, 0.5, 0.1, 0.1)
    assert locus.accepts(X, rule)[X[:, 0] == 0].all()
    assert all("reference rows" in part.evidence["thresholds"] for part in rule.values())


def test_locus_certifies_any_score_on_fresh_rows(locus, fresh):
    X, y = fresh
    score = Score.bound(0.1)
    rule = locus.certify_groups(2, TAU, ETA, DELTA, X, y, of=score)
    by_hand = certify_groups(
        locus.loss_bound(X, 0.1), locus.losses(X, y), X[:, 2], TAU, ETA, DELTA, of=score, by=2
    )
    assert [part.threshold for part in rule.values()] == [r.threshold for r in by_hand.values()]
    assert rule.guarantee == by_hand.guarantee
    assert locus.accepts(X, rule).tolist() == slow(rule, locus.loss_bound(X, 0.1), X[:, 2])
    with raises(ValueError, "calibration rows", "certify"):
        locus.certify_groups(2, TAU, ETA, DELTA, of=score)


def test_rows_used_in_fit_prove_nothing(locus):
    X, y = labelled(1_600, np.random.default_rng(0))
    with raises(ValueError, "used to fit"):
        locus.certify_groups(2, TAU, ETA, DELTA, X, y)
    with warns(LocusWarning, "used to fit"):
        rule = locus.certify_groups(2, TAU, ETA, DELTA, X, y, allow_rows_used_in_fit=True)
    assert rule.standing == "heuristic"
    assert "Nothing is guaranteed" in rule.guarantee


def test_the_scorer_flags_by_group(rule, locus, fresh):
    X, _ = fresh
    X = X.copy()
    X[:5, 2] = [9.0, np.nan, 0.0, 1.0, 2.0]
    out = Scorer(locus, rule)(X)
    assert_close(out["score"], locus.scores(X, TAIL))
    assert (~out["flag"]).tolist() == slow(rule, out["score"], X[:, 2])
    assert out["flag"][:2].all()
    assert (~out["flag"]).tolist() == locus.accepts(X, rule).tolist()
    again, is_bad = Scorer(locus, rule).tolerate(X)
    assert again["flag"].tolist() == out["flag"].tolist()
    assert not is_bad.any()


def test_groups_that_only_the_caller_knows(rule, locus, fresh):
    X, _ = fresh
    told = GroupRule(rule.rules)
    expected = Scorer(locus, rule)(X)["flag"].tolist()
    assert Scorer(locus, told)(X, groups=X[:, 2])["flag"].tolist() == expected
    assert (~locus.accepts(X, told, groups=list(X[:, 2]))).tolist() == expected
    some = X.copy()
    some[:2, 0] = np.inf
    again, is_bad = Scorer(locus, told).tolerate(some, groups=X[:, 2])
    assert is_bad.tolist() == [True, True] + [False] * 1_998
    assert again["flag"].tolist() == [True, True, *expected[2:]]
    with raises(ValueError, "groups=", "one label per row", "by="):
        Scorer(locus, told)(X)
    with raises(ValueError, "one label per row"):
        Scorer(locus, told)(X, groups=X[:5, 2])
    with raises(TypeError, "hashable"):
        Scorer(locus, told)(X, groups=[[1]] * len(X))
    with raises(ValueError, "groups="):  # the column tells, so nothing is to be passed
        Scorer(locus, rule)(X, groups=X[:, 2])


@dataclass(frozen=True, eq=False)
class AsksForGroups(MarginalCalibration):
    """A calibration that is told each row's group; its level depends on it."""

    ARCHIVE = Kept("AsksForGroups", fields=("tails",))

    @property
    def asks(self):
        return "groups"

    def entries(self, given, n):
        return np.asarray(given, dtype=np.float64)

    def level(self, alpha, rows=None):
        alpha = np.asarray(alpha, dtype=np.float64)
        return alpha ** (1.0 + rows.reshape(-1, *[1] * alpha.ndim))


def test_the_same_groups_feed_the_rule_and_the_calibration(rule, locus, fresh):
    X, y = fresh
    asking = copy.copy(locus)
    asking.calibration_ = AsksForGroups(locus.tails_)
    group = X[:, 2]
    bounds = asking.loss_bound(X, 0.1, groups=group)
    flags = Scorer(locus, rule)(X)["flag"].tolist()
    for told in (GroupRule(rule.rules), rule):  # the second reads its column itself
        out = Scorer(asking, told)(X, groups=group)
        assert_close(out["bound_0.1"], bounds)
        assert out["flag"].tolist() == flags
        found = report(Scorer(asking, told), X, y, groups=group).summary
        covered = int(np.sum(asking.losses(X, y) <= bounds))
        assert found["coverage"][0]["covered"] == covered
    assert (~asking.accepts(X, told, groups=group)).tolist() == flags


@pytest.mark.extra
def test_frames_of_every_kind_and_the_archive(path, rng):
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    def frame(n):
        X, y = labelled(n, rng)
        kind = np.array(["safe", "risky", "rare"])[X[:, 2].astype(int)]
        return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": pd.Categorical(kind)}), y

    X, y = frame(1_200)
    settings = {**SMALL, "signals": ["x", "predictor"]}
    g = make_pipeline(make_column_transformer(("passthrough", ["a", "b"])), LinearRegression())
    locus = Locus(g.fit(X, y), calibration_size=500, **settings).fit(X, y)
    rule = locus.certify_groups("kind", TAU, ETA, DELTA)
    scorer = Scorer(locus, rule)
    new, _ = frame(300)
    new.loc[new.index[:3], "kind"] = None
    expected = scorer(new)
    assert expected["flag"][:3].all()
    assert 0 < expected["flag"].mean() < 1
    scorer.save(path)
    loaded = Scorer.load(path)
    assert loaded.rule == rule
    assert loaded.card == scorer.card
    for kind in (new, pl.from_pandas(new), pa.Table.from_pandas(new, preserve_index=False)):
        found = loaded(kind)
        assert list(np.asarray(found["flag"])) == expected["flag"].tolist()


@pytest.mark.extra
def test_an_archive_keeps_it_by_position_and_without_a_column(rule, locus, fresh, path):
    X, _ = fresh
    with warns(LocusWarning, "left out"):
        Scorer(locus, rule).save(path)
    flags = Scorer(locus, rule)(X)["flag"].tolist()
    assert Scorer.load(path, first)(X)["flag"].tolist() == flags
    with warns(LocusWarning, "left out"):
        Scorer(locus, GroupRule(rule.rules)).save(path)
    assert Scorer.load(path, first)(X, groups=X[:, 2])["flag"].tolist() == flags


def test_labels_that_a_file_cannot_hold_are_refused_at_save(rule, locus, path):
    named = GroupRule({("a", 1): rule[0.0]}, 2)
    with raises(ValueError, "('a', 1)", "tuple", "text"):
        Scorer(locus, named).save(path)
    assert not path.exists()
    assert pickle.loads(pickle.dumps(named)) == named  # in memory any label will do
    with raises(ValueError, "inf"):
        GroupRule({np.inf: rule[0.0]}).to_dict()


def test_round_trips(rule, locus):
    pooled = locus.certify_groups(2, TAU, ETA, DELTA, pool=[1.0, 2.0])
    numbers = GroupRule({np.int64(3): rule[0.0], np.str_("a"): rule[1.0]}, np.int64(2))
    for each in (rule, pooled, numbers):
        text = json.dumps(each.to_dict(), allow_nan=False)
        for found in (
            rule_from_dict(json.loads(text)),
            pickle.loads(pickle.dumps(each)),
            copy.deepcopy(each),
        ):
            assert found == each
            assert hash(found) == hash(each)
            assert str(found) == str(each)
            assert [labels for labels, _ in found.units] == [labels for labels, _ in each.units]
            assert found.accepts([0.1], TAIL, [0.0]) == each.accepts([0.1], TAIL, [0.0])
    assert rule != pooled
    assert rule != GroupRule(rule.rules)
    assert rule != dict(rule)
    assert isinstance(rule_from_dict(rule[0.0].to_dict()), FlagRule)


def forged(state):
    """Descriptions that are no rule by group, each with what is wrong."""
    part = state["rules"][0]
    other = {**part, "score": {"kind": "tail", "tau": 9.0}}
    return {
        "a part is missing": {"groups": state["groups"], "rules": state["rules"]},
        "another part": state | {"more": 1},
        "no groups": state | {"groups": [], "rules": []},
        "groups are text": state | {"groups": "ab"},
        "rules are a mapping": state | {"rules": {"0": part}},
        "no such rule": state | {"groups": [["a", 3]]},
        "a negative place": state | {"groups": [["a", -1]]},
        "a place that is a truth": state | {"groups": [["a", True]]},
        "a group twice": state | {"groups": [*state["groups"], state["groups"][0]]},
        "a rule of no group": state | {"rules": [*state["rules"], part]},
        "a label that is a list": state | {"groups": [[["a"], 0]], "rules": [part]},
        "a missing label": state | {"groups": [[None, 0]], "rules": [part]},
        "an entry that is no pair": state | {"groups": ["a"], "rules": [part]},
        "another score": state | {"groups": [["a", 0], ["b", 1]], "rules": [part, other]},
        "a column that is a list": state | {"by": ["a"]},
        "a column that is a truth": state | {"by": True},
        "a rule within": state | {"groups": [["a", 0]], "rules": [state]},
        "no rule": state | {"groups": [["a", 0]], "rules": [None]},
    }


def test_forged_descriptions_are_refused(rule):
    for state in forged(rule.to_dict()).values():
        with pytest.raises((ValueError, TypeError)):
            rule_from_dict(state)


@pytest.mark.extra
def test_a_forged_archive_is_refused(rule, locus, path, monkeypatch):
    for change in ({"groups": [["a", 7]]}, {"by": "nowhere"}):
        described = rule.to_dict() | change
        monkeypatch.setattr(GroupRule, "to_dict", lambda self, described=described: described)
        with warns(LocusWarning, "left out"):
            Scorer(locus, rule).save(path)
        with pytest.raises(ArchiveError):
            Scorer.load(path, first)


BAD = [
    (lambda r: GroupRule({}), TypeError, ["at least one group"]),
    (lambda r: GroupRule([r[0.0]]), TypeError, ["map"]),
    (lambda r: GroupRule({"a": 0.5}), TypeError, ["'a'", "FlagRule", "0.5"]),
    (lambda r: GroupRule({None: r[0.0]}), ValueError, ["missing"]),
    (lambda r: GroupRule({"a": r[0.0]}, 1.5), TypeError, ["column", "1.5"]),
    (lambda r: GroupRule({"a": r[0.0]}, True), TypeError, ["column", "True"]),
    (lambda r: certify_groups([1.0], [0.0], ["a"], 0.5, 0.1, 0.1, by=[1]), TypeError, ["[1]"]),
    (lambda r: r.accepts([0.1], TAIL), ValueError, ["groups="]),
    (lambda r: r.accepts([0.1], None, [0.0]), ValueError, ["tail"]),
    (lambda r: r.accepts([0.1, 0.2], TAIL, [0.0]), ValueError, ["one label per row", "2"]),
    (lambda r: r[0.0].accepts([0.1], TAIL, [0.0]), ValueError, ["no use for groups"]),
]


@pytest.mark.parametrize(("wrong", "error", "facts"), BAD, ids=range(len(BAD)))
def test_bad_input_is_named(wrong, error, facts, rule):
    with raises(error, *facts):
        wrong(rule)


def test_bad_input_of_the_estimator_is_named(rule, locus, fresh):
    X, y = fresh
    with raises(ValueError, "column 7", "3 columns"):
        locus.certify_groups(7, TAU, ETA, DELTA)
    with raises(TypeError, "'kind'", "array"):
        locus.certify_groups("kind", TAU, ETA, DELTA)
    with raises(ValueError, "both X and y"):
        locus.certify_groups(2, TAU, ETA, DELTA, X)
    with raises(ValueError, "one label per row", "1600"):
        locus.certify_groups(X[:, 2], TAU, ETA, DELTA)
    with raises(ValueError, "one label per row", "2000"):
        locus.certify_groups(X[:7, 2], TAU, ETA, DELTA, X, y)
    with raises(ValueError, "missing", "1 of 2000"):
        locus.certify_groups([None, *X[1:, 2]], TAU, ETA, DELTA, X, y)
    with raises(ValueError, "column 9", "[0, 1, 2]"):
        Scorer(locus, replace(rule, by=9))
    with raises(ValueError, "your own score"):
        Scorer(locus, certify_groups([1.0], [0.0], ["a"], 0.5, 0.1, 0.1))
    with raises(TypeError, "FlagRule", "GroupRule", "dict"):
        Scorer(locus, dict(rule))


def test_the_card_names_groups_without_a_certificate(rule):
    text = " ".join(str(rule).split())
    needed = rule[2.0].evidence["accepted_rows_needed_without_a_bad_one"]
    n = rule[2.0].evidence["n_rows"]
    assert rule[2.0].accepts_nothing
    assert f"nothing is accepted, in 2.0 ({n} rows, at least {needed} needed)" in text
    assert "in all groups at once with confidence 0.95" in text
    assert "A row of any other group is flagged" in text
    assert "column 2" in text
    assert max(map(len, str(rule).splitlines())) <= 80
    assert rule.table["threshold"] == tuple(part.threshold for part in rule.values())


def test_many_groups_do_not_make_a_long_card(rng):
    labels = np.arange(3_000) % 1_000
    rule = certify_groups(rng.uniform(size=3_000), np.zeros(3_000), labels, 0.5, 0.1, 0.1)
    assert "and 980 more" in rule.guarantee
    assert "No group has enough rows" in rule.guarantee
    assert rule.accepts_nothing
    assert len(str(rule).splitlines()) < 60


def test_pools_and_rules_by_hand_say_what_they_are(locus, fresh):
    pooled = locus.certify_groups(2, TAU, ETA, DELTA, pool=[1.0, 2.0])
    assert "for their mixture, not for each" in pooled.guarantee
    assert set(pooled.units[-1][0]) | set(pooled.units[0][0]) == set(pooled)
    X, y = fresh
    values, z = locus.scores(X, TAIL), locus.losses(X, y)
    mixed = GroupRule({"a": pooled[0.0], "b": tune_threshold(values, z, TAU, ETA, of=TAIL)})
    assert mixed.standing == "heuristic"
    assert "that of its own rule" in mixed.guarantee
    assert len(mixed.assumptions) == len(set(mixed.assumptions))


@pytest.mark.extra
def test_to_frame(rule):
    frame = rule.to_frame()
    assert frame["group"].tolist() == list(rule)
    assert frame.columns.tolist() == ["group", "threshold", "n_rows", "n_accepted", "n_bad"]


def test_confidence_is_what_the_tests_spent(rng):
    """Groups too small for any test spend nothing; the others share delta."""
    labels = np.repeat(["a", "b", "c", "tiny"], [300, 200, 100, 3])
    score = rng.uniform(size=len(labels))
    bad = rng.uniform(size=len(labels)) < 0.3 * score
    rule = certify_groups(score, bad, labels, 0.5, 0.2, 0.05)
    assert "confidence 0.95:" in rule.guarantee
    assert "the 603 certifying rows" in rule.guarantee


def deployed_failures(delta_of, rng, repeats=400):
    """How often new rows of some group, accepted through the deployed rule, are too often bad.

    Within a group the score says nothing, so whatever is accepted is bad at the group's rate, just
    above eta in all of them.
    """
    eta, rate, count = 0.1, 0.1001, 0
    labels = np.repeat(["a", "b", "c"], 60)
    for _ in range(repeats):
        score = rng.uniform(size=180)
        bad = (rng.uniform(size=180) < rate).astype(float)
        rule = certify_groups(score, bad, labels, 0.5, eta, delta_of(0.1), by="kind")
        count += bool(rule.accepts(np.zeros(3) + 1e-9, None, ["a", "b", "c"]).any())
    return count, repeats, 0.1, "greater"


def test_the_deployed_rule_holds_in_all_groups_at_once(rng):
    assert_binomial(*deployed_failures(lambda delta: delta, rng))


def test_an_undivided_delta_would_be_noticed(rng):
    with pytest.raises(AssertionError):
        assert_binomial(*deployed_failures(lambda delta: 3 * delta, rng))


@pytest.mark.extra
def test_command_line_and_service_need_nothing_special(tmp_path, capsys):
    from cli_for_tests import assert_same, homes, read, run, write
    from locuscore import prediction_column
    from service_for_tests import assert_scores, json_rows, running

    names = ["size", "age", "town", "quoted"]
    frame = homes(600)
    locus = Locus(prediction_column("quoted"), calibration_size=300, **SMALL)
    locus.fit(frame[names], frame["price"])
    rule = locus.certify_groups("town", 0.8, 0.2, 0.2)
    assert sum(part.accepts_nothing for part in rule.values()) == 1
    scorer, archive = Scorer(locus, rule), tmp_path / "x.locus"
    scorer.save(archive)
    new = homes(200, seed=1)
    expected = scorer(new[names])
    data, output = write(new, tmp_path / "new.csv"), tmp_path / "out.csv"
    said = run(capsys, "score", archive, data, "-o", output, "--block-rows", 64)
    assert said["flagged"] == expected["flag"].sum()
    assert_same(read(output), expected)
    with running(archive) as client:
        answer = client.post("/score", json={"rows": json_rows(new[names])})
    assert_scores(answer.json(), expected)
