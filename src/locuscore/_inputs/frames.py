"""The only place that meets frames: counting, slicing, encoding and giving back what came in."""

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from locuscore._inputs.zones import convert, dtype_of, in_zones, without_zone_names
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.checks import is_missing
from locuscore._shared.fork import check_polars_process


def as_rows(X: Rows) -> Rows:
    """Return X as something with rows: a frame as it is, sparse as CSR, else a 2-D array."""
    if sparse.issparse(X):
        return X.tocsr()
    frame = as_frame(X)
    if frame is not None:
        return X
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError("X is a lazy frame; collect it first, for instance with X.collect().")
    array = read_array(X, "X")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got an array of shape {array.shape} instead: one row per input. "
            f"{_how_to_make_rows(X, array)}"
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers.")
    return array


def _how_to_make_rows(X: Any, array: np.ndarray) -> str:
    kind = f"{type(X).__module__}.{type(X).__name__}"
    if hasattr(X, "to_frame"):
        return f"X is a {kind}: use X.to_frame() for a single feature or X.to_frame().T for a row."
    if array.dtype.kind == "O":
        return f"X is a {kind}: make it a table; dicts, for instance, with pandas.DataFrame(rows)."
    return (
        "Reshape your data either using X.reshape(-1, 1) for a single feature or "
        "X.reshape(1, -1) for a single row."
    )


def as_array(y: ArrayLike) -> np.ndarray:
    """Return a column of targets or losses (list, array, or series of any library) as an array."""
    series: Any = nw.from_native(y, allow_series=True, pass_through=True)
    return series.to_numpy() if isinstance(series, nw.Series) else read_array(y, "y")


def read_array(values: Any, name: str) -> np.ndarray:
    """Return what numpy reads as an array; a tensor that it cannot read is named with the remedy.

    Such a tensor lies on a GPU, carries a gradient or has a type that numpy lacks.
    """
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name} is a {type(values).__name__} that cannot be read as one array ({error}); "
            "expected one row per input, all of one length."
        ) from None
    except (RuntimeError, TypeError) as error:
        if not hasattr(values, "detach"):
            raise
        raise TypeError(
            f"{name} is a {type(values).__module__}.{type(values).__name__} that numpy cannot read "
            f"({error}); turn it into an array first: .detach().cpu().numpy(), after .float() "
            "where its type is bfloat16."
        ) from None


def name_of(y: ArrayLike) -> str | None:
    """Return the name of a series; None where it has none, or one that is not text."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def as_frame(X: Rows) -> nw.DataFrame[Any] | None:
    """Return a uniform view of a pandas, polars or Arrow frame; None for anything else."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    if frame.implementation.is_polars():
        check_polars_process()
    return frame


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
        names: list[Any] = frame.columns
        if name not in names:
            raise ValueError(f"X has no column {name!r}; its columns are {names}.")
        return frame[:, names.index(name)].to_numpy()
    if not isinstance(name, Integral):
        raise TypeError(
            f"column {name!r} is a name, but X is an array; pass a frame, or the column's position."
        )
    if not -X.shape[1] <= int(name) < X.shape[1]:
        raise ValueError(f"X has no column {name!r}; it has {X.shape[1]} columns.")
    values = X[:, [int(name)]]
    return np.asarray(values.toarray() if sparse.issparse(values) else values)[:, 0]


def column_names(X: Rows) -> list[Any]:
    """Names of a frame's columns, positions of an array's."""
    frame = as_frame(X)
    return list(range(X.shape[1])) if frame is None else list(frame.columns)


def numbered(prefix: str, values: FloatArray) -> list[str]:
    """Return names such as bound_0.1, with as many digits as tell the numbers apart."""
    return [f"{prefix}_{np.format_float_positional(v, trim='-')}" for v in np.atleast_1d(values)]


def like_rows(X: Rows, values: np.ndarray, names: Sequence[str]) -> Any:
    """Return values (n,) or (n, m) as X's kind of series or frame, with its index."""
    frame = as_frame(X)
    if frame is None:
        return values
    if len(set(names)) < len(names):
        raise ValueError(f"the columns of a frame need distinct names; got {list(names)}.")
    columns = values.reshape(len(values), len(names)).T
    # Columns added to a frame take over its index; one column of X is enough to carry it.
    added = [
        nw.new_series(name, np.ascontiguousarray(column), backend=frame.implementation)
        for name, column in zip(names, columns, strict=True)
    ]
    result = frame[:, [0]].with_columns(added).select(list(names))
    return (result[:, 0] if values.ndim == 1 else result).to_native()


