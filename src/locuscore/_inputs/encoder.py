"""Rows as floats: numbers as they are, categories as codes, dates as seconds."""

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import narwhals as nw
import numpy as np
from scipy import sparse

from locuscore._inputs.zones import without_zone_names
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.checks import is_missing
from locuscore._shared.frames import as_frame, n_rows
from locuscore._shared.kept import Kept

Column = np.ndarray | nw.Series[Any]
NUMBERS = (Real, Decimal, np.bool_)


class Encoder:
    """Turns rows into floats: numbers as they are, categories as codes, dates as seconds.

    Codes follow the declared order of ordered categories, else the sorted levels seen in `fit`.
    Levels not seen there, and missing values, become NaN.
    """

    ARCHIVE = Kept("Encoder", fields=("codes_",))

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the encoder that an archive holds, if its levels have codes by column."""
        found = cls()
        found.codes_ = parts["codes_"]
        columns = found.codes_.items() if isinstance(found.codes_, dict) else [(None, None)]
        are_codes = all(
            type(j) is int and isinstance(codes, dict) and {*map(type, codes.values())} <= {float}
            for j, codes in columns
        )
        if not are_codes:
            raise ValueError("the categories of its columns have no codes each")
        return found

    def fit(self, X: Rows) -> "Encoder":
        """Learn the levels of every column that is not numeric."""
        self.codes_: dict[int, dict[Hashable, float]] = {}
        for j, (name, values) in enumerate(_columns(X)):
            levels = _levels(name, values)
            if levels is not None:
                self.codes_[j] = {level: float(code) for code, level in enumerate(levels)}
        return self

    def transform(self, X: Rows) -> FloatArray:
        """Return a float matrix with one column for each of X's."""
        if sparse.issparse(X):
            return np.asarray(X.toarray(), dtype=np.float64)
        if isinstance(X, np.ndarray) and not self.codes_:
            return _floats("X", X)
        out = np.empty((n_rows(X), X.shape[1]))
        for j, (name, values) in enumerate(_columns(X)):
            codes = self.codes_.get(j)
            if codes is None:
                out[:, j] = _floats(f"column {name!r} of X", values)
            else:
                out[:, j] = [codes.get(value, np.nan) for value in _listed(values)]
        return out


def _columns(X: Rows) -> list[tuple[Any, Column]]:
    """Columns with their names, or positions in an array."""
    if sparse.issparse(X):
        return []  # all numbers, so there is nothing to learn, and `transform` reads them at once
    frame = as_frame(X)
    if frame is None:
        return [(j, X[:, j]) for j in range(X.shape[1])]
    return [(name, without_zone_names(frame[:, j])) for j, name in enumerate(frame.columns)]


def _listed(values: Column) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values.to_list()


def _levels(name: Any, values: Column) -> Sequence[Hashable] | None:
    """Levels of a column of categories or text in their order; None for numbers and times."""
    dtype = values.dtype
    if isinstance(dtype, nw.Enum):
        return dtype.categories
    if isinstance(dtype, np.dtype):
        has_levels = dtype.kind in "OUS"
    else:
        has_levels = not (dtype.is_numeric() or dtype.is_temporal() or dtype == nw.Boolean)
    if not has_levels:
        return None
    present = [value for value in _listed(values) if not is_missing(value)]
    if not present:
        return []  # no level was seen, so every later value is an unseen one
    # One column of text makes numpy store the whole table as text, so numbers are parsed again.
    if _are_numbers(present, read_text=isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return None
    allowed = Hashable if isinstance(dtype, nw.Categorical) else (str, bytes, *NUMBERS)
    wrong = {type(value).__name__ for value in present if not isinstance(value, allowed)}
    if wrong:
        raise TypeError(
            f"column {name!r} of X holds values of type {', '.join(sorted(wrong))}, which cannot "
            "be encoded; turn it into a column of numbers, text or times (pandas.to_datetime), or "
            "pass `signals` as a function of X."
        )
    return sorted(set(present), key=_by_type_then_value)


def _are_numbers(values: list[Any], *, read_text: bool) -> bool:
    if not all(isinstance(value, str if read_text else NUMBERS) for value in values):
        return False
    try:
        [float(value) for value in values]
    except ValueError:
        return False
    return True


def _by_type_then_value(level: Any) -> tuple[str, Any]:
    # Values of different types, such as text and numbers, cannot be compared with each other.
    return type(level).__name__, level


def _floats(name: str, values: Column) -> FloatArray:
    """Numbers as floats, times as seconds, missing values as NaN."""
    try:
        known = known_floats(values)
        listed = values if isinstance(values, np.ndarray) else np.array(values.to_list(), object)
        return _array_floats(listed) if known is None else known
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name} cannot be read as numbers ({error}); turn it into numbers, text or dates. A "
            "column that held numbers in fit must hold numbers later on."
        ) from None


def known_floats(values: Column) -> FloatArray | None:
    """Return a column of numbers, truth values or times as floats; None for any other."""
    if isinstance(values, np.ndarray):
        return _array_floats(values) if values.dtype.kind in "biufmM" else None
    dtype = values.dtype
    if isinstance(dtype, nw.Duration):
        return _series_floats(values.dt.total_microseconds()) / 1e6
    if isinstance(dtype, nw.Date | nw.Datetime):
        return _series_floats(values.dt.timestamp("us")) / 1e6
    return _series_floats(values) if dtype.is_numeric() or dtype == nw.Boolean else None


def _series_floats(series: nw.Series[Any]) -> FloatArray:
    return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _array_floats(values: np.ndarray) -> FloatArray:
    if values.dtype.kind in "mM":
        # numpy stores NaT as the smallest integer, which would look like a very early time.
        seconds = values.astype(f"{values.dtype.kind}8[us]").astype(np.float64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind == "O":
        full = [np.nan if is_missing(value) else value for value in values.ravel().tolist()]
        return np.array(full, dtype=np.float64).reshape(values.shape)
    return np.asarray(values, dtype=np.float64)
