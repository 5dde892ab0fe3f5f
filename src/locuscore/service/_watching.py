"""The routes of a ledger: labels in, the status out. Nobody else waits for the database."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from locuscore import Scorer
from locuscore.service._body import content_kind, read_body
from locuscore.service._decisions import Decisions
from locuscore.service._json_rows import CONTENT_TYPE as JSON
from locuscore.service._labels import Labels, parse_labels
from locuscore.service._model import Model, Store
from locuscore.service._refusal import RefusalError, first_line
from locuscore.service._settings import Settings
from locuscore.service._watch_metrics import WatchMetrics
from locuscore.watch import LedgerError, Recorder, SpoolError, Status

MOST_WAITING = 16  # requests that wait for the database
THREADS = 2
AGAIN = {"Retry-After": "5"}
# The page has its script in it and asks nobody for anything.
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
log = logging.getLogger("locuscore.service")
Result = TypeVar("Result")


def watching(store: Store, settings: Settings, registry: CollectorRegistry) -> "Watching":
    """Open the ledger of the settings for the model in use."""
    given = settings.ledger
    assert given is not None
    if given.spool is None and store.path is None:
        raise ValueError(
            "decisions of a scorer in memory wait for the ledger in a folder; name one with "
            "LedgerSettings(store, spool=...)."
        )
    recorder = Recorder(
        given.store,
        store.current.scorer,
        given.spool or f"{store.path}.spool",
        is_optional=given.is_optional,
        max_bytes=given.max_spool_bytes,
        keep_signals=given.keep_signals,
        settings=given.watched,
    )
    return Watching(recorder, settings, given.status_seconds, registry)


class Statuses:
    """The latest status: computed in a thread, one at a time, and at most every few seconds."""

    def __init__(self, compute: Callable[[], Status], seconds: float) -> None:
        self.latest: Status | None = None
        self._compute, self._seconds = compute, seconds
        self._made_at = -float("inf")
        self._lock = threading.Lock()
        self._running: Future[Status] | None = None

    def ask(self, threads: ThreadPoolExecutor) -> "Future[Status]":
        """Return a status that is at most a few seconds old, when it is there."""
        with self._lock:
            if self._running is not None:
                return self._running
            if self.latest is not None and time.monotonic() - self._made_at < self._seconds:
                done: Future[Status] = Future()
                done.set_result(self.latest)
                return done
            self._running = threads.submit(self._run)
            return self._running

    def _run(self) -> Status:
        try:
            self.latest = self._compute()
            self._made_at = time.monotonic()
            return self.latest
        finally:
            with self._lock:
                self._running = None


class Watching:
    """What the routes of a ledger do."""

    def __init__(
        self,
        recorder: Recorder,
        settings: Settings,
        status_seconds: float,
        registry: CollectorRegistry,
    ) -> None:
        self.recorder, self.settings = recorder, settings
        self.statuses = Statuses(recorder.status, status_seconds)
        self.metrics = WatchMetrics(registry)
        # Threads of their own: a database that hangs must not hold up the parsing of rows.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="locuscore-ledger")
        self._waiting = 0
        self._decisions: Decisions | None = None

    def decisions(self, model: Model) -> Decisions:
        """What scores and keeps rows of a model; the same object for all requests of one."""
        if self._decisions is None or self._decisions.model is not model:
            self._decisions = Decisions(model, self.recorder)
        return self._decisions

    def rows(self, rows: Any, n: int, ids: list[str] | None) -> tuple[Any, list[str]]:
        """Rows of a request with their ids, made here if it has none."""
        return rows, self.recorder.new_ids(n) if ids is None else ids

    def kept(self, found: Any) -> Any:
        """Return an answer, or refuse the request if its decisions could not be kept."""
        if isinstance(found, SpoolError):
            log.error("decisions cannot be kept: %s", first_line(found))
            sentence = "the decision cannot be kept now, so none is made; try again."
            raise RefusalError(503, sentence, AGAIN)
        return found

    def deploy(self, scorer: Scorer) -> None:
        """Note that another scorer decides from now on."""
        try:
            self.recorder.deploy(scorer)
        except LedgerError as error:
            raise OSError(first_line(error)) from None

    async def labels(self, request: Request) -> Response:
        """Add labels, which may come before their decisions, twice, or corrected."""
        content_kind(request.scope, [JSON])
        body = await read_body(request.receive, self.settings.max_body_bytes)
        found = await self._aside(lambda: self._write(body))
        return _json({"new": found.new, "known": found.known})

    def _write(self, body: bytes) -> Any:
        given: Labels = parse_labels(body, self.settings.max_rows)
        try:
            return self.recorder.label(
                given.ids, given.y, losses=given.losses, times=given.times, source=given.source
            )
        except ValueError as error:
            raise RefusalError(422, f"the labels cannot be kept: {first_line(error)}") from None

    async def watch(self, request: Request) -> Response:
        """Return the status, as JSON or, for a browser, as a page."""
        if _wants_page(request.headers.get("accept", "")):
            return await self.page(request)
        status = await self._status()
        return _json(status.to_json())

    async def page(self, request: Request) -> Response:
        """Return the status as a page."""
        status = await self._status()
        return HTMLResponse(
            await self._aside(lambda: self.recorder.page(status)), 200, PAGE_HEADERS
        )

    async def _status(self) -> Status:
        return await self._told(self.statuses.ask(self._threads))

    def update_metrics(self) -> None:
        """Tell Prometheus the latest status, and have a newer one made if it is old."""
        with_errors_in_the_log(self.statuses.ask(self._threads))
        self.metrics.update(self.recorder, self.statuses.latest)

    async def _aside(self, work: Callable[[], Result]) -> Result:
        if self._waiting >= MOST_WAITING:
            raise RefusalError(503, "too many requests wait for the ledger; try again.", AGAIN)
        self._waiting += 1
        future = self._threads.submit(work)
        try:
            return await self._told(future)
        except BaseException:
            future.cancel()  # nobody waits for it any more; its place is given to another
            raise
        finally:
            self._waiting -= 1

    async def _told(self, future: "Future[Result]") -> Result:
        """Wait for a result of the ledger; its troubles are in the log, not in the answer."""
        limit = self.settings.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(asyncio.wrap_future(future))
        except LedgerError as error:
            log.error("the ledger failed: %s", first_line(error))
            raise RefusalError(503, "the ledger cannot be used now; try again.", AGAIN) from None
        except TimeoutError:
            raise RefusalError(
                504, f"the ledger gave no answer within {limit:g} seconds."
            ) from None

    def close(self) -> None:
        """Hand what is kept to the ledger, and stop."""
        self._threads.shutdown(wait=True)
        self.recorder.close()


def with_errors_in_the_log(future: "Future[Any]") -> None:
    """Log how a computation failed that nobody waits for."""

    def tell(done: "Future[Any]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            log.error("there is no new status: %s", first_line(error))

    future.add_done_callback(tell)


def _wants_page(accept: str) -> bool:
    """Whether HTML stands in the Accept header, before JSON."""
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return "text/html" in kinds and JSON not in kinds[: kinds.index("text/html")]


def _json(content: Any) -> Response:
    text = content if isinstance(content, str) else json.dumps(content)
    return Response(text, headers={"content-type": JSON, "Cache-Control": "no-store"})
