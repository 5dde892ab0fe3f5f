"""Writes many decisions at once."""

from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import BigInteger, Boolean, Float, Integer, LargeBinary

from locuscore.watch._ledger.tables import DECISIONS

NAMES = [column.name for column in DECISIONS.columns]
STAGE = "locuscore_stage"
INSERT = str(sqlite.insert(DECISIONS).on_conflict_do_nothing().compile(dialect=sqlite.dialect()))


def insert_new(connection: Connection, columns: dict[str, Any], base: int) -> list[int]:
    """Insert decisions whose id is new, as numbers from `base` + 1 on; which rows these were.

    Parameters are bound, or sent as data by COPY: no text of a caller becomes SQL.
    """
    n = len(columns["id"])
    columns = columns | {"seq": range(base + 1, base + n + 1)}
    rows = zip(*(columns[name] for name in NAMES), strict=True)
    if connection.dialect.name == "postgresql":
        _copy(connection, rows)
    else:
        connection.exec_driver_sql(INSERT, list(rows))
    new = DECISIONS.c.seq > base
    if connection.scalar(select(func.count()).select_from(DECISIONS).where(new)) == n:
        return list(range(n))
    found = connection.scalars(select(DECISIONS.c.seq).where(new).order_by(DECISIONS.c.seq))
    return [seq - base - 1 for seq in found]


def _copy(connection: Connection, rows: Any) -> None:
    """COPY into a table of this connection's own, then insert what is new."""
    names = ", ".join(NAMES)
    with connection.connection.driver_connection.cursor() as cursor:  # type: ignore[union-attr]
        cursor.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS {STAGE} (LIKE {DECISIONS.name}) ON COMMIT DELETE ROWS"
        )
        with cursor.copy(f"COPY {STAGE} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([_postgres_type(column.type) for column in DECISIONS.columns])
            for row in rows:
                copy.write_row(row)
        cursor.execute(
            f"INSERT INTO {DECISIONS.name} ({names}) SELECT {names} FROM {STAGE} ORDER BY seq "
            "ON CONFLICT DO NOTHING"
        )


def _postgres_type(kind: Any) -> str:
    names = {BigInteger: "int8", Integer: "int4", Boolean: "bool", LargeBinary: "bytea"}
    if isinstance(kind, Float):
        return "float8"
    return next((name for base, name in names.items() if isinstance(kind, base)), "text")
