"""One run at a time for each output, and who it is."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO


@contextmanager
def only_one(output: Path, source: str) -> Iterator[None]:
    """Hold the lock of an output; a second run is told who holds it.

    The system locks a hidden file and releases it when the process ends, however that happens; the
    file itself is removed at the end. No lock on platforms without flock.
    """
    if os.name != "posix":
        yield
        return
    path = output.with_name(f".{output.name}.lock")
    with _locked(path, output) as file:
        try:
            file.write(_facts(source))
            file.flush()
            yield
        finally:
            path.unlink(missing_ok=True)


def _locked(path: Path, output: Path) -> IO[str]:
    """Open and lock the file that has the name now: its last holder may just have removed it."""
    import fcntl  # noqa: PLC0415 - absent elsewhere

    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.truncate(0)
                return file
        except FileNotFoundError:  # removed between two looks
            pass
        except BlockingIOError:
            file.seek(0)
            holder = _holder(file.read())
            file.close()
            raise RuntimeError(
                f"{output} is being written by another run ({holder}); wait for it, or choose "
                "another output. Nothing was changed."
            ) from None
        file.close()


def _facts(source: str) -> str:
    return json.dumps(
        {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "input": source,
        }
    )


def _holder(text: str) -> str:
    try:
        facts = json.loads(text)
        return (
            f"process {facts['pid']} on {facts['host']}, since {facts['since']}, reading "
            f"{facts['input']}"
        )
    except (ValueError, KeyError, TypeError):
        return "which has not yet written who it is"
