"""A uniform sample of a file of rows, of any length, in one pass."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from locuscore._protocols import IntArray
from locuscore._shared.sampling import Reservoir


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
        """One sentence on rows that were left out."""
        return (
            f"Used {self.rows.num_rows:,} of {self.n_read:,} rows, a uniform random sample; "
            "--max-rows changes that."
        )


def sample_rows(batches: Iterable[Any], most: int, seed: int) -> Sample:
    """Keep `most` rows of a stream, every set of so many rows being equally likely.

    Holds at most twice as many rows, and one batch.
    """
    sample = Reservoir[Any](most, seed, _take, pa.concat_tables)
    for batch in batches:
        sample.add(pa.Table.from_batches([batch]), batch.num_rows)
    return Sample(plain_types(sample.rows()), sample.n_seen)


def _take(rows: Any, at: IntArray) -> Any:
    return rows if len(at) == rows.num_rows else rows.take(pa.array(at))


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
