"""Who may do what: keys with roles, from the settings and from a file that may change meanwhile.

A key is known by its digest, and looking a digest up tells an attacker nothing about the key.
"""

import base64
import hashlib
import json
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locuscore.service._refusal import first_line
from locuscore.service._settings import Settings

ROLES = ("score", "reload", "metrics", "labels", "watch")
OF_THE_API_KEY = frozenset(("score", "reload", "metrics"))
SHORTEST = 16  # characters of a key in a file
LARGEST_FILE = 2**20
RETRY_SECONDS = 1.0  # after a file that could not be read
DIGEST = re.compile(r"[0-9a-f]{64}")
EMPTY = hashlib.sha256().hexdigest()
FORM = '{"keys": [{"name": "batch", "sha256": "<64 hex digits>", "roles": ["score"]}]}'
log = logging.getLogger("locuscore.service")


@dataclass(frozen=True)
class Holder:
    """Who has a key: a name for the log, and roles."""

    name: str
    roles: frozenset[str]
    is_from_file: bool = False


Holders = dict[str, Holder]  # by the digest of the key


class Keys:
    """All keys of a service; those of the file are read again when it changes.

    A file that cannot be read leaves the keys as they are, and says so in the log.
    """

    def __init__(self, settings: Settings) -> None:
        self._fixed: Holders = {}
        self._has_api_key = settings.api_key is not None
        given: list[tuple[str, str | None, frozenset[str]]] = [
            ("api", settings.api_key, OF_THE_API_KEY)
        ]
        if settings.ledger is not None:
            given.append(("labels", settings.ledger.labels_key, frozenset(("labels",))))
            given.append(("watch", settings.ledger.watch_key, frozenset(("watch",))))
        for name, key, roles in given:
            if key is not None:
                self._fixed[digest(key.encode())] = Holder(name, roles)
        self._path = None if settings.keys is None else Path(settings.keys)
        self._from_file: Holders = {}
        self._state: Any = None
        self._next_look = 0.0
        if self._path is not None:
            self._state = _state(self._path)
            self._from_file = read_keys(self._path)

    @property
    def are_asked(self) -> bool:
        """Whether requests must carry a key, whatever their route."""
        return self._has_api_key or self._path is not None

    def has_role(self, role: str) -> bool:
        """Whether anybody may do this."""
        holders = [*self._fixed.values(), *self._from_file.values()]
        return any(role in holder.roles for holder in holders)

    def holder(self, key: bytes) -> Holder | None:
        """Who has this key, if anybody."""
        self._look()
        found = digest(key)
        return self._fixed.get(found) or self._from_file.get(found)

    def _look(self) -> None:
        """Read the file again if it has changed, so that a new key works at once."""
        if self._path is None or time.monotonic() < self._next_look:
            return
        try:
            state = _state(self._path)
            if state == self._state:
                return
            self._from_file = read_keys(self._path)
            self._state = state
        except (OSError, ValueError) as error:
            self._state = None
            self._next_look = time.monotonic() + RETRY_SECONDS
            log.error("the keys stay as they were: %s", first_line(error))
        else:
            log.info("the file of keys was read again: %d keys", len(self._from_file))


def digest(key: bytes) -> str:
    """Return the SHA-256 of a key, in hex digits."""
    return hashlib.sha256(key).hexdigest()


def _state(path: Path) -> Any:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_keys(path: Path) -> Holders:
    """Return the keys in a file; raises `ValueError` with one sentence."""
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} is no file of keys: it is larger than {LARGEST_FILE} bytes.")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is no JSON; expected {FORM}.") from None
    entries = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise ValueError(f"{path} has no list of keys; expected {FORM}.")
    found: Holders = {}
    for i, entry in enumerate(entries):
        try:
            hashed, holder = _entry(entry)
        except ValueError as error:
            raise ValueError(f"{path}, entry {i}: {error}") from None
        if hashed in found:
            raise ValueError(f"{path}, entry {i}: the key stands there twice.")
        found[hashed] = holder
    return found


def _entry(entry: Any) -> tuple[str, Holder]:
    if not isinstance(entry, Mapping) or not entry.keys() <= {"name", "key", "sha256", "roles"}:
        raise ValueError(f"expected an object like those in {FORM}.")
    name, roles = entry.get("name"), entry.get("roles")
    if not isinstance(name, str) or not name.strip():
        raise ValueError("a key has a name, by which the log calls it.")
    if not isinstance(roles, list) or not roles or not set(map(str, roles)) <= set(ROLES):
        raise ValueError(f"roles are a list of some of {', '.join(ROLES)}.")
    if ("key" in entry) == ("sha256" in entry):
        raise ValueError("give the key, or its sha256.")
    hashed = entry.get("sha256")
    if hashed is None:
        key = entry["key"]
        is_plain = isinstance(key, str) and key.isprintable() and key == key.strip()
        if not is_plain or len(key) < SHORTEST:
            raise ValueError(
                f"a key is a text of at least {SHORTEST} characters, in one line and without "
                "spaces at its ends."
            )
        hashed = digest(key.encode())
    if not isinstance(hashed, str) or DIGEST.fullmatch(hashed) is None:
        raise ValueError("sha256 has 64 hex digits in small letters.")
    if hashed == EMPTY:
        raise ValueError("sha256 is that of no key at all, which everybody has.")
    return hashed, Holder(name, frozenset(roles), is_from_file=True)


def given_key(headers: list[tuple[bytes, bytes]], *, or_password: bool) -> bytes | None:
    """Return the key that a request carries: as Bearer, or from a browser as a password."""
    given = next((value for name, value in headers if name == b"authorization"), b"")
    kind, _, text = given.partition(b" ")
    if kind == b"Bearer":
        return text
    if kind.lower() == b"basic" and or_password:
        try:
            return base64.b64decode(text, validate=True).partition(b":")[2]
        except ValueError:
            return None
    return None
