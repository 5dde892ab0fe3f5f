"""One line in the log for each request, its id, and the trace it belongs to.

The id comes from the client, if that sends a plain one, and goes back in the answer. The trace
(W3C ``traceparent``) is passed on; where OpenTelemetry is set up, the request is a span of it.
"""

import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from starlette.types import Scope

from locuscore.service._refusal import printable

REQUEST_ID = b"x-request-id"
TRACE = b"traceparent"
PLAIN_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
PLAIN_TRACE = re.compile(
    rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-[!-~]{0,200})?"
)
LONGEST_ROWS = 10_000  # bytes of a body in the log
LONGEST_PATH = 200  # characters of a path
KEY = "locuscore"  # of the facts in a scope
log = logging.getLogger("locuscore.request")

try:
    from opentelemetry import propagate, trace
except ModuleNotFoundError:
    tracer = None
else:
    tracer = trace.get_tracer("locuscore")


@dataclass
class Facts:
    """What is known of a request besides its path, status and time."""

    request_id: str
    trace: bytes | None
    key: str | None = None
    rows: int | None = None
    model: str | None = None
    body: bytes | None = None

    @classmethod
    def of(cls, scope: Scope) -> "Facts":
        """Read the ids of a request, and keep the facts in its scope."""
        given = trace_ = None
        for name, value in scope["headers"]:
            if name == REQUEST_ID and PLAIN_ID.fullmatch(value):
                given = value.decode()
            elif name == TRACE and PLAIN_TRACE.fullmatch(value):
                trace_ = value
        found = cls(given or secrets.token_hex(16), trace_)
        scope[KEY] = found
        return found

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What the answer says of them."""
        own = [(REQUEST_ID, self.request_id.encode())]
        return own if self.trace is None else [*own, (TRACE, self.trace)]


def log_request(scope: Scope, facts: Facts, status: int, seconds: float) -> None:
    """Write the line of a request; those that failed here are errors."""
    level = logging.ERROR if status == 500 else logging.INFO
    if not log.isEnabledFor(level):
        return
    fields: dict[str, Any] = {
        "request_id": facts.request_id,
        "method": scope["method"],
        "path": printable(scope["path"], LONGEST_PATH),
        "status": status,
        "milliseconds": round(1000 * seconds, 3),
        "client": (scope.get("client") or (None,))[0],
        "key": facts.key,
        "rows": facts.rows,
        "model": facts.model,
    }
    if facts.trace is not None:
        parts = facts.trace.decode().split("-")
        fields |= {"trace_id": parts[1], "span_id": parts[2]}
    if facts.body is not None:
        fields["body"] = facts.body[:LONGEST_ROWS].decode("utf-8", "replace")
    log.log(level, "%s %s %d", fields["method"], fields["path"], status, extra={"fields": fields})


def spanned(scope: Scope, facts: Facts) -> AbstractContextManager[object]:
    """Return a span of the request, where OpenTelemetry is installed and told where spans go."""
    return _span(scope, facts) if is_traced() else nullcontext()


def is_traced() -> bool:
    """Whether anybody looks at spans; making them takes a tenth of the time of a request."""
    return tracer is not None and not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )


@contextmanager
def _span(scope: Scope, facts: Facts) -> Iterator[None]:
    carrier = {"traceparent": facts.trace.decode()} if facts.trace else {}
    path = printable(scope["path"], LONGEST_PATH)
    name = f"{scope['method']} {path}"
    attributes = {"http.request.method": scope["method"], "url.path": path}
    context = propagate.extract(carrier)
    assert tracer is not None
    # What an error says may quote a row, so that it failed is all the span has of it.
    with tracer.start_as_current_span(
        name,
        context,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except Exception:
            span.set_status(trace.StatusCode.ERROR)
            raise
        if facts.rows is not None:
            span.set_attribute("locuscore.rows", facts.rows)
