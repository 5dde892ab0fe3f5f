"""Columns at the door: arrays in, what the tables keep; and back."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locuscore._protocols import FloatArray
from locuscore.watch._ledger.tables import LONGEST_ID, LONGEST_NAME

DAY = 86_400_000_000  # microseconds
LATEST = 2**53  # microseconds: the year 2255
LARGEST_LOSS = 1e100  # sums stay finite
Columns = dict[str, NDArray[Any]]

OPTIONAL_FLOATS = ("score", "probability", "chance")
KNOWN = {
    *("id", "time", "prediction", "bounds", "score", "probability", "flagged", "group_name"),
    *("cluster", "chance", "drawn", "signals"),
}


def decision_columns(
    given: Mapping[str, Any], n_alphas: int, now: int | None = None
) -> dict[str, Any]:
    """Check the columns of some decisions; as lists of Python values, ready for a driver.

    `bounds` has one column per alpha. `time` may be left out if `now` is given.
    """
    unknown = sorted(set(given) - KNOWN)
    if unknown or "id" not in given:
        raise ValueError(
            f"decisions have the column 'id' and some of {sorted(KNOWN - {'id'})}; "
            f"got {'no id' if 'id' not in given else unknown}."
        )
    ids = texts(given["id"], "id", LONGEST_ID)
    n = len(ids)
    columns: dict[str, Any] = {"id": ids, "time": times(given.get("time"), n, now)}
    columns["prediction"] = json_texts(given.get("prediction"), n, "prediction")
    columns["bounds"] = packed(given.get("bounds", np.empty((n, 0))), n, n_alphas, "bounds")
    for name in OPTIONAL_FLOATS:
        columns[name] = floats(given.get(name), n, name)
    _check_chances(columns["chance"])
    columns["flagged"] = booleans(given.get("flagged"), n, "flagged")
    columns["drawn"] = booleans(given.get("drawn"), n, "drawn")
    for name in ("group_name", "cluster"):
        columns[name] = optional_texts(given.get(name), n, name)
    signals = given.get("signals")
    columns["signals"] = [None] * n if signals is None else packed(signals, n, None, "signals")
    return columns


def texts(values: Any, name: str, longest: int) -> list[str]:
    """Check texts of 1 to so many characters that any database can keep; integers are written."""
    found = [_text(value, name) for value in values]
    joined = "".join(found)
    if not all(found) or max(map(len, found), default=1) > longest or "\0" in joined:
        raise ValueError(f"{name} must be a text of 1 to {longest} characters, without NUL.")
    try:
        joined.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} must be text that UTF-8 can write; got a lone surrogate."
        ) from None
    return found


def _text(value: Any, name: str) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    raise ValueError(f"{name} must be a text or an integer; got {type(value).__name__}.")


def optional_texts(values: Any, n: int, name: str) -> list[str | None]:
    """Check texts of which some are missing: None, NaN or empty."""
    if values is None:
        return [None] * n
    given = list(values)
    _check_length(len(given), n, name)
    there = [not (value is None or value != value or value == "") for value in given]
    found = iter(texts(itertools.compress(given, there), name, LONGEST_NAME))
    return [next(found) if is_there else None for is_there in there]


def times(values: Any, n: int, now: int | None) -> list[int]:
    """Check times: integers in microseconds, or datetime64, which is taken as UTC."""
    if values is None:
        if now is None:
            raise ValueError("decisions need the column 'time', in microseconds since 1970, UTC.")
        return [now] * n
    given = np.asarray(values)
    if given.dtype.kind == "M":
        given = given.astype("datetime64[us]").astype(np.int64)
    _check_length(len(given), n, "time")
    if given.dtype.kind not in "iu" or (n and not (given.min() >= 0 and given.max() < LATEST)):
        raise ValueError(
            "time must be in integer microseconds since 1970 (UTC) or datetime64, between 1970 "
            f"and 2255; got {given.dtype} with values such as {given[:1].tolist()}."
        )
    return given.tolist()


def floats(values: Any, n: int, name: str) -> list[float | None]:
    """Return numbers, None where one is missing."""
    if values is None:
        return [None] * n
    given = np.asarray(values, dtype=float)
    _check_length(len(given), n, name)
    found = given.tolist()
    return [None if v != v else v for v in found] if np.isnan(given).any() else found


def finite(values: Any, n: int, name: str) -> list[float | None]:
    """Return numbers that are finite, so that their sums are too, or missing."""
    found = floats(values, n, name)
    if any(value is not None and math.isinf(value) for value in found):
        raise ValueError(f"{name} must be finite; got an infinite value.")
    if any(value is not None and abs(value) > LARGEST_LOSS for value in found):
        raise ValueError(f"{name} must be at most {LARGEST_LOSS:g} in size; got a larger value.")
    return found


def booleans(values: Any, n: int, name: str) -> list[bool]:
    if values is None:
        return [False] * n
    given = np.asarray(values)
    _check_length(len(given), n, name)
    if given.dtype != bool:
        raise ValueError(f"{name} must be booleans; got {given.dtype}.")
    return given.tolist()


def packed(values: Any, n: int, width: int | None, name: str) -> list[bytes]:
    """Rows of a matrix as little-endian float64."""
    given = np.asarray(values, dtype="<f8")
    if given.ndim != 2 or len(given) != n or width not in (None, given.shape[1]):
        raise ValueError(
            f"{name} must have shape ({n}, {'any' if width is None else width}); got {given.shape}."
        )
    raw, size = given.tobytes(), 8 * given.shape[1]
    return [raw[i * size : (i + 1) * size] for i in range(n)]


def unpacked(values: Sequence[bytes | None], width: int | None = None) -> FloatArray:
    """Undo `packed`; rows without values, or of another width, are NaN."""
    if width is None:
        width = max((len(value) // 8 for value in values if value), default=0)
    nothing = np.full(width, np.nan).tobytes()
    raw = b"".join(v if v is not None and len(v) == 8 * width else nothing for v in values)
    return np.frombuffer(raw, dtype="<f8").reshape(len(values), width).astype(float)


def json_texts(values: Any, n: int, name: str) -> list[str | None]:
    """Answers of any kind that JSON has (numbers, classes, vectors) as texts."""
    if values is None:
        return [None] * n
    given = values.tolist() if hasattr(values, "tolist") else list(values)
    _check_length(len(given), n, name)
    try:
        found = [
            repr(v) if type(v) is float else None if v is None else json.dumps(_plain(v))
            for v in given
        ]
    except TypeError as error:
        raise ValueError(f"{name} must be numbers, texts, or lists of them: {error}.") from None
    # PostgreSQL keeps no NUL, and JSON writes it as an escape.
    return [None if text == "nan" else text for text in found]


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def json_values(found: Iterable[str | None]) -> NDArray[Any]:
    """Undo `json_texts`: floats if all are numbers or missing, else objects."""
    values = [None if text is None else _value(text) for text in found]
    if all(v is None or type(v) in (int, float) for v in values):
        return np.array(values, dtype=float)
    return objects(values)


def _value(text: str) -> Any:
    try:
        return float(text)  # also inf, as repr writes it
    except ValueError:
        return json.loads(text)


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return an array of objects; lists stay lists."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def arrays(rows: Sequence[Sequence[Any]], names: Sequence[str], n_alphas: int | None) -> Columns:
    """Turn rows of a query into columns by their names."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {n: _array(n, c, n_alphas) for n, c in zip(names, columns, strict=True)}


def _array(name: str, values: Sequence[Any], n_alphas: int | None) -> NDArray[Any]:
    if name in ("bounds", "signals"):
        return unpacked(values, n_alphas if name == "bounds" else None)
    if name in ("prediction", "y"):
        return json_values(values)
    if name in TYPES:
        return np.array(values, dtype=TYPES[name])
    return objects(values)


TYPES: dict[str, type] = dict.fromkeys(
    ("seq", "deployment", "time", "written_at", "day", "number"), np.int64
)
TYPES |= dict.fromkeys((*OPTIONAL_FLOATS, "loss", "label_time", "total", "weighted"), float)
TYPES |= dict.fromkeys(("flagged", "drawn", "accepted", "current"), bool)


def _check_length(found: int, n: int, name: str) -> None:
    if found != n:
        raise ValueError(f"{name} has {found} entries for {n} ids; give one for each.")


def _check_chances(chances: list[float | None]) -> None:
    if any(chance is not None and not 0 < chance <= 1 for chance in chances):
        raise ValueError(
            "chance is that of a row being drawn for a label: above 0, at most 1, or missing."
        )
