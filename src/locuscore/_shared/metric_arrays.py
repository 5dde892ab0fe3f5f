"""Arrays that metrics and pictures take: finite losses, and what goes with them."""

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray
from locuscore._shared.checks import check_losses, check_same_length


def finite_losses(losses: ArrayLike) -> FloatArray:
    """Return losses as floats, all finite and at least one."""
    (z,) = check_same_length(losses=losses)
    return check_losses(z, len(z), "losses")


def losses_and(losses: ArrayLike, **other: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return finite losses, and one other array of their length, which may hold infinities."""
    z, values = check_same_length(losses=losses, **other)
    return finite_losses(z), values


def check_flags(accepted: FloatArray) -> BoolArray:
    """Return what holds 0 and 1 as flags."""
    if not np.isin(accepted, (0.0, 1.0)).all():
        raise ValueError(
            "accepted must hold True or False for each row; pass score <= threshold, not the score."
        )
    return accepted == 1.0


def check_probabilities(values: FloatArray) -> FloatArray:
    """Return tails as they are; raise unless all lie between 0 and 1."""
    if np.any((values < 0) | (values > 1)):
        raise ValueError(
            f"tails are probabilities; got values from {values.min()} to {values.max()}."
        )
    return values
