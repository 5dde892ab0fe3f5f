"""Raw records, one JSON line each: appended whole, never twice, and packed when a run is over.

A running benchmark appends plain lines to <dataset>.jsonl; `pack` moves them into the compressed
<dataset>.jsonl.xz that is committed. A run may be killed at any moment, and another may still be
writing: each step takes the folder's lock, a line that was torn by a kill is cut off, and a record
that is already there, packed or not, is left out.
"""

import fcntl
import json
import lzma
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("records")
Record = dict[str, Any]
Key = tuple[str, int, str]


def key(record: Record) -> Key:
    return record["dataset"], record["seed"], record["method"]


def read(folder: Path = FOLDER) -> list[Record]:
    """All whole records of a folder, each once; a torn last line is ignored."""
    if not folder.exists():
        return []
    with _locked(folder):
        names = sorted({path.name.partition(".")[0] for path in folder.glob("*.jsonl*")})
        return [json.loads(line) for name in names for line in _lines(folder, name)]


def append(record: Record, folder: Path = FOLDER) -> bool:
    """Add one record to its dataset's file and force it to disk; False if it was there."""
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps(_plain(record), allow_nan=False).encode() + b"\n"
    name = record["dataset"]
    with _locked(folder):
        if key(record) in {key(json.loads(other)) for other in _lines(folder, name)}:
            return False
        with (folder / f"{name}.jsonl").open("a+b") as file:
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    return True


def pack(folder: Path = FOLDER) -> None:
    """Move all plain lines into the compressed files; killed in between, it loses nothing."""
    if not folder.exists():
        return
    with _locked(folder):
        for plain in sorted(folder.glob("*.jsonl")):
            packed, part = plain.with_suffix(".jsonl.xz"), plain.with_suffix(".part")
            with part.open("wb") as file:
                file.write(lzma.compress(b"".join(_lines(folder, plain.stem)), preset=9))
                file.flush()
                os.fsync(file.fileno())
            # From here on its lines are in both files, which `_lines` counts once.
            part.replace(packed)
            plain.unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep others out; on the folder, since a file's lock would go with the file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lines(folder: Path, name: str) -> list[bytes]:
    """The whole lines of a dataset with their ends, packed ones first, each once."""
    packed, plain = folder / f"{name}.jsonl.xz", folder / f"{name}.jsonl"
    content = lzma.decompress(packed.read_bytes()) if packed.exists() else b""
    content += plain.read_bytes() if plain.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    return list(dict.fromkeys(whole.splitlines(keepends=True)))


def _plain(value: Any) -> Any:
    """Replace numbers JSON does not have by None."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
