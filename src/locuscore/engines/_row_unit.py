"""A unit of the loss for each row, from how far the members of the predictor disagree.

With few rows in D1 a forest cannot learn that losses grow with the disagreement; with many it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from locuscore._protocols import FloatArray
from locuscore._shared.kept import Kept
from locuscore.engines._shared_shape import is_continuous, share_of_few_rows

SMALLEST_UNIT = 0.05  # of the typical disagreement: members that agree may all be wrong


@dataclass(frozen=True)
class RowUnit:
    """``(spread / typical) ** power``, where the spread is one of the signals."""

    ARCHIVE = Kept("RowUnit", single=("column", "typical", "power"))

    column: int
    typical: float
    power: float

    @classmethod
    def learned(cls, S: FloatArray, z: FloatArray, column: int) -> Self | None:
        """The unit for losses of D1; None where D1 is large, losses tie or members agree."""
        power, typical = share_of_few_rows(len(z)), float(np.mean(S[:, column]))
        if not power or not is_continuous(z) or not 0 < typical < np.inf:
            return None
        return cls(column, typical, power)

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the unit that an archive holds, if it is one."""
        found = cls(parts["column"], float(parts["typical"]), float(parts["power"]))
        is_unit = 0 < found.typical < np.inf and 0 <= found.power <= 1
        if type(found.column) is not int or not is_unit:
            raise ValueError("the unit of a forest's losses is none")
        return found

    def __call__(self, S: FloatArray) -> FloatArray:
        """One unit per row."""
        if not -S.shape[1] <= self.column < S.shape[1]:
            raise ValueError("the unit of a forest's losses is no signal of theirs")
        return np.maximum(S[:, self.column] / self.typical, SMALLEST_UNIT) ** self.power
