"""Weights of rows: read from a column, and checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, Rows
from locuscore._shared.checks import BadRowsError, as_floats, without_single_axis
from locuscore._shared.frames import as_array, column
from locuscore._shared.kept import Kept

MEANING = (
    "a weight says how many times as often such rows come among new rows as among those of fit, "
    "up to a factor that all rows share"
)


@dataclass(frozen=True)
class WeightColumn:
    """Reads weights from a column of the rows."""

    ARCHIVE = Kept("WeightColumn", single=("name",))

    name: str

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the reader that an archive holds, if it names a column."""
        if not isinstance(parts["name"], str):
            raise ValueError("the column of its weights has no name")
        return cls(parts["name"])

    def __call__(self, X: Rows) -> np.ndarray:
        """The column."""
        return column(X, self.name)


def check_weights(
    given: Any, n: int, largest: float | None, *, of_new_rows: bool = False
) -> FloatArray:
    """Return weights of n rows; one of zero says that such rows do not come among new rows."""
    values = without_single_axis(as_array(given))
    if values.shape != (n,):
        raise ValueError(
            f"weights must be one number per row, {n} in all; got an array of shape {values.shape}."
        )
    weights = as_floats(values, "weights")
    _refuse(~np.isfinite(weights), "not finite", MEANING)
    _refuse(weights < 0, "negative", MEANING)
    if of_new_rows:
        remedy = "a weight of zero says that no new row is like this one, and nothing is promised"
        _refuse(weights == 0, "zero", remedy)
    if largest is not None:
        remedy = "the largest weight was declared before; declare a larger one, and fit again"
        _refuse(weights > largest, f"above {largest:g}", remedy)
    return weights


def _refuse(is_bad: BoolArray, what: str, remedy: str) -> None:
    if is_bad.any():
        rows = np.flatnonzero(is_bad)
        are = "weight is" if len(rows) == 1 else "weights are"
        raise BadRowsError(f"{len(rows)} {are} {what}", rows, f"{remedy}.")
