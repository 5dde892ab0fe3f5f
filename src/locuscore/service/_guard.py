"""What every request passes first: the checks of host and key, the limit on load, the count."""

import base64
import hmac
import ipaddress
import time
from collections.abc import Collection
from functools import lru_cache

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from locuscore.service._metrics import Metrics
from locuscore.service._settings import Settings

WITHOUT_KEY = {"/healthz"}  # those who watch whether the service lives need not know its key

SCORE = "/score"
# Who may score may not thereby write labels or see the status: these have keys of their own.
LABELS, WATCH, PAGE = "/labels", "/watch", "/watch/page"

WRONG_KEY = JSONResponse(
    {"error": "the API key is missing or wrong; send the header Authorization: Bearer <key>."},
    401,
    {"WWW-Authenticate": "Bearer"},
)
WRONG_LABELS_KEY = JSONResponse(
    {"error": "the key for labels is missing or wrong; send Authorization: Bearer <key>."},
    401,
    {"WWW-Authenticate": "Bearer"},
)
WRONG_WATCH_KEY = JSONResponse(
    {"error": "the key for the status is missing or wrong; send it as Bearer, or as a password."},
    401,
    {"WWW-Authenticate": 'Basic realm="locuscore watch"'},
)
NO_OWN_KEY = JSONResponse(
    {
        "error": "this route needs a key of its own besides the API key; start the service with "
        "LedgerSettings(labels_key=..., watch_key=...)."
    },
    403,
)
WRONG_HOST = JSONResponse(
    {
        "error": "without a key the service answers to names of its own machine only, such as "
        "localhost; list other names in Settings(hosts=...), or set a key."
    },
    421,
)
OVERLOADED = JSONResponse(
    {"error": "too many requests are under way; try again."}, 503, {"Retry-After": "1"}
)


class Guard:
    """ASGI middleware that checks host and key, sheds load beyond the limit, and counts."""

    def __init__(
        self,
        app: ASGIApp,
        scoring: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        paths: Collection[str],
    ) -> None:
        self.app, self.scoring = app, scoring
        self.key = _bearer(settings.api_key)
        self.own: dict[str, tuple[str | None, JSONResponse]] = {}
        if settings.ledger is not None:
            of_watch = (settings.ledger.watch_key, WRONG_WATCH_KEY)
            self.own = {
                LABELS: (settings.ledger.labels_key, WRONG_LABELS_KEY),
                WATCH: of_watch,
                PAGE: of_watch,
            }
        self.hosts = frozenset(host.lower() for host in settings.hosts)
        self.max_requests = settings.max_requests
        self.under_way = 0
        self.metrics = metrics
        self.paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        path = scope["path"]
        try:
            if not self._is_for_us(scope):
                await WRONG_HOST(scope, receive, watched)
            elif (refusal := self._refusal(path, scope)) is not None:
                await refusal(scope, receive, watched)
            elif path == SCORE:
                await self._score(scope, receive, watched)
            else:
                await self.app(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            # Paths that clients make up would each become a series of Prometheus.
            self.metrics.answered(path if path in self.paths else "other", status, seconds)

    def _refusal(self, path: str, scope: Scope) -> JSONResponse | None:
        """The answer to a request without the key of its route; None if it has it."""
        if path in WITHOUT_KEY:
            return None
        given = dict(scope["headers"]).get(b"authorization", b"")
        if path not in self.own:
            is_right = self.key is None or hmac.compare_digest(given, self.key)
            return None if is_right else WRONG_KEY
        key, wrong = self.own[path]
        if key is None:
            return None if self.key is None else NO_OWN_KEY
        if path != LABELS:
            given = _from_browser(given)
        return None if hmac.compare_digest(given, _bearer(key) or b"") else wrong

    def _is_for_us(self, scope: Scope) -> bool:
        """Whether the Host header names this machine; asked on loopback without a key only.

        A web page can have its own name point at the loopback address. To the browser the service
        then has the origin of the page, whose script may read the answers; but its requests still
        carry that name.
        """
        server = scope.get("server")
        if self.key is not None or server is None or not is_loopback(server[0]):
            return True
        given = (value.decode("latin-1") for name, value in scope["headers"] if name == b"host")
        return all(is_loopback(host) or host in self.hosts for host in map(host_name, given))

    async def _score(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before any work if too many are under way."""
        if self.under_way >= self.max_requests:
            await OVERLOADED(scope, receive, send)
            return
        self.under_way += 1
        self.metrics.under_way.inc()
        try:
            # Straight to its route; the router says what is wrong with other methods.
            app = self.scoring if scope["method"] == "POST" else self.app
            await app(scope, receive, send)
        finally:
            self.under_way -= 1
            self.metrics.under_way.dec()


def _bearer(key: str | None) -> bytes | None:
    return None if key is None else f"Bearer {key}".encode()


def _from_browser(given: bytes) -> bytes:
    """Return a password, which a browser sends with any user name, as a key."""
    kind, _, text = given.partition(b" ")
    if kind.lower() != b"basic":
        return given
    try:
        return b"Bearer " + base64.b64decode(text, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def host_name(value: str) -> str:
    """Return the name in a Host header, without its port."""
    name = value.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


@lru_cache(1024)  # asked for every request
def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
