"""The ledger on SQLite and on PostgreSQL: what is written comes back, once and in order."""

import json
import os

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

from ledger_for_tests import (
    DAY,
    NOON,
    Clock,
    assert_same_sums,
    decisions,
    deployment,
    everything,
    opened,
    rows_of,
    slow_sums,
    sums_of,
)
from locuscore.watch._ledger import LedgerError, StaleEvidenceError
from locuscore.watch._ledger import decisions as decisions_module
from locuscore.watch._ledger import ledger as ledger_module

pytestmark = pytest.mark.extra
ALL = ("seq", "id", "time", "prediction", "bounds", "score", "probability", "flagged")
ALL += ("group_name", "cluster", "chance", "drawn", "signals", "loss", "y")


def test_decisions_come_back_bit_for_bit(url, rng):
    ledger = opened(url)
    given = decisions(rng, ["a", "b", "c", "d"]) | {"signals": rng.normal(size=(4, 3))}
    given["bounds"][0] = [0.1 + 0.2, np.inf]
    given["score"][1] = np.nan
    assert ledger.append_decisions("first", given).new == 4
    found = everything(ledger, columns=ALL)
    assert found["seq"].tolist() == [1, 2, 3, 4]
    assert np.isnan(found["loss"]).all()
    for name, values in given.items():
        np.testing.assert_array_equal(found[name], np.array(values), err_msg=name)


def test_a_file_of_decisions_is_not_for_all_on_the_machine(tmp_path, rng):
    before = os.umask(0o022)
    try:
        ledger = opened(f"sqlite:///{tmp_path}/x.db")
        ledger.append_decisions("first", decisions(rng, ["a"]))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("x.db", "x.db-shm", "x.db-wal"), 0o640)


@pytest.mark.parametrize(
    "predicted", [["cat", "dog\0"], [[1.0, 2.0], [3.0, 4.0]], [1e300, -np.inf], ["nan", "1"]]
)
def test_predictions_of_any_kind_come_back(tmp_path, rng, predicted):
    ledger = opened(f"sqlite:///{tmp_path}/x.db")
    given = decisions(rng, ["a", "b"]) | {"prediction": predicted}
    ledger.append_decisions("first", given)
    assert everything(ledger, columns=["prediction"])["prediction"].tolist() == predicted


def test_nothing_can_be_written_too(tmp_path, rng):
    ledger = opened(f"sqlite:///{tmp_path}/x.db")
    assert ledger.append_decisions("first", decisions(rng, [])).new == 0
    assert ledger.append_labels([], losses=[]).new == 0


def test_a_decision_without_a_time_is_made_when_it_is_written(tmp_path):
    ledger = opened(f"sqlite:///{tmp_path}/x.db", Clock(NOON + 5))
    ledger.append_decisions("first", {"id": [7], "bounds": [[1, 2]]})
    found = everything(ledger, columns=["id", "time", "score"])
    assert (found["id"][0], found["time"][0]) == ("7", NOON + 5)


def test_an_id_is_one_decision(url, rng, monkeypatch):
    monkeypatch.setattr(ledger_module, "AT_ONCE", 4)
    ledger = opened(url)
    ledger.deploy(deployment("second"))
    first = decisions(rng, ["a", "b", "a", "c", "d", "a"])
    assert ledger.append_decisions("first", first) == ledger_module.Appended(4, 2, 0)
    assert ledger.append_decisions("first", first) == ledger_module.Appended(0, 6, 0)
    again = decisions(rng, ["c", "e"])
    assert ledger.append_decisions("second", again) == ledger_module.Appended(1, 1, 0)
    found = everything(ledger)
    assert found["id"].tolist() == ["a", "b", "c", "d"]
    assert found["score"].tolist() == first["score"][[0, 1, 3, 4]].tolist()
    assert (np.diff(found["seq"]) > 0).all()
    kept = dict(zip("abcd", np.array(rows_of(first))[[0, 1, 3, 4]], strict=True))
    assert_same_sums(sums_of(ledger), slow_sums(kept, {}))


