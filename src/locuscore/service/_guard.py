"""What stands in front of every route: the key, and the count of answers."""

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


class Guard:
    """ASGI middleware that asks for the key and measures."""

    def __init__(self, app: Any, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.key = None if settings.api_key is None else f"Bearer {settings.api_key}".encode()
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
            app = self.app if path in OPEN or self._knows(scope) else _unknown
            await app(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            self.metrics.answered(path if path in PATHS else "other", status, seconds)

    def _knows(self, scope: Scope) -> bool:
        if self.key is None:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, self.key)


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    sentence = "the API key is missing or wrong; send the header Authorization: Bearer <key>."
    headers = {"WWW-Authenticate": "Bearer"}
    await JSONResponse({"error": sentence}, 401, headers)(scope, receive, send)
