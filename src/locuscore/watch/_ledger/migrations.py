"""Makes the tables of a new ledger, and brings an older one to the present version."""

import secrets
from collections.abc import Callable

from sqlalchemy import Connection, insert, inspect, select, text, update

from locuscore.watch._ledger.connection import Database, LedgerError
from locuscore.watch._ledger.tables import LEDGER, METADATA, VERSION

# From each version to the next one. A step names the tables as they were then, not as they are
# in tables.py now: it runs in one transaction with all the others.
STEPS: dict[int, Callable[[Connection], None]] = {}
LOCK = 0x10C5C07E  # two processes that open a new ledger at once


def prepare(database: Database) -> None:
    """Make or upgrade the tables; refuse a ledger of a later version."""
    with database.reading() as connection:
        if _version(connection) == VERSION:
            return
    with database.writing() as connection:
        if database.is_postgres:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        version = _version(connection)
        if version is None:
            _create(connection, database.now(connection))
            return
        if version > VERSION:
            raise LedgerError(
                f"the ledger {database!r} has version {version}, and this locuscore reads "
                f"versions up to {VERSION}; upgrade locuscore."
            )
        for step in range(version, VERSION):
            STEPS[step](connection)
        connection.execute(update(LEDGER).values(version=VERSION))


def _version(connection: Connection) -> int | None:
    if not inspect(connection).has_table(LEDGER.name):
        return None
    return connection.scalar(select(LEDGER.c.version))


def _create(connection: Connection, now: int) -> None:
    METADATA.create_all(connection)
    start = {"one": 1, "version": VERSION, "secret": secrets.token_hex(32), "created_at": now}
    counts = {"last_seq": 0, "last_label": 0, "last_written_at": now}
    connection.execute(insert(LEDGER).values(start | counts))