def test_a_label_before_its_decision_waits(url, rng):
    ledger = opened(url)
    assert ledger.append_labels(["b"], losses=[2.0]).new == 1
    assert ledger.waiting_labels() == 1
    ledger.append_decisions("first", decisions(rng, ["a", "b"]))
    assert ledger.waiting_labels() == 0
    assert everything(ledger)["loss"].tolist()[1] == 2.0


def test_a_correction_supersedes_by_its_time_and_both_stay(url, rng):
    ledger = opened(url)
    ledger.append_decisions("first", decisions(rng, ["a"]))
    for time, loss in ((NOON + 5, 1.0), (NOON + 9, 2.0), (NOON + 7, 3.0), (NOON + 9, 4.0)):
        ledger.append_labels(["a"], losses=[loss], times=[time])
    assert everything(ledger)["loss"].tolist() == [4.0]
    again = ledger.append_labels(["a"], losses=[3.0], times=[NOON + 7])
    assert (again.new, again.known) == (0, 1)
    with ledger._database.reading() as connection:
        kept = connection.exec_driver_sql("SELECT loss, current FROM locuscore_labels").all()
    assert sorted((loss, bool(now)) for loss, now in kept) == [
        (1.0, False), (2.0, False), (3.0, False), (4.0, True),
    ]  # fmt: skip


def test_y_alone_waits_for_its_loss(url, rng):
    ledger = opened(url)
    ledger.append_labels(["b", "a"], y=[1.5, "cat"], times=[NOON, NOON])
    assert len(ledger.unpriced("first")["number"]) == 0
    given = decisions(rng, ["a", "b", "c"])
    ledger.append_decisions("first", given)
    asked = ledger.unpriced("first")
    assert asked["id"].tolist() == ["a", "b"]
    assert asked["y"].tolist() == ["cat", 1.5]
    assert asked["prediction"].tolist() == given["prediction"][:2].tolist()
    assert np.isnan(everything(ledger)["loss"]).all()
    ledger.write_losses(asked["number"], [4.0, 3.0])
    ledger.write_losses(asked["number"], [40.0, 30.0])  # known losses stay
    assert everything(ledger)["loss"].tolist()[:2] == [4.0, 3.0]
    assert len(ledger.unpriced("first")["number"]) == 0
    rows = {row["id"]: row for row in rows_of(given)}
    assert_same_sums(sums_of(ledger), slow_sums(rows, {"a": [(NOON, 4.0)], "b": [(NOON, 3.0)]}))


def test_sums_are_those_of_a_recount_whatever_comes_when(url, rng):
    ledger, rows, labels = opened(url), {}, {}
    for _ in range(12):
        if rng.uniform() < 0.5:
            given = decisions(rng, [f"id{k}" for k in rng.integers(60, size=15)])
            ledger.append_decisions("first", given)
            for row in rows_of(given):
                rows.setdefault(row["id"], row)
        else:
            ids = [f"id{k}" for k in rng.integers(60, size=15)]
            times, losses = NOON + rng.integers(4, size=15), rng.exponential(size=15)
            ledger.append_labels(ids, losses=losses, times=times)
            for one, time, loss in zip(ids, times.tolist(), losses.tolist(), strict=True):
                labels.setdefault(one, []).append((time, loss))
    assert_same_sums(sums_of(ledger), slow_sums(rows, labels))
    found = ledger.totals("first")
    is_rows = found["measure"] == "rows"
    assert found["total"][is_rows].sum() == len(rows)


def test_rows_mature_once_and_in_order_whatever_the_clock_does(url, rng):
    clock = Clock()
    ledger = opened(url, clock)
    hours = [0, 1, -5, 1, 2, 3, 1]  # the clock jumps back twice
    for k, hour in enumerate(hours):
        clock.now = NOON + hour * 3600 * 10**6
        ledger.append_decisions("first", decisions(rng, [f"{k}a", f"{k}b"]))
    seen, cursor = [], 0
    for hour in (0.5, 1.5, 0.5, 2.5, 9, 9):
        before = NOON + int(hour * 3600 * 10**6)
        while True:
            page = ledger.matured("first", after_seq=cursor, written_before=before, limit=3)
            if not len(page["seq"]):
                break
            seen += page["id"].tolist()
            cursor = int(page["seq"][-1])
    assert seen == [f"{k}{letter}" for k in range(len(hours)) for letter in "ab"]
    stamps = everything(ledger, columns=["written_at"])["written_at"]
    running = np.maximum.accumulate(hours) * 3600 * 10**6 + NOON
    assert stamps.tolist() == np.repeat(running, 2).tolist()


