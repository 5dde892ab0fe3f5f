"""An output file in the making: one part per block of rows, so that a killed run can resume."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from locuscore._shared.files import sync_folder, write_atomically
from locuscore.cli._lock import only_one
from locuscore.cli._tables import write_tables

Identity = tuple[int, int, int]


def digest(*facts: Any) -> str:
    """Return a short digest of whatever decides what the output will be."""
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]


def file_identity(path: Path) -> tuple[str, int, int]:
    """Where a file is, its size and when it was last changed."""
    found = path.stat()
    return str(path.resolve()), found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class ResumableOutput:
    """A hidden folder beside the output: parts 0, 1, 2, ..., each complete or absent.

    `known` tells the parts that this run found or wrote from any that others may put there.
    """

    output: Path
    folder: Path
    known: list[Identity] = field(default_factory=list)

    @classmethod
    @contextmanager
    def of(cls, output: Path, key: str, source: Path) -> Iterator["ResumableOutput"]:
        """Open the folder of this output and key, and lock the output against other runs.

        Folders of this output with another key, of another input or archive, are removed.
        A run that fails keeps its parts, if there are any, and says so.
        """
        target = Path(os.path.realpath(output))
        stale = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.parts")
        folder = target.with_name(f".{target.name}.{key}.parts")
        with only_one(target, source):
            for other in target.parent.iterdir():
                if stale.fullmatch(other.name) and other != folder:
                    shutil.rmtree(other)
            folder.mkdir(exist_ok=True)
            parts = cls(target, folder)
            parts._find()
            try:
                yield parts
            except BaseException as error:
                parts._keep_or_remove(error)
                raise

    @property
    def n_done(self) -> int:
        """Number of parts that are complete."""
        return len(self.known)

    def append(self, table: Any) -> None:
        """Write the next part."""

        def write(file: IO[bytes]) -> None:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)

        path = self._path(self.n_done)
        write_atomically(path, write)
        self.known.append(_identity(path.stat()))

    def _files(self) -> Iterator[Any]:
        """All parts, opened one at a time; raises if one is not as this run left it."""
        for number, identity in enumerate(self.known):
            with self._open(number) as file:
                if _identity(os.fstat(file.fileno())) != identity:
                    raise self._changed(number)
                yield pa.ipc.open_file(file)

    def merge(self, kind: str, see: Callable[[Any], None]) -> None:
        """Put all parts into the output, in one step, and remove them; `see` is given each."""
        # A column without any value in one part has no type there.
        schema = pa.unify_schemas([file.schema for file in self._files()]).remove_metadata()

        def seen() -> Iterator[Any]:
            for file in self._files():
                table = file.read_all()
                see(table)
                yield table.cast(schema)

        whole = self.folder / "whole"
        write_atomically(whole, lambda file: write_tables(file, kind, schema, seen()))
        whole.replace(self.output)
        sync_folder(self.output.parent)
        shutil.rmtree(self.folder)

    def _find(self) -> None:
        while (path := self._path(self.n_done)).exists():
            self.known.append(_identity(path.stat()))

    def _keep_or_remove(self, error: BaseException) -> None:
        if not self.n_done:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif self.folder.exists():
            error.add_note(
                f"What was scored so far is kept in {self.folder}: the same command resumes from "
                "there, another command for the same output removes it."
            )

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.arrow"

    def _open(self, number: int) -> IO[bytes]:
        try:
            return self._path(number).open("rb")
        except FileNotFoundError:
            raise self._changed(number) from None

    def _changed(self, number: int) -> RuntimeError:
        return RuntimeError(
            f"{self._path(number)} is not what this run has written, so {self.output} was left as "
            "it was; remove that folder and start again."
        )


def _identity(found: os.stat_result) -> Identity:
    return found.st_ino, found.st_size, found.st_mtime_ns
