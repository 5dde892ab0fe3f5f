"""A local file that takes decisions at once and drains into the ledger.

A record is acknowledged when the operating system has it: killing the process loses nothing. A
thread syncs the file every second: a power cut loses at most the last second. Another thread hands
the records to the ledger in order and deletes a segment once all of it is committed there. A
segment may be sent twice after a crash, so whoever receives it must take the same id twice as one.
"""

import contextlib
import json
import logging
import os
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from locuscore._shared.files import sync_folder

if sys.platform != "win32":
    import fcntl

LOG = logging.getLogger("locuscore.watch")
HEADER = struct.Struct("<4sII")  # mark, length, checksum
MARK = b"LSP1"
SEGMENT_BYTES = 8 << 20
SHORTEST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds between tries while the ledger is down
Send = Callable[[list[dict[str, Any]]], object]


class SpoolError(OSError):
    """The spool cannot take a record; nothing of it was kept.

    Examples
    --------
    ::

        try:
            recorder.keep(digest, rows, scored, ids)
        except SpoolError:  # full, or its disk is: nothing was kept
            ...
    """


class SpoolInUseError(SpoolError):
    """Another process has the folder."""


class SpoolFullError(SpoolError):
    """The spool has as many bytes as it may have, or the disk takes no more."""


class Spool:
    """Append-only segments in a folder of this process's own.

    Parameters
    ----------
    folder
        Made if it is missing. Two processes need two folders; a lock file sees to that.
    send
        Given a list of records (dictionaries as they were appended), in order. It returns when all
        are committed. A `ValueError` means that the records can never be taken: they are put aside
        in ``refused``, and the rest goes on. Any other exception means later: they are sent again.
    max_bytes
        Of all segments together; more is refused with `SpoolFullError`.
    drain_seconds, sync_seconds
        How often records are handed on, and how often the file is synced.
    """

    def __init__(
        self,
        folder: str | Path,
        send: Send,
        *,
        max_bytes: int = 1 << 30,
        drain_seconds: float = 1.0,
        sync_seconds: float = 1.0,
    ) -> None:
        self.folder, self.max_bytes, self._send = Path(folder), max_bytes, send
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = _locked(self.folder)
        self._guard, self._drain_guard = threading.Lock(), threading.Lock()
        self._sync_guard = threading.Lock()
        self._stop = threading.Event()
        self._file: int | None = None
        self._size, self._dirty = 0, False
        self._unsynced: list[int] = []  # closed to writers, and not on disk yet
        self.torn_bytes = 0  # cut off when the spool was opened: never acknowledged
        self.damaged, self.refused = 0, 0  # places in segments; records
        self.trouble: str | None = None  # why the last try to drain failed
        self._broken: str | None = None  # why the last sync failed
        self._sealed = self._found()
        self._next = 1 + max((int(path.stem) for path in self._sealed), default=0)
        self._sizes = {path: path.stat().st_size for path in self._sealed}
        self._bytes = sum(self._sizes.values())
        self._begun = {path: path.stat().st_mtime for path in self._sealed}
        self._threads = [
            threading.Thread(target=self._repeat, args=job, daemon=True, name="locuscore-spool")
            for job in ((self._sync, sync_seconds), (self._drain_or_wait, drain_seconds))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the ledger does not have yet."""
        return self._bytes

    @property
    def lag_seconds(self) -> float:
        """How long the oldest segment waits for the ledger."""
        begun = list(self._begun.values())
        return max(0.0, time.time() - min(begun)) if begun else 0.0

    def append(self, record: Mapping[str, Any]) -> None:
        """Keep one record; on return, killing the process does not lose it.

        Raises `SpoolFullError` when there is no room, and `SpoolError` when the disk fails.
        """
        payload = json.dumps(record, default=_listed).encode()
        framed = HEADER.pack(MARK, len(payload), zlib.crc32(payload)) + payload
        with self._guard:
            if self._stop.is_set():
                raise SpoolError("the spool is closed.")
            if self._broken is not None:
                raise SpoolError(f"the spool in {self.folder} is not safe on disk: {self._broken}")
            if self._bytes + len(framed) > self.max_bytes:
                raise SpoolFullError(
                    f"the spool in {self.folder} has {self._bytes} bytes and may have "
                    f"{self.max_bytes}; the ledger has not taken them: {self.trouble or 'yet'}."
                )
            self._write(framed)

    def drain(self) -> None:
        """Hand everything on now; raises what `send` raises if the ledger is down."""
        with self._drain_guard:
            with self._guard:
                self._seal()
            self._sync()
            while self._sealed:
                path = self._sealed[0]
                try:
                    damaged = self._send_segment(path)
                    if damaged:
                        self._put_aside(path, damaged)
                    else:
                        path.unlink()
                except FileNotFoundError:
                    if not self.folder.is_dir():  # it may come back, with all that is in it
                        raise
                    self.damaged += 1
                    LOG.error("%s was removed, and what was in it is lost", path)
                with self._guard:
                    self._sealed.pop(0)
                    self._begun.pop(path, None)
                    self._bytes -= self._sizes.pop(path)
            self.trouble = None

    def close(self, *, drain: bool = True) -> None:
        """Stop; what the ledger does not take now is sent when the folder is opened again."""
        with self._guard:
            self._stop.set()
        for thread in self._threads:
            thread.join()
        if drain:
            with contextlib.suppress(Exception):
                self.drain()
        with self._guard:
            self._seal()
        self._sync()
        os.close(self._lock_file)

    # The file that is written

    def _write(self, framed: bytes) -> None:
        try:
            if self._file is None:
                self._open()
            assert self._file is not None
            view = memoryview(framed)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            if self._file is not None:  # a part of a record would hide those after it
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
            raise SpoolFullError(
                f"the spool in {self.folder} cannot be written: {error.strerror or error}."
            ) from error
        self._size += len(framed)
        self._bytes += len(framed)
        self._dirty = True
        if self._size >= SEGMENT_BYTES:
            self._seal()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._path = self.folder / f"{self._next:012d}.spool"
        self._file = os.open(self._path, flags, 0o600)
        self._next, self._size = self._next + 1, 0
        self._begun[self._path] = time.time()

    def _seal(self) -> None:
        """Close the segment to writers, so that it can be handed on."""
        if self._file is None:
            return
        self._unsynced.append(self._file)
        self._file, self._dirty = None, False
        self._sealed.append(self._path)
        self._sizes[self._path] = self._size

    def _sync(self) -> None:
        """Bring all that was written to disk, outside of the lock: writers do not wait for it."""
        with self._sync_guard:
            with self._guard:
                files, self._unsynced = self._unsynced, []
                if self._dirty and self._file is not None:
                    files.append(os.dup(self._file))
                    self._dirty = False
            if not files:
                return
            try:
                sync_folder(self.folder)
                while files:
                    os.fsync(files[0])
                    os.close(files.pop(0))
                self._broken = None
            except OSError as error:
                with self._guard:
                    self._unsynced = files + self._unsynced
                self._broken = str(error.strerror or error)
                LOG.error("the spool cannot be synced: %s", self._broken)

    # Handing on

    def _drain_or_wait(self) -> None:
        wait = SHORTEST_WAIT
        while not self._stop.is_set():
            try:
                return self.drain()
            except Exception as error:
                self.trouble = f"{type(error).__name__}: {error}"
                LOG.warning("the spool waits for the ledger: %s", self.trouble)
            self._stop.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT)
        return None

    def _send_segment(self, path: Path) -> int:
        """Send the whole records of a segment; how many places of it are damaged."""
        raw = path.read_bytes()
        found, end, gaps = records_in(raw)
        read = [_record(payload) for payload in found]
        records = [record for record in read if record is not None]
        try:
            if records:
                self._send(records)
        except ValueError:
            self._send_one_by_one(records)
        return gaps + (end < len(raw)) + len(read) - len(records)

    def _put_aside(self, path: Path, damaged: int) -> None:
        """Keep a damaged segment under another name, which needs no room on the disk."""
        path.chmod(0o600)
        aside = path.rename(path.with_suffix(".damaged"))
        self.damaged += damaged
        LOG.error("some records of %s are damaged; it is kept as %s", path, aside.name)

    def _send_one_by_one(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            try:
                self._send([record])
            except ValueError as error:
                self.refused += 1
                LOG.error("the ledger refuses a record for good: %s", error)
                line = json.dumps({"why": str(error), "record": record})
                with open(self.folder / "refused", "a", encoding="utf-8", opener=_private) as file:
                    file.write(f"{line}\n")

    def _repeat(self, job: Callable[[], None], seconds: float) -> None:
        while not self._stop.wait(seconds):
            job()

    def _found(self) -> list[Path]:
        """Segments that an earlier process left, the last one without its torn end."""
        paths = sorted(p for p in self.folder.glob("[0-9]*.spool") if p.stem.isdecimal())
        for path in paths[-1:]:
            raw = path.read_bytes()
            _, end, _ = records_in(raw)
            if end < len(raw):
                self.torn_bytes = len(raw) - end
                LOG.warning("%d bytes of a torn record in %s were cut off", len(raw) - end, path)
                os.truncate(path, end)
        return paths


def records_in(raw: bytes) -> tuple[list[bytes], int, int]:
    """Whole records of a segment, where the last of them ends, and how many gaps are before it."""
    found: list[bytes] = []
    at = end = gaps = 0
    while at >= 0:
        payload = _record_at(raw, at)
        if payload is None:  # torn or damaged: look for the next whole record
            at = raw.find(MARK, at + 1)
            continue
        gaps += at > end
        at = end = at + HEADER.size + len(payload)
        found.append(payload)
    return found, end, gaps


def _record_at(raw: bytes, at: int) -> bytes | None:
    if len(raw) - at < HEADER.size:
        return None
    mark, length, checksum = HEADER.unpack_from(raw, at)
    if mark != MARK or length > len(raw) - at - HEADER.size:
        return None
    payload = raw[at + HEADER.size : at + HEADER.size + length]
    return payload if zlib.crc32(payload) == checksum else None


def _record(payload: bytes) -> dict[str, Any] | None:
    """What was appended; None for what no spool has written, whatever its checksum says."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _private(path: str, flags: int) -> int:
    """Open a file that others may not read; it has what a segment has."""
    return os.open(path, flags, 0o600)


def _locked(folder: Path) -> int:
    """Keep other processes out of the folder; the system unlocks it when this one ends."""
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise SpoolInUseError(
                f"the spool folder {folder} is used by another process; give each its own."
            ) from None
    return file


def _listed(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a record holds numbers, texts and arrays; got {type(value).__name__}.")
