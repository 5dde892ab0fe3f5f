"""Exact counts over all rows, in memory that does not grow with them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import is_missing
from locuscore._shared.readable import shortened
from locuscore._shared.sampling import column_sample
from locuscore._shared.share_interval import share_interval
from locuscore.report._grid import ALPHAS, Grid

MOST_GROUPS = 10_000  # labels that are told apart while counting
SHOWN_GROUPS = 30
MOST_LOSSES = 100_000  # for the test of the mean loss; of more rows a sample
OTHERS, MISSING = "(others)", "(missing)"


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


@dataclass
class GroupCounts:
    """Coverage and mean bound by label; labels beyond the first 10,000 are pooled."""

    name: str
    place: dict[str, int] = field(default_factory=lambda: {OTHERS: 0})
    table: FloatArray = field(default_factory=lambda: np.zeros((1, 3)))  # rows, covered, bounds

    def add(self, labels: Any, covered: np.ndarray, bound: FloatArray) -> None:
        """Count rows."""
        codes = np.array([self._code(label) for label in labels], dtype=np.int64)
        size = len(self.place)
        grown = np.zeros((size, 3))
        grown[: len(self.table)] = self.table
        for j, weights in enumerate((None, covered, bound)):
            grown[:, j] += np.bincount(codes, weights=weights, minlength=size)
        self.table = grown

    def _code(self, label: Any) -> int:
        name = MISSING if is_missing(label) else str(label)
        if len(self.place) > MOST_GROUPS:
            return self.place.get(name, 0)
        return self.place.setdefault(name, len(self.place))

    def rows(self, delta: float) -> list[dict[str, Any]]:
        """The largest groups, and the others as one.

        All their intervals together contain every group's coverage with confidence ``1 - delta``
        (Bonferroni): each is exact at delta over the number of intervals.
        """
        size = np.append(0, self.table[1:, 0])
        order = np.argsort(-size, kind="stable")
        shown = [int(i) for i in order[:SHOWN_GROUPS] if size[i]]
        names = list(self.place)
        rest = self.table[np.setdiff1d(np.arange(len(names)), shown)].sum(axis=0)
        delta /= len(shown) + bool(rest[0])
        found = [_group(names[i], self.table[i], delta) for i in shown]
        return found + ([_group(OTHERS, rest, delta)] if rest[0] else [])


def _group(name: str, row: FloatArray, delta: float) -> dict[str, Any]:
    n, covered = int(row[0]), int(row[1])
    low, high = share_interval(covered, n, delta)
    mean = float(row[2]) / n
    return {
        "group": shortened(name),
        "n": n,
        "covered": covered,
        "rate": covered / n,
        "ci_low": float(low),
        "ci_high": float(high),
        "mean_bound": mean,
    }
