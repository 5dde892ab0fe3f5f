"""Limits and keys of the service."""

from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from locuscore._shared.checks import check_key
from locuscore._shared.shown import Shown

MAY_BE_ZERO = ("gather_seconds", "drain_seconds")


@dataclass(frozen=True, repr=False)
class LedgerSettings(Shown):
    """Where decisions are kept, and who may add labels and look at the status.

    Parameters
    ----------
    store
        Ledger of the decisions: a file of SQLite, or a URL, as for `locuscore.watch.Watch`.
    spool
        Folder in which decisions wait for the ledger, on a local disk. By default it stands beside
        the archive and is called like it, with ``.spool`` at the end.
    is_optional
        Whether rows are scored although their decisions cannot be kept; they are counted in the
        metric ``locuscore_unlogged_rows``. By default they are refused with 503.
    labels_key, watch_key
        Keys of ``POST /labels`` and of ``GET /watch``, sent like the API key; a browser asks for
        the second as a password. A service that has an API key refuses these routes without them.
    max_spool_bytes
        Most bytes that wait for the ledger.
    status_seconds
        A status is computed at most this often.
    keep_signals
        Whether decisions keep the signals of their rows.
    audit, audit_flagged, age, delta
        As for `locuscore.watch.WatchSettings`; None for what the ledger has for this scorer, or
        else the default.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from locuscore.service import LedgerSettings, Settings
    >>> ledger = LedgerSettings("decisions.db", audit=0.1, age=timedelta(days=14))
    >>> Settings(ledger=ledger).ledger.audit
    0.1
    """

    store: str | Path = field(repr=False)  # it may have a password
    spool: str | Path | None = None
    is_optional: bool = False
    labels_key: str | None = field(default=None, repr=False, kw_only=True)
    watch_key: str | None = field(default=None, repr=False, kw_only=True)
    max_spool_bytes: int = field(default=2**30, kw_only=True)
    status_seconds: float = field(default=10.0, kw_only=True)
    keep_signals: bool = field(default=False, kw_only=True)
    audit: float | None = field(default=None, kw_only=True)
    audit_flagged: float | None = field(default=None, kw_only=True)
    age: timedelta | None = field(default=None, kw_only=True)
    delta: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("labels_key", "watch_key"):
            check_not_empty(getattr(self, name), name)
        for name in ("max_spool_bytes", "status_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)!r}.")

    @property
    def watched(self) -> dict[str, Any]:
        """Settings of the watch that were given."""
        names = ("audit", "audit_flagged", "age", "delta")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


def check_not_empty(key: str | None, name: str) -> None:
    """Refuse an empty key, which everybody would have."""
    if key is not None and not key.strip():
        raise ValueError(f"the {name} is empty; leave it out, or give one.")


@dataclass(frozen=True, repr=False)
class Settings(Shown):
    """How much the service takes on, and from whom.

    Parameters
    ----------
    api_key
        If given, every request but those to ``/healthz`` must carry it, as
        ``Authorization: Bearer <key>``. ``POST /reload`` works only with a key.
    keys
        A file with several keys, each with roles of ``score``, ``reload``, ``metrics``, ``labels``
        and ``watch``; it is read again when it changes. See docs/service.md.
    archive_key
        If given, only archives that were saved with this key are loaded and reloaded.
    max_body_bytes
        Largest body, counted while it arrives.
    max_rows
        Most rows in one request.
    max_requests
        Most requests to ``/score`` under way, waiting ones included; further ones get 503 at once.
    timeout_seconds
        A request that is not answered by then gets 504.
    gather_seconds
        How long the first request of a batch waits for others, besides those that arrive with it
        or while a batch is scored.
    max_batch_rows
        A batch takes further requests until it has this many rows.
    shutdown_seconds
        How long a shutdown waits for running requests.
    drain_seconds
        How long `serve` goes on answering after it was told to stop, while ``/readyz`` says that it
        is not ready, so that a balancer sends it nothing more.
    allow_another_schema
        Whether a reload may bring a model that takes other columns; by default it is refused.
    log_rows
        Whether the log of requests has the rows of ``/score``, as they were sent.
    max_header_bytes, max_headers
        Largest head of a request, and most headers in it; with `serve` only, as are the next two.
    receive_seconds
        A connection that has not sent its request by then is closed; a body has a second more for
        every `min_bytes_per_second` that have arrived. The same holds for reading an answer.
    min_bytes_per_second
        Slowest rate of a body, of a request or an answer.
    hosts
        Names in the ``Host`` header that are answered besides those of the machine itself. Without
        a key, on a loopback address, others are refused: a web page could have its own name point
        there, and read the answers.
    ledger
        If given, decisions are kept there, see `LedgerSettings`.

    Examples
    --------
    >>> from locuscore.service import Settings
    >>> settings = Settings(api_key="a long secret of the client", max_rows=1000)
    >>> settings.max_rows, settings.timeout_seconds
    (1000, 30.0)
    """

    api_key: str | None = field(default=None, repr=False)
    keys: str | Path | None = field(default=None, kw_only=True)
    archive_key: bytes | None = field(default=None, repr=False, kw_only=True)
    max_body_bytes: int = 16 * 2**20
    max_rows: int = 50_000
    max_requests: int = 128
    timeout_seconds: float = 30.0
    gather_seconds: float = 0.0
    max_batch_rows: int = 512
    shutdown_seconds: int = 60
    drain_seconds: float = field(default=0.0, kw_only=True)
    allow_another_schema: bool = field(default=False, kw_only=True)
    log_rows: bool = field(default=False, kw_only=True)
    max_header_bytes: int = 32 * 2**10
    max_headers: int = 100
    receive_seconds: float = 5.0
    min_bytes_per_second: float = 10_000.0
    hosts: tuple[str, ...] = field(default=(), kw_only=True)
    ledger: LedgerSettings | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_not_empty(self.api_key, "API key")
        if self.ledger is not None:
            keys = [self.api_key, self.ledger.labels_key, self.ledger.watch_key]
            given = [key for key in keys if key is not None]
            if len(set(given)) < len(given):
                raise ValueError("scoring, labels and the status have different keys; two agree.")
        if self.archive_key is not None:
            check_key(self.archive_key)
        if isinstance(self.hosts, str):
            raise TypeError(f"hosts are several names, such as ({self.hosts!r},); got one text.")
        for limit in fields(self):
            value = getattr(self, limit.name)
            if limit.type not in (int, float):
                continue
            if not value > 0 and not (limit.name in MAY_BE_ZERO and value == 0):
                raise ValueError(f"{limit.name} must be positive; got {value!r}.")