@dataclass(frozen=True)
class Schema:
    """How rows looked in `fit`: kind of frame, name and type of each column.

    `kind` is ``"pandas"``, ``"polars"``, ``"pyarrow"`` or another library's name, or ``"array"``,
    whose columns have positions for names. Types are named as narwhals names them.
    """

    kind: str
    names: tuple[Any, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, X: Rows) -> Self:
        """Describe rows."""
        frame = as_frame(X)
        if frame is None:
            return cls("array", tuple(range(X.shape[1])), (str(X.dtype),) * X.shape[1])
        kinds = (str(dtype_of(frame[:, j])) for j in range(len(frame.columns)))
        # Levels are the encoder's business; here it matters only that these are categories.
        types = tuple("Categorical" if kind.startswith("Enum") else kind for kind in kinds)
        return cls(frame.implementation.value, tuple(frame.columns), types)

    def conform(self, X: Rows) -> Rows:
        """Return rows of any kind as the kind seen in `fit`; the columns must be the same.

        To a fit on an array the columns of a frame count by position.
        """
        frame = as_frame(X)
        if frame is None:
            self._check_array(X)
            return X
        if self.kind == "array":
            self._check_array(X)
            return frame.to_numpy()
        self._check_names(list(frame.columns))
        wanted = zip(frame.schema.items(), self.types, strict=True)
        # Not by `dtype_of`: where it differs, the column is one of times and needs no cast.
        casts = [cast for item, kind in wanted if (cast := _cast(*item, kind)) is not None]
        rows = frame.with_columns(casts).to_native() if casts else X
        return in_zones(as_kind(rows, self.kind), self.types)

    def _check_array(self, X: Rows) -> None:
        if self.kind != "array":
            raise TypeError(
                f"fit has seen a frame, but this is an array without names; pass a frame with the "
                f"columns {list(self.names)}."
            )
        if X.shape[1] != len(self.names):
            raise ValueError(f"expected {len(self.names)} columns, as in fit; got {X.shape[1]}.")

    def _check_names(self, names: list[Any]) -> None:
        missing = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self.names]
        if missing or extra:
            parts = {"missing": missing, "not seen in fit": extra}
            found = "; ".join(f"{what}: {cols}" for what, cols in parts.items() if cols)
            raise ValueError(f"the columns are not those of fit; {found}.")
        if names != list(self.names):
            raise ValueError(
                f"the columns are in another order than in fit; expected {list(self.names)}, got "
                f"{names}."
            )


_CONVERSIONS: dict[str, Callable[[nw.DataFrame[Any]], Rows]] = {
    "pandas": lambda frame: frame.to_pandas(),
    "polars": lambda frame: frame.to_polars(),
    "pyarrow": lambda frame: frame.to_arrow(),
}


def as_kind(X: Rows, kind: str) -> Rows:
    """Return a frame as a frame of another library, or itself if it is one."""
    frame = nw.from_native(X, eager_only=True)
    if frame.implementation.value == kind:
        return X
    if kind not in _CONVERSIONS:
        raise TypeError(f"the rows of fit were a frame of {kind}; pass such a frame.")
    return convert(frame, _CONVERSIONS[kind])


def _cast(name: str, dtype: Any, wanted: str) -> Any:
    """What turns a column that another library read differently into the type of `fit`, if any."""
    column = nw.col(name)
    is_category = isinstance(dtype, nw.Categorical | nw.Enum)
    if wanted == "Categorical" and dtype == nw.String:
        return column.cast(nw.Categorical)
    if wanted == "String" and is_category:
        return column.cast(nw.String)
    if wanted.startswith("Datetime") and dtype == nw.Date:
        return column.cast(nw.Datetime)
    if dtype == nw.Decimal and not wanted.startswith("Decimal"):
        return column.cast(nw.Float64)
    return None


def as_batch(batch: Any) -> tuple[Rows, bool]:
    """Return a batch as rows, and whether it was an Arrow record batch, which became a table."""
    arrow = sys.modules.get("pyarrow")  # whoever has a record batch has imported it
    if arrow is not None and isinstance(batch, arrow.RecordBatch):
        return arrow.Table.from_batches([batch]), True
    return as_rows(batch), False


def columns_like(X: Rows, columns: Mapping[str, np.ndarray], *, one_batch: bool = False) -> Any:
    """Return named columns as X's kind of frame, with its index; for an array a dict of arrays."""
    frame = as_frame(X)
    if frame is None:
        return dict(columns)
    added = [
        nw.new_series(name, _readable(values), backend=frame.implementation)
        for name, values in columns.items()
    ]
    result = frame[:, [0]].with_columns(added).select(list(columns)).to_native()
    if not one_batch:
        return result
    arrow = sys.modules["pyarrow"]
    arrays = [column.combine_chunks() for column in result.columns]
    return arrow.RecordBatch.from_arrays(arrays, schema=result.schema)


def _readable(values: np.ndarray) -> Any:
    """Return text as a list, since not every library reads numpy's text."""
    return values.tolist() if values.dtype.kind in "US" else np.ascontiguousarray(values)


Column = np.ndarray | nw.Series[Any]
NUMBERS = (Real, Decimal, np.bool_)


class Encoder:
    """Turns rows into floats: numbers as they are, categories as codes, dates as seconds.

    Codes follow the declared order of ordered categories, else the sorted levels seen in `fit`.
    Levels not seen there, and missing values, become NaN.
    """

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
    """Columns with their names, or with their positions; none of a sparse matrix, all numbers."""
    if sparse.issparse(X):
        return []
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
        plain = dtype.kind not in "OUS"
    else:
        plain = dtype.is_numeric() or dtype.is_temporal() or dtype == nw.Boolean
    if plain:
        return None
    present = [value for value in _listed(values) if not is_missing(value)]
    if not present:
        return []  # nothing to learn from: whatever comes later is an unseen level
    # numpy turns a table with one text column into text altogether: read its numbers back.
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
    return type(level).__name__, level


def _floats(name: str, values: Column) -> FloatArray:
    """Numbers as floats, times as seconds, missing values as NaN."""
    try:
        known = known_floats(values)
        if known is not None:
            return known
        if isinstance(values, np.ndarray):
            return _array_floats(values)
        return _array_floats(np.array(values.to_list(), dtype=object))
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
        seconds = values.astype(f"{values.dtype.kind}8[us]").astype(np.float64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind == "O":
        full = [np.nan if is_missing(value) else value for value in values.ravel().tolist()]
        return np.array(full, dtype=np.float64).reshape(values.shape)
    return np.asarray(values, dtype=np.float64)
