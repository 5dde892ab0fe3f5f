"""Raw records, one JSON line each in records/<dataset>.jsonl: appended whole, never twice.

A run may be killed at any moment, and another may still be writing: each append takes a lock, cuts
off a line that was torn by a kill, and is left out if its record is already there.
"""

import fcntl
import json
import math
import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("records")
Record = dict[str, Any]
Key = tuple[str, int, str]


def key(record: Record) -> Key:
    return record["dataset"], record["seed"], record["method"]


def read(folder: Path = FOLDER) -> list[Record]:
    """All whole records of a folder; a torn last line is ignored."""
    return [
        record for path in sorted(folder.glob("*.jsonl")) for record in _whole(path.read_bytes())
    ]


def append(record: Record, folder: Path = FOLDER) -> bool:
    """Add one record to its dataset's file and force it to disk; False if it was there."""
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps(_plain(record), allow_nan=False).encode() + b"\n"
    with (folder / f"{record['dataset']}.jsonl").open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            file.truncate(len(whole))
        if key(record) in {key(other) for other in _whole(whole)}:
            return False
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return True


def _whole(content: bytes) -> list[Record]:
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    return [json.loads(line) for line in lines]


def _plain(value: Any) -> Any:
    """Replace numbers JSON does not have by None."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
