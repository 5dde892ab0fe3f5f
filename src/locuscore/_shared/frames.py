"""Rows of any kind met uniformly: counting, slicing, and giving back what came in."""

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.fork import check_polars_process
from locuscore._shared.rows import (
    FRAME_TYPES,
    TEXT_COLUMN,
    RowKind,
    as_series,
    check_kind,
    count_rows,
    kind_of_rows,
    take,
    text_column,
)


def as_rows(X: Rows) -> Rows:
    """Return X as something with rows: sparse as CSR, lists of numbers as an array, else itself.

    Rows are a frame, an array of two axes or more, a sparse matrix, texts, or anything with a
    length that an array of positions can index.
    """
    if sparse.issparse(X):
        return X.tocsr()
    if as_frame(X) is not None:
        return X
    kind = kind_of_rows(X)
    if kind is not None:
        return check_kind(X, kind)
    array = read_array(X, "X")
    if array.ndim > 2:
        return check_kind(array, RowKind.IMAGES)
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
    if array.dtype.kind == "O" and any(hasattr(row, "shape") for row in array.ravel()[:1]):
        return (
            "Its rows are arrays of different shapes: resize or pad them to one shape, or pass an "
            "embedding of each as an array of two axes."
        )
    if array.dtype.kind == "O":
        return f"X is a {kind}: make it a table; dicts, for instance, with pandas.DataFrame(rows)."
    return (
        "Reshape your data either using X.reshape(-1, 1) for a single feature or "
        "X.reshape(1, -1) for a single row."
    )


def as_array(y: ArrayLike) -> np.ndarray:
    """Return a column of targets or losses (list, array, or series of any library) as an array."""
    if isinstance(y, np.ndarray):
        return np.asarray(y)
    series: Any = nw.from_native(y, allow_series=True, pass_through=True)
    return series.to_numpy() if isinstance(series, nw.Series) else read_array(y, "y")


def read_array(values: Any, name: str) -> np.ndarray:
    """Return values as a numpy array; an error says what to do where numpy cannot read them.

    It cannot read tensors that lie on a GPU, carry a gradient or have a type that numpy lacks.
    """
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name} is a {type(values).__name__} that cannot be read as one array ({error}); "
            "expected one row per input, all of one shape."
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
    """Return the name of a series; None if it has no name, or one that is not text."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def as_frame(X: Rows) -> nw.DataFrame[Any] | None:
    """Return a uniform view of a pandas, polars or Arrow frame; None for anything else."""
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return None
    seen = _SEEN.get()
    if seen is not None and seen.native is X:
        return seen.frame
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy frame; collect it first, for instance with X.collect().")
    if not isinstance(frame, nw.DataFrame):
        return None
    FRAME_TYPES.add(type(X))
    if frame.implementation.is_polars():
        check_polars_process()
    if seen is not None:
        seen.native, seen.frame = X, frame
    return frame


@dataclass
class _Seen:
    """The last frame that `as_frame` was asked about, and its view of it."""

    native: Any = None
    frame: nw.DataFrame[Any] | None = None


_SEEN: ContextVar[_Seen | None] = ContextVar("last frame seen", default=None)


@contextmanager
def frames_seen_once() -> Iterator[None]:
    """Inside, a frame that is asked about several times in a row is looked at once."""
    if _SEEN.get() is not None:
        yield
        return
    token = _SEEN.set(_Seen())
    try:
        yield
    finally:
        _SEEN.reset(token)


def n_rows(X: Rows) -> int:
    """Count the rows of X."""
    return count_rows(X)


def take_rows(X: Rows, rows: slice | IntArray) -> Rows:
    """Return some rows of X, of the type that came in."""
    frame = as_frame(X)
    return take(X, rows) if frame is None else frame[rows].to_native()


def column(X: Rows, name: Hashable) -> np.ndarray:
    """Return one column as an array: by name in a frame, by position in an array."""
    frame = as_frame(X)
    if frame is not None:
        names: list[Any] = frame.columns
        if name not in names:
            raise ValueError(f"X has no column {name!r}; its columns are {names}.")
        return frame[:, names.index(name)].to_numpy()
    kind = kind_of_rows(X)
    if kind is RowKind.TEXTS and name == TEXT_COLUMN:
        return text_column(X)
    if kind is not None:
        raise TypeError(
            f"column {name!r} was asked for, but X is {kind.words}, without columns; pass a frame, "
            "or an array or a function of X in place of the column."
        )
    if not isinstance(name, Integral):
        raise TypeError(
            f"column {name!r} is a name, but X is an array; pass a frame, or the column's position."
        )
    if not -X.shape[1] <= int(name) < X.shape[1]:
        raise ValueError(f"X has no column {name!r}; it has {X.shape[1]} columns.")
    values = X[:, [int(name)]]
    return np.asarray(values.toarray() if sparse.issparse(values) else values)[:, 0]


def column_names(X: Rows) -> list[Any]:
    """Names of a frame's columns, positions of an array's; texts have one column, images none."""
    frame = as_frame(X)
    if frame is not None:
        return list(frame.columns)
    match kind_of_rows(X):
        case None:
            return list(range(X.shape[1]))
        case RowKind.TEXTS:
            return [TEXT_COLUMN]
    return []


def table_of(X: Rows) -> Rows:
    """Return the columns of X as a table: texts as one column, rows without columns as none."""
    match kind_of_rows(X):
        case None:
            return X
        case RowKind.TEXTS:
            return text_column(X)[:, None]
    return np.empty((n_rows(X), 0))


def numbered(prefix: str, values: FloatArray) -> list[str]:
    """Return names such as bound_0.1, with as many digits as tell the numbers apart."""
    return [f"{prefix}_{np.format_float_positional(v, trim='-')}" for v in np.atleast_1d(values)]


def like_rows(X: Rows, values: np.ndarray, names: Sequence[str]) -> Any:
    """Return values (n,) or (n, m) as X's kind of series or frame, with its index."""
    frame = _carrier(X)
    if frame is None:
        return values
    if len(set(names)) < len(names):
        raise ValueError(f"the columns of a frame need distinct names; got {list(names)}.")
    columns = values.reshape(len(values), len(names)).T
    result = columns_like(X, dict(zip(names, columns, strict=True)))
    return nw.from_native(result)[:, 0].to_native() if values.ndim == 1 else result


