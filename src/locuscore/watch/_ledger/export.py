"""Writes the ledger as Parquet, page by page; the secret of the audits stays where it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Table, select

from locuscore._shared.files import write_atomically
from locuscore.watch._ledger.columns import unpacked
from locuscore.watch._ledger.connection import Database
from locuscore.watch._ledger.deployments import Deployed, all_deployed
from locuscore.watch._ledger.tables import DAILY, DECISIONS, EVENTS, LABELS, LEDGER

PAGE = 50_000
TIME = pa.timestamp("us", tz="UTC")
TIMES = ("time", "written_at")
HIDDEN = ("fingerprint", "current")
TYPES = {"BIGINT": pa.int64(), "INTEGER": pa.int64(), "BOOLEAN": pa.bool_(), "FLOAT": pa.float64()}


def export(database: Database, folder: Path) -> list[Path]:
    """Write decisions per deployment, labels, daily sums, events and what was deployed.

    Rows that are written meanwhile are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with database.reading() as connection:
        deployed = all_deployed(connection)
        last_seq, last_label = connection.execute(
            select(LEDGER.c.last_seq, LEDGER.c.last_label)
        ).one()
    files = [folder / "deployments.json"]
    write_atomically(files[0], lambda file: file.write(_described(deployed)))
    for one in deployed:
        path = folder / f"decisions-{one.number}.parquet"
        alphas = one.deployment.alphas
        pages = _pages(database, DECISIONS, "seq", last_seq, one.number)
        _write(path, DECISIONS, pages, [f"bound_{alpha!r}" for alpha in alphas])
        files.append(path)
    tables = [("labels", LABELS, "number", last_label), ("events", EVENTS, "number", None)]
    for name, table, key, last in tables:
        files.append(folder / f"{name}.parquet")
        _write(files[-1], table, _pages(database, table, key, last, None), [])
    files.append(folder / "daily.parquet")
    _write(files[-1], DAILY, _whole(database, DAILY), [])
    return files


def _described(deployed: list[Deployed]) -> bytes:
    found = [
        {
            "number": one.number,
            "digest": one.deployment.digest,
            "since": one.since,
            "alphas": list(one.deployment.alphas),
            "tau": one.deployment.tau,
            "claims": list(one.deployment.claims),
            "settings": one.deployment.settings,
            "card": one.deployment.card,
        }
        for one in deployed
    ]
    return json.dumps(found, indent=1).encode()


def _pages(
    database: Database, table: Table, key: str, last: int | None, deployment: int | None
) -> Iterator[list[Any]]:
    """Rows in order of their key, each page in a transaction of its own."""
    after = 0
    while True:
        query = select(table).where(table.c[key] > after).order_by(table.c[key]).limit(PAGE)
        if last is not None:
            query = query.where(table.c[key] <= last)
        if deployment is not None:
            query = query.where(table.c.deployment == deployment)
        with database.reading() as connection:
            rows = list(connection.execute(query))
        if not rows:
            return
        yield rows
        after = getattr(rows[-1], key)


def _whole(database: Database, table: Table) -> Iterator[list[Any]]:
    with database.reading() as connection:
        result = connection.execution_options(yield_per=PAGE).execute(select(table))
        for part in result.partitions():
            yield list(part)


def _write(path: Path, table: Table, pages: Iterator[list[Any]], bounds: list[str]) -> None:
    def write(file: IO[bytes]) -> None:
        schema = _schema(table, bounds)
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for rows in pages:
                writer.write_table(_table(table, rows, schema, bounds))

    write_atomically(path, write)


def _schema(table: Table, bounds: list[str]) -> Any:
    fields = []
    for column in table.columns:
        if column.name == "bounds":
            fields += [(name, pa.float64()) for name in bounds]
        elif column.name == "signals":
            fields.append(("signals", pa.list_(pa.float64())))
        elif column.name in TIMES:
            fields.append((column.name, TIME))
        elif column.name not in HIDDEN:
            name = str(column.type).partition("(")[0]
            fields.append((column.name, TYPES.get(name, pa.string())))
    return pa.schema(fields)


def _table(table: Table, rows: list[Any], schema: Any, bounds: list[str]) -> Any:
    columns: dict[str, Any] = dict(zip(table.columns.keys(), zip(*rows, strict=True), strict=True))
    if "bounds" in columns:
        matrix = unpacked(columns["bounds"], len(bounds))
        columns |= {name: matrix[:, k] for k, name in enumerate(bounds)}
        signals = columns["signals"]
        columns["signals"] = [None if s is None else unpacked([s])[0] for s in signals]
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
