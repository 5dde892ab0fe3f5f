"""A uniform sample of a stream of rows, of any length, in one pass."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Sample:
    """The rows that were kept, in their order in the file, and how many there were."""

    rows: Any
    n_read: int

    @property
    def n_dropped(self) -> int:
        """Rows that were left out."""
        return self.n_read - int(self.rows.num_rows)

    @property
    def note(self) -> str:
        """One sentence on rows that were left out; empty if none were."""
        if not self.n_dropped:
            return ""
        return (
            f"Used {self.rows.num_rows:,} of {self.n_read:,} rows, a uniform random sample; "
            "--max-rows changes that."
        )


def sample_rows(batches: Iterable[Any], most: int, seed: int) -> Sample:
    """Keep `most` rows of a stream, every set of so many rows being equally likely.

    Every row draws a number, and the rows with the smallest numbers stay. Holds at most twice as
    many rows, and one batch.
    """
    rng = np.random.default_rng(seed)
    kept: list[Any] = []
    drawn: list[np.ndarray] = []
    n_read, n_kept, limit = 0, 0, 1.0
    for batch in batches:
        numbers = rng.random(batch.num_rows)
        n_read += batch.num_rows
        stay = np.flatnonzero(numbers < limit)
        kept.append(batch if len(stay) == batch.num_rows else batch.take(pa.array(stay)))
        drawn.append(numbers[stay])
        n_kept += len(stay)
        if n_kept > 2 * most:
            kept, drawn, limit = _smallest(kept, drawn, most)
            n_kept = most
    if n_kept > most:
        kept, drawn, _ = _smallest(kept, drawn, most)
    return Sample(plain_types(pa.Table.from_batches(kept)), n_read)


def _smallest(
    kept: list[Any], drawn: list[np.ndarray], most: int
) -> tuple[list[Any], list[np.ndarray], float]:
    """Thin out to the rows with the smallest numbers, still in their order."""
    numbers = np.concatenate(drawn)
    stay = np.sort(np.argpartition(numbers, most - 1)[:most])
    rows = pa.Table.from_batches(kept).take(pa.array(stay))
    return rows.to_batches(), [numbers[stay]], float(numbers[stay].max())


def plain_types(table: Any) -> Any:
    """Return decimals as floats and days as times, which is how scoring reads them later on."""
    for j, part in enumerate(table.schema):
        if pa.types.is_decimal(part.type):
            table = table.set_column(j, part.name, table.column(j).cast(pa.float64()))
        elif pa.types.is_date(part.type):
            table = table.set_column(j, part.name, table.column(j).cast(pa.timestamp("us")))
    return table


def whole_numbers(column: Any) -> Any:
    """Return whole numbers that a CSV reader took for floats as integers; others unchanged."""
    if not pa.types.is_floating(column.type) or column.null_count:
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
