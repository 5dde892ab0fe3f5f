"""The application: routes, and what stands in front of them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from locuscore import ArchiveError, Scorer
from locuscore.service._arrow_rows import CONTENT_TYPE as ARROW
from locuscore.service._arrow_rows import read_table, stream
from locuscore.service._batching import Batcher, Group, OverloadError
from locuscore.service._guard import Guard
from locuscore.service._json_rows import parse_rows, scored_rows
from locuscore.service._metrics import Metrics
from locuscore.service._model import Load, Model, Store, columns_of
from locuscore.service._openapi import describe
from locuscore.service._reload import Reloads
from locuscore.service._settings import RefusalError, Settings, first_line

JSON = "application/json"
LARGE_BODY = 2**16  # larger ones are parsed beside the event loop, which others need meanwhile
MODEL_HEADER = "Locuscore-Model"
READ = ["GET", "HEAD"]
log = logging.getLogger("locuscore.service")
Result = TypeVar("Result")


def create_app(
    source: str | Path | Scorer, settings: Settings | None = None, *, load: Load = Scorer.load
) -> FastAPI:
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
    store, metrics = Store(source, load, settings.archive_key), Metrics()
    service = Service(store, settings, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    app = FastAPI(
        title="locuscore", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.service = service
    # A plain route: the description is our own, and every layer costs each single row.
    app.add_route("/score", service.score, methods=["POST"])
    app.add_api_route("/model", service.model, methods=READ)
    app.add_api_route("/healthz", service.healthz, methods=READ)
    app.add_api_route("/metrics", service.metrics_text, methods=READ)
    app.add_api_route("/reload", service.reload, methods=["POST"])
    app.openapi = lambda: describe(store.current, settings)  # type: ignore[method-assign]
    app.add_api_route("/openapi.json", lambda: JSONResponse(app.openapi()), methods=READ)
    app.add_exception_handler(RefusalError, _refused)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return JSONResponse({"error": str(error)}, error.status, error.headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": f"{error.detail}."}, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    # The server logs the error and hangs up: the client is told of the second, not of the first.
    headers = {"Connection": "close"}
    return JSONResponse({"error": "the service failed; its log says why."}, 500, headers)


class Service:
    """What the routes do."""

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
        found = await self._scored(model.json_rows, columns, n)
        self.metrics.scored(found, n, model.scorer.columns)

        def text() -> bytes:
            content = {"model": model.name, "rows": scored_rows(found, model.bounds)}
            return json.dumps(content, allow_nan=False, default=str).encode()

        return answer_of(await aside(is_large, text), JSON, model)

    async def _score_arrow(self, body: bytes, model: Model) -> Response:
        table = await aside(True, lambda: read_table(body, self.settings.max_rows))
        found = await self._scored(model.arrow_rows, table, table.num_rows)
        self.metrics.scored(columns_of(found), table.num_rows, model.scorer.columns)
        return answer_of(await aside(True, lambda: stream(found)), ARROW, model)

    async def _scored(self, group: Group, part: Any, n: int) -> Any:
        try:
            return await asyncio.wrap_future(self.batcher.submit(group, part, n))
        except OverloadError:
            sentence = "too many requests wait; try again."
            raise RefusalError(503, sentence, {"Retry-After": "1"}) from None
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise RefusalError(422, f"the rows cannot be scored: {first_line(error)}") from None

    async def model(self) -> Response:
        """Return the guarantee card and the facts of the manifest."""
        return JSONResponse(self.store.current.facts)

    async def healthz(self) -> Response:
        """Say whether rows can be scored."""
        if not self.batcher.is_alive:
            raise RefusalError(503, "the scoring thread has stopped.")
        return JSONResponse({"status": "ok"})

    async def metrics_text(self) -> Response:
        """Return counters for Prometheus."""
        return Response(self.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def reload(self) -> Response:
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
            # Others may wait for the same load.
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
    """Do work here, or in another thread if it is much."""
    return await asyncio.to_thread(work) if is_large else work()


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body; one that is too large is not kept, and answered when it ends or doubles."""
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
