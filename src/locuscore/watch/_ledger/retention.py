"""Forgets old decisions and labels; sums, evidence and events stay."""

from collections.abc import Iterator

from sqlalchemy import Connection, and_, delete, false, or_, select, true, update

from locuscore.watch._ledger.connection import Database
from locuscore.watch._ledger.tables import DECISIONS, DEPLOYMENTS, LABELS, LEDGER

D, L = DECISIONS.c, LABELS.c
AT_ONCE = 10_000  # rows in one transaction, so that writers wait for moments only


def portions(database: Database, before: int, untested_too: bool) -> Iterator[list[int]]:
    """Numbers of the decisions made before a time, some at a time.

    Found by one pass over the ledger while others write. Rows that the evidence has not seen yet
    are left out, unless `untested_too`.
    """
    cursors = select(DEPLOYMENTS.c.number, DEPLOYMENTS.c.cursor)
    after = 0
    while True:
        with database.reading() as connection:
            tested = [
                and_(D.deployment == number, D.seq <= cursor)
                for number, cursor in connection.execute(cursors)
            ]
            which = true() if untested_too else or_(false(), *tested)
            query = select(D.seq).where(D.seq > after, D.time < before, which).order_by(D.seq)
            found = list(connection.scalars(query.limit(AT_ONCE)))
        if not found:
            return
        yield found
        after = found[-1]


def delete_rows(connection: Connection, numbers: list[int]) -> None:
    """Delete decisions with their labels."""
    connection.execute(delete(LABELS).where(L.seq.in_(numbers)))
    connection.execute(delete(DECISIONS).where(D.seq.in_(numbers)))


def forget_waiting(connection: Connection, before: int) -> int:
    """Delete labels whose decision never came; note up to when all was forgotten."""
    gone = delete(LABELS).where(L.seq.is_(None), L.written_at < before, L.time < before)
    n = connection.execute(gone).rowcount
    limit = connection.scalar(select(LEDGER.c.forgotten_before)) or 0
    connection.execute(update(LEDGER).values(forgotten_before=max(limit, before)))
    return n
