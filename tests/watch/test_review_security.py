"""Hostile labels, damaged files, wrong options: one sentence, and everything else goes on."""

import json
import sqlite3
import threading
import time
import zlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from archives_for_tests import rows, small_scorer
from helpers import LONGEST_WAIT
from ledger_for_tests import NOON, new_schema, opened

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra
X, Y = rows(40, seed=7)
IDS = [f"r{i}" for i in range(40)]


@pytest.fixture(scope="module")
def scorer():
    return small_scorer()


@pytest.fixture
def watch(scorer, tmp_path):
    from locuscore.watch import Watch

    found = Watch(tmp_path / "decisions.db", scorer, age=timedelta(0))
    found.score(X, IDS)
    return found


def change(path, statement, *values):
    """What an attacker, or a bad disk, does to a file of SQLite."""
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def test_a_huge_loss_does_not_end_the_sums(watch):
    with pytest.raises(ValueError, match="at most 1e\\+100"):
        watch.label(["r1"], losses=[1e200])
    watch.label(["r1"], [1e300])  # its loss would be as large: it stays without one
    watch.label(IDS, Y)
    counts = watch.status().data["counts"]
    assert counts["labelled"] == 40
    json.loads(watch.status().to_json())


def test_labels_without_a_loss_hold_up_no_others(watch, monkeypatch):
    from locuscore.watch._ledger.reader import LedgerReader

    read = LedgerReader.unpriced
    monkeypatch.setattr(
        LedgerReader, "unpriced", lambda self, digest, **given: read(self, digest, 8, **given)
    )
    watch.ledger.append_labels(IDS[:20], y=["none"] * 20)
    watch.ledger.append_labels(IDS[:20], y=["none"] * 20, times=np.full(20, NOON))
    watch.label(IDS, Y)
    assert watch.status().data["counts"]["labelled"] == 40


def test_the_future_cannot_be_forgotten(watch):
    with pytest.raises(ValueError, match="lies in the future"):
        watch.forget(datetime(2200, 1, 1, tzinfo=UTC))
    watch.score(X[:1], ["later"])
    assert watch.status().data["counts"]["decisions"] == 41


@pytest.mark.parametrize(
    ("table", "column", "text"),
    [
        ("evidence", "state", "{bad"),
        ("evidence", "state", "[]"),
        ("evidence", "state", '{"alarm": {"n": 1}}'),
        ("evidence", "state", None),
        ("deployments", "settings", "{bad"),
        ("deployments", "card", "[]"),
        ("events", "detail", "["),
    ],
)
def test_a_forged_ledger_is_one_sentence(watch, tmp_path, table, column, text):
    from locuscore.watch import LedgerError

    watch.label(IDS, Y)
    watch.status()
    if text is None:  # a state that is right but for its days
        name = watch.claims[0].name
        saved = watch.ledger.evidence(watch.digest).states[name]
        text = json.dumps(saved | {"days": [[10**9, 1, 1, 1, 0, 1, 0]]})
    change(tmp_path / "decisions.db", f"UPDATE locuscore_{table} SET {column} = ?", text)
    with pytest.raises(LedgerError, match=r"the ledger is damaged: its .*restore it"):
        watch.status()


@pytest.mark.parametrize(
    "payload",
    [
        b"{bad",
        b"null",
        b"[" * 100_000,
        b"{}",
        b'{"digest": 3, "columns": {"id": ["a"]}}',
        b'{"digest": "x", "columns": 3}',
        b'{"digest": "x", "deployment": {}, "before": "y"}',
    ],
)
def test_a_forged_record_holds_up_no_others(scorer, tmp_path, payload):
    from locuscore.watch import Recorder
    from locuscore.watch._spool import HEADER, MARK

    folder = tmp_path / "spool" / "0"
    folder.mkdir(parents=True)
    framed = HEADER.pack(MARK, len(payload), zlib.crc32(payload)) + payload
    (folder / "000000000001.spool").write_bytes(framed)
    (folder / "1-copy.spool").write_bytes(b"")  # not one of ours
    recorder = Recorder(tmp_path / "decisions.db", scorer, tmp_path / "spool", drain_seconds=3600)
    recorder.keep(scorer.digest, X[:1], {k: v[:1] for k, v in scorer(X).items()}, ["after"])
    recorder.drain()
    assert recorder.waiting_bytes == 0
    (aside,) = [*folder.glob("*.damaged"), *folder.glob("refused")]
    assert aside.stat().st_mode & 0o77 == 0
    assert recorder._ledger.totals(scorer.digest)["total"].sum() > 0
    recorder.close()


