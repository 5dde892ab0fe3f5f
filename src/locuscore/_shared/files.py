"""Files that are written completely or not at all, and who may read them."""

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

NOT_FOR_ALL = 0o660  # the umask may take away more


def write_atomically(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside the old one and put it in its place when it is complete on disk.

    Whatever fails before that leaves the old file as it was, and no other. Who may read and write
    the old one may do so with the new one, and nobody else.
    """
    # The file that a link points to is replaced, not the link.
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} in.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            with suppress(FileNotFoundError):  # a new file is as the umask says
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            write(file)
            file.flush()
            # Without this a power cut after the rename could leave an empty file under the name.
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def not_for_all(path: str | Path, flags: int) -> int:
    """Open a file for `open`; if it is made, then without permissions for all on the machine."""
    return os.open(path, flags, NOT_FOR_ALL)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on disk, to survive a power cut."""
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