def _carrier(X: Rows) -> nw.DataFrame[Any] | None:
    """Return a frame that carries X's kind and index; None where there is no such library."""
    series = as_series(X)
    return as_frame(X) if series is None else series.alias(TEXT_COLUMN).to_frame()


def as_batch(batch: Any) -> tuple[Rows, bool]:
    """Return a batch as rows, and whether it was an Arrow record batch, which became a table."""
    arrow = sys.modules.get("pyarrow")  # a record batch exists only where it was imported
    if arrow is not None and isinstance(batch, arrow.RecordBatch):
        return arrow.Table.from_batches([batch]), True
    return as_rows(batch), False


def columns_like(X: Rows, columns: Mapping[str, np.ndarray], *, one_batch: bool = False) -> Any:
    """Return named columns as X's kind of frame, with its index; for an array a dict of arrays."""
    frame = _carrier(X)
    if frame is None:
        return dict(columns)
    readable = {name: _readable(values) for name, values in columns.items()}
    make = _MAKERS.get(f"{type(X).__module__}.{type(X).__name__}")
    if make is not None:
        result = make(X, readable)
    else:
        added = [
            nw.new_series(name, values, backend=frame.implementation)
            for name, values in readable.items()
        ]
        # Columns added to a frame take over its index; one column of X is enough to carry it.
        result = frame[:, [0]].with_columns(added).select(list(columns)).to_native()
    if not one_batch:
        return result
    arrow = sys.modules["pyarrow"]
    arrays = [column.combine_chunks() for column in result.columns]
    return arrow.RecordBatch.from_arrays(arrays, schema=result.schema)


# A frame of each library from named columns, directly: by narwhals it takes ten times as long, as
# long as scoring a row. By exact type, since a subclass may have another constructor.
_MAKERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "pandas.core.frame.DataFrame": lambda X, columns: type(X)(columns, index=X.index),
    "polars.dataframe.frame.DataFrame": lambda X, columns: type(X)(columns),
    "pyarrow.lib.Table": lambda X, columns: type(X).from_pydict(columns),
}


def _readable(values: np.ndarray) -> Any:
    """Return text, and images, as lists, since not every library accepts numpy's arrays of them."""
    is_listed = values.dtype.kind in "US" or values.ndim > 1
    return values.tolist() if is_listed else np.ascontiguousarray(values)
