"""Losses of labels that came as true values."""

import numpy as np

from locuscore import Locus
from locuscore._protocols import FloatArray
from locuscore.watch._ledger import Ledger


def write_prices(ledger: Ledger, digest: str, locus: Locus) -> None:
    """Write the losses of labels that have y alone.

    A label whose loss cannot be worked out, such as a text where a number belongs, stays without
    one and does not hold up the others.
    """
    while True:
        left = ledger.unpriced(digest)
        z = losses_or_nan(locus, left["prediction"], left["y"])
        known = np.isfinite(z)
        if not known.any():
            return
        ledger.write_losses(left["number"][known].tolist(), z[known])


def losses_or_nan(locus: Locus, predictions: np.ndarray, y: np.ndarray) -> FloatArray:
    """Losses, NaN where there is none: of all at once, or of halves where that fails."""
    n = len(y)
    if n == 0:
        return np.empty(0)
    try:
        return np.asarray(locus.losses_of(predictions, y), dtype=float)
    except (ValueError, TypeError):
        if n == 1:
            return np.full(1, np.nan)
    parts = (slice(0, n // 2), slice(n // 2, n))
    return np.concatenate([losses_or_nan(locus, predictions[part], y[part]) for part in parts])
