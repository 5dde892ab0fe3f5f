"""Losses on the scale a model sees: transformed, centred and divided by their spread."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.kept import Kept
from locuscore.draws import (
    MixtureDraws,
    NormalDraws,
    SplineDraws,
    TransformedDraws,
    smallest_scale,
)


def _odd(function: np.ufunc) -> Callable[[FloatArray], FloatArray]:
    """Continue a function of positive numbers to the whole line, odd about zero."""

    def continued(x: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # beyond the largest float a bound is infinite
            return np.copysign(function(np.abs(x)), x)

    return continued


# Increasing on the whole line, so a loss may be negative; the back-transformation is exact.
TRANSFORMS: dict[str, tuple[Callable[[FloatArray], FloatArray], ...]] = {
    "identity": (np.asarray, np.asarray),
    "log": (_odd(np.log1p), _odd(np.expm1)),
    "sqrt": (_odd(np.sqrt), _odd(np.square)),
}


@dataclass(frozen=True)
class Target:
    """``u = (f(z / unit) - centre) / spread`` with f one of `TRANSFORMS`, all learned on D1.

    Invariant to the unit of the losses, and for powers of two to the last bit.
    """

    ARCHIVE = Kept("Target", single=("transform", "unit", "centre", "spread"))

    transform: str
    unit: float
    centre: float
    spread: float

    @classmethod
    def learn(cls, z: FloatArray, transform: str = "identity") -> Self:
        """Take the mean size of the losses as unit, then mean and deviation of f."""
        if transform not in TRANSFORMS:
            raise ValueError(f"transform must be one of {list(TRANSFORMS)}; got {transform!r}.")
        if not np.ptp(z):
            transform = "identity"  # one point has no shape, only rounding
        unit = float(np.mean(np.abs(z))) or 1.0
        t = TRANSFORMS[transform][0](z / unit)
        # Equal losses have no spread, or one that is rounding.
        spread = max(float(np.std(t)), smallest_scale(np.array([np.max(np.abs(t))])))
        return cls(transform, unit, float(np.mean(t)), spread)

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the scale that an archive holds, if it is one."""
        if parts["transform"] not in [*TRANSFORMS]:
            raise ValueError(f"its losses have the unknown transform {parts['transform']!r:.40}")
        numbers = [parts[name] for name in ("unit", "centre", "spread")]
        are_finite = all(type(part) in (int, float) and math.isfinite(part) for part in numbers)
        if not are_finite or numbers[0] <= 0 or numbers[2] <= 0:
            raise ValueError("the unit, centre and spread of its losses are no scale")
        return cls(parts["transform"], *map(float, numbers))

    def forward(self, z: FloatArray) -> FloatArray:
        """Losses to the model's scale."""
        with np.errstate(over="ignore"):
            return (TRANSFORMS[self.transform][0](z / self.unit) - self.centre) / self.spread

    def backward(self, u: FloatArray) -> FloatArray:
        """Inverse of `forward`."""
        return self.unit * TRANSFORMS[self.transform][1](self.centre + self.spread * u)

    def laws(self, draws: NormalDraws | MixtureDraws | SplineDraws) -> LossDraws:
        """Laws of the loss, given laws on the model's scale."""
        if self.transform == "identity":
            return draws.affine(self.unit * self.centre, self.unit * self.spread)
        return TransformedDraws(draws, self.forward, self.backward)
