"""The scale on which an engine models the loss."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from locuscore._protocols import FloatArray

TransformName = Literal["identity", "log"]


class Transform(Protocol):
    """An increasing function of the loss, and its inverse."""

    def forward(self, z: FloatArray) -> FloatArray:
        """Loss to modelled scale."""

    def backward(self, t: FloatArray) -> FloatArray:
        """Modelled scale to loss."""


@dataclass(frozen=True)
class Identity:
    """The loss as it is."""

    def forward(self, z: FloatArray) -> FloatArray:
        """Return z."""
        return z

    def backward(self, t: FloatArray) -> FloatArray:
        """Return t."""
        return t


@dataclass(frozen=True)
class SignedLog:
    """``sign(z) * log1p(|z| / unit)``: linear near zero, logarithmic far out, on either side."""

    unit: float

    def forward(self, z: FloatArray) -> FloatArray:
        """Loss to log scale."""
        return np.copysign(np.log1p(np.abs(z) / self.unit), z)

    def backward(self, t: FloatArray) -> FloatArray:
        """Log scale to loss."""
        with np.errstate(over="ignore"):
            return np.copysign(self.unit * np.expm1(np.abs(t)), t)


def transform_of(name: TransformName, z: FloatArray) -> Transform:
    """Return the named transform; the unit of the logarithm is the median size of the losses."""
    if name == "identity":
        return Identity()
    if name != "log":
        raise ValueError(f"transform must be 'identity' or 'log'; got {name!r}.")
    size = np.abs(z)
    return SignedLog(float(np.median(size)) or float(np.mean(size)) or 1.0)
