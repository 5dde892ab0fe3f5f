"""Reads rows in pages and sums by day; nothing here reads the whole ledger."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, tuple_

from locuscore.watch._ledger.columns import Columns, arrays
from locuscore.watch._ledger.connection import kept_json
from locuscore.watch._ledger.tables import DAILY, DECISIONS, DEPLOYMENTS, EVENTS, LABELS, LEDGER

D, L = DECISIONS.c, LABELS.c
LABEL_COLUMNS = {"loss": L.loss, "y": L.y, "label_time": L.time.label("label_time")}
USUAL = (
    *("seq", "id", "time", "bounds", "score", "probability", "flagged", "group_name"),
    *("cluster", "chance", "drawn", "loss", "label_time"),
)


def rows(
    connection: Connection,
    number: int,
    n_alphas: int,
    after_seq: int,
    up_to_seq: int,
    limit: int,
    columns: Sequence[str] = USUAL,
    only_drawn: bool = False,
) -> Columns:
    """Decisions of a deployment in order, with the label each has now; its loss is NaN if none."""
    wanted = [LABEL_COLUMNS[c] if c in LABEL_COLUMNS else D[c] for c in columns]
    joined = DECISIONS.outerjoin(LABELS, and_(L.seq == D.seq, L.current))
    where: list[ColumnElement[bool]] = [D.deployment == number, D.seq > after_seq]
    where += [D.seq <= up_to_seq, *([D.drawn] if only_drawn else [])]
    query = select(*wanted).select_from(joined).where(*where).order_by(D.seq).limit(limit)
    found: Sequence[Any] = connection.execute(query).all()
    return arrays(found, columns, n_alphas)


def last_written(
    connection: Connection, after_seq: int, before: int, number: int | None = None
) -> int:
    """Return the last number up to which all rows were written before a time, by bisection.

    The time of writing never decreases with the number, whatever the clock did. Of one
    deployment, or of all.
    """
    last = select(LEDGER.c.last_seq)
    if number is not None:
        last = select(DEPLOYMENTS.c.last_seq).where(DEPLOYMENTS.c.number == number)
    low, high = after_seq, connection.scalar(last) or 0
    while low < high:
        middle = (low + high + 1) // 2
        first = select(D.seq, D.written_at).where(D.seq >= middle).order_by(D.seq).limit(1)
        found = connection.execute(first).one_or_none()
        if found is None:
            high = middle - 1
        elif found.written_at < before:
            low = max(middle, min(found.seq, high))
        else:
            high = middle - 1
    return low


def daily(connection: Connection, number: int, since_day: int | None = None) -> Columns:
    """All sums of a deployment: one row per day, group, accepted, drawn and measure."""
    names = [column.name for column in DAILY.columns if column.name != "deployment"]
    query = select(*(DAILY.c[name] for name in names)).where(DAILY.c.deployment == number)
    if since_day is not None:
        query = query.where(DAILY.c.day >= since_day)
    found: Sequence[Any] = connection.execute(query.order_by(DAILY.c.day)).all()
    return arrays(found, names, None)


def totals(connection: Connection, number: int) -> Columns:
    """Sums over all days and groups: one row per accepted, drawn and measure."""
    table, names = DAILY.c, ["accepted", "drawn", "measure", "total", "weighted"]
    query = (
        select(
            table.accepted,
            table.drawn,
            table.measure,
            func.sum(table.total),
            func.sum(table.weighted),
        )
        .where(table.deployment == number)
        .group_by(table.accepted, table.drawn, table.measure)
    )
    found: Sequence[Any] = connection.execute(query).all()
    return arrays(found, names, None)


def unpriced(connection: Connection, number: int, limit: int, after: tuple[int, int]) -> Columns:
    """Labels with y alone, beside what was predicted: their losses are to be worked out."""
    names = ("seq", "number", "id", "y", "prediction")
    query = (
        select(L.seq, L.number, L.id, L.y, D.prediction)
        .join_from(LABELS, DECISIONS, D.seq == L.seq)
        .where(L.loss.is_(None), D.deployment == number)
        .where(tuple_(L.seq, L.number) > after)
        .order_by(L.seq, L.number)  # by the index of labels without a loss
        .limit(limit)
    )
    found: Sequence[Any] = connection.execute(query).all()
    return arrays(found, names, None)


def waiting(connection: Connection) -> int:
    """How many labels wait for their decision."""
    return connection.scalar(select(func.count(L.id)).where(L.seq.is_(None))) or 0


def any_waiting(connection: Connection) -> bool:
    """Whether a label waits for its decision."""
    return connection.scalar(select(L.id).where(L.seq.is_(None)).limit(1)) is not None


def events(connection: Connection, number: int | None) -> list[dict[str, Any]]:
    """Return events of a deployment and of the whole ledger, the oldest first."""
    table = EVENTS.c
    query = select(table.number, table.deployment, table.time, table.kind, table.detail)
    if number is not None:
        query = query.where(table.deployment.is_(None) | (table.deployment == number))
    found = connection.execute(query.order_by(table.number))
    return [
        dict(row._mapping) | {"detail": kept_json(row.detail, "table of events")} for row in found
    ]
