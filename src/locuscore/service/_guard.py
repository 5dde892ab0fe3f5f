"""What stands in front of every route: the key, the number of places, the count."""

import hmac
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
OVERLOADED = JSONResponse(
    {"error": "too many requests are under way; try again."}, 503, {"Retry-After": "1"}
)


class Guard:
    """ASGI middleware that asks for the key, sheds what is too much, and measures."""

    def __init__(self, app: Any, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.key = None if settings.api_key is None else f"Bearer {settings.api_key}".encode()
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
            if path not in OPEN and not self._knows(scope):
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
