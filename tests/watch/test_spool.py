"""The spool: what was acknowledged arrives, in order, whatever is killed."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from ledger_for_tests import LIGHT
from locuscore.watch import _spool
from locuscore.watch._spool import Spool, SpoolError, SpoolFullError, records_in

pytestmark = pytest.mark.extra
SLOW = {"drain_seconds": 3600.0, "sync_seconds": 3600.0}  # only when asked to


class Receiver:
    """Takes records, or is down, or refuses some of them."""

    def __init__(self):
        self.records, self.calls = [], 0
        self.is_down, self.refuses = False, set()

    def __call__(self, records):
        self.calls += 1
        if self.is_down:
            raise ConnectionError("the database is down")
        if self.refuses & {record["k"] for record in records}:
            raise ValueError("never")
        self.records += records

    @property
    def seen(self):
        return [record["k"] for record in self.records]


@pytest.fixture
def receiver():
    return Receiver()


@pytest.fixture
def spool(tmp_path, receiver):
    opened = Spool(tmp_path / "spool", receiver, **SLOW)
    yield opened
    opened.close(drain=False)


def segments(spool):
    return sorted(spool.folder.glob("*.spool"))


def test_records_arrive_in_order_and_their_segments_go(spool, receiver, monkeypatch):
    monkeypatch.setattr(_spool, "SEGMENT_BYTES", 200)
    for k in range(50):
        spool.append({"k": k, "x": np.array([0.1, np.inf]), "text": "é"})
    assert len(segments(spool)) > 5
    spool.drain()
    assert receiver.seen == list(range(50))
    assert receiver.records[7] == {"k": 7, "x": [0.1, np.inf], "text": "é"}
    assert segments(spool) == []
    assert spool.waiting_bytes == 0


def test_the_ledger_may_be_down_for_a_while(spool, receiver):
    receiver.is_down = True
    spool.append({"k": 1})
    with pytest.raises(ConnectionError):
        spool.drain()
    spool.append({"k": 2})
    assert spool.waiting_bytes > 0
    receiver.is_down = False
    spool.drain()
    assert receiver.seen == [1, 2]


def test_a_thread_drains_and_tries_again(tmp_path, receiver, monkeypatch, caplog):
    monkeypatch.setattr(_spool, "SHORTEST_WAIT", 0.01)
    arrived = threading.Event()

    def send(records):
        if receiver.calls >= 2:
            receiver.is_down = False
        receiver(records)
        arrived.set()

    receiver.is_down = True
    spool = Spool(tmp_path / "spool", send, drain_seconds=0.01, sync_seconds=0.01)
    with caplog.at_level(logging.WARNING):
        spool.append({"k": 1})
        assert arrived.wait(30)
    spool.close()
    assert receiver.seen == [1]
    assert receiver.calls == 3
    assert spool.trouble is None
    assert "the database is down" in caplog.text


def test_what_is_left_is_sent_by_the_next_process(tmp_path, receiver):
    receiver.is_down = True
    spool = Spool(tmp_path / "spool", receiver, **SLOW)
    spool.append({"k": 1})
    spool.close()
    receiver.is_down = False
    with pytest.raises(SpoolError, match="closed"):
        spool.append({"k": 2})
    again = Spool(tmp_path / "spool", receiver, **SLOW)
    again.append({"k": 3})
    again.close()
    assert receiver.seen == [1, 3]


def test_a_segment_is_sent_again_if_it_could_not_be_deleted(spool, receiver, monkeypatch):
    spool.append({"k": 1})
    with monkeypatch.context() as patch:
        patch.setattr(_spool.Path, "unlink", lambda _path: (_ for _ in ()).throw(OSError("no")))
        with pytest.raises(OSError, match="no"):
            spool.drain()
    spool.drain()
    assert receiver.seen == [1, 1]  # the ledger takes an id once


@pytest.mark.parametrize("cut", [1, 11, 13, 20])
def test_a_torn_record_at_the_end_is_cut_off_and_told(tmp_path, receiver, caplog, cut):
    spool = Spool(tmp_path / "spool", receiver, **SLOW)
    for k in (1, 2):
        spool.append({"k": k, "text": "x" * 20})
    (path,) = segments(spool)
    size = path.stat().st_size // 2
    spool.close(drain=False)
    os.truncate(path, size + cut)
    again = Spool(tmp_path / "spool", receiver, **SLOW)
    assert again.torn_bytes == cut
    assert "torn" in caplog.text
    again.append({"k": 3})
    again.close()
    assert receiver.seen == [1, 3]
    assert again.damaged == 0


@pytest.mark.parametrize("at", [0, 5, 9, 40])
def test_a_damaged_record_in_the_middle_hides_no_other(tmp_path, receiver, caplog, at):
    spool = Spool(tmp_path / "spool", receiver, **SLOW)
    for k in (1, 2, 3):
        spool.append({"k": k, "text": "x" * 50})
    (path,) = segments(spool)
    spool.close(drain=False)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3 + at] ^= 0xFF
    path.write_bytes(raw)
    again = Spool(tmp_path / "spool", receiver, **SLOW)
    again.close()
    assert receiver.seen == [1, 3]
    assert again.damaged == 1
    assert "damaged" in caplog.text
    assert path.with_suffix(".damaged").read_bytes() == raw


def test_any_bytes_can_be_read(rng):
    for _ in range(300):
        raw = rng.integers(256, size=rng.integers(60), dtype=np.uint8).tobytes()
        assert records_in(_spool.MARK + raw)[0] == []


def test_a_full_spool_says_so_and_takes_rows_again_later(tmp_path, receiver):
    spool = Spool(tmp_path / "spool", receiver, max_bytes=100, **SLOW)
    spool.append({"k": 1, "text": "x" * 40})
    with pytest.raises(SpoolFullError, match=r"may have 100"):
        spool.append({"k": 2, "text": "x" * 40})
    spool.drain()
    spool.append({"k": 3, "text": "x" * 40})
    spool.close()
    assert receiver.seen == [1, 3]


def test_a_failing_disk_leaves_no_half_record(spool, receiver, monkeypatch):
    spool.append({"k": 1})
    write = os.write

    def half(file, data):
        if len(data) > 5:
            return write(file, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_spool.os, "write", half)
        with pytest.raises(SpoolFullError, match="No space left"):
            spool.append({"k": 22})
    spool.append({"k": 3})
    spool.drain()
    assert receiver.seen == [1, 3]


def test_a_disk_that_cannot_sync_takes_no_rows(spool, receiver, monkeypatch, caplog):
    spool.append({"k": 1})
    with monkeypatch.context() as patch:
        patch.setattr(_spool.os, "fsync", lambda _f: (_ for _ in ()).throw(OSError(5, "I/O error")))
        spool._sync()
        with pytest.raises(SpoolError, match="I/O error"):
            spool.append({"k": 2})
    assert "I/O error" in caplog.text
    spool._sync()
    spool.append({"k": 3})
    spool.drain()
    assert receiver.seen == [1, 3]


def test_a_record_that_is_refused_for_good_holds_up_no_other(spool, receiver, caplog):
    receiver.refuses = {2}
    for k in (1, 2, 3):
        spool.append({"k": k})
    spool.drain()
    assert receiver.seen == [1, 3]
    assert spool.refused == 1
    assert "never" in caplog.text
    kept = json.loads((spool.folder / "refused").read_text())
    assert kept == {"why": "never", "record": {"k": 2}}


def test_what_is_no_record_is_told(spool):
    with pytest.raises(TypeError, match="got object"):
        spool.append({"k": object()})
    assert spool.waiting_bytes == 0


WRITER = """
import sys
from locuscore.watch._spool import Spool
spool = Spool(sys.argv[1], lambda records: None, drain_seconds=3600.0)
for k in range(10**9):
    spool.append({"k": k})
    print(k, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill and flock")
def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path, receiver):
    folder = tmp_path / "spool"
    command = [sys.executable, "-c", LIGHT + WRITER, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        acknowledged = [int(child.stdout.readline()) for _ in range(200)]
        with pytest.raises(SpoolError, match="used by another process"):
            Spool(folder, receiver, **SLOW)
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout.read().splitlines()]
    again = Spool(folder, receiver, **SLOW)
    again.close()
    assert receiver.seen[: len(acknowledged)] == acknowledged
    assert len(receiver.seen) <= len(acknowledged) + 1
