"""Exact counts over all rows, in memory that does not grow with them."""

import numpy as np

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.sampling import column_sample
from locuscore.report._grid import ALPHAS, Grid

MOST_LOSSES = 100_000  # for the test of the mean loss; of more rows a sample


class ExplorerCounts:
    """Accepted and bad rows at every tolerance and alpha, and at every threshold of the rule.

    A row whose bound at an alpha is U and whose loss is z is accepted from the first tolerance
    that is at least U on, and is bad there until the first that is at least z. So each row adds
    two entries per alpha, where it enters and where it ceases to be bad, and sums over the
    tolerances give the counts.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        size = len(grid.taus) + 1
        self._entered = np.zeros((len(ALPHAS), size), dtype=np.int64)
        self._good = np.zeros((len(ALPHAS), size), dtype=np.int64)
        self._losses = np.zeros(size, dtype=np.int64)
        width = 0 if grid.thresholds is None else len(grid.thresholds) + 1
        self._by_score = np.zeros((width, size), dtype=np.int64)

    def add(self, bounds: FloatArray, losses: FloatArray) -> None:
        """Count rows by their bounds at all alphas (n, 99) and their losses."""
        enters = np.searchsorted(self.grid.taus, bounds, side="left")
        good = np.searchsorted(self.grid.taus, losses, side="left")[:, None]
        self._entered += self._binned(enters)
        self._good += self._binned(np.maximum(enters, good))

    def _binned(self, place: IntArray) -> IntArray:
        index = place + np.arange(len(ALPHAS)) * (len(self.grid.taus) + 1)
        return np.bincount(index.ravel(), minlength=self._entered.size).reshape(len(ALPHAS), -1)

    def add_losses(self, losses: FloatArray, score: FloatArray | None) -> None:
        """Count rows by their losses, and by the rule's score."""
        size = len(self.grid.taus) + 1
        good = np.searchsorted(self.grid.taus, losses, side="left")
        self._losses += np.bincount(good, minlength=size)
        if score is not None and self.grid.thresholds is not None and len(score):
            place = np.searchsorted(self.grid.thresholds, score, side="left")
            place[np.isinf(score)] = len(self.grid.thresholds)  # not even at a threshold of inf
            index = np.bincount(place * size + good, minlength=self._by_score.size)
            self._by_score += index.reshape(self._by_score.shape)

    @property
    def accepted(self) -> IntArray:
        """Rows with a bound of at most tau, (taus, alphas)."""
        return np.cumsum(self._entered, axis=1)[:, :-1].T

    @property
    def bad(self) -> IntArray:
        """Accepted rows with a loss above tau, (taus, alphas)."""
        return self.accepted - np.cumsum(self._good, axis=1)[:, :-1].T

    @property
    def losses_above(self) -> IntArray:
        """Rows with a loss above tau."""
        return self._losses.sum() - np.cumsum(self._losses)[:-1]

    @property
    def accepted_by_score(self) -> IntArray:
        """Rows with a score of at most each threshold."""
        return np.cumsum(self._by_score.sum(axis=1))[:-1]

    @property
    def bad_by_score(self) -> IntArray:
        """The bad ones of them, (taus, thresholds)."""
        up_to = np.cumsum(self._by_score, axis=0)[:-1]
        return (up_to.sum(axis=1)[:, None] - np.cumsum(up_to, axis=1)[:, :-1]).T


class AcceptedLosses:
    """Number, sum and a uniform sample of the losses of the rows that a rule accepts."""

    def __init__(self, seed: int) -> None:
        self.n, self.total = 0, 0.0
        self._sample = column_sample(MOST_LOSSES, seed)

    def add(self, z: FloatArray) -> None:
        """See losses of accepted rows."""
        self.n += len(z)
        self.total += float(z.sum())
        self._sample.add((z,), len(z))

    @property
    def losses(self) -> FloatArray:
        """Losses of the sample; of few rows, all of them."""
        return self._sample.rows()[0] if self.n else np.empty(0)
