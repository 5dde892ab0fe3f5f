"""Writes labels, joins them to their decisions, and keeps the sums right.

A label waits until its decision is there (`seq` is empty) and until its loss is known (`loss` is
empty: only y was given). Of the labels of a decision the current one is that of the latest time,
and among equal times the one that came last. Those before it stay.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, bindparam, exists, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from locuscore.watch._ledger.columns import DAY, Columns, arrays, finite, json_texts, texts, times
from locuscore.watch._ledger.deployments import Deployment
from locuscore.watch._ledger.sums import add, label_measures
from locuscore.watch._ledger.tables import DECISIONS, LABELS, LONGEST_ID, LONGEST_NAME

D, L = DECISIONS.c, LABELS.c
READ = (D.deployment, D.group_name, D.flagged, D.drawn, D.chance, D.bounds, D.time)
AT_ONCE = 5_000  # numbers in one statement
MOST_AHEAD = DAY  # of the clock of a label
MOST_WAITING = 1_000_000  # labels whose decision is not there


def label_columns(
    ids: Any, y: Any, losses: Any, time: Any, source: str, now: int
) -> list[dict[str, Any]]:
    """Check labels; one row of the table each, without its number."""
    found = texts(ids, "id", LONGEST_ID)
    n = len(found)
    (checked,) = texts([source], "source", LONGEST_NAME)
    known_at = times(time, n, now)
    columns = zip(
        found,
        known_at,
        json_texts(y, n, "y"),
        finite(losses, n, "loss"),
        strict=True,
    )
    rows = [dict(zip(("id", "time", "y", "loss"), row, strict=True)) for row in columns]
    if any(row["y"] is None and row["loss"] is None for row in rows):
        raise ValueError("a label needs y or a loss; some have neither. Leave such rows out.")
    if max(known_at, default=0) > now + MOST_AHEAD:
        raise ValueError(
            "the time of a label lies more than a day ahead, so no correction of it would count; "
            "give the time at which it was known, in UTC."
        )
    common = {"source": checked, "written_at": now, "current": False, "seq": None}
    return [row | common | {"fingerprint": _fingerprint(row, checked)} for row in rows]


def _fingerprint(row: dict[str, Any], source: str) -> bytes:
    """Tell the same label sent twice from a correction."""
    parts = (row["id"], row["time"], row["y"], row["loss"], source)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def insert_labels(connection: Connection, rows: Sequence[dict[str, Any]], base: int) -> int:
    """Insert labels that are new, with numbers from `base` + 1 on; how many there were."""
    numbered = [row | {"number": base + 1 + i} for i, row in enumerate(rows)]
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(dialect.insert(LABELS).on_conflict_do_nothing(), numbered)
    found = connection.execute(select(L.number).where(L.number > base)).all()
    return len(found)


def join_decisions(connection: Connection, waiting: ColumnElement[bool]) -> None:
    """Tell labels that wait which decision is theirs, if it is there."""
    decision = select(D.seq).where(D.id == L.id).scalar_subquery()
    connection.execute(update(LABELS).where(L.seq.is_(None), waiting).values(seq=decision))


def check_waiting(connection: Connection, base: int) -> None:
    """Refuse labels after number `base` if too many wait: anybody can make up ids."""
    waits = select(L.id).where(L.seq.is_(None)).limit(1)
    if connection.execute(waits.where(L.number > base)).first() is None:
        return
    if connection.execute(waits.offset(MOST_WAITING)).first() is not None:
        raise ValueError(
            f"{MOST_WAITING} labels already wait for decisions, and some of these have unknown "
            "ids too; log the decisions first, or forget old labels."
        )


def refresh(
    connection: Connection, touched: ColumnElement[bool], deployments: dict[int, Deployment]
) -> None:
    """Choose the current label of each decision that `touched` labels belong to; change the sums.

    `touched` must hold for the same labels before and after.
    """
    # Labels that wait are among them, but their empty number equals none.
    decisions = select(L.seq).where(touched).scalar_subquery()
    before = _current(connection, decisions)
    connection.execute(update(LABELS).where(L.seq.in_(decisions), L.current).values(current=False))
    other = LABELS.alias()
    is_later = or_(other.c.time > L.time, (other.c.time == L.time) & (other.c.number > L.number))
    later = exists().where(other.c.seq == L.seq, other.c.loss.is_not(None), is_later)
    connection.execute(
        update(LABELS).where(L.seq.in_(decisions), L.loss.is_not(None), ~later).values(current=True)
    )
    after = _current(connection, decisions)
    unchanged = before.keys() & after.keys()
    changes = [(row, -1.0) for number, row in before.items() if number not in unchanged]
    changes += [(row, 1.0) for number, row in after.items() if number not in unchanged]
    _change_sums(connection, changes, deployments)


def _current(connection: Connection, decisions: Any) -> dict[int, Any]:
    query = (
        select(*READ, L.loss, L.time.label("label_time"), L.number)
        .join_from(LABELS, DECISIONS, D.seq == L.seq)
        .where(L.seq.in_(decisions), L.current)
    )
    return {row.number: row for row in connection.execute(query)}


def _change_sums(
    connection: Connection,
    changes: list[tuple[Any, float]],
    deployments: dict[int, Deployment],
) -> None:
    names = [column.name for column in READ] + ["loss", "label_time", "number"]
    for number in sorted({row.deployment for row, _ in changes}):
        mine = [(row, sign) for row, sign in changes if row.deployment == number]
        deployment = deployments[number]
        rows: Columns = arrays([row for row, _ in mine], names, len(deployment.alphas))
        signs = np.array([sign for _, sign in mine])
        add(connection, rows, label_measures(rows, deployment), signs)


def write_losses(
    connection: Connection,
    numbers: Sequence[int],
    losses: Sequence[float],
    deployments: dict[int, Deployment],
) -> None:
    """Give labels that have only y their losses."""
    for start in range(0, len(numbers), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        sql = update(LABELS).where(L.loss.is_(None), L.number == bindparam("of"))
        pairs = zip(numbers[part], losses[part], strict=True)
        connection.execute(sql.values(loss=bindparam("is")), [{"of": n, "is": z} for n, z in pairs])
        refresh(connection, L.number.in_(numbers[part]), deployments)
