"""Files and folders here or in an object store, by a path or a URL such as ``s3://bucket/rows``."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from locuscore._shared.files import sync_folder, write_atomically
from locuscore.cli._lock import only_one

IN_MEMORY = 2**26  # bytes of a file on its way to a store; a larger one waits on disk
SECRET = re.compile(r"(?i)secret|token|key|pass|sig|credential")
DONE = "_SUCCESS"  # written last into a folder of a store, as other systems do

Write = Callable[[IO[bytes]], object]
WriteInto = Callable[[Any, str], object]
Stamp = tuple[Any, ...]


def place_of(text: str) -> "Place":
    """Return the place that a path or a URL names; a URL may not hold credentials."""
    if "://" not in text:
        return LocalPlace.of(Path(text))
    parts = urlsplit(text)
    if parts.scheme == "file":
        return LocalPlace.of(Path(unquote(parts.path)))
    shown = parts._replace(query="", fragment="").geturl()
    asked = parse_qsl(parts.query, keep_blank_values=True)
    told = [name for name, _ in asked if SECRET.search(name)]
    # A slash in a password ends the part of a URL that it belongs to.
    looks_told = "@" in text and re.search(r":(?!\d*$)", parts.netloc)
    if parts.password is not None or looks_told or told:
        raise ValueError(
            "credentials do not belong in a URL, which others can read in the list of processes; "
            "give them as your object store's environment variables or files."
        )
    try:
        files, path = FileSystem.from_uri(text)
    except (pa.ArrowException, OSError, ValueError, ImportError) as error:
        reason = str(error).replace(text, shown)
        for _, value in asked:
            reason = reason.replace(value, "...") if value else reason
        raise ValueError(f"{shown} cannot be reached: {reason}") from None
    return Place(files, path.rstrip("/"), shown.rstrip("/"))


@dataclass(frozen=True)
class Place:
    """A file or folder in one of pyarrow's file systems; `shown` is its name in messages.

    A store has no locks and cannot rename, but a file in it appears when all of it was sent.
    """

    files: Any
    path: str
    shown: str

    def __str__(self) -> str:
        return self.shown

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    @property
    def address(self) -> str:
        """Tells places apart."""
        return self.shown

    @property
    def final_name(self) -> str:
        """The name after all links."""
        return PurePosixPath(self.address).name

    def child(self, name: str) -> "Place":
        """Return a place below this one."""
        return Place(self.files, f"{self.path}/{name}", f"{self.shown}/{name}")

    def sibling(self, name: str) -> "Place":
        """Return a place beside this one."""
        folder, shown = self.path.rpartition("/")[0], self.shown.rpartition("/")[0]
        return Place(self.files, f"{folder}/{name}" if folder else name, f"{shown}/{name}")

    @property
    def info(self) -> Any:
        """What the file system says of this place."""
        return self.files.get_file_info(self.path)

    @property
    def is_file(self) -> bool:
        """Whether there is a file here."""
        return bool(self.info.type == FileType.File)

    @property
    def is_folder(self) -> bool:
        """Whether there is a folder here."""
        return bool(self.info.type == FileType.Directory)

    def below(self, *, recursive: bool = False) -> list[Any]:
        """What the file system says of all that is in this folder, by path; none if there is no."""
        wanted = FileSelector(self.path, allow_not_found=True, recursive=recursive)
        return sorted(self.files.get_file_info(wanted), key=lambda info: info.path)

    def sibling_names(self) -> list[str]:
        """Names of all that is beside this place."""
        folder = self.sibling("x").path.rpartition("/")[0]
        return [info.base_name for info in Place(self.files, folder, "").below()]

    def relative(self, info: Any) -> str:
        """Return where something below this folder is, seen from here."""
        return str(info.path).strip("/")[len(self.path.strip("/")) :].strip("/")

    def open_file(self) -> Any:
        """Open for reading at any position."""
        return self.files.open_input_file(self.path)

    def open_stream(self) -> Any:
        """Open for reading from the beginning, unpacked if the name ends in .gz."""
        return self.files.open_input_stream(self.path, compression="detect")

    def stamp(self) -> Stamp:
        """What changes when the file does; empty if there is none."""
        info = self.info
        return (info.size, info.mtime_ns) if info.type == FileType.File else ()

    def open_unchanged(self, stamp: Stamp) -> Any:
        """Open a file for reading; None if it is not as it was."""
        return self.open_file() if self.stamp() == stamp else None

    def put(self, write: Write) -> None:
        """Write a file, completely or not at all."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
            write(file)
            file.seek(0)
            stream = self.files.open_output_stream(self.path)
            try:
                shutil.copyfileobj(file, stream, 2**22)
            except BaseException:
                # To close a stream makes a file of what was sent so far.
                with suppress(OSError, pa.ArrowException):
                    stream.close()
                with suppress(OSError, pa.ArrowException):
                    self.files.delete_file(self.path)
                raise
            stream.close()

    def make_folder(self) -> None:
        """Make a folder, and those above it."""
        self.files.create_dir(self.path, recursive=True)

    def remove_folder(self) -> None:
        """Remove a folder with all that is in it."""
        self.files.delete_dir(self.path)

    def finish(self, folder: "Place", write: Write) -> None:
        """Write the output; `folder` is for files in the making."""
        self.put(write)

    def finish_folder(self, folder: "Place", write: WriteInto) -> None:
        """Write a folder of files; the last of them says that all are there."""
        folder.child("writing").put(lambda file: file.write(b""))
        self.make_folder()
        self.files.delete_dir_contents(self.path)
        write(self.files, self.path)
        self.child(DONE).put(lambda file: file.write(b""))

    def check_new_folder(self, folder: "Place") -> None:
        """Raise unless nothing is here, or only what an earlier run with this `folder` wrote."""
        if self.below() and not folder.child("writing").is_file:
            raise ValueError(f"{self} is not empty; remove it, or choose another folder.")

    def locked(self, source: "Place") -> AbstractContextManager[None]:
        """Keep other runs away, where there are locks."""
        return nullcontext()


