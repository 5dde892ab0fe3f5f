"""A uniform sample of a stream of rows, which no cutting into batches changes."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from locuscore._protocols import FloatArray, IntArray

Rows = TypeVar("Rows")
Columns = tuple[FloatArray, ...]


class Reservoir(Generic[Rows]):
    """At most `most` rows of a stream, every set of so many being equally likely.

    Every row draws a number, and those with the smallest stay, in the order of the stream. Holds
    at most twice as many rows. `take` gives the rows at some positions, without a reference to all
    of them; `join` puts rows one after another.
    """

    def __init__(
        self,
        most: int,
        seed: int,
        take: Callable[[Rows, IntArray], Rows],
        join: Callable[[list[Rows]], Rows],
    ) -> None:
        self.most = most
        self.n_seen = 0
        self._take, self._join = take, join
        self._rng = np.random.default_rng(seed)
        self._kept: list[Rows] = []
        self._drawn: list[FloatArray] = []
        self._n_kept = 0
        # A row above the largest number that stayed at the last thinning cannot stay.
        self._limit = np.inf

    def add(self, rows: Rows, n: int) -> None:
        """See n further rows."""
        numbers = self._rng.random(n)
        stay = np.flatnonzero(numbers < self._limit)
        self._kept.append(self._take(rows, stay))
        self._drawn.append(numbers[stay])
        self._n_kept += len(stay)
        self.n_seen += n
        if self._n_kept > 2 * self.most:
            self._thin()

    def rows(self, most: int | None = None) -> Rows:
        """The rows that stayed, or a smaller sample of them."""
        self._thin()
        rows, drawn = self._kept[0], self._drawn[0]
        if most is None or most >= len(drawn):
            return rows
        return self._take(rows, np.sort(np.argsort(drawn)[:most]))

    def _thin(self) -> None:
        rows, drawn = self._join(self._kept), np.concatenate(self._drawn)
        if len(drawn) > self.most:
            stay = np.sort(np.argpartition(drawn, self.most - 1)[: self.most])
            rows, drawn = self._take(rows, stay), drawn[stay]
            self._limit = float(drawn.max())
        self._kept, self._drawn, self._n_kept = [rows], [drawn], len(drawn)


def column_sample(most: int, seed: int) -> Reservoir[Columns]:
    """A sample of rows that are given as columns, or blocks of columns, of equal length."""

    def take(columns: Columns, at: IntArray) -> Columns:
        return tuple(column[at] for column in columns)

    def join(parts: list[Columns]) -> Columns:
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    return Reservoir(most, seed, take, join)
