"""The log as JSON, one object in each line, written by a thread of its own.

No request waits for a disk or a terminal. Lines that cannot be written, or that come faster than
they can be written, are counted and left out: a full disk stops the log and not the service.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from logging.handlers import QueueHandler
from pathlib import Path
from queue import Full, Queue
from traceback import format_tb
from typing import IO, Any, Literal

from locuscore._shared.files import not_for_all
from locuscore.service._refusal import printable
from locuscore.service._request_log import LONGEST_ROWS

MOST_WAITING = 10_000  # lines
STOP_SECONDS = 5.0
REQUESTS = "locuscore.request"
LOGGERS = ("locuscore", REQUESTS, "uvicorn", "uvicorn.error")
LogFormat = Literal["text", "json"]


class _Formatter(logging.Formatter):
    """Of an error it tells where and of which type; what it says only where rows are logged.

    What a predictor says of a row that it cannot take often quotes the row.
    """

    def __init__(self, has_rows: bool = False) -> None:
        super().__init__()
        self._has_rows = has_rows

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback of an error, and those of its causes."""
        if self._has_rows:
            return super().formatException(ei)
        parts: list[str] = []
        error, seen = ei[1], set[int]()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            parts.insert(0, "".join(format_tb(error.__traceback__)) + type(error).__name__)
            is_hidden = error.__cause__ is None and error.__suppress_context__
            error = None if is_hidden else error.__cause__ or error.__context__
        return "\nand then\n".join(parts)


class JsonFormatter(_Formatter):
    """Time, level, logger and message, and the fields that a record has."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        found: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class TextFormatter(_Formatter):
    """The same for people: the fields of a request stand behind its line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and a traceback if there is one."""
        moment = datetime.fromtimestamp(record.created).astimezone()
        text = f"{moment:%Y-%m-%d %H:%M:%S%z} {record.levelname + ':':<9} {record.getMessage()}"
        fields = getattr(record, "fields", None)
        if fields:
            known = {"request_id", "milliseconds", "rows", "key", "body"}
            told = {k: v for k, v in fields.items() if k in known and v is not None}
            shown = [f"{k}={printable(str(v), LONGEST_ROWS)}" for k, v in told.items()]
            text = f"{text} ({', '.join(shown)})"
        return text + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


class Lost:
    """Counts lines that were not written, also those before there is a metric for them."""

    def __init__(self) -> None:
        self._n = 0
        self._count: Callable[[float], object] | None = None

    def __call__(self) -> None:
        """Count one."""
        if self._count is None:
            self._n += 1
        else:
            self._count(1)

    def counted_by(self, count: Callable[[float], object]) -> None:
        """Have this count from now on, and those before."""
        self._count = count
        count(self._n)


class Handler(QueueHandler):
    """Hands records to the thread; a full queue loses them."""

    def __init__(self, waiting: "Queue[Any]", lost: Callable[[], object]) -> None:
        super().__init__(waiting)
        self._lost = lost

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave the record as it is: the thread is of this process."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Count a record that finds no place."""
        try:
            self.queue.put_nowait(record)
        except Full:
            self._lost()


class Writer(logging.StreamHandler[IO[str]]):
    """Writes lines; counts those that the disk does not take."""

    def __init__(self, stream: IO[str], lost: Callable[[], object]) -> None:
        super().__init__(stream)
        self._lost = lost

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Say nothing: there is nowhere to say it."""
        self._lost()


@contextmanager
def logging_to(
    file: str | Path | None,
    how: LogFormat,
    level: str,
    lost: Callable[[], object],
    *,
    has_rows: bool = False,
) -> Iterator[Callable[[], None]]:
    """Write the log to a file, or to stderr; its lines are all written at the end.

    `has_rows` says that values of rows may be in it. What it yields writes the lines
    that wait now.
    """
    with ExitStack() as ends:
        stream: IO[str] = sys.stderr
        if file is not None:
            # Closed at the end; addresses of clients are in it, and perhaps rows.
            stream = open(file, "a", encoding="utf-8", opener=not_for_all)  # noqa: SIM115
            ends.callback(_close, stream)
        writer = Writer(stream, lost)
        made = JsonFormatter if how == "json" else TextFormatter
        writer.setFormatter(made(has_rows))
        waiting: Queue[Any] = Queue(MOST_WAITING)
        handler = Handler(waiting, lost)
        for name in LOGGERS:
            ends.callback(_restore, logging.getLogger(name), dict(vars(logging.getLogger(name))))
        for name in ("locuscore", "uvicorn"):
            one = logging.getLogger(name)
            one.handlers, one.propagate = [handler], False
            one.setLevel(level.upper())
        for name in ("uvicorn.error", REQUESTS):
            one = logging.getLogger(name)
            one.handlers, one.propagate = [], True
            one.setLevel(logging.NOTSET)
        if how == "text":  # people read of trouble, machines of every request
            logging.getLogger(REQUESTS).setLevel(logging.ERROR)
        thread = threading.Thread(target=_write, args=(waiting, writer), daemon=True)
        thread.start()
        ends.callback(_finish, waiting, thread)
        yield partial(_flush, waiting)


def _write(waiting: "Queue[Any]", writer: Writer) -> None:
    while (record := waiting.get()) is not None:
        if isinstance(record, threading.Event):
            record.set()
        else:
            writer.handle(record)


def _flush(waiting: "Queue[Any]") -> None:
    reached = threading.Event()
    with suppress(Full):
        waiting.put(reached, timeout=STOP_SECONDS)
        reached.wait(STOP_SECONDS)


def _finish(waiting: "Queue[Any]", thread: threading.Thread) -> None:
    """Write what waits; a terminal or disk that takes nothing any more is not waited for."""
    with suppress(Full):
        waiting.put(None, timeout=STOP_SECONDS)
        thread.join(STOP_SECONDS)


def _restore(logger: logging.Logger, before: dict[str, Any]) -> None:
    logger.handlers, logger.propagate = before["handlers"], before["propagate"]
    logger.setLevel(before["level"])


def _close(stream: IO[str]) -> None:
    with suppress(OSError):  # what the disk did not take was counted
        stream.close()
