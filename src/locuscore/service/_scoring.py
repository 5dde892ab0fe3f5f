"""``POST /score``: rows in, scored rows out.

Most requests are single rows, whose scores take a millisecond. So this route is plain ASGI: what a
framework does for each request would cost as much again.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic_core import to_json
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from locuscore.service._arrow_rows import CONTENT_TYPE as ARROW
from locuscore.service._arrow_rows import read_table, stream, with_columns, without_ids
from locuscore.service._batching import Batcher, Group, OverloadError
from locuscore.service._body import content_kind, read_body
from locuscore.service._ids import ID, as_column
from locuscore.service._json_rows import CONTENT_TYPE as JSON
from locuscore.service._json_rows import parse_rows
from locuscore.service._model import JsonRows, Model, Store
from locuscore.service._refusal import RefusalError, first_line
from locuscore.service._request_log import KEY, Facts
from locuscore.service._settings import Settings

if TYPE_CHECKING:
    from locuscore.service._watching import Watching

LARGE_BODY = 2**16  # bytes; larger ones are parsed in a thread, so that the event loop stays free
LARGE_ANSWER = 500  # rows; likewise
MODEL_HEADER = b"locuscore-model"


class Scoring:
    """The route, as an ASGI application; it answers its own refusals."""

    def __init__(
        self, store: Store, settings: Settings, batcher: Batcher, watching: "Watching | None"
    ) -> None:
        self.store, self.settings = store, settings
        self.batcher, self.watching = batcher, watching

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self._answer(scope, receive, send)
        except RefusalError as error:
            refused = JSONResponse({"error": error.detail}, error.status_code, error.headers)
            await refused(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = content_kind(scope, (JSON, ARROW))
        answer = self._score_json if kind == JSON else self._score_arrow
        model, facts = self.store.current, scope[KEY]
        facts.model = model.name
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                body = await read_body(receive, self.settings.max_body_bytes)
                if self.settings.log_rows and kind == JSON:
                    facts.body = body
                content = await answer(body, model, facts)
        except TimeoutError:
            limit = self.settings.timeout_seconds
            raise RefusalError(504, f"there was no answer within {limit:g} seconds.") from None
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", b"%d" % len(content)),
            (MODEL_HEADER, model.name.encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _score_json(self, body: bytes, model: Model, facts: Facts) -> bytes:
        schema, limit = model.scorer.schema, self.settings.max_rows
        if len(body) > LARGE_BODY:
            columns, n, ids = await asyncio.to_thread(parse_rows, body, schema, limit)
        else:
            columns, n, ids = parse_rows(body, schema, limit)
        facts.rows = n
        found: JsonRows = await self._scored(model, "score_json", columns, n, ids)
        if ids is not None and self.watching is None:
            found = [{ID: one, **row} for one, row in zip(ids, found, strict=True)]
        content = {"model": model.name, "rows": found}
        if n > LARGE_ANSWER:
            return await asyncio.to_thread(json_bytes, content)
        return json_bytes(content)

    async def _score_arrow(self, body: bytes, model: Model, facts: Facts) -> bytes:
        schema, limit = model.scorer.schema, self.settings.max_rows

        def parse() -> tuple[pa.Table, list[str] | None]:
            return without_ids(read_table(body, limit), schema)

        table, ids = await asyncio.to_thread(parse)
        facts.rows = table.num_rows
        found = await self._scored(model, "score_arrow", table, table.num_rows, ids)
        if ids is not None and self.watching is None:
            found = with_columns(found, {ID: as_column(ids)})
        return await asyncio.to_thread(stream, found)

    async def _scored(
        self, model: Model, how: str, rows: Any, n: int, ids: list[str] | None
    ) -> Any:
        """Score rows; with a ledger they are also kept."""
        watching = self.watching
        scores = model if watching is None else watching.decisions(model)
        part = rows if watching is None else watching.rows(rows, n, ids)
        try:
            group: Group = getattr(scores, how)
            found = await self.batcher.ask(group, part, n)
        except OverloadError:
            sentence = "the queue is full; try again."
            raise RefusalError(503, sentence, {"Retry-After": "1"}) from None
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise RefusalError(422, f"the rows cannot be scored: {first_line(error)}") from None
        return found if watching is None else watching.kept(found)


def json_bytes(content: Any) -> bytes:
    """Return JSON; what it has no type for, such as a class of a predictor, becomes text."""
    return to_json(content, fallback=str)