@dataclass(frozen=True)
class LocalPlace(Place):
    """A file or folder of this machine, which has locks, and renames in one step."""

    local: Path

    @classmethod
    def of(cls, path: Path, shown: str | None = None) -> "LocalPlace":
        """Return the place of a path."""
        return cls(LocalFileSystem(), str(path.absolute()), shown or str(path), path)

    @property
    def address(self) -> str:
        """The path without links."""
        return os.path.realpath(self.local)

    def child(self, name: str) -> "LocalPlace":
        """Return a place below this one."""
        return LocalPlace.of(self.local / name)

    def sibling(self, name: str) -> "LocalPlace":
        """Return a place beside this one, or what it links to."""
        return LocalPlace.of(Path(self.address).with_name(name))

    def open_unchanged(self, stamp: Stamp) -> Any:
        """Open a file for reading; None if it is not as it was."""
        with suppress(FileNotFoundError):
            file = self.local.open("rb")
            if _stamp(os.fstat(file.fileno())) == stamp:
                return file
            file.close()
        return None

    def stamp(self) -> Stamp:
        """Where the file is on disk, its size and time; empty if there is none."""
        try:
            found = self.local.stat()
        except FileNotFoundError:
            return ()
        return _stamp(found) if stat.S_ISREG(found.st_mode) else ()

    def put(self, write: Write) -> None:
        """Write a file, completely or not at all."""
        write_atomically(self.local, write)

    def make_folder(self) -> None:
        """Make a folder in one that exists."""
        self.local.mkdir(exist_ok=True)

    def remove_folder(self) -> None:
        """Remove a folder with all that is in it."""
        shutil.rmtree(self.local)

    def finish(self, folder: Place, write: Write) -> None:
        """Write the output in one step."""
        whole = Path(folder.path) / "whole"
        write_atomically(whole, write)
        whole.replace(self.address)
        sync_folder(Path(self.address).parent)

    def finish_folder(self, folder: Place, write: WriteInto) -> None:
        """Write a folder of files, which appears in one step."""
        whole = Path(folder.path) / "whole_folder"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir()
        write(self.files, str(whole))
        for top, _, names in os.walk(whole):
            for name in names:
                with (Path(top) / name).open("rb") as file:
                    os.fsync(file.fileno())
            sync_folder(Path(top))
        whole.replace(self.address)  # fails unless there is nothing, or an empty folder
        sync_folder(Path(self.address).parent)

    def check_new_folder(self, folder: Place) -> None:
        """Raise unless nothing is here, or an empty folder."""
        if not Path(self.address).parent.is_dir():
            raise ValueError(f"{self} cannot be written: its folder is missing.")
        if self.local.exists() and not (self.local.is_dir() and not any(self.local.iterdir())):
            raise ValueError(f"{self} is not empty; remove it, or choose another folder.")

    def locked(self, source: Place) -> AbstractContextManager[None]:
        """Keep other runs away."""
        return only_one(Path(self.address), source.address)


def identity(place: Place) -> list[Stamp]:
    """Where a file or folder is, and size and time of all its files.

    Something random is added if a file system tells no time: a run does not resume there.
    """
    files = [place.info] if place.is_file else data_files(place)
    times = [(info.path, info.size, info.mtime_ns or os.urandom(16).hex()) for info in files]
    return [(place.address,), *times]


def data_files(place: Place) -> list[Any]:
    """All files below a folder, by path, without hidden ones and marks such as _SUCCESS."""
    return [info for info in place.below(recursive=True) if _is_data(place, info)]


def _is_data(place: Place, info: Any) -> bool:
    parts = PurePosixPath(place.relative(info)).parts
    return info.type == FileType.File and not any(part[0] in "._" for part in parts)


def check_apart(output: Place, others: Iterable[Place]) -> None:
    """Raise if the output is an input, or one is inside the other."""
    for other in others:
        a, b = output.address, other.address
        if a == b or a.startswith(f"{b}/") or b.startswith(f"{a}/"):
            raise ValueError(f"the output {output} and {other} must be apart from each other.")


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns
