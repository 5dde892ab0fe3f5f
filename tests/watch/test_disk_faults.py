"""Full disks and power cuts: what was promised to be kept is there, and nothing else is."""

import contextlib
import errno
import os
import shutil
import subprocess
import threading

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from archives_for_tests import rows, small_scorer
from helpers import LONGEST_WAIT
from ledger_for_tests import (
    NOON,
    Clock,
    assert_same_sums,
    decisions,
    everything,
    opened,
    rows_of,
    slow_sums,
    sums_of,
)
from locuscore.watch import Recorder, SpoolError, Watch
from locuscore.watch._ledger import LedgerDownError
from locuscore.watch._spool import Spool, SpoolFullError

pytestmark = pytest.mark.extra
SLOW = {"drain_seconds": 3600.0, "sync_seconds": 3600.0}  # only when asked to


@pytest.fixture
def disk(tmp_path):
    """A disk of 600 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if (
        shutil.which("mount") is None
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("a small disk needs the right to mount one; run the tests as root for this.")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def filled(folder, *, leave=0):
    """Use up the disk, but for some bytes."""
    path = folder / "filler"
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    size = path.stat().st_size
    os.truncate(path, size - min(leave, size))
    return path


# A full disk


def test_a_spool_on_a_full_disk_refuses_and_goes_on_later(disk, caplog):
    sent, taken = [], []
    spool = Spool(disk / "spool", sent.extend, **SLOW)

    def fill():
        for k in range(10_000):
            spool.append({"k": k, "text": "x" * 3_000})
            taken.append(k)

    with pytest.raises(SpoolFullError, match="No space left"):
        fill()
    assert 50 < len(taken) < 250
    with pytest.raises(SpoolFullError):
        spool.append({"k": -1, "text": "x" * 9_000})
    spool.drain()
    spool.append({"k": 9_999})
    spool.close()
    assert [record["k"] for record in sent] == [*taken, 9_999]
    assert "damaged" not in caplog.text


def test_a_damaged_segment_needs_no_room_to_be_put_aside(disk):
    """Otherwise it would hold up all others, which are what fills the disk."""
    sent = []
    spool = Spool(disk / "spool", sent.extend, **SLOW)
    for k in range(3):
        spool.append({"k": k, "text": "x" * 50})
    spool._seal()
    (path,) = (disk / "spool").glob("*.spool")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    filled(disk)
    spool.drain()
    assert [record["k"] for record in sent] == [0, 2]
    assert path.with_suffix(".damaged").read_bytes() == raw
    assert (spool.damaged, spool.waiting_bytes) == (1, 0)
    spool.close()


def test_a_service_on_a_full_disk_makes_no_decision_that_is_not_kept(disk, tmp_path):
    scorer, (X, _) = small_scorer(), rows(20, seed=7)
    scored = scorer(X)
    recorder = Recorder(tmp_path / "x.db", scorer, disk / "spool", drain_seconds=3600)
    recorder.start()
    filler, ids = filled(disk, leave=4096), []

    def fill():
        for k in range(1_000):
            some = [f"{k}-{i}" for i in range(20)]
            recorder.keep(scorer.digest, X, scored, some)
            ids.extend(some)

    with pytest.raises(SpoolError, match="cannot be written"):
        fill()
    filler.unlink()
    recorder.drain()
    recorder.close()
    assert everything(Watch(tmp_path / "x.db").ledger, scorer.digest)["id"].tolist() == ids


def test_a_ledger_on_a_full_disk_is_down_and_whole_afterwards(disk):
    rng, clock = np.random.default_rng(0), Clock()
    ledger, kept = opened(f"sqlite:///{disk}/x.db", clock), {}
    filler = filled(disk, leave=150_000)

    def fill():
        for k in range(1_000):
            given = decisions(rng, [f"{k}-{j}" for j in range(50)])
            ledger.append_decisions("first", given)
            kept.update({row["id"]: row for row in rows_of(given)})

    with pytest.raises(LedgerDownError, match="full"):
        fill()
    assert kept
    with pytest.raises(LedgerDownError, match="full"):
        ledger.append_labels(list(kept), losses=np.ones(len(kept)), times=np.full(len(kept), NOON))
    assert everything(ledger)["id"].tolist() == list(kept)  # it can still be read
    filler.unlink()
    few = list(kept)[:20]
    ledger.append_labels(few, losses=np.ones(20), times=np.full(20, NOON))
    given = decisions(rng, ["after"])
    ledger.append_decisions("first", given)
    kept |= {row["id"]: row for row in rows_of(given)}
    assert everything(ledger)["id"].tolist() == list(kept)
    assert_same_sums(sums_of(ledger), slow_sums(kept, {one: [(NOON, 1.0)] for one in few}))
    ledger.close()


# A power cut


def remains(raw, synced):
    """What a file may be after a power cut: whole up to its last sync, and anything after it."""
    for cut in range(synced, len(raw) + 1):
        yield raw[:cut]
        yield raw[:cut] + bytes(len(raw) - cut)  # its length was written, and its bytes were not


def test_a_power_cut_loses_only_what_was_not_synced(tmp_path, monkeypatch):
    sent, on_disk = [], {}

    def noted(file):
        on_disk[os.fstat(file).st_ino] = os.fstat(file).st_size

    monkeypatch.setattr(os, "fsync", noted)
    spool = Spool(tmp_path / "spool", sent.extend, **SLOW)
    for k in range(6):
        spool.append({"k": k, "text": "LSP1" + "x" * k})
        if k == 2:
            spool._sync()
    (path,) = (tmp_path / "spool").glob("*.spool")
    raw, synced = path.read_bytes(), on_disk[path.stat().st_ino]
    assert 0 < synced < len(raw)
    assert (tmp_path / "spool").stat().st_ino in on_disk  # the name of the file is safe too
    counts = set()
    for k, left in enumerate(remains(raw, synced)):
        folder, found = tmp_path / str(k), []
        folder.mkdir()
        (folder / path.name).write_bytes(left)
        again = Spool(folder, found.extend, **SLOW)
        again.append({"k": "after"})
        again.close()
        whole = [record["k"] for record in found[:-1]]
        assert whole == list(range(len(whole)))
        assert found[-1] == {"k": "after"}
        counts.add(len(whole))
    assert counts == {3, 4, 5, 6}
    spool.close()


def test_a_record_is_synced_without_being_handed_on(tmp_path, monkeypatch):
    """So a power cut loses at most what came since the last sync, by default a second ago."""
    assert Spool.__init__.__kwdefaults__["sync_seconds"] == 1.0
    synced, fsync = threading.Event(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (fsync(file), synced.set()))
    spool = Spool(tmp_path, lambda _: None, drain_seconds=3600.0, sync_seconds=0.01)
    spool.append({"k": 1})
    assert synced.wait(LONGEST_WAIT)
    spool.close()


def test_a_torn_journal_of_sqlite_loses_whole_commits_at_its_end(tmp_path):
    rng, clock = np.random.default_rng(0), Clock()
    ledger = opened(f"sqlite:///{tmp_path}/x.db", clock)
    batches, sizes = [], []
    journal = tmp_path / "x.db-wal"
    for k in range(4):
        batches.append(decisions(rng, [f"{k}-{j}" for j in range(5)]))
        ledger.append_decisions("first", batches[-1])
        sizes.append(journal.stat().st_size)
    raw = journal.read_bytes()
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == len(raw)  # nothing was carried over to the file itself yet
    lost = set()
    cuts = [size + d for size in sizes for d in (-4096, -513, -1, 0)]
    for k, cut in enumerate(cuts):
        folder = tmp_path / str(k)
        folder.mkdir()
        shutil.copy(tmp_path / "x.db", folder)
        (folder / "x.db-wal").write_bytes(raw[:cut] + bytes((len(raw) - cut) * (k % 2)))
        again = opened(f"sqlite:///{folder}/x.db", clock)
        safe = sum(size <= cut for size in sizes)
        ids = [one for batch in batches[:safe] for one in batch["id"]]
        assert everything(again)["id"].tolist() == ids
        for batch in batches:  # as a spool sends them again
            again.append_decisions("first", batch)
        kept = {row["id"]: row for batch in batches for row in rows_of(batch)}
        assert_same_sums(sums_of(again), slow_sums(kept, {}))
        again.close()
        lost.add(4 - safe)
    assert lost == {0, 1, 2, 3, 4}
    ledger.close()


def test_a_commit_of_sqlite_is_on_disk_before_a_segment_goes(tmp_path):
    ledger = opened(f"sqlite:///{tmp_path}/x.db")
    with ledger._database.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    ledger.close()


def test_an_error_of_the_disk_while_handing_on_is_tried_again(tmp_path, monkeypatch):
    sent = []
    spool = Spool(tmp_path, sent.extend, **SLOW)
    spool.append({"k": 1})
    with monkeypatch.context() as patch:
        broken = OSError(errno.EIO, "Input/output error")
        patch.setattr(type(tmp_path), "read_bytes", lambda _: (_ for _ in ()).throw(broken))
        with pytest.raises(OSError, match="Input/output"):
            spool.drain()
    spool.drain()
    spool.close()
    assert sent == [{"k": 1}]