def test_a_clock_that_was_ahead_can_be_corrected(url, rng):
    clock = Clock()
    ledger = opened(url, clock)
    ledger.append_decisions("first", decisions(rng, ["a"]))
    clock.now = NOON + 1000 * DAY
    ledger.append_decisions("first", decisions(rng, ["b"]))
    clock.now = NOON + DAY
    ledger.append_decisions("first", decisions(rng, ["c"]))
    assert everything(ledger, columns=["written_at"])["written_at"].max() == NOON + 1000 * DAY
    assert ledger.correct_clock() == 2
    found = everything(ledger, columns=["id", "written_at"])
    assert found["id"].tolist() == ["a", "b", "c"]
    assert found["written_at"].tolist() == [NOON, NOON + DAY, NOON + DAY]
    assert ledger.now() == NOON + DAY


def test_only_drawn_rows_can_be_read(url, rng):
    ledger = opened(url)
    given = decisions(rng, [f"{k}" for k in range(40)])
    ledger.append_decisions("first", given)
    found = everything(ledger, only_drawn=True)
    assert found["id"].tolist() == [str(k) for k in np.flatnonzero(given["drawn"])]


def test_evidence_is_saved_by_one_of_two(url):
    ledger, other = opened(url), opened(url)
    seen = ledger.evidence("first")
    assert (seen.states, seen.cursor, seen.version) == ({}, 0, 0)
    ledger.save_evidence("first", {"coverage": {"m": 1}, "bad": [1]}, cursor=7, expected_version=0)
    with pytest.raises(StaleEvidenceError, match="read it again"):
        other.save_evidence(
            "first", {"bad": [2]}, cursor=9, expected_version=0, events=[("alarm", {})]
        )
    seen = other.evidence("first")
    assert (seen.states, seen.cursor) == ({"coverage": {"m": 1}, "bad": [1]}, 7)
    assert [event["kind"] for event in ledger.events()] == ["deploy"]
    with pytest.raises(StaleEvidenceError):  # a row would be tested twice
        other.save_evidence("first", {}, cursor=6, expected_version=seen.version)
    alarm = [("alarm", {"claim": "bad"})]
    other.save_evidence("first", {"bad": [3]}, cursor=9, expected_version=1, events=alarm)
    assert ledger.evidence("first").states == {"coverage": {"m": 1}, "bad": [3]}
    assert ledger.events("first")[-1]["detail"] == {"claim": "bad"}


def test_what_is_forgotten_leaves_sums_and_evidence(url, rng):
    ledger = opened(url, Clock())
    given = decisions(rng, [f"{k}" for k in range(50)])
    ledger.append_decisions("first", given)
    ledger.append_labels(given["id"], losses=np.ones(50), times=given["time"] + 1)
    ledger.append_labels(["never"], losses=[1.0], times=[NOON - 1])
    ledger.save_evidence("first", {"c": {"n": 40}}, cursor=40, expected_version=0)
    sums = sums_of(ledger)
    old = given["time"] < NOON
    assert ledger.forget(NOON) == old[:40].sum()
    assert everything(ledger)["id"].tolist() == [str(k) for k in range(50) if not old[k] or k >= 40]
    assert ledger.forget(NOON, untested_too=True) == old[40:].sum()
    assert sums_of(ledger) == sums
    assert ledger.evidence("first").states == {"c": {"n": 40}}
    assert ledger.events()[1]["kind"] == "forget"
    again = ledger.append_decisions("first", given)
    assert (again.new, again.known, again.forgotten) == (0, 50 - old.sum(), old.sum())
    assert sums_of(ledger) == sums


