"""Signals on the scale a network or a kernel sees: standardised on D1, and none missing."""

import numpy as np

from locuscore._protocols import FloatArray

LARGEST_SIGNAL = 10.0  # in standard deviations; beyond it a network says nothing


def check_present(S: FloatArray, engine: str) -> None:
    """Raise if a signal is missing or infinite; `engine` is the class that asks."""
    missing = np.flatnonzero(~np.isfinite(S).all(axis=0))
    if len(missing):
        raise ValueError(
            f"{engine} takes no missing or infinite signals, but columns {missing.tolist()} have "
            "some; fill them in first, or use Forest, which accepts them."
        )


def centre_and_unit(S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation of each signal; constant signals become zero."""
    spread = S.std(axis=0)
    return S.mean(axis=0), np.where(spread > 0, spread, 1.0)


def standardise(S: FloatArray, centre: FloatArray, unit: FloatArray, engine: str) -> FloatArray:
    """Return the signals in deviations from the mean, clipped where D1 says nothing."""
    if not centre.shape == unit.shape == S.shape[1:]:
        raise ValueError(f"{engine} was fitted on {centre.size} signals; got {S.shape[1]}.")
    if not (unit > 0).all() or not np.isfinite(centre).all():
        raise ValueError(f"{engine} has signals without a centre or a positive unit.")
    return np.clip((S - centre) / unit, -LARGEST_SIGNAL, LARGEST_SIGNAL)
