"""Forgets old decisions and labels; sums, evidence and events stay."""

from sqlalchemy import Connection, and_, delete, or_, select, update

from locuscore.watch._ledger.columns import DAY
from locuscore.watch._ledger.tables import DECISIONS, DEPLOYMENTS, LABELS, LEDGER

D, L = DECISIONS.c, LABELS.c
AT_ONCE = 20_000  # rows in one transaction, so that writers wait for moments only


def forget_some(connection: Connection, before: int, untested_too: bool) -> int:
    """Delete one portion of the decisions made before a time, with their labels.

    Rows that the evidence has not seen yet stay, unless `untested_too`.
    """
    cursors = select(DEPLOYMENTS.c.number, DEPLOYMENTS.c.cursor)
    parts = [
        and_(D.deployment == number, D.day <= before // DAY)
        & (True if untested_too else D.seq <= cursor)
        for number, cursor in connection.execute(cursors)
    ]
    if not parts:
        return 0
    query = select(D.seq).where(or_(*parts), D.time < before).limit(AT_ONCE)
    chosen = list(connection.scalars(query))
    if chosen:
        connection.execute(delete(LABELS).where(L.seq.in_(chosen)))
        connection.execute(delete(DECISIONS).where(D.seq.in_(chosen)))
    return len(chosen)


def forget_waiting(connection: Connection, before: int) -> int:
    """Delete labels whose decision never came; note up to when all was forgotten."""
    gone = delete(LABELS).where(L.seq.is_(None), L.written_at < before, L.time < before)
    n = connection.execute(gone).rowcount
    limit = connection.scalar(select(LEDGER.c.forgotten_before)) or 0
    connection.execute(update(LEDGER).values(forgotten_before=max(limit, before)))
    return n
