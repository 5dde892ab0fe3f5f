"""How rows looked in `fit`, and turning later rows into that."""

from dataclasses import dataclass
from typing import Any, Self

import narwhals as nw

from locuscore._inputs.frames import as_frame, as_kind
from locuscore._inputs.zones import dtype_of, in_zones
from locuscore._protocols import Rows


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
