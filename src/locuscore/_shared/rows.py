"""Rows that are no table: texts, arrays of several axes, and kinds of the caller's own.

A table is a frame, a sparse matrix or an array of two axes. All other rows are one of three kinds,
and this module is the one place that tells them apart, counts them and takes some of them. What
comes out is of the type that came in, so the predictor gets the rows as the caller has them.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from locuscore._protocols import IntArray, Rows

TEXT_COLUMN = "text"  # texts are rows of one column, by this name
FLOATS_OF_UNKNOWN = 1_000  # what a text, or a row of the caller's own kind, may take
MOST_DENSE_COLUMNS = 256  # a wider sparse matrix is never made dense
# Types that narwhals knows as frames, added when one is met: to ask it again takes 0.1 ms.
FRAME_TYPES: set[type] = set()


class RowKind(Enum):
    """What rows are that have no columns."""

    TEXTS = "texts"
    IMAGES = "images"
    OWN = "own"

    @property
    def words(self) -> str:
        """The kind in a sentence."""
        return _WORDS[self]


_WORDS = {
    RowKind.TEXTS: "texts (a list, a series or an array of them)",
    RowKind.IMAGES: "an array of three or more axes, such as images",
    RowKind.OWN: "rows of your own kind",
}


def kind_of_rows(X: Rows) -> RowKind | None:
    """Return the kind of rows without columns, told by their type; None for all others."""
    if isinstance(X, np.ndarray):
        return _kind_of_array(X)
    if isinstance(X, list | tuple):
        return RowKind.TEXTS if not X or _begin_with_text(X) else None
    if type(X) in FRAME_TYPES or sparse.issparse(X):
        return None
    known: Any = nw.from_native(X, allow_series=True, pass_through=True)
    if isinstance(known, nw.Series):
        is_text = known.dtype == nw.String or (known.dtype == nw.Object and _begin_with_text(X))
        return RowKind.TEXTS if is_text else None
    is_plain = known is not X or isinstance(X, str | bytes | range | Mapping)  # or a frame
    is_array = hasattr(X, "__array__") or hasattr(X, "__array_interface__")
    is_own = hasattr(X, "__len__") and hasattr(X, "__getitem__") and not (is_plain or is_array)
    return RowKind.OWN if is_own else None


def _kind_of_array(X: np.ndarray) -> RowKind | None:
    if X.ndim > 2:
        return RowKind.IMAGES
    is_text = X.dtype.kind == "U" or (X.dtype.kind == "O" and _begin_with_text(X))
    return RowKind.TEXTS if X.ndim == 1 and is_text else None


def _begin_with_text(X: Any) -> bool:
    return isinstance(next((row for row in X if row is not None), None), str)


def check_kind(X: Rows, kind: RowKind) -> Rows:
    """Return rows of a kind; raise where they are not all of it."""
    match kind:
        case RowKind.TEXTS:
            _check_texts(X)
        case RowKind.IMAGES:
            _check_images(X)
        case RowKind.OWN:
            _check_own(X)
    return X


def _check_texts(X: Rows) -> None:
    if isinstance(X, np.ndarray) and X.dtype.kind == "U":
        return
    for i, row in enumerate(list_texts(X)):
        if not isinstance(row, str):
            raise TypeError(
                f"X begins with text, but row {i} holds a value of type {type(row).__name__}; "
                "expected one text per row. Write '' where there is none, or pass a frame if rows "
                "have several values."
            )


def _check_images(X: np.ndarray) -> None:
    if X.dtype.kind not in "biuf":
        raise TypeError(
            f"X is an array of shape {X.shape} that holds {X.dtype}; expected numbers, all rows of "
            "one shape. Resize or pad rows that differ, or pass an embedding of each as an array "
            "of two axes."
        )
    if 0 in X.shape[1:]:
        raise ValueError(f"X has shape {X.shape}, so its rows are empty; expected some values.")


def _check_own(X: Rows) -> None:
    """Raise unless ``X[positions]`` gives as many rows of the same type."""
    wanted = np.arange(min(len(X), 2))
    try:
        found = X[wanted]
        is_usable = type(found) is type(X) and len(found) == len(wanted)
        got = f"a {type(found).__name__}"
    except Exception as error:  # a class of somebody else may raise anything
        is_usable, got = False, f"{type(error).__name__}: {error}"
    if not is_usable:
        name = type(X).__name__
        raise TypeError(
            f"X is a {name}, and X[positions] with an array of positions must be a {name} of these "
            f"rows; got {got:.200}. Turn it into rows first, for instance [row['text'] for row in "
            "X] for texts or np.stack([image for image, label in X]) for images."
        )


def count_rows(X: Rows) -> int:
    """Count rows of any kind."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take(X: Rows, rows: slice | IntArray) -> Rows:
    """Return some rows, of the type that came in."""
    if isinstance(X, list | tuple):
        some = X[rows] if isinstance(rows, slice) else [X[i] for i in rows.tolist()]
        return tuple(some) if isinstance(X, tuple) else some
    series = as_series(X)
    if series is not None:
        return series[rows].to_native()
    if kind_of_rows(X) is RowKind.OWN and isinstance(rows, slice):
        return X[np.arange(len(X))[rows]]
    return X[rows]


def as_series(X: Rows) -> nw.Series[Any] | None:
    """Return a uniform view of a series of pandas, polars or Arrow; None for anything else."""
    is_other = isinstance(X, np.ndarray | list | tuple) or type(X) in FRAME_TYPES
    if is_other or sparse.issparse(X):
        return None
    found: Any = nw.from_native(X, allow_series=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def list_texts(X: Rows) -> Sequence[Any]:
    """Return texts as a list."""
    if isinstance(X, list | tuple):
        return X
    series = as_series(X)
    return X.tolist() if series is None else series.to_list()


def text_column(X: Rows) -> np.ndarray:
    """Return texts as an array of objects, which takes no more room than the texts."""
    listed = list_texts(X)
    return np.fromiter(listed, dtype=object, count=len(listed))


def floats_per_row(X: Rows) -> int:
    """How many numbers a row has, about: blocks of rows are cut by it."""
    if sparse.issparse(X):
        return min(X.shape[1], MOST_DENSE_COLUMNS) + X.nnz // max(X.shape[0], 1)
    if kind_of_rows(X) in (RowKind.TEXTS, RowKind.OWN):
        return FLOATS_OF_UNKNOWN
    return int(np.prod(X.shape[1:]))
