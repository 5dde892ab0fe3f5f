"""Rows as JSON: from a request to the kind of rows a model was fitted on, and back."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any

import narwhals as nw
import numpy as np
from pydantic_core import from_json

from locuscore import Schema
from locuscore._protocols import Rows
from locuscore.service._settings import RefusalError

Columns = list[list[Any]]  # one list of values for each column of the schema
LONGEST_SECONDS = 1e11


@dataclass(frozen=True)
class Kind:
    """What a column takes: in words, as JSON schema, as a check that returns the value or raises.

    `None` is never checked: null is a missing value in every column.
    """

    words: str
    schema: Mapping[str, Any]
    check: Callable[[Any], Any]
    example: Any


def _number(value: Any) -> float:
    number = float(_of(value, int, float))
    if not isfinite(number):
        raise ValueError
    return number


def _whole(value: Any) -> int:
    number = _of(value, int, float)
    if number != int(number):
        raise ValueError
    return int(number)


def _of(value: Any, *types: type) -> Any:
    if type(value) not in types:  # a truth value is no number
        raise TypeError
    return value


def _scalar(value: Any) -> Any:
    return _number(value) if type(value) is float else _of(value, str, int, bool)


def _naive(value: Any) -> datetime:
    moment = datetime.fromisoformat(_of(value, str))
    if moment.tzinfo is not None:
        raise ValueError
    return moment


def _aware(value: Any) -> datetime:
    moment = datetime.fromisoformat(_of(value, str))
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(UTC).replace(tzinfo=None)


def _seconds(value: Any) -> float:
    seconds = _number(value)
    if abs(seconds) > LONGEST_SECONDS:
        raise ValueError
    return seconds


def _nullable(*types: str, **more: Any) -> dict[str, Any]:
    return {"type": [*types, "null"], **more}


_TEXT = _nullable("string")
_ANY = _nullable("string", "number", "boolean")
_SECONDS = _nullable("number", minimum=-LONGEST_SECONDS, maximum=LONGEST_SECONDS)
KINDS = {
    "number": Kind("numbers", _nullable("number"), _number, 0.5),
    "whole": Kind("whole numbers", _nullable("integer"), _whole, 1),
    "truth": Kind("true or false", _nullable("boolean"), lambda v: _of(v, bool), True),
    "text": Kind("text", _TEXT, lambda v: _of(v, str), "text"),
    "category": Kind("the name of a category", _ANY, _scalar, "text"),
    "any": Kind("text, numbers, true or false", _ANY, _scalar, "text"),
    "date": Kind(
        "dates such as 2024-01-31", _TEXT, lambda v: date.fromisoformat(_of(v, str)), "2024-01-31"
    ),
    "time": Kind(
        "times without a zone, such as 2024-01-31T12:00:00", _TEXT, _naive, "2024-01-31T12:00:00"
    ),
    "zoned": Kind(
        "times with a zone, such as 2024-01-31T12:00:00Z", _TEXT, _aware, "2024-01-31T12:00:00Z"
    ),
    "duration": Kind("seconds", _SECONDS, _seconds, 1.5),
}
# Names of types, of narwhals and of numpy, and what they are here; the first that fits counts.
_NAMES = [
    (r"(?i)float|Decimal", "number"),
    (r"(?i)u?int", "whole"),
    (r"(?i)bool", "truth"),
    (r"String|[<>|=]?[US]\d", "text"),
    (r"Categorical|Enum", "category"),
    (r"Datetime.*time_zone='", "zoned"),
    (r"(?i)datetime", "time"),
    (r"(?i)duration|timedelta", "duration"),
    (r"Date", "date"),
    (r"(?i)object|unknown", "any"),
]


def kind_name(type_name: str) -> str:
    """Return the kind of a column from the name of its type in the schema."""
    for pattern, kind in _NAMES:
        if re.match(pattern, type_name):
            return kind
    raise RefusalError(
        422, f"a column of type {type_name} cannot be sent as JSON; send an Arrow stream."
    )


def parse_rows(body: bytes, schema: Schema, max_rows: int) -> tuple[Columns, int]:
    """Return the columns of a request, each value checked, and their number of rows."""
    _check_counts(body, max_rows, len(schema.names))
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        sentence = f"the body is no JSON ({error}); a missing value is null, not NaN."
        raise RefusalError(400, sentence) from None
    rows = content.get("rows") if isinstance(content, dict) else None
    if not isinstance(rows, list) or len(content) != 1:
        raise RefusalError(422, 'the body must be one object with one key, {"rows": [...]}.')
    if len(rows) > max_rows:
        raise RefusalError(413, f"{len(rows)} rows are too many; at most {max_rows} are taken.")
    listed = _listed(rows, schema) if schema.kind == "array" else _named(rows, schema)
    columns = zip(schema.names, schema.types, listed, strict=True)
    return [_checked(str(name), kind, values) for name, kind, values in columns], len(rows)


def _check_counts(body: bytes, max_rows: int, width: int) -> None:
    """Refuse more rows or values than are taken before any is parsed: that would hold up others.

    A row opens one bracket, and has a comma after each value but the very last; brackets and commas
    inside text are not counted, which is looked into only where they would matter.
    """
    for is_exact in (False, True):
        text = _without_text(body) if is_exact else body
        n_rows = text.count(b"{") + text.count(b"[") - 2
        n_values = text.count(b",") + 1
        if n_rows <= max_rows and n_values <= max_rows * max(width, 1):
            return
    if n_rows > max_rows:
        raise RefusalError(413, f"{n_rows} rows are too many; at most {max_rows} are taken.")
    raise RefusalError(
        413, f"{n_values} values are too many; at most {max_rows} rows of {width} are taken."
    )


def _without_text(body: bytes) -> bytes:
    """Return what is outside of quotation marks; an escaped one is none."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    data = np.frombuffer(plain, dtype=np.uint8)
    is_inside = np.bitwise_xor.accumulate(data == ord('"'))
    return data[~is_inside].tobytes()


