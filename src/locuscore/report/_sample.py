"""A uniform sample of a stream of rows, which no cutting into batches changes."""

import numpy as np

from locuscore._protocols import FloatArray


class Sample:
    """At most `most` rows of a stream, every set of so many being equally likely.

    Every row draws a number, and those with the smallest stay, in the order of the stream. Holds
    at most twice as many rows.
    """

    def __init__(self, most: int, seed: int) -> None:
        self.most = most
        self._rng = np.random.default_rng(seed)
        self._rows: list[FloatArray] = []
        self._drawn: list[FloatArray] = []
        self._n = 0
        self._limit = np.inf

    def add(self, *columns: FloatArray) -> None:
        """See further rows, as columns or blocks of columns."""
        numbers = self._rng.random(len(columns[0]))
        stay = numbers < self._limit
        self._rows.append(np.column_stack([part[stay] for part in columns]))
        self._drawn.append(numbers[stay])
        self._n += int(stay.sum())
        if self._n > 2 * self.most:
            self._thin()

    def rows(self, most: int | None = None) -> FloatArray:
        """The rows that stayed, or a smaller sample of them."""
        self._thin()
        rows, drawn = self._rows[0], self._drawn[0]
        if most is None or most >= len(rows):
            return rows
        return rows[np.sort(np.argsort(drawn)[:most])]

    def _thin(self) -> None:
        rows, drawn = np.concatenate(self._rows), np.concatenate(self._drawn)
        if len(rows) > self.most:
            stay = np.sort(np.argpartition(drawn, self.most - 1)[: self.most])
            rows, drawn = rows[stay], drawn[stay]
            self._limit = float(drawn.max())
        self._rows, self._drawn, self._n = [rows], [drawn], len(rows)
