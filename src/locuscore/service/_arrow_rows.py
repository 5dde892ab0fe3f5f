"""Arrow streams from strangers: checked before they are decoded, and before they are scored.

pyarrow reads a stream as what it claims to be. A few kilobytes can claim gigabytes: buffers that
expand when they are decompressed, one buffer that many columns share, a long text that millions of
codes repeat. And offsets or codes that point outside of their buffer are followed into memory that
belongs to something else. So compression is refused before anything is decoded, and types, offsets
and sizes are checked before anything is scored.
"""

import struct
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from locuscore import Schema
from locuscore.service._ids import checked_ids, id_column
from locuscore.service._refusal import RefusalError, check_rows

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
# Positions of fields in Arrow's flatbuffers: of the header in a message, of the data in a
# dictionary, of the compression in a record batch.
HEADER, DICTIONARY_DATA, COMPRESSION = 2, 1, 3
MOST_REPEATED = 16  # text that codes repeat may be so many times as long as the body
PLAIN = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_decimal,
    pa.types.is_null,
)


def read_table(body: bytes, max_rows: int) -> pa.Table:
    """Return the table of an IPC stream; raises `RefusalError` if it is not a plain table."""
    try:
        _check_uncompressed(body)
        table = pa.ipc.open_stream(body).read_all()
        check_rows(table.num_rows, max_rows)
        _check_types(table)
        # Without `full` only lengths are compared; nobody after us checks offsets and codes.
        table.validate(full=True)
        _check_size(table, len(body))
    except (pa.ArrowException, OSError, struct.error, UnicodeDecodeError) as error:
        raise RefusalError(400, f"the body is no Arrow stream ({type(error).__name__}).") from None
    return table


def stream(table: pa.Table) -> bytes:
    """Return a table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def without_ids(table: pa.Table, schema: Schema) -> tuple[pa.Table, list[str] | None]:
    """Take the ids off a table of rows, if it has any.

    The columns of an array have no names, so there a column called ``id`` is that of ids only if
    it is one too many.
    """
    name = id_column(schema)
    has_ids = name in table.column_names
    if schema.kind == "array":
        has_ids = has_ids and table.num_columns > len(schema.names)
    if not has_ids:
        return table, None
    if table.column_names.count(name) > 1:
        raise RefusalError(422, f"several columns are called {name!r}; ids are one column.")
    ids = checked_ids(table.column(name).to_pylist(), table.num_rows)
    return table.drop_columns([name]), ids


def with_columns(table: pa.Table, columns: Mapping[str, np.ndarray]) -> pa.Table:
    """Return a table with further columns at its end, texts and truth values."""
    for name, values in columns.items():
        kind = pa.string() if values.dtype == object else pa.bool_()
        table = table.append_column(name, pa.array(values.tolist(), kind))
    return table


def _check_types(table: pa.Table) -> None:
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not any(is_kind(kind) for is_kind in PLAIN):
            raise RefusalError(
                422, f"column {field.name!r} is of type {field.type}, which is not taken."
            )


def _check_size(table: pa.Table, size: int) -> None:
    """Refuse rows that are larger than the body: shared buffers, or long text repeated by codes."""
    decoded = 0
    for column in table.columns:
        is_dictionary = pa.types.is_dictionary(column.type)
        decoded += 0 if is_dictionary else column.nbytes
        for chunk in column.chunks if is_dictionary else ():
            decoded += chunk.indices.nbytes
            values = chunk.dictionary
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                lengths = pc.take(pc.binary_length(values), chunk.indices)
                decoded += (pc.sum(lengths).as_py() or 0) // MOST_REPEATED
    if decoded > size:
        raise RefusalError(413, "the rows are larger than the body that describes them.")


def _check_uncompressed(body: bytes) -> None:
    """Refuse compressed buffers before anything is decoded: they could expand without limit.

    pyarrow decompresses while it reads and has no limit to set, and its messages do not tell
    whether they are compressed. Their metadata does: one field of a flatbuffer, found below.
    """
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type not in ("record batch", "dictionary"):
            continue
        metadata = message.metadata.to_pybytes()
        batch = _child(metadata, _root(metadata), HEADER)
        if batch is not None and message.type == "dictionary":
            batch = _child(metadata, batch, DICTIONARY_DATA)
        if batch is None or _field(metadata, batch, COMPRESSION) is not None:
            raise RefusalError(415, "the Arrow stream is compressed; send it without compression.")


def _root(data: bytes) -> int:
    return int(struct.unpack_from("<I", data, 0)[0])


def _field(data: bytes, table: int, index: int) -> int | None:
    """Position of a field of a flatbuffer's table, None where it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    at = 4 + 2 * index
    offset = struct.unpack_from("<H", data, vtable + at)[0] if at + 2 <= size else 0
    return table + offset if offset else None


def _child(data: bytes, table: int, index: int) -> int | None:
    place = _field(data, table, index)
    return None if place is None else place + int(struct.unpack_from("<I", data, place)[0])
