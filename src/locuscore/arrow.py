"""Scores a stream of Arrow batches of any length with constant memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from locuscore import Scorer
from locuscore._shared.checks import BadRowsError, check_count
from locuscore._shared.optional import require

pa = require("pyarrow", extra="arrow")

from locuscore._shared.arrow_tables import BATCH_ROWS, even_tables  # noqa: E402 - after the check

__all__ = ["score_stream"]


def score_stream(
    scorer: Scorer,
    rows: Any,
    *,
    keep: Sequence[str] = (),
    prefix: str = "",
    bad_rows: Literal["fail", "flag"] = "fail",
    block_rows: int = BATCH_ROWS,
) -> Any:
    """Score rows of any number, lazily: a stream of Arrow batches in, one with scores out.

    Whoever reads the result drives the work. One block of rows is in memory at a time, if the
    source itself gives its rows piece by piece, and rows keep their order.

    Parameters
    ----------
    scorer
        A scorer for which rows are enough, see `Scorer.asks`.
    rows
        A lazy frame of polars, a relation of DuckDB, a dataset or scanner of pyarrow, a record
        batch, or any object with ``__arrow_c_stream__``, such as an Arrow table or reader or a
        frame of pandas or polars. It has the columns of `fit`, in any order, and possibly others.
        If `fit` was given an array, all columns except those to keep are used, by position.
    keep
        Columns to pass through, in front of those of `scorer`.
    prefix
        Put before the names of the scorer's columns.
    bad_rows
        ``"fail"`` raises at a row that cannot be scored, with its number; ``"flag"`` flags it, with
        infinite bounds, as `Scorer.tolerate` does.
    block_rows
        Rows that are scored at a time, and the length of the batches that come out.

    Returns
    -------
    pyarrow.RecordBatchReader
        The kept columns, then those of `scorer`, in order. It can be read once. polars, DuckDB,
        ``pyarrow.dataset.write_dataset`` and others take it as it is.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.arrow import score_stream
    >>> rng = np.random.default_rng(0)
    >>> X = pa.table({"a": rng.uniform(size=500), "b": rng.uniform(size=500)})
    >>> locus = Locus(lambda X: X["a"].to_numpy(), random_state=0).fit(X, X["b"])
    >>> rows = X.append_column("id", [list(range(500))])
    >>> scored = score_stream(Scorer(locus), rows, keep=["id"], block_rows=200)
    >>> [batch.num_rows for batch in scored]
    [200, 200, 100]
    """
    if bad_rows not in ("fail", "flag"):
        raise ValueError(f"bad_rows must be 'fail' or 'flag'; got {bad_rows!r}.")
    scorer.check_rows_are_enough()
    size = check_count(block_rows, "block_rows")
    source = _opened(rows, size)
    features = _features(scorer, source.schema.names, keep)
    score = TableScorer(scorer, features, list(keep), prefix, bad_rows == "flag")
    schema = score.schema(source.schema)
    return pa.RecordBatchReader.from_batches(schema, _batches(source, score, schema, size))


@dataclass(frozen=True)
class TableScorer:
    """Turns a table of rows into one of kept columns and scores."""

    scorer: Scorer
    features: list[str]
    kept: list[str]
    prefix: str = ""
    is_tolerant: bool = False

    def __post_init__(self) -> None:
        twice = set(self.kept) & {self.prefix + name for name in self.scorer.column_names}
        if twice:
            raise ValueError(
                f"the kept column {', '.join(sorted(twice))} has the name of a new one; put a "
                "prefix before the new names (prefix=, --prefix), or do not keep it."
            )

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([*self.features, *self.kept]))

    def __call__(self, table: Any) -> tuple[Any, int]:
        """Score a table; return the result, and how many of its rows are bad."""
        rows, n_bad = table.select(self.features), 0
        if self.is_tolerant:
            scores, is_bad = self.scorer.tolerate(rows)
            n_bad = int(is_bad.sum())
        else:
            scores = self.scorer(rows)
        # A file of Arrow batches has one dictionary per column, so each batch's own must go.
        columns = {name: _without_dictionary(table.column(name)) for name in self.kept}
        columns |= {self.prefix + name: scores.column(name) for name in scores.column_names}
        return pa.table(columns), n_bad

    def schema(self, given: Any) -> Any:
        """Return the schema of what comes out, for rows of this one."""
        empty = given.empty_table().select(self.columns)
        found = self(empty)[0].schema
        # Labels that are text have no type as long as there are none.
        types = [pa.string() if pa.types.is_null(kind) else kind for kind in found.types]
        return pa.schema(list(zip(found.names, types, strict=True)))


def _batches(source: Any, score: TableScorer, schema: Any, size: int) -> Iterator[Any]:
    done = 0
    taken = (batch.select(score.columns) for batch in source)
    for table in even_tables(taken, size):
        try:
            scored, _ = score(table)
        except BadRowsError as error:
            error.move(done)
            raise
        done += table.num_rows
        yield from scored.cast(schema).combine_chunks().to_batches()


def _opened(rows: Any, size: int) -> Any:
    """Return a reader of any kind of rows, one that reads piece by piece where there is one."""
    if hasattr(rows, "collect_batches"):  # a lazy frame of polars
        batches = rows.collect_batches(chunk_size=size, maintain_order=True, lazy=True)
        schema = rows.head(0).collect().to_arrow().schema
        pieces = (
            batch for frame in batches for batch in frame.to_arrow().cast(schema).to_batches()
        )
        return pa.RecordBatchReader.from_batches(schema, pieces)
    if hasattr(rows, "scanner"):  # a dataset of pyarrow; by itself it reads far ahead
        rows = rows.scanner(batch_size=size, batch_readahead=1, fragment_readahead=1)
    if hasattr(rows, "to_reader"):
        return rows.to_reader()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    if hasattr(rows, "__arrow_c_array__"):
        batch = pa.record_batch(rows)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    raise TypeError(
        "rows must be a lazy frame of polars, a relation of DuckDB, a dataset of pyarrow or an "
        f"object with __arrow_c_stream__; got {type(rows).__name__}."
    )


def _features(scorer: Scorer, found: list[str], keep: Sequence[str]) -> list[str]:
    unknown = [name for name in keep if name not in found]
    if unknown:
        raise ValueError(f"the rows have no columns {unknown} to keep; they have {found}.")
    wanted = [str(name) for name in scorer.schema.names]
    if scorer.schema.kind == "array":
        names = [name for name in found if name not in keep]
        if len(names) != len(wanted):
            raise ValueError(
                f"expected {len(wanted)} columns besides those to keep, as in fit; got {names}."
            )
        return names
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(f"the columns are not those of fit; missing: {missing}.")
    return wanted


def _without_dictionary(column: Any) -> Any:
    if not pa.types.is_dictionary(column.type):
        return column
    return column.cast(column.type.value_type)
