"""Watch: decisions and labels in, tests of every claim out, each row once."""

import json
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import Locus, Scorer
from locuscore.calibration import ByGroup
from locuscore.engines import Forest

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch import Watch  # noqa: E402

DAY = 86_400_000_000


def rows(n, seed, size=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, X[:, 0] + size * X[:, 1] * rng.normal(size=n)


@pytest.fixture(scope="module")
def locus():
    return Locus(lambda X: X[:, 0], engine=Forest(n_trees=20), random_state=0).fit(*rows(3_000, 0))


@pytest.fixture(scope="module")
def scorer(locus):
    rule = locus.certify(0.8, 0.1, 0.05, *rows(4_000, 1))
    return Scorer(locus, rule, alphas=(0.1, 0.05))


class Clock:
    now = 1_700_000_000_000_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    def watch(scorer, name="decisions.db", **settings):
        settings = {"age": timedelta(days=2)} | settings
        return Watch(tmp_path / name, scorer, clock=clock, **settings)

    return watch


def live(watch, clock, sizes, n=400, seed=10):
    """One batch a day, with labels of the rows that are asked for."""
    for day, size in enumerate(sizes):
        X, y = rows(n, seed + day, size)
        found = watch.score(X)
        asked = found["audit"]
        watch.label(found["id"][asked], y[asked])
        clock.now += DAY


def test_a_promise_that_is_kept_raises_no_alarm(scorer, clock, opened):
    watch = opened(scorer)
    live(watch, clock, [1.0] * 8)
    status = watch.status()
    assert not status.alarm
    assert status.exit_code == 0
    coverage, _, accepted, exchangeable = status.data["claims"]
    assert coverage["n"] == exchangeable["n"] == 2_800  # those of the last day are too young
    assert accepted["n"] < coverage["n"]
    counts = status.data["counts"]
    assert counts["decisions"] == counts["labelled"] == 3_200
    assert counts["accepted"] + counts["flagged"] == 3_200


def test_a_broken_promise_is_found_and_stays_found(scorer, clock, opened):
    watch = opened(scorer)
    live(watch, clock, [1.0] * 4 + [1.8] * 6)
    status = watch.status()
    assert status.alarm
    assert status.exit_code == 4
    assert status.action.kind == "take down"
    broken = [claim for claim in status.data["claims"] if claim["alarmed_at"]]
    assert {claim["kind"] for claim in broken} >= {"coverage", "accepted"}
    assert all(claim["alarmed_at"] > "2023-11-18" for claim in broken)
    live(watch, clock, [0.1] * 4, seed=50)
    assert watch.status().alarm
    assert sum(e["kind"] == "alarm" for e in watch.status().data["events"]) == len(broken)


def test_the_page_shows_the_status(scorer, clock, opened, tmp_path):
    watch = opened(scorer)
    live(watch, clock, [1.0] * 3 + [1.8] * 4)
    status = watch.status().to_dict()
    text = watch.report(tmp_path / "watch.html").read_text(encoding="utf-8")
    data = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[0]
    shown = json.loads(data)
    assert [c["name"] for c in shown["claims"]] == [c["name"] for c in status["claims"]]
    assert shown["counts"] == status["counts"]
    for claim, drawn in zip(status["claims"], shown["claims"], strict=True):
        line, days = drawn["line_of"], claim["days"]
        assert line["n"] == [day["n"] for day in days]
        if claim["kind"] == "coverage":  # all rows have a label, so days add up to the whole
            own = [day["day_n"] * day["day_estimate"] for day in days[1:]]
            total = days[0]["n"] * days[0]["estimate"] + sum(own)
            assert_close(total / claim["n"], days[-1]["estimate"], rtol=1e-12)
            assert line["alone"][1:] == pytest.approx([d["day_estimate"] for d in days[1:]], 1e-5)


def test_a_row_is_tested_once_at_its_age_with_the_label_it_then_has(scorer, clock, opened):
    watch = opened(scorer, age=timedelta(days=2))
    X, y = rows(300, 5)
    found = watch.score(X)
    watch.label(found["id"][:200], y[:200])
    clock.now += 2 * DAY - 1
    assert watch.status().data["claims"][0]["n"] == 0
    clock.now += 1
    first = watch.status().data["claims"][0]
    assert (first["n"], first["n_missing"]) == (300, 100)
    # Labels that come later change estimates, and no bet.
    watch.label(found["id"][200:], y[200:] + 50.0)
    later = watch.status().data["claims"][0]
    assert (later["n"], later["n_missing"], later["log_e"]) == (300, 100, first["log_e"])
    assert later["estimate"] > first["estimate"] + 0.2
    # A correction supersedes.
    watch.label(found["id"][200:], y[200:])
    misses = locus_misses(scorer, X, y)
    assert_close(watch.status().data["claims"][0]["estimate"], misses.mean())


def locus_misses(scorer, X, y):
    return scorer.locus.losses(X, y) > scorer.locus.loss_bound(X, 0.1)


def test_estimates_are_those_of_the_rows_themselves(scorer, clock, opened):
    watch = opened(scorer, age=timedelta(0))
    X, y = rows(1_000, 6)
    found = watch.score(X)
    watch.label(found["id"], y)
    z, accepted = scorer.locus.losses(X, y), ~found["flag"]
    expected = [
        (z > found["bound_0.1"]).mean(),
        (z > found["bound_0.05"]).mean(),
        (z[accepted] > 0.8).mean(),
    ]
    claims = watch.status().data["claims"]
    assert_close([claim["estimate"] for claim in claims[:3]], expected)
    assert all(claim["low"] <= claim["estimate"] <= claim["high"] for claim in claims[:3])


def test_only_rows_that_were_drawn_are_tested(scorer, clock, opened):
    watch = opened(scorer, audit=0.25, age=timedelta(0))
    X, y = rows(2_000, 7)
    found = watch.score(X)
    accepted = ~found["flag"]
    assert not found["audit"][~accepted].any()
    assert abs(found["audit"][accepted].mean() - 0.25) < 0.04
    # Complaints come for the worst rows; they are kept, and nothing is tested with them.
    z = scorer.locus.losses(X, y)
    complaints = accepted & ~found["audit"] & (z > 0.8)
    watch.label(found["id"][complaints], y[complaints], source="complaint")
    audited = found["audit"]
    watch.label(found["id"][audited], y[audited])
    status = watch.status()
    tested = [claim for claim in status.data["claims"] if claim["tested"]]
    assert [claim["kind"] for claim in tested] == ["accepted"]
    assert tested[0]["n"] == audited.sum()
    assert_close(tested[0]["estimate"], (z[audited] > 0.8).mean())
    assert status.data["counts"]["complaints"] == complaints.sum()
    assert "audit_flagged" in status.data["claims"][0]["why_not"]


def test_rows_with_other_chances_are_thinned_to_one(scorer, clock, opened):
    watch = opened(scorer, audit=0.2, audit_flagged=0.8, age=timedelta(0))
    X, y = rows(4_000, 8)
    found = watch.score(X)
    watch.label(found["id"], y)
    coverage = watch.status().data["claims"][0]
    assert abs(coverage["n"] / 4_000 - 0.2) < 0.03
    misses = locus_misses(scorer, X, y)
    assert abs(coverage["estimate"] - misses.mean()) < 0.05


def test_a_joint_share_needs_no_labels_of_flagged_rows(locus, clock, opened):
    watch = opened(Scorer(locus, locus.tau_rule(0.8, 0.1)), audit=0.5, age=timedelta(0))
    X, y = rows(2_000, 9)
    found = watch.score(X)
    watch.label(found["id"][found["audit"]], y[found["audit"]])
    joint = next(c for c in watch.status().data["claims"] if c["kind"] == "joint")
    assert joint["tested"]
    assert joint["n_missing"] == 0
    assert abs(joint["n"] / 2_000 - 0.5) < 0.05


def test_the_state_survives_and_two_watches_share_it(scorer, clock, tmp_path, opened):
    store = tmp_path / "decisions.db"
    settings = {"age": timedelta(0), "clock": clock}
    one, two = (Watch(store, scorer, **settings) for _ in range(2))
    for seed, watch in enumerate((one, two, one)):
        X, y = rows(500, 20 + seed)
        found = watch.score(X)
        watch.label(found["id"], y)
        clock.now += DAY
    first, second = one.status().to_dict(), two.status().to_dict()
    assert first["claims"] == second["claims"]
    assert first["claims"][0]["n"] == 1_500
    whole = opened(scorer, "whole.db", age=timedelta(0))
    for seed in range(3):
        X, y = rows(500, 20 + seed)
        found = whole.score(X)
        whole.label(found["id"], y)
    assert_close(whole.status().data["claims"][0]["log_e"], first["claims"][0]["log_e"])
    looked = Watch(store, clock=clock)
    assert looked.status().to_dict()["claims"] == first["claims"]
    with raises(ValueError, "scorer"):
        looked.score(X)
    with raises(Exception, "first deployed with other settings", "delta"):
        Watch(store, scorer, delta=0.01, **settings)
    with raises(ValueError, "no decisions yet"):
        Watch(tmp_path / "empty.db")


def test_labels_may_wait_for_their_scorer(scorer, clock, tmp_path, opened):
    store = tmp_path / "decisions.db"
    watch = Watch(store, scorer, clock=clock, age=timedelta(0))
    X, y = rows(100, 30)
    found = watch.score(X)
    looked = Watch(store, clock=clock)
    looked.label(found["id"], y)
    status = looked.status()
    assert status.level == "notice"
    assert "open the watch with its scorer" in status.action.sentence
    assert watch.status().data["counts"]["labelled"] == 100
    looked.label(found["id"][:1], losses=[3.0])
    with raises(ValueError, "one of them"):
        looked.label(["a"])


def test_tables_scored_elsewhere_are_logged(scorer, clock, opened):
    pd = pytest.importorskip("pandas")
    watch = opened(scorer, age=timedelta(0))
    X, _ = rows(50, 31)
    table = pd.DataFrame(scorer(X)).assign(id=[f"row {i}" for i in range(50)])
    assert watch.log(table).new == 50
    assert watch.log(table).known == 50
    when = [datetime(2023, 11, 1, tzinfo=UTC)] * 50
    assert watch.log(table.drop(columns="id"), times=when).new == 50
    assert {day["day"] for day in watch.status().data["days"]} == {"2023-11-01", "2023-11-14"}
    with raises(ValueError, "lacks", "bound_0.05"):
        watch.log(table.drop(columns="bound_0.05"))
    assert watch.log(table.drop(columns="id"), ids=range(50)).new == 50
    with raises(ValueError, "49 ids for 50 rows"):
        watch.log(table, ids=range(49))


def test_each_group_has_its_own_claims(clock, opened):
    X, y = rows(3_000, 40)
    X = np.column_stack([X, np.arange(3_000) % 2])
    locus = Locus(
        lambda X: X[:, 0], engine=Forest(n_trees=20), calibration=ByGroup(by=2), random_state=0
    ).fit(X, y)
    watch = opened(Scorer(locus), age=timedelta(0))
    X, y = rows(2_000, 41)
    X = np.column_stack([X, np.arange(2_000) % 2])
    y = np.where(X[:, 2] == 1, X[:, 0] + 3 * (y - X[:, 0]), y)
    watch.label(watch.score(X)["id"], y)
    status = watch.status()
    coverage = {c["group"]: c for c in status.data["claims"] if c["kind"] == "coverage"}
    assert coverage["1"]["alarmed_at"]
    assert not coverage["0"]["alarmed_at"]
    assert coverage["0"]["n"] == coverage["1"]["n"] == 1_000
    assert [one["share_now"] for one in status.data["groups"]] == [0.5, 0.5]


def test_a_rule_that_has_ended_is_to_be_renewed(scorer, clock, opened):
    ended = Scorer(scorer.locus, scorer.rule.until("2023-11-15"), scorer.alphas)
    watch = opened(ended, age=timedelta(0))
    live(watch, clock, [1.0] * 3)
    status = watch.status()
    assert status.action.kind == "renew"
    assert status.data["settings"]["valid_until"] == "2023-11-15"


def test_a_status_is_plain_data_and_readable_text(scorer, clock, opened):
    watch = opened(scorer)
    empty = watch.status()
    assert empty.level == "unknown"
    assert empty.action.kind == "label"
    live(watch, clock, [1.0] * 4)
    status = watch.status()
    assert json.loads(status.to_json()) == json.loads(json.dumps(status.to_dict()))
    text = str(status)
    assert "promised at most 0.1" in text
    assert "however often one looks" in text
    assert len(max(text.splitlines(), key=len)) < 200
    for day in status.data["claims"][0]["days"]:
        assert day["low"] <= day["estimate"] <= day["high"]
