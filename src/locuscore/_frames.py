"""The only place that meets frames: counting, slicing, encoding and giving back what came in."""

from collections.abc import Hashable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from locuscore._protocols import FloatArray, IntArray, Rows


def as_rows(X: Rows) -> Rows:
    """Return X as something with rows: a frame as it is, sparse as CSR, else a 2-D array."""
    if sparse.issparse(X):
        return X.tocsr()
    frame = as_frame(X)
    if frame is not None:
        return X
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError("X is a lazy frame; collect it first, for instance with X.collect().")
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got an array of shape {array.shape} instead: one row per input. "
            "Reshape your data either using X.reshape(-1, 1) for a single feature "
            "or X.reshape(1, -1) for a single row."
        )
    return array


def as_frame(X: Rows) -> nw.DataFrame[Any] | None:
    """Return a uniform view of a pandas, polars or Arrow frame; None for anything else."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def n_rows(X: Rows) -> int:
    """Count the rows of X."""
    return int(X.shape[0])


def take_rows(X: Rows, rows: slice | IntArray) -> Rows:
    """Return some rows of X, of the type that came in."""
    frame = as_frame(X)
    return X[rows] if frame is None else frame[rows].to_native()


def column(X: Rows, name: Hashable) -> np.ndarray:
    """Return one column as an array: by name in a frame, by position in an array."""
    frame = as_frame(X)
    if frame is not None:
        if name not in frame.columns:
            raise ValueError(f"X has no column {name!r}; its columns are {frame.columns}.")
        return frame[str(name)].to_numpy()
    if not isinstance(name, int):
        raise TypeError(
            f"column {name!r} is a name, but X is an array; pass a frame, or the column's position."
        )
    return np.asarray(X[:, name])


def like_rows(X: Rows, values: np.ndarray, names: Sequence[str]) -> Any:
    """Return values (n,) or (n, m) as X's kind of series or frame, with its index."""
    frame = as_frame(X)
    if frame is None:
        return values
    columns = dict(zip(names, np.atleast_2d(values.T), strict=True))
    result = nw.from_dict(columns, backend=frame.implementation)
    index = nw.maybe_get_index(frame)
    if index is not None:
        # In a list: narwhals would take a bare index apart into column names.
        result = nw.maybe_set_index(result, index=[index])
    return (result[names[0]] if values.ndim == 1 else result).to_native()


class Encoder:
    """Turns rows into floats: numbers as they are, categories as codes, dates as seconds.

    Codes follow the declared order of ordered categories, else the sorted levels seen in `fit`.
    Levels not seen there, and missing values, become NaN.
    """

    def fit(self, X: Rows) -> "Encoder":
        """Learn the levels of every column that is not numeric."""
        self.codes_: dict[int, dict[Hashable, float]] = {}
        for j, (values, order) in enumerate(_text_columns(X)):
            if values is not None:
                self.codes_[j] = _codes(values, order)
        return self

    def transform(self, X: Rows) -> FloatArray:
        """Return a float matrix with one column for each of X's."""
        if sparse.issparse(X):
            return np.asarray(X.toarray(), dtype=np.float64)
        frame = as_frame(X)
        if frame is None and not self.codes_:
            return _to_floats(X)
        out = np.empty((n_rows(X), X.shape[1]))
        for j in range(X.shape[1]):
            if j in self.codes_:
                values = X[:, j].tolist() if frame is None else frame[:, j].to_list()
                out[:, j] = [self.codes_[j].get(value, np.nan) for value in values]
            else:
                out[:, j] = _to_floats(X[:, j]) if frame is None else _series_floats(frame[:, j])
        return out


def _to_floats(values: np.ndarray) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X has a value that is not a number in a column that was numeric in fit: {error}."
        ) from None


def _text_columns(X: Rows) -> list[tuple[list[Hashable] | None, Sequence[str] | None]]:
    """For each column its values and declared order if it holds categories, else (None, None)."""
    if sparse.issparse(X):
        return []
    frame = as_frame(X)
    if frame is None:
        if X.dtype.kind not in "OUS":
            return []
        return [
            (None if _is_numeric(X[:, j]) else X[:, j].tolist(), None) for j in range(X.shape[1])
        ]
    found: list[tuple[list[Hashable] | None, Sequence[str] | None]] = []
    for j in range(frame.shape[1]):
        series = frame[:, j]
        if series.dtype.is_numeric() or series.dtype.is_temporal() or series.dtype == nw.Boolean:
            found.append((None, None))
        else:
            order = series.dtype.categories if isinstance(series.dtype, nw.Enum) else None
            found.append((series.to_list(), order))
    return found


def _is_numeric(values: np.ndarray) -> bool:
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _codes(values: list[Hashable], order: Sequence[Hashable] | None) -> dict[Hashable, float]:
    if order is None:
        try:
            levels = {v for v in values if v is not None and v == v}
        except TypeError:
            raise TypeError(
                f"X has a column of type {type(values[0]).__name__}, which cannot be encoded; "
                "turn it into numbers, text or dates, or pass `signals` as a function of X."
            ) from None
        order = sorted(levels, key=_by_type_then_value)
    return {level: float(code) for code, level in enumerate(order)}


def _by_type_then_value(level: Any) -> tuple[str, Any]:
    return type(level).__name__, level


def _series_floats(series: nw.Series[Any]) -> FloatArray:
    if series.dtype.is_temporal():
        if isinstance(series.dtype, nw.Duration):
            series = series.dt.total_microseconds()
        elif isinstance(series.dtype, nw.Time):
            raise TypeError(
                f"X has a column {series.name!r} of clock times; turn it into a number first."
            )
        else:
            series = series.cast(nw.Datetime("us")).dt.timestamp("us")
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64) / 1e6
    return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
