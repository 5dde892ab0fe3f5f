"""CSV, Parquet and Arrow files as streams of Arrow batches: no file has to fit in memory."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from locuscore._shared.arrow_tables import BATCH_ROWS, skip_rows
from locuscore.cli._places import LocalPlace, Place

PANDAS_INDEX = re.compile(r"__index_level_\d+__")
CSV_BLOCK = 2**22  # bytes; the types of a CSV file are guessed from the first block
ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
ARROW_FILE = b"ARROW1"  # first bytes of a file of record batches; a stream has others


@dataclass(frozen=True)
class Source(ABC):
    """A file of rows: its schema, and the number of rows where the file says so."""

    path: Place
    schema: Any
    n_rows: int | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns, without the unnamed index that pandas adds to them."""
        return [name for name in self.schema.names if not PANDAS_INDEX.fullmatch(name)]

    def batches(self, columns: Sequence[str], start: int = 0) -> Iterator[Any]:
        """Record batches of some columns from row `start` on; at least one, if perhaps empty."""
        yield _empty(self.path, self.schema, columns)
        for batch in self._read(list(columns), start):
            # What pandas noted about its index would turn a column of that name into one again.
            yield batch.select(list(columns)).replace_schema_metadata(None)

    @abstractmethod
    def _read(self, columns: list[str], start: int) -> Iterator[Any]:
        """Record batches of the file, with these columns at least."""


def file_format(place: Place) -> str:
    """Return csv, parquet or arrow, by the ending of the name."""
    found = [kind for ending, kind in ENDINGS.items() if place.name.lower().endswith(ending)]
    if not found:
        raise ValueError(f"{place} has an unknown ending; expected one of {', '.join(ENDINGS)}.")
    return found[0]


def open_file(path: Place, types: Mapping[str, Any] | None = None) -> Source:
    """Open a file of rows.

    `types` are the Arrow types of the columns of a CSV file, text for those not named; without
    them they are guessed.
    """
    kind = file_format(path)
    if not path.is_file:
        raise FileNotFoundError(f"there is no file {path}.")
    if not path.info.size:
        raise ValueError(f"{path} is empty.")
    try:
        match kind:
            case "csv":
                return CsvSource.open(path, types)
            case "parquet":
                return ParquetSource.open(path)
            case _:
                return ArrowSource.open(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from None


@dataclass(frozen=True)
class ParquetSource(Source):
    """A Parquet file; reading can begin at any row group."""

    file: Any = None

    @classmethod
    def open(cls, path: Place) -> "ParquetSource":
        """Read the schema and the number of rows."""
        # A store answers slowly, so there each row group is fetched at once.
        file = pq.ParquetFile(path.open_file(), pre_buffer=not isinstance(path, LocalPlace))
        return cls(path, file.schema_arrow, int(file.metadata.num_rows), file)

    def _read(self, columns: list[str], start: int) -> Iterator[Any]:
        # One by one: together, all row groups would stay in memory until the last one is done.
        for group in range(self.file.num_row_groups):
            n = self.file.metadata.row_group(group).num_rows
            if start < n:
                read = self.file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)
                yield from skip_rows(read, start)
            start = max(0, start - n)


class ArrowSource(Source):
    """A file or a stream of Arrow record batches."""

    @classmethod
    def open(cls, path: Place) -> "ArrowSource":
        """Read the schema."""
        with _mapped(path) as file:
            return cls(path, _arrow_reader(file).schema)

    def _read(self, columns: list[str], start: int) -> Iterator[Any]:
        with _mapped(self.path) as file:
            reader = _arrow_reader(file)
            whole = (
                (reader.get_batch(i) for i in range(reader.num_record_batches))
                if hasattr(reader, "get_batch")
                else iter(reader)
            )
            yield from skip_rows(whole, start)


class CsvSource(Source):
    """A CSV file with a header; read from the beginning, also to skip rows."""

    @classmethod
    def open(cls, path: Place, types: Mapping[str, Any] | None) -> "CsvSource":
        """Find the columns, and the types that are not given."""
        fields = []
        for part in _csv_reader(path, {}).schema:
            kind = _settled(part.type) if types is None else types.get(part.name, pa.string())
            fields.append((part.name, kind or part.type))
        return cls(path, pa.schema(fields))

    def _read(self, columns: list[str], start: int) -> Iterator[Any]:
        types = {name: self.schema.field(name).type for name in columns}
        yield from skip_rows(_csv_reader(self.path, types), start)


def _csv_reader(path: Place, types: Mapping[str, Any]) -> Any:
    return pacsv.open_csv(
        path.open_stream(),
        read_options=pacsv.ReadOptions(block_size=CSV_BLOCK),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(types),
            strings_can_be_null=True,
        ),
    )


def _settled(kind: Any) -> Any:
    """Widen a guessed type, since later blocks may hold fractions or text."""
    if pa.types.is_integer(kind):
        return pa.float64()
    return pa.string() if pa.types.is_null(kind) else kind


def _mapped(path: Place) -> Any:
    return pa.memory_map(path.path) if isinstance(path, LocalPlace) else path.open_file()


def _arrow_reader(file: Any) -> Any:
    is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _empty(path: Place, schema: Any, columns: Sequence[str]) -> Any:
    """Return an empty batch of these columns, each of which must occur exactly once in the file."""
    doubled = [name for name in dict.fromkeys(columns) if schema.names.count(name) > 1]
    if doubled:
        raise ValueError(
            f"{path} has several columns called {', '.join(doubled)}; rename them, so that it is "
            "clear which one is meant."
        )
    fields = [schema.field(name) for name in columns]
    return pa.RecordBatch.from_pylist([], schema=pa.schema(fields))


def write_tables(file: IO[bytes], kind: str, schema: Any, tables: Iterable[Any]) -> None:
    """Write tables one after another, in the wanted format."""
    match kind:
        case "parquet":
            writer = pq.ParquetWriter(file, schema)
        case "csv":
            options = pacsv.WriteOptions(quoting_style="needed")
            writer = pacsv.CSVWriter(file, schema, write_options=options)
        case _:
            writer = pa.ipc.new_file(file, schema)
    with writer:
        for table in tables:
            writer.write_table(table)
