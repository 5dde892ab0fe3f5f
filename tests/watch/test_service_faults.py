"""The ledger of a service fails, the disk is full, processes are killed: nothing kept is lost."""

import signal
import sqlite3
import time
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import pytest

from archives_for_tests import rows, small_scorer
from helpers import LONGEST_WAIT
from ledger_for_tests import new_schema
from service_for_tests import process, running

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra
X, Y = rows(40, seed=7)


@pytest.fixture(scope="module")
def scorer():
    return small_scorer()


def settings(store, folder, **changed):
    from locuscore.service import LedgerSettings, Settings

    given = {"age": timedelta(0), "status_seconds": 0.001} | changed
    return Settings(ledger=LedgerSettings(store, folder, **given))


def ask(client, names):
    """Ask for one row per name, each in a request of its own; the statuses."""
    sent = ({"rows": [X[i % 40].tolist()], "ids": [name]} for i, name in enumerate(names))
    return [client.post("/score", json=one).status_code for one in sent]


def ids_in(store):
    from locuscore.watch import Watch

    watch = Watch(store)
    found = watch.ledger.matured(watch.digest, after_seq=0, written_before=2**60)["id"].tolist()
    watch.close()
    return found


def handed_on(store, scorer, folder):
    """What the ledger has after another process took over the spool."""
    from locuscore.watch import Recorder

    recorder = Recorder(store, scorer, folder)
    recorder.start()
    recorder.drain()
    recorder.close()
    return ids_in(store)


@contextmanager
def locked(path):
    """Nobody else can write to a file of SQLite."""
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    other.close()


def metric(client, name):
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"locuscore_{name} "))


def wait(is_true):
    end = time.monotonic() + LONGEST_WAIT
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_killed_service_loses_nothing_it_acknowledged(scorer, tmp_path):
    import httpx

    path, store, folder = (tmp_path / name for name in ("x.locus", "decisions.db", "spool"))
    scorer.save(path)
    told = f"Settings(ledger=LedgerSettings({str(store)!r}, {str(folder)!r}))"
    settings = f"(exec('from locuscore.service import LedgerSettings'), {told})[1]"
    with process(path, settings) as (child, address), locked(store):
        with httpx.Client(base_url=address, timeout=LONGEST_WAIT) as client:
            assert ask(client, [f"a{i}" for i in range(30)]) == [200] * 30
        child.send_signal(signal.SIGKILL)
        child.wait(LONGEST_WAIT)
    assert ids_in_or_none(store) == []
    assert handed_on(store, scorer, folder) == [f"a{i}" for i in range(30)]


def ids_in_or_none(store):
    """The ledger had none of them: it was locked all the time."""
    with sqlite3.connect(store) as connection:
        found = connection.execute("SELECT id FROM locuscore_decisions").fetchall()
    connection.close()
    return found


def test_scoring_goes_on_while_the_ledger_is_locked(scorer, tmp_path):
    store = tmp_path / "decisions.db"
    with running(scorer, settings(store, tmp_path / "spool")) as client:
        with locked(store):
            assert ask(client, ["a", "b", "a"]) == [200] * 3
            assert metric(client, "spool_bytes") > 0
        wait(lambda: metric(client, "spool_bytes") == 0)
        assert ids_in(store) == ["a", "b"]


def test_a_ledger_whose_file_is_gone_gets_everything_when_it_is_back(scorer, tmp_path, caplog):
    store, away = tmp_path / "decisions.db", tmp_path / "away.db"
    with running(scorer, settings(store, tmp_path / "spool")) as client:
        store.rename(away)
        assert ask(client, ["a", "b"]) == [200, 200]
        wait(lambda: "removed or replaced" in caplog.text)
        answer = client.get("/watch")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert str(tmp_path) not in answer.text
        assert not store.exists()
        away.rename(store)
        wait(lambda: metric(client, "spool_bytes") == 0)
    assert ids_in(store) == ["a", "b"]


def test_scoring_and_reloading_go_on_while_postgresql_is_down(scorer, postgres, tmp_path, caplog):
    from locuscore.service import LedgerSettings, Settings

    store, path = new_schema(postgres), tmp_path / "x.locus"
    scorer.save(path)
    other = small_scorer(None, *rows(200, seed=3))
    ledger = LedgerSettings(store, labels_key="l", watch_key="w", age=timedelta(0))
    with running(path, Settings(api_key="k", ledger=ledger)) as client:
        client.headers = {"Authorization": "Bearer k"}
        postgres.stop()
        try:
            assert ask(client, ["a"]) == [200]
            wait(lambda: "waits for the ledger" in caplog.text)
            other.save(path)
            assert client.post("/reload").status_code == 200
            assert ask(client, ["b"]) == [200]
            labels = {"ids": ["a"], "losses": [0.1]}
            own = {"Authorization": "Bearer l"}
            assert client.post("/labels", json=labels, headers=own).status_code == 503
        finally:
            postgres.start()
        wait(lambda: metric(client, "spool_bytes") == 0)
        assert client.post("/labels", json=labels, headers=own).status_code == 200
    assert ids_in(store) == ["b"]  # of the latest deployment
    assert postgres.password not in caplog.text


