"""The application: its routes, what each of them does, and how errors are answered.

Rows are not models of a web framework: their columns change when an archive is reloaded, they are
counted before they are parsed, and many of them are checked in a thread. Besides, as pydantic
models in FastAPI 10,000 rows cost more than twice the processor time.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from locuscore import ArchiveError, Scorer
from locuscore.service._arrow_rows import CONTENT_TYPE as ARROW
from locuscore.service._arrow_rows import read_table, stream
from locuscore.service._batching import Batcher, Group, OverloadError
from locuscore.service._guard import Guard
from locuscore.service._json_rows import CONTENT_TYPE as JSON
from locuscore.service._json_rows import parse_rows, scored_rows
from locuscore.service._metrics import Metrics
from locuscore.service._model import Load, Model, Store, columns_of
from locuscore.service._openapi import describe
from locuscore.service._refusal import RefusalError, first_line
from locuscore.service._reload import Reloads
from locuscore.service._settings import Settings

LARGE_BODY = 2**16  # bytes; larger ones are parsed in a thread, so that the event loop stays free
MODEL_HEADER = "Locuscore-Model"
log = logging.getLogger("locuscore.service")
Result = TypeVar("Result")


def create_app(
    source: str | Path | Scorer, settings: Settings | None = None, *, load: Load = Scorer.load
) -> Starlette:
    """Return an ASGI application that scores rows over HTTP.

    Parameters
    ----------
    source
        An archive, or a scorer in memory, which cannot be reloaded.
    settings
        Limits and keys.
    load
        How to read the archive, for instance ``functools.partial(Scorer.load, predictor=g)``. With
        an archive key in the settings it is called as ``load(path, key=archive_key)``.
    """
    settings = settings or Settings()
    service = Service(Store(source, load, settings.archive_key), settings, Metrics())
    # `describe` has an entry for each of them, which a test checks.
    routes = [
        Route("/score", service.score, methods=["POST"]),
        Route("/model", service.model),
        Route("/healthz", service.healthz),
        Route("/metrics", service.metrics_text),
        Route("/openapi.json", service.openapi),
        Route("/reload", service.reload, methods=["POST"]),
    ]
    paths = [route.path for route in routes]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, settings=settings, metrics=service.metrics, paths=paths)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
        lifespan=lifespan,
    )
    app.state.service = service
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    # The server logs the error and closes the connection; the client needs to know only the latter.
    headers = {"Connection": "close"}
    return JSONResponse({"error": "the service failed; its log says why."}, 500, headers)


class Service:
    """What the routes do; each method that takes a request answers one of them."""

    def __init__(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        self.store = store
        self.settings = settings
        self.metrics = metrics
        self.reloads = Reloads(self.load)
        self.batcher = Batcher(
            settings.gather_seconds,
            settings.max_batch_rows,
            settings.max_requests,
            metrics.batch_rows.observe,
            metrics.unseen,
        )

    async def score(self, request: Request) -> Response:
        """Score rows, given as JSON or as an Arrow stream."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, ARROW):
            raise RefusalError(415, f"the content type must be {JSON} or {ARROW}.")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise RefusalError(415, "send the body without content encoding.")
        answer = self._score_json if kind == JSON else self._score_arrow
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                body = await read_body(request, self.settings.max_body_bytes)
                return await answer(body, self.store.current)
        except ClientDisconnect:
            raise RefusalError(408, "the request was not sent to its end.") from None
        except TimeoutError:
            limit = self.settings.timeout_seconds
            raise RefusalError(504, f"there was no answer within {limit:g} seconds.") from None

    async def _score_json(self, body: bytes, model: Model) -> Response:
        is_large = len(body) > LARGE_BODY
        schema, limit = model.scorer.schema, self.settings.max_rows
        columns, n = await aside(is_large, lambda: parse_rows(body, schema, limit))
        found = await self._scored(model.score_json, columns, n)
        self.metrics.scored(found, n, model.scorer.columns)

        def text() -> bytes:
            content = {"model": model.name, "rows": scored_rows(found, model.bounds)}
            return json.dumps(content, allow_nan=False, default=str).encode()

        return answer_of(await aside(is_large, text), JSON, model)

    async def _score_arrow(self, body: bytes, model: Model) -> Response:
        table = await aside(True, lambda: read_table(body, self.settings.max_rows))
        found = await self._scored(model.score_arrow, table, table.num_rows)
        self.metrics.scored(columns_of(found), table.num_rows, model.scorer.columns)
        return answer_of(await aside(True, lambda: stream(found)), ARROW, model)

    async def _scored(self, group: Group, part: Any, n: int) -> Any:
        try:
            return await asyncio.wrap_future(self.batcher.submit(group, part, n))
        except OverloadError:
            sentence = "the queue is full; try again."
            raise RefusalError(503, sentence, {"Retry-After": "1"}) from None
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise RefusalError(422, f"the rows cannot be scored: {first_line(error)}") from None

    async def model(self, request: Request) -> Response:
        """Return the guarantee card and the facts of the manifest."""
        return JSONResponse(self.store.current.facts)

    async def healthz(self, request: Request) -> Response:
        """Say whether rows can be scored."""
        if not self.batcher.is_alive:
            raise RefusalError(503, "the scoring thread has stopped.")
        return JSONResponse({"status": "ok"})

    async def metrics_text(self, request: Request) -> Response:
        """Return counters for Prometheus."""
        return Response(self.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def openapi(self, request: Request) -> Response:
        """Return the description of the service, which changes with the model."""
        return JSONResponse(describe(self.store.current, self.settings))

    async def reload(self, request: Request) -> Response:
        """Load the archive again, while requests go on."""
        if self.settings.api_key is None:
            raise RefusalError(
                403, "reloading over HTTP needs a service with an API key; send SIGHUP."
            )
        if not self.store.has_file:
            raise RefusalError(
                409, "the service was started with a scorer in memory, not with a file."
            )
        try:
            # Shielded: if this client goes away, others may still wait for the same load.
            model = await asyncio.shield(asyncio.wrap_future(self.reloads.ask()))
        except (ArchiveError, OSError, ModuleNotFoundError) as error:
            raise RefusalError(409, f"the old model stays: {first_line(error)}") from None
        return JSONResponse({"model": model.name})

    def load(self) -> Model:
        """Load the archive again and count it."""
        try:
            model = self.store.reload()
        except Exception as error:
            self.metrics.reloads.labels("false").inc()
            log.error("the old model stays: %s", first_line(error))
            raise
        self.metrics.reloads.labels("true").inc()
        log.info("the model is now %s", model.name)
        return model


def answer_of(content: bytes, content_type: str, model: Model) -> Response:
    """Return bytes as an answer that names its model."""
    headers = {"content-type": content_type, MODEL_HEADER: model.name}
    return Response(content, headers=headers)


async def aside(is_large: bool, work: Callable[[], Result]) -> Result:
    """Do work here, or in a thread if it is large."""
    return await asyncio.to_thread(work) if is_large else work()


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, at most `limit` bytes of it in memory.

    Of a body that is too large as much again is read and thrown away: a client that is answered
    while it still sends often sees a broken connection instead of the answer.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
        elif size > 2 * limit:
            break
    if size > limit:
        headers = {"Connection": "close"}
        raise RefusalError(413, f"the body is too large; at most {limit} bytes are taken.", headers)
    return b"".join(parts)
