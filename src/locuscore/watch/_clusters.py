"""Clusters, such as days, that come one after the other: one value for each, once it is over."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore.watch._evidence.betting import cluster_values

MOST_CLOSED = 1_000  # clusters that are remembered, to leave out rows that come after their end


@dataclass
class OpenCluster:
    """The cluster whose rows are coming; it is over when a row of another one comes.

    `size` counts all of its rows and `used` those that the test uses, `bad` and `missing` among
    them. Rows without a cluster are `left_out`. If a row of a cluster that is over comes, its value
    was not that of all its rows, and neither may others be: then it `came_back`, and nothing is
    taken any more.
    """

    label: str | None = None
    size: int = 0
    used: int = 0
    bad: int = 0
    missing: int = 0
    time: int = 0
    left_out: int = 0
    came_back: bool = False
    over: list[str] = field(default_factory=list)

    def take(
        self,
        labels: Sequence[str | None],
        times: IntArray,
        used: BoolArray,
        bad: FloatArray,
        known: BoolArray,
        eta: float,
    ) -> Iterator[tuple[float, bool, int]]:
        """Take rows; give value, whether any label was there, and last time of each cluster over.

        `bad` and `known` are of all rows, and count where they are `used`.
        """
        for start, stop in runs(labels):
            label = labels[start]
            if label is not None and label in self.over:
                self.came_back = True
            if label is None or self.came_back:
                self.left_out += stop - start
                continue
            if label != self.label:
                if self.label is not None:
                    yield self._value(eta)
                    self.over = [*self.over, self.label][-MOST_CLOSED:]
                self.label, self.size, self.used, self.bad, self.missing = label, 0, 0, 0, 0
            part = slice(start, stop)
            is_used, is_known = used[part], known[part]
            self.size += stop - start
            self.used += int(is_used.sum())
            self.bad += int(bad[part][is_used & is_known].sum())
            self.missing += int(np.sum(is_used & ~is_known))
            self.time = int(times[stop - 1])

    def _value(self, eta: float) -> tuple[float, bool, int]:
        each = np.repeat([1.0, 0.0], [self.bad, self.used - self.bad])
        value = cluster_values(np.zeros(self.used, dtype=np.int64), each, eta, [self.size])
        return float(value[0]), self.missing < self.used or not self.used, self.time

    @property
    def trouble(self) -> str | None:
        """Why clusters cannot be tested; None if they can."""
        if self.came_back:
            return (
                "the rows of a cluster must come together, as those of a day do, and rows of one "
                "came back after those of another"
            )
        if self.left_out and self.label is None:
            return (
                "its unit is the cluster, and decisions were logged without; pass clusters= to "
                "score or log"
            )
        return None

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        return asdict(self)

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """Continue from a state that `to_state` gave."""
        return cls(**{**state, "over": list(state["over"])})


def runs(values: Sequence[Any] | np.ndarray) -> Iterator[tuple[int, int]]:
    """Start and stop of each stretch of equal values."""
    found = np.asarray(values)
    if not len(found):
        return
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    yield from zip(starts.tolist(), [*starts[1:].tolist(), len(found)], strict=True)
