"""Streams of Arrow record batches, cut and counted; imported only where pyarrow is needed."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

BATCH_ROWS = 65_536


def skip_rows(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Return what follows the first so many rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows) if rows else batch
        rows = max(0, rows - batch.num_rows)


def even_tables(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Cut a stream into tables of `size` rows, the last of them shorter; none are empty."""
    waiting: list[Any] = []
    n_waiting = 0
    for batch in batches:
        rest = batch
        while n_waiting + rest.num_rows >= size:
            cut = size - n_waiting
            yield pa.Table.from_batches([*waiting, rest.slice(0, cut)])
            waiting, n_waiting, rest = [], 0, rest.slice(cut)
        if rest.num_rows:
            waiting.append(rest)
            n_waiting += rest.num_rows
    if n_waiting:
        yield pa.Table.from_batches(waiting)
