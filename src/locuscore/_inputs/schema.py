"""The form of the rows in `fit`, and the conversion of later rows to it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, Self

import narwhals as nw
import numpy as np

from locuscore._inputs.zones import convert, dtype_of, in_zones, offset_name
from locuscore._protocols import Rows
from locuscore._shared.frames import as_frame
from locuscore._shared.kept import Kept
from locuscore._shared.rows import TEXT_COLUMN, RowKind, count_rows, kind_of_rows
from locuscore._shared.shown import cut


class ColumnKind(Enum):
    """What a column holds, whichever library its type comes from."""

    FLOAT = "float"
    INTEGER = "integer"
    DECIMAL = "decimal"
    TRUTH = "truth"
    TEXT = "text"
    CATEGORY = "category"
    DATE = "date"
    TIME = "time"
    ZONED_TIME = "zoned time"
    DURATION = "duration"
    OBJECT = "object"
    UNKNOWN = "unknown"  # a type that narwhals does not know
    OTHER = "other"  # lists, structures, bytes and the like


# How narwhals and numpy begin the names of their types; the first pattern that fits counts.
_PATTERNS = [
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"(?i)float", ColumnKind.FLOAT),
        (r"(?i)u?int", ColumnKind.INTEGER),
        (r"Decimal", ColumnKind.DECIMAL),
        (r"(?i)bool", ColumnKind.TRUTH),
        (r"String|[<>|=]?[US]\d", ColumnKind.TEXT),
        (r"Categorical|Enum", ColumnKind.CATEGORY),
        (r"Datetime.*time_zone='", ColumnKind.ZONED_TIME),
        (r"(?i)datetime", ColumnKind.TIME),
        (r"Date", ColumnKind.DATE),
        (r"(?i)duration|timedelta", ColumnKind.DURATION),
        (r"(?i)object", ColumnKind.OBJECT),
        (r"(?i)unknown", ColumnKind.UNKNOWN),
    )
]
_ZONE = re.compile(r"Datetime\(.*time_zone='([^']*)'")
_FIXED_OFFSET = re.compile(r"pytz\.FixedOffset\((-?\d+)\)")


@lru_cache
def kind_of(type_name: str) -> ColumnKind:
    """Return what a column holds, from the name of its type."""
    fitting = (kind for pattern, kind in _PATTERNS if pattern.match(type_name))
    return next(fitting, ColumnKind.OTHER)


def zone_of(type_name: str) -> str | None:
    """Return the time zone in the name of a type; None if there is none."""
    found = _ZONE.match(type_name)
    if found is None:
        return None
    fixed = _FIXED_OFFSET.fullmatch(found[1])
    return found[1] if fixed is None else offset_name(timedelta(minutes=int(fixed[1])))


def _type_name(dtype: Any) -> str:
    # The levels of an Enum are the encoder's business; here it only matters that it has some.
    return "Categorical" if isinstance(dtype, nw.Enum) else str(dtype)


def column_kinds(frame: nw.DataFrame[Any], places: Sequence[int]) -> list[ColumnKind]:
    """Return what the columns at these places hold."""
    # Not by `dtype_of`: where it differs, the column is one of times and needs no cast.
    if not frame.implementation.is_pandas():
        types = list(frame.schema.values())
        return [kind_of(_type_name(types[j])) for j in places]
    # Here narwhals makes a view of every column to find its type.
    native = list(frame.to_native().dtypes)
    return [_kind_in_pandas(native[j]) or kind_of(_type_name(frame[:, j].dtype)) for j in places]


def _kind_in_pandas(dtype: Any) -> ColumnKind | None:
    """What a column of pandas holds, where its type alone tells."""
    if isinstance(dtype, np.dtype):
        return kind_of(str(dtype)) if dtype.kind in "biufmM" else None
    return ColumnKind.CATEGORY if dtype.name == "category" else None


@dataclass(frozen=True, repr=False)
class Schema:
    """How rows looked in `fit`: kind of frame, name and type of each column.

    `kind` is ``"pandas"``, ``"polars"``, ``"pyarrow"`` or another library's name, or ``"array"``,
    whose columns have positions for names. Types are named as narwhals names them. Rows that are
    no table are ``"texts"``, with one column called text, ``"images"`` or ``"own"``, both without
    columns; `form` is then the shape and kind of number of one image, or the name of the type.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X, y)
    >>> schema = Scorer(locus).schema
    >>> schema.kind, schema.names
    ('array', (0, 1))
    """

    ARCHIVE = Kept("Schema", fields=("names", "types"), single=("kind", "form"), later=("form",))

    kind: str
    names: tuple[Any, ...]
    types: tuple[str, ...]
    form: str = ""

    def __repr__(self) -> str:
        form = f", {cut(self.form, 60)}" if self.form else ""
        names = cut(", ".join(map(str, self.names[:20])), 120)
        count = f"{len(self.names):,} columns: {names}" if self.names else "no columns"
        return f"Schema({self.kind}{form}, {count})"

    @classmethod
    def of(cls, X: Rows) -> Self:
        """Describe rows."""
        frame, kind = as_frame(X), kind_of_rows(X)
        if kind is RowKind.TEXTS:
            return cls(kind.value, (TEXT_COLUMN,), ("String",))
        if kind is not None:
            return cls(kind.value, (), (), _form(X, kind))
        if frame is None:
            return cls("array", tuple(range(X.shape[1])), (str(X.dtype),) * X.shape[1])
        types = (_type_name(dtype_of(frame[:, j])) for j in range(len(frame.columns)))
        return cls(frame.implementation.value, tuple(frame.columns), tuple(types))

    @cached_property
    def kinds(self) -> tuple[ColumnKind, ...]:
        """What each column holds."""
        return tuple(kind_of(type_name) for type_name in self.types)

    @cached_property
    def zones(self) -> tuple[str | None, ...]:
        """Time zone of each column; None where it has none."""
        return tuple(zone_of(type_name) for type_name in self.types)

    @property
    def row_kind(self) -> RowKind | None:
        """The kind of rows without columns; None for tables."""
        return next((kind for kind in RowKind if kind.value == self.kind), None)

    def check_kind(self, X: Rows) -> None:
        """Raise unless X is a table if `fit` was given one, or else rows of the same kind."""
        kind = kind_of_rows(X)
        if kind is not self.row_kind:
            was, now = ("a table" if one is None else one.words for one in (self.row_kind, kind))
            now = now if count_rows(X) else "no rows at all"
            raise TypeError(f"fit was given {was}, and this is {now}; pass rows like those of fit.")
        form = "" if kind is None or kind is RowKind.TEXTS else _form(X, kind)
        if form != self.form:
            raise ValueError(f"each row of fit was {self.form}, and these are {form}; pass such.")

    def conform(self, X: Rows) -> Rows:
        """Return rows of any kind as the kind seen in `fit`; the columns must be the same.

        If `fit` was given an array, the columns of a frame are matched by position. Rows that are
        no table stay as they are: texts may come in another container.
        """
        self.check_kind(X)
        if self.row_kind is not None:
            return X
        frame = as_frame(X)
        if frame is None or self.kind == "array":
            self._check_array(X)
            return X if frame is None else frame.to_numpy()
        self._check_names(list(frame.columns))
        found = column_kinds(frame, range(len(self.names)))
        casts = [
            nw.col(name).cast(dtype)
            for name, now, wanted in zip(self.names, found, self.kinds, strict=True)
            if (dtype := _cast(now, wanted)) is not None
        ]
        if not casts and frame.implementation.value == self.kind:
            return in_zones(frame.to_native(), self.zones)
        rows = as_kind(frame.with_columns(casts) if casts else frame, self.kind)
        return in_zones(rows, self.zones)

    def _check_array(self, X: Rows) -> None:
        if self.kind != "array":
            raise TypeError(
                f"fit was given a frame, but this is an array without names; pass a frame with the "
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


def _form(X: Rows, kind: RowKind) -> str:
    """What one row is, so that rows of another form can be told by it."""
    if kind is RowKind.OWN:
        return f"of the type {type(X).__name__}"
    numbers = {"f": "floats", "b": "truth values"}.get(X.dtype.kind, "whole numbers")
    return f"{' x '.join(map(str, X.shape[1:]))} {numbers}"


def _cast(now: ColumnKind, wanted: ColumnKind) -> Any:
    """Return the type that makes a column read by another library that of `fit`; None if none."""
    match now, wanted:
        case ColumnKind.TEXT, ColumnKind.CATEGORY:
            return nw.Categorical
        case ColumnKind.CATEGORY, ColumnKind.TEXT:
            return nw.String
        case ColumnKind.DATE, ColumnKind.TIME | ColumnKind.ZONED_TIME:
            return nw.Datetime
        case ColumnKind.DECIMAL, kind if kind is not ColumnKind.DECIMAL:
            return nw.Float64
    return None


_CONVERSIONS: dict[str, Callable[[nw.DataFrame[Any]], Rows]] = {
    "pandas": lambda frame: frame.to_pandas(),
    "polars": lambda frame: frame.to_polars(),
    "pyarrow": lambda frame: frame.to_arrow(),
}


def as_kind(X: Rows, kind: str) -> Rows:
    """Return a frame, or narwhals' view of one, as a frame of the wanted library."""
    frame = nw.from_native(X, eager_only=True)
    if frame.implementation.value == kind:
        return frame.to_native()
    if kind not in _CONVERSIONS:
        raise TypeError(f"the rows of fit were a frame of {kind}; pass such a frame.")
    return convert(frame, _CONVERSIONS[kind])
