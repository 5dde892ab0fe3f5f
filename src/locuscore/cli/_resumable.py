"""An output in the making: one part per block of rows, so that a killed run can resume."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow as pa

from locuscore.cli._datasets import write_dataset
from locuscore.cli._places import Place, Stamp
from locuscore.cli._tables import write_tables


def digest(*facts: Any) -> str:
    """Return a short digest of whatever decides what the output will be."""
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ResumableOutput:
    """A hidden folder beside the output: parts 0, 1, 2, ..., each complete or absent.

    `known` tells the parts that this run found or wrote from any that others may put there.
    """

    output: Place
    folder: Place
    known: list[Stamp] = field(default_factory=list)

    @classmethod
    @contextmanager
    def of(cls, output: Place, key: str, source: Place) -> Iterator["ResumableOutput"]:
        """Open the folder of this output and key, and lock the output against other runs.

        Folders of this output with another key, of another input or archive, are removed.
        A run that fails keeps its parts, if there are any, and says so.
        """
        name = output.final_name
        stale = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}\.parts")
        folder = output.sibling(f".{name}.{key}.parts")
        with output.locked(source):
            for other in output.sibling_names():
                if stale.fullmatch(other) and other != folder.name:
                    output.sibling(other).remove_folder()
            folder.make_folder()
            parts = cls(output, folder)
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

        place = self._place(self.n_done)
        place.put(write)
        self.known.append(place.stamp())

    def _files(self) -> Iterator[Any]:
        """All parts, opened one at a time; raises if one is not as this run left it."""
        for number, stamp in enumerate(self.known):
            file = self._place(number).open_unchanged(stamp)
            if file is None:
                raise self._changed(number)
            with file:
                yield pa.ipc.open_file(file)

    def merge(self, kind: str | None, see: Callable[[Any], None], by: Sequence[str] = ()) -> None:
        """Put all parts into the output and remove them; `see` is given each.

        Without a kind of file, the output is a folder with a subfolder for each value of `by`.
        """
        # A column without any value in one part has no type there.
        schema = pa.unify_schemas([file.schema for file in self._files()]).remove_metadata()

        def seen() -> Iterator[Any]:
            for file in self._files():
                table = file.read_all()
                see(table)
                yield table.cast(schema)

        if kind is None:
            self.output.finish_folder(
                self.folder,
                lambda files, path: write_dataset(files, path, schema, seen(), list(by)),
            )
        else:
            self.output.finish(self.folder, lambda file: write_tables(file, kind, schema, seen()))
        self.folder.remove_folder()

    def _find(self) -> None:
        while stamp := self._place(self.n_done).stamp():
            self.known.append(stamp)

    def _keep_or_remove(self, error: BaseException) -> None:
        if not self.n_done:
            with suppress(OSError):
                self.folder.remove_folder()
        elif self.folder.is_folder:
            error.add_note(
                f"What was scored so far is kept in {self.folder}: the same command resumes from "
                "there, another command for the same output removes it."
            )

    def _place(self, number: int) -> Place:
        return self.folder.child(f"{number:08d}.arrow")

    def _changed(self, number: int) -> RuntimeError:
        return RuntimeError(
            f"{self._place(number)} is not what this run has written, so {self.output} was left as "
            "it was; remove that folder and start again."
        )
