"""Reads some rows of many: those with given numbers, or the latest ones."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, select

from locuscore._protocols import IntArray
from locuscore.watch._ledger.columns import Columns, arrays
from locuscore.watch._ledger.read import LABEL_COLUMNS
from locuscore.watch._ledger.tables import DECISIONS, LABELS

D, L = DECISIONS.c, LABELS.c
NUMBERS_AT_ONCE = 5_000  # in one query; SQLite binds no more than 32,766


def next_written(connection: Connection, after_seq: int) -> int | None:
    """When the first row after a number was written; None if there is none."""
    query = select(D.written_at).where(D.seq > after_seq).order_by(D.seq).limit(1)
    return connection.scalar(query)


def with_numbers(
    connection: Connection, number: int, n_alphas: int, seqs: IntArray, columns: Sequence[str]
) -> Columns:
    """Decisions of a deployment among those with some numbers, in order, without labels."""
    wanted = [D[name] for name in columns]
    found: list[Any] = []
    is_range = len(seqs) and int(seqs[-1]) - int(seqs[0]) == len(seqs) - 1
    for start in range(0, len(seqs), len(seqs) if is_range else NUMBERS_AT_ONCE):
        if is_range:
            among = [D.seq >= int(seqs[0]), D.seq <= int(seqs[-1])]
        else:
            among = [D.seq.in_(seqs[start : start + NUMBERS_AT_ONCE].tolist())]
        query = select(*wanted).where(D.deployment == number, *among).order_by(D.seq)
        found += connection.execute(query).all()
    return arrays(found, columns, n_alphas)


def latest_drawn(
    connection: Connection,
    number: int,
    n_alphas: int,
    up_to_seq: int,
    limit: int,
    columns: Sequence[str],
) -> Columns:
    """The last so many drawn decisions up to a number, in order, with the label each has now."""
    wanted = [LABEL_COLUMNS[name] if name in LABEL_COLUMNS else D[name] for name in columns]
    joined = DECISIONS.outerjoin(LABELS, and_(L.seq == D.seq, L.current))
    where = [D.deployment == number, D.drawn, D.seq <= up_to_seq]
    query = select(*wanted).select_from(joined).where(*where).order_by(D.seq.desc()).limit(limit)
    return arrays(connection.execute(query).all()[::-1], columns, n_alphas)