def test_a_full_spool_is_503_or_counted(scorer, tmp_path, caplog):
    given = settings(tmp_path / "a.db", tmp_path / "a", max_spool_bytes=600)
    with running(scorer, given) as client, locked(tmp_path / "a.db"):
        codes = ask(client, [f"a{i}" for i in range(8)])
        answer = client.post("/score", json={"rows": X[:2].tolist()})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "cannot be kept" in answer.json()["error"]
        assert client.get("/healthz").status_code == 200
    n = codes.index(503)
    assert codes == [200] * n + [503] * (8 - n)
    assert n >= 1
    assert ids_in(tmp_path / "a.db") == [f"a{i}" for i in range(n)]

    given = settings(tmp_path / "b.db", tmp_path / "b", max_spool_bytes=600, is_optional=True)
    with running(scorer, given) as client, locked(tmp_path / "b.db"):
        assert ask(client, [f"a{i}" for i in range(8)]) == [200] * 8
        answer = client.post("/score", json={"rows": X[:2].tolist()}).json()
        assert [row["audit"] for row in answer["rows"]] == [False, False]
        assert metric(client, "unlogged_rows_total") == 8 - n + 2
    assert ids_in(tmp_path / "b.db") == [f"a{i}" for i in range(n)]


def test_a_ledger_that_cannot_be_reached_at_the_start(scorer, tmp_path, monkeypatch, caplog):
    from locuscore.service import create_app
    from locuscore.watch import LedgerDownError, _recorder

    monkeypatch.setattr(_recorder, "RETRY_SECONDS", 0.05)
    store = tmp_path / "none" / "decisions.db"
    with pytest.raises(LedgerDownError, match="unable to open"):
        create_app(scorer, settings(store, tmp_path / "spool"))
    with running(scorer, settings(store, tmp_path / "spool", is_optional=True)) as client:
        assert ask(client, ["a"]) == [200]
        assert metric(client, "unlogged_rows_total") == 1
        assert client.get("/watch").status_code == 503
        store.parent.mkdir()

        wait(lambda: client.get("/watch").status_code == 200)
        assert ask(client, ["b"]) == [200]
    assert ids_in(store) == ["b"]


def test_two_services_share_a_ledger_and_the_folder_of_spools(scorer, tmp_path):
    store, folder = tmp_path / "decisions.db", tmp_path / "spool"
    given = settings(store, folder)
    with running(scorer, given) as one, running(scorer, given) as two:
        assert sorted(path.name for path in folder.iterdir()) == ["0", "1"]
        for client, names in ((one, "abc"), (two, "cde"), (one, "ae")):
            assert ask(client, list(names)) == [200] * len(names)
    assert sorted(ids_in(store)) == list("abcde")


def test_what_a_process_left_is_handed_on_by_the_next(scorer, tmp_path):
    """Also from a folder that is not its own."""
    from locuscore.watch import Recorder
    from locuscore.watch._spool import Spool

    store, folder = tmp_path / "decisions.db", tmp_path / "spool"
    recorder = Recorder(store, scorer, folder, drain_seconds=3600.0)
    recorder.keep(scorer.digest, X, scorer(X), [f"r{i}" for i in range(40)])
    (path,) = (folder / "0").glob("*.spool")
    left = folder / "5"
    left.mkdir()
    (left / path.name).write_bytes(path.read_bytes())
    recorder.close()
    other = Spool(folder / "4", lambda records: None, drain_seconds=3600.0)
    other.append({"digest": scorer.digest, "columns": {}})  # of a process that runs
    found = handed_on(store, scorer, folder)
    other.close(drain=False)
    assert found == [f"r{i}" for i in range(40)]  # the same ids again are the same decisions
    assert not list(left.glob("*.spool"))
    assert list((folder / "4").glob("*.spool"))


def test_the_ledger_has_what_was_scored(scorer, tmp_path):
    from locuscore.watch import Recorder, Watch

    recorder = Recorder(tmp_path / "a.db", scorer, tmp_path / "spool", settings={"audit": 0.5})
    kept = recorder.keep(scorer.digest, X, scorer(X), [f"r{i}" for i in range(40)])
    recorder.drain()
    watch = Watch(tmp_path / "a.db")
    found = watch.ledger.matured(watch.digest, after_seq=0, written_before=2**60)
    np.testing.assert_allclose(found["bounds"][:, 0], scorer(X)["bound_0.1"], rtol=1e-12)
    asked = found["drawn"] & ~found["flagged"]
    assert asked.tolist() == kept["audit"].tolist()
    assert (recorder.waiting_bytes, recorder.lag_seconds, recorder.refused) == (0, 0.0, 0)
    recorder.close()
    watch.close()
