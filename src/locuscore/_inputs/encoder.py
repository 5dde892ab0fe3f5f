"""Rows as floats: numbers as they are, categories as codes, dates as seconds, texts as vectors."""

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import narwhals as nw
import numpy as np
from scipy import sparse

from locuscore._inputs.vectors import Reduction, TextVectors, is_free_text
from locuscore._inputs.zones import without_zone_names
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.checks import is_missing
from locuscore._shared.frames import as_frame, n_rows, table_of
from locuscore._shared.kept import Kept
from locuscore._shared.rows import MOST_DENSE_COLUMNS, RowKind, kind_of_rows

Column = np.ndarray | nw.Series[Any]
NUMBERS = (Real, Decimal, np.bool_)
FEW_LEVELS = 32


class Encoder:
    """Turns rows into floats: numbers as they are, categories as codes, dates as seconds.

    Codes follow the declared order of ordered categories, else the sorted levels seen in `fit`.
    Levels not seen there, and missing values, become NaN. A column of free text is its length, NaN
    if it is missing, and further columns stand behind those of X, by `TextVectors`. A sparse matrix
    with many columns is not one float for each but a `Reduction` of them.
    """

    ARCHIVE = Kept(
        "Encoder",
        fields=("codes_", "texts_", "reduction_"),
        later=("texts_", "reduction_"),
        holds=(Reduction, TextVectors),
    )

    codes_: dict[int, dict[Hashable, float]]
    texts_: Mapping[int, TextVectors] = {}  # by column
    reduction_: Reduction | None = None

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the encoder that an archive holds, if its levels have codes, its texts vectors."""
        found = cls()
        for name, part in parts.items():
            setattr(found, name, part)
        columns = found.codes_.items() if isinstance(found.codes_, dict) else [(None, None)]
        are_codes = all(
            type(j) is int and isinstance(codes, dict) and {*map(type, codes.values())} <= {float}
            for j, codes in columns
        )
        if not are_codes:
            raise ValueError("the categories of its columns have no codes each")
        are_texts = isinstance(found.texts_, dict) and all(
            type(j) is int and isinstance(one, TextVectors) for j, one in found.texts_.items()
        )
        if not are_texts or not isinstance(found.reduction_, Reduction | None):
            raise ValueError("its encoder reads texts by something that is none of its vectors")
        return found

    def fit(self, X: Rows) -> "Encoder":
        """Learn the levels of every column that is not numeric, and vectors of free text."""
        self.codes_, self.texts_, self.reduction_ = {}, {}, None
        if sparse.issparse(X) and X.shape[1] > MOST_DENSE_COLUMNS:
            self.reduction_ = Reduction.of(X)
        are_texts = kind_of_rows(X) is RowKind.TEXTS
        for j, (name, values) in enumerate(_columns(X)):
            levels = _levels(name, values)
            if levels is None:
                continue
            present = _text_values(values)
            if are_texts or is_free_text(present, len(levels)):
                self.texts_[j] = TextVectors.of(present)
            else:
                self.codes_[j] = {level: float(code) for code, level in enumerate(levels)}
        return self

    def transform(self, X: Rows) -> FloatArray:
        """Return a float matrix: a column for each of X's, then the vectors of its texts."""
        if sparse.issparse(X):
            return self._sparse(X)
        if isinstance(X, np.ndarray) and X.ndim == 2 and not self.codes_ and not self.texts_:
            return _floats("X", X)
        columns = _columns(X)
        out, vectors = np.empty((n_rows(X), len(columns))), []
        for j, (name, values) in enumerate(columns):
            if j in self.codes_:
                codes = self.codes_[j]
                out[:, j] = [codes.get(value, np.nan) for value in _listed(values)]
            elif j in self.texts_:
                texts = [value if isinstance(value, str) else None for value in _listed(values)]
                out[:, j] = [np.nan if text is None else len(text) for text in texts]
                vectors.append(self.texts_[j](["" if text is None else text for text in texts]))
            else:
                out[:, j] = _floats(f"column {name!r} of X", values)
        return np.hstack([out, *vectors])

    def _sparse(self, X: Any) -> FloatArray:
        if self.reduction_ is not None:
            return self.reduction_(X)
        return np.asarray(X.toarray(), dtype=np.float64)

    def level_shown(self, column: int, most: int | None = FEW_LEVELS) -> list[Hashable]:
        """A level for an example, in a list; none where more than `most` may be names of people."""
        levels = self.codes_.get(column, {})
        return list(levels)[:1] if most is None or len(levels) <= most else []

    @property
    def n_vectors(self) -> int:
        """Number of columns that stand behind those of X."""
        return sum(vectors.width for vectors in self.texts_.values())

    def owners(self, width: int) -> IntArray:
        """Which column of X each of so many floats belongs to; all to one after a reduction."""
        if self.reduction_ is not None:
            return np.zeros(width, dtype=np.int64)
        behind = [np.full(vectors.width, j) for j, vectors in self.texts_.items()]
        return np.concatenate([np.arange(width - self.n_vectors), *behind]).astype(np.int64)

    def names(self, features: Sequence[str]) -> list[str]:
        """A name for each owner, given those of the columns of X."""
        return list(features) if self.reduction_ is None else ["x"]

    def summary(self, n_features: int) -> str:
        """What becomes of so many columns, in words."""
        unit = "column" if n_features == 1 else "columns"
        if self.reduction_ is not None:
            return f"{n_features:,} {unit} as {self.reduction_.width}"
        n_texts = len(self.texts_)
        more = f", free text in {n_texts} of them by {self.n_vectors:,} more" if n_texts else ""
        return f"{n_features:,} {unit}{more}"


def _text_values(values: Column) -> list[Any]:
    """The values that are there, if the column is of text; declared categories are none."""
    dtype = values.dtype
    if not isinstance(dtype, np.dtype) and dtype not in (nw.String, nw.Object):
        return []
    return [value for value in _listed(values) if not is_missing(value)]


def _columns(X: Rows) -> list[tuple[Any, Column]]:
    """Columns with their names, or positions in an array."""
    if sparse.issparse(X):
        return []  # all numbers, so there is nothing to learn, and `transform` reads them at once
    frame = as_frame(X)
    if frame is None:
        table = table_of(X)
        return [(j, table[:, j]) for j in range(table.shape[1])]
    numbers = _numbers(frame)
    return [
        (name, numbers[j] if j in numbers else without_zone_names(frame[:, j]))
        for j, name in enumerate(frame.columns)
    ]


def _numbers(frame: nw.DataFrame[Any]) -> dict[int, np.ndarray]:
    """Columns of numpy's numbers in a frame of pandas, by position: views take ten times longer."""
    if not frame.implementation.is_pandas():
        return {}
    native = frame.to_native()
    if native.columns.nlevels > 1:
        return {}
    return {
        j: native[name].to_numpy()
        for j, (name, dtype) in enumerate(zip(native.columns, native.dtypes, strict=True))
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf"
    }


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
