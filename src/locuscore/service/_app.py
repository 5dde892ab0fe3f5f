"""The application: its routes, what each of them does, and how errors are answered.

Rows are not models of a web framework: their columns change when an archive is reloaded, they are
counted before they are parsed, and many of them are checked in a thread. Besides, as pydantic
models in FastAPI 10,000 rows cost more than twice the processor time.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
from locuscore.service._arrow_rows import read_table, stream, with_columns, without_ids
from locuscore.service._batching import Batcher, Group, OverloadError
from locuscore.service._body import read_body
from locuscore.service._guard import LABELS, PAGE, WATCH, Guard
from locuscore.service._ids import ID, as_column
from locuscore.service._json_rows import CONTENT_TYPE as JSON
from locuscore.service._json_rows import parse_rows, scored_rows
from locuscore.service._metrics import Metrics
from locuscore.service._model import Load, Model, Store, columns_of
from locuscore.service._openapi import describe
from locuscore.service._refusal import RefusalError, first_line
from locuscore.service._reload import Reloads
from locuscore.service._settings import Settings

if TYPE_CHECKING:
    from locuscore.service._watching import Watching

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
    watching = service.watching
    # `describe` has an entry for each of them, which a test checks.
    routes = [
        Route("/score", service.score, methods=["POST"]),
        Route("/model", service.model),
        Route("/healthz", service.healthz),
        Route("/metrics", service.metrics_text),
        Route("/openapi.json", service.openapi),
        Route("/reload", service.reload, methods=["POST"]),
    ]
    if watching is not None:
        routes += [
            Route(LABELS, watching.labels, methods=["POST"]),
            Route(WATCH, watching.watch),
            Route(PAGE, watching.page),
        ]
    paths = [route.path for route in routes]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(service.start)
        yield
        await asyncio.to_thread(service.close)

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
        self.watching = self._opened() if settings.ledger is not None else None
        self.batcher = Batcher(
            settings.gather_seconds,
            settings.max_batch_rows,
            settings.max_requests,
            metrics.batch_rows.observe,
            metrics.unseen,
        )

    def _opened(self) -> "Watching":
        from locuscore.service._watching import watching  # noqa: PLC0415 - needs an extra

        return watching(self.store, self.settings, self.metrics.registry)

    def start(self) -> None:
        """Open the ledger in this process, if there is one."""
        if self.watching is not None:
            self.watching.recorder.start()

    def close(self) -> None:
        """Score what waits, hand what is kept to the ledger, and stop."""
        self.batcher.close()
        if self.watching is not None:
            self.watching.close()

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
        columns, n, ids = await aside(is_large, lambda: parse_rows(body, schema, limit))
        found = await self._scored(model, "score_json", columns, n, ids)
        self.metrics.scored(found, n, model.scorer.columns)

        def text() -> bytes:
            content = {"model": model.name, "rows": scored_rows(found, model.bounds)}
            return json.dumps(content, allow_nan=False, default=str).encode()

        return answer_of(await aside(is_large, text), JSON, model)

    async def _score_arrow(self, body: bytes, model: Model) -> Response:
        schema, limit = model.scorer.schema, self.settings.max_rows
        table, ids = await aside(True, lambda: without_ids(read_table(body, limit), schema))
        found = await self._scored(model, "score_arrow", table, table.num_rows, ids)
        self.metrics.scored(columns_of(found), table.num_rows, model.scorer.columns)
        return answer_of(await aside(True, lambda: stream(found)), ARROW, model)

    async def _scored(self, model: Model, how: str, rows: Any, n: int, ids: Any) -> Any:
        """Score rows; with a ledger they are also kept."""
        watching = self.watching
        scores = model if watching is None else watching.decisions(model)
        part = rows if watching is None else watching.rows(rows, n, ids)
        try:
            group: Group = getattr(scores, how)
            found = await asyncio.wrap_future(self.batcher.submit(group, part, n))
        except OverloadError:
            sentence = "the queue is full; try again."
            raise RefusalError(503, sentence, {"Retry-After": "1"}) from None
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise RefusalError(422, f"the rows cannot be scored: {first_line(error)}") from None
        if watching is not None:
            return watching.kept(found)
        return found if ids is None else with_ids(found, ids)

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
        if self.watching is not None:
            self.watching.update_metrics()
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
            model = self.store.read()
            if self.watching is not None:
                self.watching.deploy(model.scorer)
            self.store.current = model
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


def with_ids(answer: Any, ids: Sequence[str]) -> Any:
    """Return an answer, columns or a table, with the ids that came with its rows."""
    column = {ID: as_column(ids)}
    return column | answer if isinstance(answer, dict) else with_columns(answer, column)


async def aside(is_large: bool, work: Callable[[], Result]) -> Result:
    """Do work here, or in a thread if it is large."""
    return await asyncio.to_thread(work) if is_large else work()