def _named(rows: Sequence[Any], schema: Schema) -> Columns:
    names = [str(name) for name in schema.names]
    wanted = set(names)
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RefusalError(422, f"row {i} must be an object with the columns {names}.")
        if row.keys() != wanted:
            parts = {"missing": wanted - row.keys(), "unknown": row.keys() - wanted}
            found = "; ".join(
                f"{what}: {sorted(cols)[:10]}" for what, cols in parts.items() if cols
            )
            raise RefusalError(422, f"row {i} does not have the columns of the model; {found}.")
    return [[row[name] for row in rows] for name in names]


def _listed(rows: Sequence[Any], schema: Schema) -> Columns:
    width = len(schema.names)
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            raise RefusalError(422, f"row {i} must be a list of {width} values.")
    return [[row[j] for row in rows] for j in range(width)]


def _checked(name: str, type_name: str, values: list[Any]) -> list[Any]:
    kind = KINDS[kind_name(type_name)]
    low, high = whole_range(type_name)
    checked = []
    for i, value in enumerate(values):
        try:
            good = None if value is None else kind.check(value)
            if low is not None and good is not None and not low <= good <= high:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            shown = repr(value)[:40]
            raise RefusalError(
                422, f"column {name!r} takes {kind.words}; row {i} has {shown}."
            ) from None
        checked.append(good)
    return checked


def whole_range(type_name: str) -> tuple[Any, Any]:
    """Smallest and largest value of a type of whole numbers, else nothing."""
    if not re.fullmatch(r"(?i)u?int(8|16|32|64)", type_name):
        return None, None
    info = np.iinfo(type_name.lower())
    return int(info.min), int(info.max)


def as_kind(schema: Schema, columns: Columns) -> Rows:
    """Return checked columns as the kind of rows that `fit` has seen."""
    if schema.kind == "array":
        return _array(schema.types[0], columns)
    backend: Any = schema.kind if schema.kind in ("pandas", "polars") else "pyarrow"
    series = {
        name: _series(str(name), type_name, values, backend)
        for name, type_name, values in zip(schema.names, schema.types, columns, strict=True)
    }
    return schema.conform(nw.from_dict(series, backend=backend).to_native())


def _array(type_name: str, columns: Columns) -> np.ndarray:
    values: Any = [list(row) for row in zip(*columns, strict=True)]
    shape = (len(columns[0]), len(columns))
    kind = kind_name(type_name)
    if kind in ("time", "duration"):
        parts = [_plain(kind, type_name, column) for column in columns]
        return np.column_stack(parts).astype(type_name)
    has_gaps = any(None in column for column in columns)
    if kind in ("number", "whole") or (kind == "truth" and has_gaps):
        wanted = np.float64 if has_gaps and kind != "number" else np.dtype(type_name)
        return np.array(values, dtype=wanted).reshape(shape)
    dtype = np.dtype(object) if has_gaps or kind == "any" else np.dtype(type_name).type
    return np.array(values, dtype=dtype).reshape(shape)


def _series(name: str, type_name: str, values: list[Any], backend: Any) -> nw.Series[Any]:
    kind = kind_name(type_name)
    if backend == "pandas" or kind in ("date", "time", "zoned", "duration", "category", "any"):
        found = nw.new_series(name, _plain(kind, type_name, values), backend=backend)
    else:
        dtype = getattr(nw, type_name) if hasattr(nw, type_name) else nw.Float64
        found = nw.new_series(name, values, dtype, backend=backend)
    if kind == "category":
        return found.cast(nw.Categorical)
    if kind == "zoned":
        return found.dt.replace_time_zone("UTC")  # `conform` moves it to the zone of `fit`
    return found


def _plain(kind: str, type_name: str, values: list[Any]) -> Any:
    """Return values as an array, or as a list where a library reads missing text only so."""
    units = {"date": "D", "time": "us", "zoned": "us"}
    if kind in units:
        return np.array(values, dtype=f"datetime64[{units[kind]}]")
    if kind == "duration":
        whole = [None if v is None else round(v * 1e6) for v in values]
        return np.array(whole, dtype="timedelta64[us]")
    has_gaps = None in values
    if kind == "number" or (kind == "whole" and has_gaps):
        return np.array(values, dtype="float32" if type_name == "Float32" else np.float64)
    if kind == "whole" or (kind == "truth" and not has_gaps):
        return np.array(values, dtype={"Boolean": "bool"}.get(type_name, type_name.lower()))
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def scored_rows(columns: Mapping[str, np.ndarray], bounds: Sequence[str]) -> list[dict[str, Any]]:
    """Return one object for each row; what JSON cannot say is null, with a flag beside a bound."""
    out: dict[str, list[Any]] = {}
    for name, values in columns.items():
        listed = values.tolist()
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            listed = [value if isfinite(value) else None for value in listed]
        out[name] = listed
        if name in bounds:
            out[f"{name}_is_infinite"] = np.isinf(values).tolist()
    return [dict(zip(out, row, strict=True)) for row in zip(*out.values(), strict=True)]