def test_numbers_are_not_used_again_after_forgetting(url, rng):
    ledger = opened(url)
    ledger.append_decisions("first", decisions(rng, ["a", "b"]))
    ledger.forget(NOON + 2 * DAY, untested_too=True)
    ledger.append_decisions("first", decisions(rng, ["c"], time=NOON + 5 * DAY))
    assert everything(ledger)["seq"].tolist() == [3]


def test_export_has_everything_but_the_secret(url, rng, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    from locuscore.watch._ledger import export

    monkeypatch.setattr(export, "PAGE", 7)
    ledger = opened(url)
    given = decisions(rng, [f"{k}" for k in range(20)]) | {"signals": rng.normal(size=(20, 2))}
    ledger.append_decisions("first", given)
    ledger.append_labels(["1", "2", "1"], y=["x", "y", "z"], losses=[1, 2, 3], times=[NOON] * 3)
    files = ledger.export(tmp_path / "out")
    tables = {p.stem: pq.read_table(p) for p in files if p.suffix == ".parquet"}
    assert sorted(tables) == ["daily", "decisions-1", "events", "labels"]
    found = tables["decisions-1"].to_pydict()
    assert found["id"] == given["id"]
    assert found["bound_0.1"] == given["bounds"][:, 1].tolist()
    assert found["signals"] == given["signals"].tolist()
    assert [int(t.timestamp() * 1e6) // DAY for t in found["time"]] == (
        given["time"] // DAY
    ).tolist()
    assert tables["labels"]["loss"].to_pylist() == [1.0, 2.0, 3.0]
    assert len(tables["daily"]) == len(ledger.daily("first")["day"])
    described = json.loads((tmp_path / "out" / "deployments.json").read_text())
    assert described[0]["alphas"] == [0.5, 0.1]
    assert all(ledger.secret.hex().encode() not in path.read_bytes() for path in files)


def test_a_deployment_is_fixed_when_it_is_first_seen(url):
    ledger = opened(url)
    first = ledger.deploy(deployment("x", settings={"age": 7, "audit": 0.02}, card={"n": 1}))
    again = ledger.deploy(deployment("x", settings={"audit": 0.02, "age": 7}, card={"n": 1}))
    assert again == first
    for changed, told in (
        ({"settings": {"age": 9, "audit": 0.02}}, "age: kept 7, given 9"),
        ({"settings": {"age": 7}}, "audit: kept 0.02, given nothing"),
        ({"settings": {"age": 7, "audit": 0.02}, "tau": 2.0}, "tau: kept 1.0, given 2.0"),
    ):
        with pytest.raises(LedgerError, match=told):
            ledger.deploy(deployment("x", **changed))
    assert [event["kind"] for event in ledger.events()] == ["deploy", "deploy"]
    assert opened(url).secret == ledger.secret
    assert len(ledger.secret) == 32
    assert ledger.secret.hex() not in repr(ledger)


def test_nothing_a_status_or_a_write_does_reads_all_rows(tmp_path, rng):
    from sqlalchemy import event

    ledger = opened(f"sqlite:///{tmp_path}/x.db")
    plans = {}

    def explain(connection, _cursor, statement, parameters, _context, many):
        if statement.startswith(("SELECT", "UPDATE", "DELETE")) and not many:
            asked = connection.connection.driver_connection
            found = asked.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            plans[statement] = [row[3] for row in found]

    event.listen(ledger._database.engine, "before_cursor_execute", explain)
    given = decisions(rng, [f"{k}" for k in range(9)])
    ledger.append_labels(["1", "2"], y=[1, 2], losses=[1.0, np.nan])
    ledger.append_decisions("first", given)
    ledger.write_losses(ledger.unpriced("first")["number"], [2.0])
    ledger.append_labels(["3", "1"], losses=[1.0, 2.0])
    for only_drawn in (False, True):
        ledger.matured("first", after_seq=3, written_before=2**60, only_drawn=only_drawn)
    ledger.totals("first")
    ledger.waiting_labels()
    assert len(plans) > 15
    for statement, plan in plans.items():
        scans = [line for line in plan if line.startswith("SCAN") and "unpriced" not in line]
        assert set(scans) <= {"SCAN locuscore_ledger", "SCAN locuscore_deployments"}, statement
        by_number = "number > ?" in statement  # then not by all that have a decision
        assert not (by_number and any("(seq>?)" in line for line in plan)), statement


def test_a_deployment_that_ended_is_read_to_its_end(url, rng):
    ledger = opened(url)
    ledger.deploy(deployment("second"))
    ledger.append_decisions("first", decisions(rng, ["a"]))
    ledger.append_decisions("second", decisions(rng, ["b", "c"]))
    assert everything(ledger)["id"].tolist() == ["a"]
    assert everything(ledger, "second")["id"].tolist() == ["b", "c"]
    assert len(ledger.matured("first", after_seq=1, written_before=2**60)["seq"]) == 0


HOSTILE = ["'; DROP TABLE locuscore_decisions; --", '"a"', "%s", ":id", "{}", "\\N", "\t\n", "é😀"]


def test_text_of_a_caller_is_never_sql(url, rng):
    ledger = opened(url)
    given = decisions(rng, HOSTILE) | {"group_name": HOSTILE, "cluster": HOSTILE}
    given |= {"prediction": HOSTILE}
    ledger.append_decisions("first", given)
    for source in HOSTILE:
        ledger.append_labels(HOSTILE, y=HOSTILE, losses=np.ones(len(HOSTILE)), source=source)
    ledger.save_evidence("first", dict.fromkeys(HOSTILE, 1), cursor=1, expected_version=0)
    ledger.add_event(HOSTILE[0], {"text": HOSTILE})
    ledger.deploy(deployment(HOSTILE[0]))
    found = everything(ledger, columns=["id", "group_name", "cluster", "prediction", "loss"])
    for name in ("id", "group_name", "cluster", "prediction"):
        assert found[name].tolist() == HOSTILE
    assert found["loss"].tolist() == [1.0] * len(HOSTILE)
    assert set(ledger.evidence("first").states) == set(HOSTILE)
    assert set(ledger.daily("first")["group_name"]) == set(HOSTILE)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"id": ["a" * 201, "b"]}, "1 to 200 characters"),
        ({"id": ["", "b"]}, "1 to 200 characters"),
        ({"id": ["a\0", "b"]}, "without NUL"),
        ({"id": ["\ud800", "b"]}, "surrogate"),
        ({"id": [1.5, "b"]}, "got float"),
        ({"time": [1, 2**60]}, "between 1970 and 2255"),
        ({"time": [1.0, 2.0]}, "integer microseconds"),
        ({"bounds": np.ones((2, 3))}, r"shape \(2, 2\); got \(2, 3\)"),
        ({"chance": [0.0, 1.0]}, "above 0"),
        ({"flagged": [0, 1]}, "booleans"),
        ({"score": [1.0]}, "1 entries for 2 ids"),
        ({"prediction": [object(), 1]}, "numbers, texts"),
        ({"seq; DROP TABLE x": [1, 2]}, "got .'seq; DROP TABLE x'."),
    ],
)
def test_bad_decisions_are_told_in_a_sentence(tmp_path, rng, changed, told):
    ledger = opened(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(ValueError, match=told):
        ledger.append_decisions("first", decisions(rng, ["a", "b"]) | changed)
    assert len(everything(ledger)["seq"]) == 0


def test_bad_labels_are_told_in_a_sentence(tmp_path):
    ledger = opened(f"sqlite:///{tmp_path}/x.db")
    for given, told in (
        ({}, "y or a loss"),
        ({"losses": [np.nan]}, "y or a loss"),
        ({"losses": [np.inf]}, "finite"),
        ({"losses": [1.0, 2.0]}, "2 entries for 1 ids"),
        ({"losses": [1.0], "source": ""}, "source"),
    ):
        with pytest.raises(ValueError, match=told):
            ledger.append_labels(["a"], **given)
    with pytest.raises(ValueError, match="1 finite losses"):
        ledger.write_losses([1], [np.nan])
    with pytest.raises(ValueError, match="knows no deployment 'other'"):
        ledger.append_decisions("other", {"id": ["a"]})


def test_the_insert_is_compiled_with_bound_parameters():
    assert decisions_module.INSERT.count("?") == len(decisions_module.NAMES)
