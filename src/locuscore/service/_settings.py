"""Limits of the service, and the error that becomes an answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from locuscore._archive import signing_key


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
        Largest body; counted while it arrives.
    max_rows
        Most rows in one request.
    max_requests
        Most requests to ``/score`` under way, waiting ones included; further ones get 503 at once.
    timeout_seconds
        A request that is not answered by then gets 504.
    gather_seconds
        How long the first request of a batch waits for others.
    max_batch_rows
        A batch takes on further requests up to so many rows.
    shutdown_seconds
        How long a shutdown waits for running requests.
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

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("the API key is empty; leave it out, or give one.")
        if self.archive_key is not None:
            signing_key(self.archive_key)
        for limit in fields(self)[2:]:
            value = getattr(self, limit.name)
            if not value > 0 and not (limit.name == "gather_seconds" and value == 0):
                raise ValueError(f"{limit.name} must be positive; got {value!r}.")


class RefusalError(Exception):
    """A request that is not served: a status, one sentence for the client, maybe headers."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None):
        super().__init__(sentence)
        self.status = status
        self.headers = dict(headers or {})


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line of bounded length."""
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return text if len(text) <= 500 else f"{text[:500]} ..."
