"""Opens the database, and says what went wrong there without telling the password."""

import json
import os
import re
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from locuscore._shared.files import not_for_all

BUSY_SECONDS = 30
CONNECT_SECONDS = 10
# A connection that a firewall has dropped would otherwise be waited for.
ALIVE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
ALIVE |= {"tcp_user_timeout": 1_000 * BUSY_SECONDS}
SHORTEST_HIDDEN = 4  # a shorter password could be part of any word
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
WRITES = "locuscore_writes"
# As the name of a file: a mistyped URL, whose password would be told with the name.
LIKE_A_URL = re.compile(r"postgres\w*(\+\w+)?:|.*\bpassword=", re.IGNORECASE)


class LedgerError(RuntimeError):
    """The ledger cannot do what it was asked for.

    Examples
    --------
    ::

        try:
            watch.label(ids, y)
        except LedgerError as error:  # its text says what was wrong
            ...
    """


class LedgerDownError(LedgerError):
    """The database cannot be reached or cannot write at present; later it may.

    Examples
    --------
    ::

        try:
            watch.label(ids, y)
        except LedgerDownError:  # keep the labels, and hand them in later
            ...
    """


class LedgerRefusedError(LedgerError, ValueError):
    """The database will never take these values."""


def kept_json(text: str, what: str) -> Any:
    """Read JSON that the ledger wrote itself; one sentence if somebody changed it."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise LedgerError(
            f"the ledger is damaged: its {what} cannot be read as JSON; restore it from a backup."
        ) from None


class Database:
    """An engine of SQLAlchemy whose errors are one sentence without the password.

    On SQLite every writer begins with the write lock (BEGIN IMMEDIATE), so it cannot fail halfway
    for a lock that another process holds. Commits wait for the disk: a spool may delete what is
    committed.
    """

    def __init__(self, url: str, clock: Callable[[], int] | None = None) -> None:
        self._secrets = _secrets(url)
        self.url = _checked(url)
        self._clock = clock
        self._file: tuple[int, int] | None = None
        self.engine = self._opened()
        # A ledger that nobody closed is closed when it is dropped.
        weakref.finalize(self, self.engine.dispose)

    def __repr__(self) -> str:
        return self.url.render_as_string(hide_password=True).partition("?")[0]

    @property
    def is_postgres(self) -> bool:
        return self.url.get_backend_name() == "postgresql"

    def now(self, connection: Connection) -> int:
        """Microseconds since 1970 by the clock of the database, which all its users share."""
        if self._clock is not None:
            return self._clock()
        if self.is_postgres:
            seconds = func.extract("epoch", func.clock_timestamp())
            return int(float(connection.scalar(select(seconds)) or 0) * 1e6)
        return time.time_ns() // 1000

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._told(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in one transaction, which is kept whole or not at all."""
        with self._told(), self.engine.connect() as connection:
            writer = connection.execution_options(**{WRITES: True})
            with writer.begin():
                yield writer

    def close(self) -> None:
        self.engine.dispose()

    def _opened(self) -> Engine:
        if self.is_postgres:
            options = ALIVE | {"connect_timeout": CONNECT_SECONDS, "application_name": "locuscore"}
        else:
            options = {"timeout": BUSY_SECONDS}
        engine = create_engine(
            self.url, connect_args=options, hide_parameters=True, pool_pre_ping=True
        )
        if not self.is_postgres:
            event.listen(engine, "do_connect", lambda *_: self._check_file())
            event.listen(engine, "do_connect", lambda *_: _make_file(self.url.database))
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "connect", lambda *_: self._note_file())
            event.listen(engine, "checkout", lambda *_: self._check_file())
            event.listen(engine, "begin", _begin_sqlite)
        else:
            event.listen(engine, "connect", _prepare_postgres)
        return engine

    def _note_file(self) -> None:
        if self._file is None:
            self._file = _identity(self.url.database)

    def _check_file(self) -> None:
        """Refuse to go on with another file of SQLite than the first one.

        Whatever is written to a file that was deleted is lost, and nothing says so.
        """
        if self._file is not None and _identity(self.url.database) != self._file:
            raise sqlite3.OperationalError(
                "the file was removed or replaced; put it back, or start again with the new one."
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn errors of the database into ours, in one line and without secrets."""
        driver = self.engine.dialect.loaded_dbapi
        try:
            yield
        except (SQLAlchemyError, driver.Error) as error:
            cause = getattr(error, "orig", None) or error
            # Without its cause: the driver's error may hold what the message must not.
            raise _kind(error, driver)(self._sentence(cause)) from None

    def _sentence(self, cause: BaseException) -> str:
        text = " ".join(str(cause).split())
        if any(len(secret) < SHORTEST_HIDDEN for secret in self._secrets):
            text = type(cause).__name__
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return f"the ledger {self!r} answers: {text}"


def _kind(error: Exception, driver: Any) -> type[LedgerError]:
    """Errors of the driver come as they are from COPY, and wrapped from everything else."""
    if isinstance(error, DataError | IntegrityError | driver.DataError | driver.IntegrityError):
        return LedgerRefusedError
    down = OperationalError | InterfaceError | PoolTimeoutError | driver.OperationalError
    return LedgerDownError if isinstance(error, down | driver.InterfaceError) else LedgerError


def _checked(url: str) -> URL:
    """Read the URL; what is wrong with it is told without repeating it."""
    try:
        found = make_url(url)
        backend = found.get_backend_name()
        if "@" in (found.host or "") or LIKE_A_URL.match(found.database or ""):
            raise ValueError
    except Exception:  # whatever it is, its text may have part of the password
        raise LedgerError(
            "the URL of the ledger cannot be read; expected sqlite:///decisions.db or "
            "postgresql://user:password@host/name, with special characters of the password "
            "written as %40 for @, %2F for / and so on."
        ) from None
    if backend not in DRIVERS:
        raise LedgerError(
            f"a ledger is kept in SQLite or PostgreSQL, not in {backend!r}; "
            "expected sqlite:///decisions.db or postgresql://user:password@host/name."
        )
    if backend == "sqlite" and found.database in (None, "", ":memory:"):
        raise LedgerError(
            "a ledger in memory is lost with the process; give a file, sqlite:///decisions.db."
        )
    return found.set(drivername=DRIVERS[backend])


def _secrets(url: str) -> set[str]:
    """All that could be the password, as it is written and as it is meant."""
    found = re.findall(r"://[^:@/]*:(.*)@", url) + re.findall(r"password=([^&]*)", url)
    return {form for text in found for form in (text, unquote(text)) if form}


def _identity(path: str | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_file(path: str | None) -> None:
    """Make the file of SQLite, which would let all on the machine read it.

    The files beside it get the permissions of this one.
    """
    if path is None or path.startswith("file:"):  # a URI with options of SQLite
        return
    with suppress(OSError):  # it is there, or SQLite says what is wrong
        os.close(not_for_all(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def _prepare_sqlite(connection, _record) -> None:  # type: ignore[no-untyped-def]
    connection.isolation_level = None  # transactions begin below, not by the driver's guess
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "cache_size=-65536"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_postgres(connection, _record) -> None:  # type: ignore[no-untyped-def]
    # Otherwise a lock that somebody keeps would hold up everything, the end of a service too.
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{BUSY_SECONDS}s'")
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
