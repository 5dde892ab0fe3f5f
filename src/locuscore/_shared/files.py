"""Files that are written completely or not at all."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_atomically(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside the old one and put it in its place when it is complete on disk.

    Whatever fails before that leaves the old file as it was, and no other.
    """
    # The file that a link points to is replaced, not the link.
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} in.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            # Without this a power cut after the rename could leave an empty file under the name.
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on disk, to survive a power cut."""
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
