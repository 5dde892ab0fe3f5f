"""Bets that a number moves up, and that it moves down, against reference rows; no labels needed.

Numbers fall into bins. For row t there are two p-values, ::

    p_t = (1 + #{reference or earlier rows in the same bin or a higher one}) / (n + t)
    q_t = (1 + #{reference or earlier rows in the same bin or a lower one}) / (n + t)

**Validity.** If reference and new rows are exchangeable and ties are broken at random, the rank R_t
of row t from the top is uniform on 1, ..., n + t and independent of earlier ranks. With V_t uniform
on (0, 1), ``p'_t = (R_t - V_t) / (n + t)`` are independent and uniform, and so are ``1 - p'_t``.
Rows at or above row t are in the same bin or a higher one, so ``p_t >= R_t / (n + t) >= p'_t``, and
likewise ``q_t >= (n + t - R_t + 1) / (n + t) >= 1 - p'_t``: in bins of any borders, whoever chose
them. Bets of `martingale` on both are therefore at most martingales in one filtration, and so is
their mean.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore.watch._evidence.martingale import RankBets

MOST_BINS = 100
LARGEST = float(np.finfo(float).max)
SAME = 1e-9  # relative: values that differ less are one, since batches change a value by rounding


def borders(reference: FloatArray) -> FloatArray:
    """Borders of about 100 bins with equally many reference rows, between distinct values."""
    values = np.unique(np.where(np.isnan(reference), np.inf, reference))
    low, high = values[:-1], values[1:]
    with np.errstate(invalid="ignore"):
        step = SAME * np.maximum(np.abs(low), np.abs(high))
        is_gap = np.isinf(low) | np.isinf(high) | (high - low > step)
        middle = np.where(np.isinf(high), low + SAME * np.abs(low), low / 2 + high / 2)
    middle = np.where(np.isinf(low), -LARGEST, middle)[is_gap]
    if not len(middle):
        return values[-1] + SAME * np.abs(values[-1]) * np.array([-1.0, 1.0])
    at = np.searchsorted(np.sort(reference), middle) * MOST_BINS // len(reference)
    return np.asarray(middle[np.unique(at, return_index=True)[1]])


def bins(values: FloatArray, edges: FloatArray) -> IntArray:
    """How many borders lie below each value; NaN counts as infinite."""
    return np.searchsorted(edges, np.where(np.isnan(values), np.inf, values), side="left")


class BothWays:
    """Bets in both directions; a value is the number of a row's bin, 0 the lowest."""

    def __init__(self, counts: IntArray) -> None:
        self.down, self.up = RankBets(counts.tolist()), RankBets(counts[::-1].tolist())

    @property
    def n_bets(self) -> int:
        """Number of bets that are mixed."""
        return self.down.n_bets + self.up.n_bets

    def log_factors(self, values: FloatArray, labelled: BoolArray) -> FloatArray:
        """Logarithms of the factors, (rows, bets); the rows count for all later ones."""
        last = len(self.down.counts) - 1
        down = self.down.log_factors(values, labelled)
        return np.concatenate([down, self.up.log_factors(last - values, labelled)], axis=1)

    def to_state(self) -> dict[str, Any]:
        """How many rows are in each bin by now."""
        return self.down.to_state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `to_state` gave."""
        self.down.restore(state)
        self.up.restore({"counts": self.down.counts[::-1].tolist()})
