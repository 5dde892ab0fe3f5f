"""Checks at the door: each raises with the value it saw and what to do about it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray


class LocusWarning(UserWarning):
    """Statistical trouble the user should know of; the result is still valid."""


def check_alpha(alpha: float | Sequence[float] | FloatArray) -> FloatArray:
    """Return alpha as an array, each value strictly between 0 and 1."""
    values = check_numbers(alpha, "alpha")
    if not np.all((values > 0) & (values < 1)):
        raise ValueError(
            f"alpha is the share of losses allowed above their bound and lies strictly between "
            f"0 and 1; got {alpha!r}."
        )
    return values


def check_tau(tau: float | Sequence[float] | FloatArray) -> FloatArray:
    """Return tau as an array of finite tolerances."""
    values = check_numbers(tau, "tau")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"tau is a tolerance in loss units and must be finite; got {tau!r}.")
    return values


def check_numbers(value: ArrayLike, name: str) -> FloatArray:
    """Return a scalar or a sequence of numbers as a float array."""
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a number or a sequence of numbers; got {value!r}."
        ) from None
    if values.ndim > 1 or values.size == 0:
        raise ValueError(
            f"{name} must be a number or a non-empty one-dimensional sequence; "
            f"got an array of shape {values.shape}."
        )
    return values


def check_losses(z: ArrayLike, n: int, name: str = "loss") -> FloatArray:
    """Return losses as a finite float array of length n."""
    try:
        values = np.asarray(z, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must give one number per row; got values of type "
            f"{np.asarray(z).dtype}. Targets that are text need a loss such as 'zero_one'."
        ) from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n,):
        raise ValueError(
            f"{name} must give one number per row, an array of shape ({n},); got {values.shape}."
        )
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise ValueError(
            f"{name} has {bad} non-finite values out of {n}; the bound needs finite losses. "
            "Check the targets and predictions, or pass a loss that handles missing ones."
        )
    return values


def check_same_length(**arrays: ArrayLike) -> list[FloatArray]:
    """Return the named one-dimensional arrays as floats, all of one non-zero length."""
    values = {name: np.asarray(a, dtype=np.float64) for name, a in arrays.items()}
    shapes = {name: a.shape for name, a in values.items()}
    first = next(iter(shapes.values()))
    if len(first) != 1 or first[0] == 0 or len(set(shapes.values())) > 1:
        raise ValueError(f"expected one-dimensional arrays of one non-zero length; got {shapes}.")
    for name, a in values.items():
        if np.isnan(a).any():
            raise ValueError(
                f"{name} has {int(np.isnan(a).sum())} missing values; remove them first."
            )
    return list(values.values())


def check_targets(y: ArrayLike, n: int, *, numeric: bool) -> np.ndarray:
    """Return n targets without missing ones, as floats where the loss is arithmetic."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 0 or len(values) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n} rows, "
            f"y has shape {values.shape}."
        )
    missing = values != values if values.dtype.kind in "fcO" else np.zeros(n, dtype=bool)
    if values.dtype.kind == "O":
        missing = missing | np.array([v is None for v in values.ravel()]).reshape(values.shape)
    if np.any(missing):
        raise ValueError(
            f"y contains NaN or missing values ({int(np.sum(missing))}); remove those rows."
        )
    if not numeric:
        return values
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"this loss needs numeric targets, but y holds {values.dtype}; for class labels use "
            "'zero_one', 'log', 'brier' or cost(matrix)."
        ) from None
