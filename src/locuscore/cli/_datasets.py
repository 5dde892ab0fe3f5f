"""Folders of Parquet files as one stream of rows, with columns that only their paths have."""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds

from locuscore.cli._places import LocalPlace, Place, data_files
from locuscore.cli._tables import ParquetSource, Source, open_file

MISSING = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")  # 007 is text
TABLES_PER_FILE = 8
AT_ONCE = 16  # files whose schemas are read at the same time


def open_table(place: Place | Path, types: Mapping[str, Any] | None = None) -> Source:
    """Open a file of rows, or a folder of Parquet files.

    `types` are the Arrow types of the columns that have none in the file: those of a CSV file and
    those that are told by paths.
    """
    found = LocalPlace.of(place) if isinstance(place, Path) else place
    return DatasetSource.open(found, types or {}) if found.is_folder else open_file(found, types)


@dataclass(frozen=True)
class Part:
    """A file of a dataset, its number of rows, and the columns that its path tells."""

    place: Place
    n_rows: int
    told: Mapping[str, Any]


@dataclass(frozen=True)
class DatasetSource(Source):
    """A folder of Parquet files, in the order of their paths; ``town=north`` in one is a column."""

    parts: Sequence[Part] = ()

    @classmethod
    def open(cls, place: Place, types: Mapping[str, Any]) -> "DatasetSource":
        """Read the schemas and the numbers of rows of all files."""
        paths = [place.relative(info) for info in data_files(place)]
        others = [path for path in paths if not path.lower().endswith((".parquet", ".pq"))]
        if not paths or others:
            found = f"it has {others[0]}" if others else "it has none"
            raise ValueError(f"{place} must be a folder of Parquet files only; {found}.")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found_files = list(pool.map(lambda path: _facts(place.child(path)), paths))
        told = _told(place, paths, types)
        parts = [
            Part(place.child(path), n_rows, values)
            for path, (_, n_rows), values in zip(paths, found_files, told, strict=True)
        ]
        schema = _common(place, [schema for schema, _ in found_files], told[0])
        return cls(place, schema, sum(part.n_rows for part in parts), parts)

    def _read(self, columns: list[str], start: int) -> Iterator[Any]:
        for part in self.parts:
            if start < part.n_rows:
                yield from self._read_part(part, columns, start)
            start = max(0, start - part.n_rows)

    def _read_part(self, part: Part, columns: list[str], start: int) -> Iterator[Any]:
        source = open_file(part.place)
        names = [name for name in source.schema.names if name not in part.told]
        missing = [name for name in columns if name not in names and name not in part.told]
        if missing:
            raise ValueError(f"{part.place} has no column {', '.join(missing)}.")
        if source.n_rows != part.n_rows:
            raise RuntimeError(f"{part.place} has changed since this run began; start again.")
        own = [name for name in columns if name in names]
        for batch in source.batches(own or names[:1], start):
            yield self._completed(part, batch, columns)

    def _completed(self, part: Part, batch: Any, columns: list[str]) -> Any:
        arrays, fields = [], [self.schema.field(name) for name in columns]
        for field in fields:
            if field.name in part.told:
                arrays.append(pa.repeat(part.told[field.name], batch.num_rows))
                continue
            try:
                arrays.append(batch.column(field.name).cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ValueError(f"{part.place}, column {field.name}: {error}") from None
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _facts(place: Place) -> tuple[Any, int]:
    source = open_file(place)
    assert isinstance(source, ParquetSource)
    source.file.close()
    return source.schema, int(source.n_rows or 0)


def _common(place: Place, schemas: list[Any], told: Mapping[str, Any]) -> Any:
    """Return a schema for all files; whole numbers and fractions together are fractions."""
    own = [
        pa.schema([field for field in schema if field.name not in told]).remove_metadata()
        for schema in schemas
    ]
    try:
        # A name that a file has twice is refused where it is read.
        unique = own[0] if len(set(map(str, own))) == 1 else None
        common = unique or pa.unify_schemas(own, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"the files in {place} do not fit together: {error}") from None
    return pa.schema([*common, *(pa.field(name, value.type) for name, value in told.items())])


def _told(place: Place, paths: list[str], types: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return, for each file, the columns that its path tells, as Arrow values of one type each."""
    texts = [
        {
            unquote(name): None if value == MISSING else unquote(value)
            for name, is_told, value in (part.partition("=") for part in PurePosixPath(path).parts)
            if is_told
        }
        for path in (str(PurePosixPath(path).parent) for path in paths)
    ]
    for path, values in zip(paths, texts, strict=True):
        if list(values) != list(texts[0]):
            raise ValueError(
                f"the paths in {place} tell different columns: {paths[0]} and {path}; all must "
                "tell the same ones, in the same order."
            )
    kinds = {name: _kind([values[name] for values in texts], types.get(name)) for name in texts[0]}
    return [
        {name: _value(place, name, text, kinds[name]) for name, text in values.items()}
        for values in texts
    ]


def _kind(values: list[str | None], wanted: Any) -> Any:
    is_whole = all(value is None or WHOLE_NUMBER.fullmatch(value) for value in values)
    if wanted is None or pa.types.is_floating(wanted):
        return pa.int64() if is_whole else wanted or pa.string()
    return wanted


def _value(place: Place, name: str, text: str | None, kind: Any) -> Any:
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(f"a path in {place} has {name}={text}: {error}") from None


def write_dataset(files: Any, path: str, schema: Any, tables: Iterator[Any], by: list[str]) -> None:
    """Write tables into a folder of Parquet files, in one subfolder for each value of `by`."""
    odd = [name for name in by if "/" in name]  # pyarrow writes names as they are: a path
    if odd:
        raise ValueError(f"folders cannot be named after the column {odd[0]!r}; rename it.")
    kinds = pa.schema([schema.field(name) for name in by])
    number = 0
    # Given all at once, the writer would hold millions of rows.
    while some := list(islice(tables, TABLES_PER_FILE)):
        ds.write_dataset(
            pa.concat_tables(some),
            path,
            filesystem=files,
            format="parquet",
            partitioning=ds.partitioning(kinds, flavor="hive") if by else None,
            basename_template=f"part-{number:05d}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
            use_threads=False,  # rows keep their order
            max_partitions=2**31 - 1,
        )
        number += 1
