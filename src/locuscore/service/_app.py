"""The application: its routes, what each of them does, and how errors are answered.

Rows are not models of a web framework: their columns change when an archive is reloaded, they are
counted before they are parsed, and many of them are checked in a thread. Besides, as pydantic
models in FastAPI 10,000 rows cost more than twice the processor time.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from locuscore import ArchiveError, Scorer
from locuscore.service._batching import Batcher, OverloadError
from locuscore.service._docs_page import docs_page
from locuscore.service._guard import LABELS, PAGE, SCORE, WATCH, Guard
from locuscore.service._keys import Keys
from locuscore.service._metrics import Metrics
from locuscore.service._model import Load, Model, Store
from locuscore.service._openapi import describe
from locuscore.service._refusal import RefusalError, first_line
from locuscore.service._reload import Reloads, compare
from locuscore.service._scoring import Scoring
from locuscore.service._settings import Settings

if TYPE_CHECKING:
    from locuscore.service._watching import Watching

log = logging.getLogger("locuscore.service")


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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.service import Settings, create_app
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> app = create_app(scorer, Settings(max_rows=1000))
    >>> sorted(route.path for route in app.routes)[:3]
    ['/docs', '/healthz', '/livez']
    """
    settings = settings or Settings()
    metrics = Metrics()
    store = Store(source, load, settings.archive_key, metrics.scored)
    service = Service(store, settings, metrics)
    watching, scoring = (
        service.watching,
        Scoring(store, settings, service.batcher, service.watching),
    )
    # `describe` has an entry for each of them, which a test checks.
    routes = [
        Route(SCORE, scoring, methods=["POST"]),
        Route("/model", service.model),
        Route("/healthz", service.healthz),
        Route("/livez", service.livez),
        Route("/readyz", service.readyz),
        Route("/metrics", service.metrics_text),
        Route("/openapi.json", service.openapi),
        Route("/docs", service.docs),
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
        middleware=[Middleware(Guard, scoring, settings, service.keys, metrics, paths)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
        lifespan=lifespan,
    )
    app.state.service = service
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = error.detail
    if error.status_code == 405:
        told = f"this route takes {(error.headers or {}).get('Allow', 'another method')}."
    elif error.status_code == 404 and not isinstance(error, RefusalError):
        told = "there is no such route; GET /openapi.json lists them."
    return JSONResponse({"error": told}, error.status_code, error.headers)


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
        self.keys = Keys(settings)
        self.is_draining = False
        self._probing: tuple[Model, asyncio.Future[Any]] | None = None
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

    async def model(self, request: Request) -> Response:
        """Return the guarantee card and the facts of the manifest."""
        return JSONResponse(self.store.current.facts)

    async def healthz(self, request: Request) -> Response:
        """Say whether rows can be scored."""
        if not self.batcher.is_alive:
            raise RefusalError(503, "the scoring thread has stopped.")
        return JSONResponse({"status": "ok"})

    async def livez(self, request: Request) -> Response:
        """Say that the process answers; a service that does not is to be started again."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Say whether rows would be scored now, by scoring some that the model brings along."""
        if self.is_draining:
            raise RefusalError(503, "the service is about to stop.")
        model = self.store.current
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                await asyncio.shield(self._probed(model))
        except (OverloadError, TimeoutError):
            raise RefusalError(503, "too many rows wait to be scored.") from None
        except Exception as error:  # a predictor may raise anything
            # Its type only: what it says may quote a row.
            log.error("the probe cannot be scored (%s)", type(error).__name__)
            raise RefusalError(503, "the model cannot score; the log says why.") from None
        return JSONResponse({"status": "ok", "model": model.name})

    def _probed(self, model: Model) -> "asyncio.Future[Any]":
        """Score the probe, once for all who ask meanwhile: anybody may, and in any number."""
        asked, loop = self._probing, asyncio.get_running_loop()
        is_same = asked is not None and asked[0] is model and asked[1].get_loop() is loop
        if asked is None or not is_same or asked[1].done():
            future = self.batcher.ask(model.score_probe, None, 0)
            # Seen even if all who asked have gone.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            asked = self._probing = (model, future)
        return asked[1]

    async def docs(self, request: Request) -> Response:
        """Return the description as a page, on which requests can be tried."""
        return docs_page()

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
        if not self.keys.are_asked:
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
            compared = compare(self.store.current, model)
            if not (compared.is_same_schema or self.settings.allow_another_schema):
                raise ArchiveError(f"it takes other rows: {compared.schema}")
            if self.watching is not None:
                self.watching.deploy(model.scorer)
            self.store.current = model
        except Exception as error:
            self.metrics.reloads.labels("false").inc()
            log.error("the old model stays: %s", first_line(error))
            raise
        self.metrics.reloads.labels("true").inc()
        log.info("the model is now %s; %s", model.name, compared.words)
        return model
