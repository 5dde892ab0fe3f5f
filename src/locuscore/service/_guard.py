"""What stands in front of every route: the host, the key, the number of places, the count."""

import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse

from locuscore.service._metrics import Metrics
from locuscore.service._settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
PATHS = {"/score", "/model", "/healthz", "/metrics", "/reload", "/openapi.json"}
OPEN = {"/healthz"}


UNKNOWN = JSONResponse(
    {"error": "the API key is missing or wrong; send the header Authorization: Bearer <key>."},
    401,
    {"WWW-Authenticate": "Bearer"},
)
ELSEWHERE = JSONResponse(
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
    """ASGI middleware that asks for the key, sheds what is too much, and measures."""

    def __init__(self, app: Any, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.key = None if settings.api_key is None else f"Bearer {settings.api_key}".encode()
        self.hosts = frozenset(host.lower() for host in settings.hosts)
        self.max_requests = settings.max_requests
        self.under_way = 0
        self.metrics = metrics

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
            if not self._is_meant(scope):
                await ELSEWHERE(scope, receive, watched)
            elif path not in OPEN and not self._knows(scope):
                await UNKNOWN(scope, receive, watched)
            elif path == "/score":
                await self._score(scope, receive, watched)
            else:
                await self.app(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            self.metrics.answered(path if path in PATHS else "other", status, seconds)

    def _knows(self, scope: Scope) -> bool:
        if self.key is None:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, self.key)

    def _is_meant(self, scope: Scope) -> bool:
        """Whether the name that was asked for is ours, where nothing else protects us.

        A web page whose name is made to point at the loopback address counts as of the same
        origin, so its script could read the answers; but its requests carry that name.
        """
        server = scope.get("server")
        if self.key is not None or server is None or not is_loopback(server[0]):
            return True
        names = (value for name, value in scope["headers"] if name == b"host")
        return all(self._is_own(host_name(value.decode("latin-1"))) for value in names)

    def _is_own(self, host: str) -> bool:
        return is_loopback(host) or host in self.hosts

    async def _score(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the request one of the places, or shed it before any work is done for it."""
        if self.under_way >= self.max_requests:
            await OVERLOADED(scope, receive, send)
            return
        self.under_way += 1
        self.metrics.under_way.inc()
        try:
            await self.app(scope, receive, send)
        finally:
            self.under_way -= 1
            self.metrics.under_way.dec()


def host_name(value: str) -> str:
    """Return the name in a Host header, without its port."""
    name = value.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
