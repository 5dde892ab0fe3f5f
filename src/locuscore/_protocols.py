"""The three things a newcomer plugs in, as types. Read this file first.

An engine models the loss on D1 and returns, for rows of signals, a stack of laws (`LossDraws`).
Everything after that (averaging, envelope, calibration, rules) sees the laws only.
"""

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@runtime_checkable
class LossDraws(Protocol):
    """A stack of laws of the loss: one row per input, one column per draw.

    `sf` and `isf` broadcast their argument against ``(n_rows, n_draws)`` and return that shape.
    ``isf(level) = sup{z : sf(z) >= level}`` is the *upper* inverse, the right end where a law is
    flat.

    A family may also offer ``average()`` and ``envelope(rank)``, stacks of one, when the mean or
    the rank-th largest of its survivals has a faster inverse than the general one. A stack of one
    that is inverted by iteration may offer ``joint_isf(level)`` for m levels per row, (n, m); it
    has evaluated that survival is below the level at what it returns.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of draws."""

    def sf(self, z: FloatArray) -> FloatArray:
        """``P(Z > z)`` under each draw."""

    def isf(self, level: FloatArray) -> FloatArray:
        """Largest loss that each draw exceeds with probability at least `level`."""


class LossEngine(Protocol):
    """Any model of the loss given the signals."""

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Learn the law of the losses `z` given the rows of `S`."""

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Laws of the loss at the rows of `S`."""


class GammaModel(Protocol):
    """How cautious the envelope is at each row: the smaller, the higher the bound."""

    def fit(self, S: FloatArray) -> Self:
        """Learn what a well supported row looks like."""

    def predict(self, S: FloatArray) -> FloatArray:
        """Trimming level in (0, 1) for each row."""


# Frames, arrays, sparse matrices: whatever the predictor accepts.
Rows = Any
