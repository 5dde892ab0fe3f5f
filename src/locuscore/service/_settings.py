"""Limits and keys of the service."""

from dataclasses import dataclass, field, fields

from locuscore._shared.checks import check_key


@dataclass(frozen=True)
class Settings:
    """How much the service takes on, and from whom.

    Parameters
    ----------
    api_key
        If given, every request but those to ``/healthz`` must carry it, as
        ``Authorization: Bearer <key>``. ``POST /reload`` works only with a key.
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
        How long the first request of a batch waits for others.
    max_batch_rows
        A batch takes further requests until it has this many rows.
    shutdown_seconds
        How long a shutdown waits for running requests.
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
    """

    api_key: str | None = field(default=None, repr=False)
    archive_key: bytes | None = field(default=None, repr=False, kw_only=True)
    max_body_bytes: int = 16 * 2**20
    max_rows: int = 50_000
    max_requests: int = 128
    timeout_seconds: float = 30.0
    gather_seconds: float = 0.003
    max_batch_rows: int = 512
    shutdown_seconds: int = 60
    max_header_bytes: int = 32 * 2**10
    max_headers: int = 100
    receive_seconds: float = 5.0
    min_bytes_per_second: float = 10_000.0
    hosts: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("the API key is empty; leave it out, or give one.")
        if self.archive_key is not None:
            check_key(self.archive_key)
        if isinstance(self.hosts, str):
            raise TypeError(f"hosts are several names, such as ({self.hosts!r},); got one text.")
        for limit in fields(self):
            if limit.name in ("api_key", "archive_key", "hosts"):
                continue
            value = getattr(self, limit.name)
            if not value > 0 and not (limit.name == "gather_seconds" and value == 0):
                raise ValueError(f"{limit.name} must be positive; got {value!r}.")
