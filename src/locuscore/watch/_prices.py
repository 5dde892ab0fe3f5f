"""Losses of labels that came as true values."""

import numpy as np

from locuscore import Locus
from locuscore._protocols import FloatArray
from locuscore.watch._ledger import Ledger
from locuscore.watch._ledger.columns import LARGEST_LOSS


def write_prices(ledger: Ledger, digest: str, locus: Locus) -> None:
    """Write the losses of labels that have y alone.

    A label whose loss cannot be worked out, such as a text where a number belongs, stays without
    one and does not hold up the others.
    """
    after = (0, 0)
    while True:
        left = ledger.unpriced(digest, after=after)
        if not len(left["number"]):
            return
        after = int(left["seq"][-1]), int(left["number"][-1])
        z = losses_or_nan(locus, left["prediction"], left["y"])
        known = np.abs(z) <= LARGEST_LOSS  # not NaN either
        if known.any():
            ledger.write_losses(left["number"][known].tolist(), z[known])


def losses_or_nan(locus: Locus, predictions: np.ndarray, y: np.ndarray) -> FloatArray:
    """Losses, NaN where there is none: of all at once, or of halves where that fails."""
    if locus.loss_.reads == "numbers" and y.dtype == object:  # a file of texts, in one step
        there = np.array([not isinstance(one, str) for one in y], dtype=bool)
        if not there.all():
            found = np.full(len(y), np.nan)
            found[there] = losses_or_nan(locus, predictions[there], y[there])
            return found
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
