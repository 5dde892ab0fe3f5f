"""A few rows as plain arrays and lists, and back as the kind of rows they were.

What comes back may differ in ways that a predictor notices, such as an extension type of a library,
so the caller compares the predictor's answers to both.
"""

import re
from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from locuscore._inputs.schema import Schema, zone_of
from locuscore._protocols import Rows
from locuscore._shared.frames import as_frame
from locuscore._shared.optional import require
from locuscore._shared.rows import RowKind, check_kind, kind_of_rows, list_texts

MOST_ROWS = 10_000  # a shape takes memory before its values are looked at
PLAIN = (bool, int, float, str, type(None))
# Types of pandas that a list of plain values turns into by their name.
PANDAS_TYPES = re.compile(r"[Uu]?[Ii]nt(8|16|32|64)|[Ff]loat(16|32|64)|bool|boolean|object|string")
UNITS = ("ns", "us", "ms")


def pack(rows: Rows) -> dict[str, Any]:
    """Return rows in types that an archive holds; raise TypeError where it has no such type."""
    if sparse.issparse(rows):
        parts = rows.tocoo()
        return {"shape": list(rows.shape), "at": np.stack([parts.row, parts.col]), "is": parts.data}
    if kind_of_rows(rows) is RowKind.TEXTS:
        return {"texts": list(list_texts(rows))}
    frame = as_frame(rows)
    if frame is not None:
        return {"columns": [_packed(frame[:, j]) for j in range(frame.shape[1])]}
    if rows.dtype.kind == "O":
        _check_plain(rows.ravel().tolist())
    return {"array": rows}


def unpack(packed: Mapping[str, Any], schema: Schema) -> Rows:
    """Return the rows; raise where the parts do not make rows of the schema."""
    if "texts" in packed:
        if schema.row_kind is not RowKind.TEXTS or not isinstance(packed["texts"], list):
            raise ValueError("texts are kept in it, but its rows are none.")
        return check_kind(packed["texts"], RowKind.TEXTS)
    if "array" in packed:
        rows = np.asarray(packed["array"])
        if schema.row_kind is RowKind.IMAGES:
            schema.check_kind(rows)
            return rows
    elif "at" in packed:
        at, shape = np.asarray(packed["at"]), tuple(packed["shape"])
        if len(shape) != 2 or not 0 < shape[0] <= MOST_ROWS or shape[1] != len(schema.names):
            raise ValueError("sparse rows kept in it have a shape that no such rows have.")
        # An index out of range would be an address outside the matrix; this constructor checks.
        rows = sparse.coo_matrix((packed["is"], (at[0], at[1])), shape=shape).tocsr()
    else:
        rows = _frame(packed["columns"], schema)
    if len(rows.shape) != 2 or rows.shape[1] != len(schema.names):
        raise ValueError("the rows kept to know the predictor have other columns than fit.")
    return rows


def _packed(series: nw.Series[Any]) -> dict[str, Any]:
    dtype = series.dtype
    if isinstance(dtype, nw.Datetime | nw.Date):
        unit: Any = getattr(dtype, "time_unit", "us")
        unit = "ms" if unit == "s" else unit
        return {"times": _whole(series.dt.timestamp(unit)), "unit": unit}
    if isinstance(dtype, nw.Duration):
        return {"lengths": _whole(series.dt.total_microseconds())}
    known = dtype.is_integer() or dtype.is_float() or dtype in (nw.Boolean, nw.String, nw.Object)
    is_category = isinstance(dtype, nw.Categorical | nw.Enum)
    if not (known or is_category):
        raise TypeError(f"a column of type {dtype} is not kept")
    native = series.to_native()
    named = str(native.dtype) if _is_pandas(series) else ""
    packed: dict[str, Any] = {"values": _check_plain(series.to_list()), "type": named}
    if is_category and _is_pandas(series):
        packed["levels"] = _check_plain(native.cat.categories.tolist())
        packed["is_ordered"] = bool(native.cat.ordered)
    return packed


def _is_pandas(series: nw.Series[Any]) -> bool:
    return series.implementation.is_pandas()


def _whole(series: nw.Series[Any]) -> list[int | None]:
    is_null = series.is_null().to_list()
    return [
        None if missing else int(value)
        for value, missing in zip(series.to_list(), is_null, strict=True)
    ]


def _check_plain(values: list[Any]) -> list[Any]:
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    # Not every library's own missing value is None.
    plain = [None if type(value).__name__ in ("NAType", "NaTType") else value for value in plain]
    odd = {type(value).__name__ for value in plain if not isinstance(value, PLAIN)}
    if odd:
        raise TypeError(f"values of type {', '.join(sorted(odd))} are not kept")
    return plain


def _frame(columns: list[Mapping[str, Any]], schema: Schema) -> Rows:
    backend: Any = schema.kind
    series = [
        _series(str(name), kind, packed, backend)
        for name, kind, packed in zip(schema.names, schema.types, columns, strict=True)
    ]
    if len({len(part) for part in series}) != 1:
        raise ValueError("the columns of rows kept in it differ in length.")
    found = series[0].to_frame().with_columns(series[1:]).to_native()
    if backend == "pandas":
        found.columns = list(schema.names)  # names need not be text there
    return found


def _series(name: str, kind: str, packed: Mapping[str, Any], backend: Any) -> nw.Series[Any]:
    if "times" in packed:
        return _times(name, kind, packed, backend)
    if "lengths" in packed:
        values = np.array(packed["lengths"], dtype="timedelta64[us]")
        return nw.new_series(name, values, backend=backend)
    if backend == "pandas":
        return _pandas_series(name, packed)
    dtype = nw.String if kind == "Categorical" else getattr(nw, kind)
    found = nw.new_series(name, packed["values"], dtype, backend=backend)
    return found.cast(nw.Categorical) if kind == "Categorical" else found


def _times(name: str, kind: str, packed: Mapping[str, Any], backend: Any) -> nw.Series[Any]:
    if packed["unit"] not in UNITS:  # numpy would read a type of any size in it
        raise ValueError("times kept in it have an unknown unit.")
    values = np.array(packed["times"], dtype=f"datetime64[{packed['unit']}]")
    found = nw.new_series(name, values, backend=backend)
    if kind == "Date":
        return found.cast(nw.Date)
    zone = zone_of(kind)
    return found if zone is None else found.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)


def _pandas_series(name: str, packed: Mapping[str, Any]) -> nw.Series[Any]:
    pd = require("pandas", extra="demo")
    if "levels" in packed:
        dtype = pd.CategoricalDtype(packed["levels"], packed["is_ordered"])
    else:
        dtype = packed["type"] if PANDAS_TYPES.fullmatch(packed["type"]) else None
    return nw.from_native(pd.Series(packed["values"], dtype=dtype, name=name), series_only=True)
