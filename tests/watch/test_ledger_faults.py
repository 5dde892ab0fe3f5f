"""Two writers, a database that goes away, killed processes, passwords."""

import logging
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

from ledger_for_tests import (
    LIGHT,
    assert_same_sums,
    decisions,
    everything,
    new_schema,
    opened,
    rows_of,
    slow_sums,
    sums_of,
)
from locuscore.watch._ledger import Ledger, LedgerDownError, LedgerError
from locuscore.watch._spool import Spool

pytestmark = pytest.mark.extra
SUPPORT = Path(__file__).parents[1] / "support"
SLOW = {"drain_seconds": 3600.0, "sync_seconds": 3600.0}

WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from ledger_for_tests import NOON, decisions, opened
who, rounds, urls = sys.argv[2], int(sys.argv[3]), sys.argv[4:]
ledgers = [opened(url) for url in urls]
print("ready", flush=True)
sys.stdin.readline()
for k in range(rounds):
    rng = np.random.default_rng(k)  # both writers send the same rows under the shared ids
    shared = decisions(rng, [f"shared-{k}-{j}" for j in range(10)])
    own = decisions(rng, [f"{who}-{k}-{j}" for j in range(10)])
    for ledger in ledgers:
        ledger.append_decisions("first", shared)
        ledger.append_labels(shared["id"], losses=np.ones(10), times=shared["time"])
        ledger.append_decisions("first", own)
    print(k, flush=True)
"""


def writer(who, rounds, urls):
    command = [sys.executable, "-c", LIGHT + WRITER, str(SUPPORT), who, str(rounds), *urls]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes)


def written(who, rounds):
    """What a ledger must have after writers: rows and labels."""
    rows, labels = {}, {}
    for k in range(rounds):
        rng = np.random.default_rng(k)
        shared = decisions(rng, [f"shared-{k}-{j}" for j in range(10)])
        columns = decisions(rng, [f"?-{k}-{j}" for j in range(10)])
        parts = [shared] + [
            columns | {"id": [one.replace("?", name) for one in columns["id"]]} for name in who
        ]
        for part in parts:
            rows |= {row["id"]: row for row in rows_of(part)}
        for one, time in zip(shared["id"], shared["time"].tolist(), strict=True):
            labels[one] = [(time, 1.0)]
    return rows, labels


def test_two_processes_write_to_one_ledger(tmp_path, postgres):
    urls = [f"sqlite:///{tmp_path}/x.db", new_schema(postgres)]
    rounds = 8
    writers = [writer(who, rounds, urls) for who in "AB"]
    for one in writers:
        assert one.stdout.readline() == "ready\n"
    for one in writers:
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in writers:
        one.communicate()
        assert one.returncode == 0
    rows, labels = written("AB", rounds)
    for url in urls:
        ledger = opened(url)
        found = everything(ledger, columns=["seq", "id", "written_at", "loss"])
        assert sorted(found["id"]) == sorted(rows)
        assert (np.diff(found["seq"]) > 0).all()
        assert (np.diff(found["written_at"]) >= 0).all()
        assert np.isfinite(found["loss"]).sum() == 10 * rounds
        assert_same_sums(sums_of(ledger), slow_sums(rows, labels))


def test_a_killed_writer_leaves_whole_portions(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    with writer("A", 10**6, [url]) as one:
        one.stdout.readline()
        one.stdin.write("go\n")
        one.stdin.flush()
        acknowledged = [int(one.stdout.readline()) for _ in range(3)]
        one.send_signal(signal.SIGKILL)
    ledger = opened(url)
    found = everything(ledger, columns=["id", "loss"])
    assert len(found["id"]) >= 20 * len(acknowledged)
    assert len(found["id"]) % 10 == 0
    rows, labels = written("A", len(found["id"]) // 20 + 1)
    has_label = dict(zip(found["id"], np.isfinite(found["loss"]), strict=True))
    rows = {one: rows[one] for one in found["id"]}
    assert_same_sums(
        sums_of(ledger), slow_sums(rows, {k: v for k, v in labels.items() if has_label.get(k)})
    )


def test_a_database_that_is_killed_and_comes_back(tmp_path, postgres, rng, caplog):
    ledger = opened(new_schema(postgres))
    spool = Spool(
        tmp_path / "spool",
        lambda records: [ledger.append_decisions("first", record) for record in records],
        **SLOW,
    )
    given = [decisions(rng, [f"{k}-{j}" for j in range(5)]) for k in range(4)]
    spool.append(given[0])
    spool.append(given[1])
    spool.drain()
    postgres.stop(kill=True)
    try:
        spool.append(given[2])
        with pytest.raises(LedgerDownError) as error:
            spool.drain()
        assert postgres.password not in str(error.value)
        with pytest.raises(LedgerDownError):
            ledger.now()
    finally:
        postgres.start()
    spool.append(given[3])
    spool.append(given[1])  # sent twice
    spool.drain()
    assert everything(ledger)["id"].tolist() == [one for part in given for one in part["id"]]
    assert spool.waiting_bytes == 0
    spool.close()
    ledger.close()


def test_a_transaction_that_is_cut_leaves_nothing(postgres, rng):
    ledger = opened(new_schema(postgres))

    def cut(*_given, **_named):
        with postgres.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'locuscore'"
            )

    ledger._end = cut
    with pytest.raises(LedgerDownError):
        ledger.append_decisions("first", decisions(rng, ["a"]))
    del ledger._end
    assert ledger.append_decisions("first", decisions(rng, ["a"])).new == 1
    assert everything(ledger)["seq"].tolist() == [1]


@pytest.mark.parametrize("password", ["s3cret@/word", "pässwörd", "xyz"])
def test_the_password_is_in_no_message(postgres, caplog, password):
    from urllib.parse import quote

    caplog.set_level(logging.DEBUG)
    address = f"127.0.0.1:{postgres.port}/postgres"
    urls = [
        f"postgresql://locuscore:{quote(password, safe='')}@{address}",
        f"postgresql://locuscore@{address}?password={quote(password, safe='')}",
        f"postgresql://locuscore:{quote(password, safe='')}@127.0.0.1:1/postgres",
        f"postgresql://locuscore:{password}@host:port/{password}",
        f"mysql://locuscore:{password}@host/x",
    ]
    for url in urls:
        with pytest.raises(LedgerError) as error:
            Ledger(url)
        told = "".join(traceback.format_exception(error.value)) + repr(error.value) + caplog.text
        assert password not in told
        assert quote(password, safe="") not in told


def test_the_password_is_in_no_repr(postgres):
    ledger = opened(new_schema(postgres))
    for shown in (repr(ledger), str(ledger), repr(ledger._database)):
        assert postgres.password not in shown
        assert "***" in shown


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("decisions.db", "cannot be read; expected sqlite:///"),
        ("sqlite://", "lost with the process"),
        ("oracle://x/y", "SQLite or PostgreSQL, not in 'oracle'"),
        ("sqlite:////no/such/folder/x.db", "unable to open database file"),
    ],
)
def test_a_url_that_is_none_is_told(url, told):
    with pytest.raises(LedgerError, match=told):
        Ledger(url)
