"""An output file in the making: one part for each block of rows, so that a killed run goes on."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from locuscore._archive import keep_names, write_atomically
from locuscore.cli._tables import write_tables


def digest(*facts: Any) -> str:
    """Return a short digest of whatever decides what the output will be."""
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]


def file_identity(path: Path) -> tuple[str, int, int]:
    """Where a file is, its size and when it was last changed."""
    found = path.stat()
    return str(path.resolve()), found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class Parts:
    """A hidden folder beside the output: parts 0, 1, 2, ..., each complete or absent."""

    output: Path
    folder: Path

    @classmethod
    @contextmanager
    def of(cls, output: Path, key: str) -> Iterator["Parts"]:
        """Open the folder of this output and key, and keep other runs out of it meanwhile.

        Folders of the same output with another key belong to another input or archive: they go.
        """
        target = Path(os.path.realpath(output))
        stale = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.parts")
        folder = target.with_name(f".{target.name}.{key}.parts")
        folder.mkdir(exist_ok=True)
        with _only_one(folder / "lock"):
            for other in target.parent.iterdir():
                if stale.fullmatch(other.name) and other != folder:
                    shutil.rmtree(other)
            yield cls(target, folder)

    @property
    def n_done(self) -> int:
        """Number of parts that are complete; the next one has this number."""
        n = 0
        while self._path(n).exists():
            n += 1
        return n

    def write(self, number: int, table: Any) -> None:
        """Write one part."""

        def write(file: IO[bytes]) -> None:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)

        write_atomically(self._path(number), write)

    def tables(self) -> Iterator[Any]:
        """All parts, one at a time."""
        for number in range(self.n_done):
            with pa.OSFile(str(self._path(number))) as file:
                yield pa.ipc.open_file(file).read_all()

    def merge(self, kind: str, see: Callable[[Any], None]) -> None:
        """Put all parts into the output, in one step, and remove them; `see` is given each."""

        def seen() -> Iterator[Any]:
            for table in self.tables():
                see(table)
                yield table

        schema = next(self.tables()).schema
        whole = self.folder / "whole"
        write_atomically(whole, lambda file: write_tables(file, kind, schema, seen()))
        whole.replace(self.output)
        keep_names(self.output.parent)
        shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.arrow"


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends; where there are no such, none."""
    if os.name != "posix":
        yield
        return
    import fcntl  # noqa: PLC0415 - absent elsewhere

    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"another run is writing this output; it works in {path.parent}."
            ) from None
        yield