def test_a_segment_that_was_removed_holds_up_no_others(tmp_path):
    from locuscore.watch._spool import Spool

    sent = []
    spool = Spool(tmp_path / "spool", sent.extend, drain_seconds=3600.0, sync_seconds=3600.0)
    spool.append({"a": 1})
    next((tmp_path / "spool").glob("*.spool")).unlink()
    spool.drain()
    spool.append({"a": 2})
    spool.drain()
    assert (sent, spool.waiting_bytes, spool.damaged) == ([{"a": 2}], 0, 1)
    spool.close()


def test_a_segment_of_marks_is_read_once():
    """Each mark names a record longer than the file; none of them is copied."""
    from locuscore.watch._spool import MARK, records_in

    class Counted(bytes):
        copied = 0

        def __getitem__(self, part):
            found = super().__getitem__(part)
            Counted.copied += len(found)
            return found

    assert records_in(Counted(MARK * 1_000)) == ([], 0, 0)
    assert Counted.copied == 0


@pytest.mark.parametrize(
    "store",
    [
        "postgresql:/me:hunter22@host/db",
        "host=h password=hunter22",
        "postgresql://me:hunt@er22@host/db",
    ],
)
def test_a_mistyped_url_keeps_its_password(store, scorer):
    from locuscore.cli._watch_options import check_ledger
    from locuscore.watch import LedgerError, Watch

    check_ledger(store)  # it would tell the name of the file
    with pytest.raises(LedgerError, match="cannot be read; expected") as error:
        Watch(store, scorer)
    assert "er22" not in str(error.value)


def test_looking_with_another_archive_deploys_nothing(watch, tmp_path):
    """It would be the latest deployment, without an alarm."""
    from locuscore.cli._watch_options import opened_for
    from locuscore.watch import Watch

    other, store = small_scorer(None, *rows(200, seed=3)), f"{tmp_path}/decisions.db"
    with pytest.raises(ValueError, match=f"has no deployment {other.digest}"):
        opened_for(store, other)
    assert opened_for(store, watch.scorer).digest == Watch(store).digest == watch.digest


def test_an_endless_age_is_told():
    from locuscore.cli._watch_options import chosen_age

    with pytest.raises(Exception, match="too long"):
        chosen_age("999999999999d")


def test_postgresql_gives_up_on_a_lock_as_sqlite_does(postgres):
    ledger = opened(new_schema(postgres))
    with ledger._database.reading() as connection:
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "30s"
    ledger.close()


def test_requests_that_gave_up_leave_the_queue(scorer, tmp_path):
    """Otherwise they would wait in memory for a ledger that hangs, more and more of them."""
    from locuscore.service import LedgerSettings, Settings, create_app

    ledger = LedgerSettings(tmp_path / "x.db", tmp_path / "spool")
    app = create_app(scorer, Settings(ledger=ledger, timeout_seconds=0.01))
    watching, go_on = app.state.service.watching, threading.Event()
    done = []

    async def ask():
        from locuscore.service._refusal import RefusalError

        for _ in range(6):
            with pytest.raises(RefusalError, match="no answer"):
                await watching._aside(lambda: (go_on.wait(LONGEST_WAIT), done.append(1)))

    import asyncio

    asyncio.run(ask())
    go_on.set()
    end = time.monotonic() + LONGEST_WAIT
    while len(done) < 2 and time.monotonic() < end:
        time.sleep(0.001)
    watching.close()
    assert len(done) == 2  # those that its two threads had begun
