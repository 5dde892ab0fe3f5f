"""Clusters, such as days or sessions: one value for each, once it is over.

A cluster is over when a row of another one comes that was decided an hour after its last row. So
rows of several clusters may mix, as at midnight, and a day with a long pause stays one cluster.

Values are given in the order of the first rows, so one that lasts holds up those after it. In the
order of their ends the short clusters would come first, and if these are the bad ones, bets on them
would win although the claim holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Self

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore.watch._evidence.betting import cluster_values

QUIET = 3_600_000_000  # microseconds
MOST_OPEN = 10_000  # clusters; beyond that the first of them is taken as over
MOST_CLOSED = 1_000  # that are remembered: the latest ones, and a sample of all


@dataclass
class Cluster:
    """Rows of a cluster so far: all, those that the test uses, and bad and missing among these."""

    size: int = 0
    used: int = 0
    bad: int = 0
    missing: int = 0
    time: int = 0

    def value(self, eta: float) -> tuple[float, bool, int]:
        """Its value, whether any label was there, and the time of its last row."""
        each = np.repeat([1.0, 0.0], [self.bad, self.used - self.bad])
        value = cluster_values(np.zeros(self.used, dtype=np.int64), each, eta, [self.size])
        return float(value[0]), self.missing < self.used or not self.used, self.time


@dataclass
class OpenClusters:
    """The clusters whose rows are coming, in the order of their first rows.

    Rows without a cluster are `left_out`. If a row of a cluster that is over comes, its value was
    not that of all its rows, and neither may others be: then it `came_back`, and nothing is taken
    any more. That is noticed by the latest clusters that are `over`, and by a `sample` of all:
    those whose hash is smallest. So clusters that come back in turns, however many they are, are
    noticed after a few.
    """

    open: dict[str, Cluster] = field(default_factory=dict)
    left_out: int = 0
    came_back: bool = False
    over: list[str] = field(default_factory=list)
    sample: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known = {*self.over, *self.sample}

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
            if label is not None and label in self._known:
                self.came_back = True
            if label is None or self.came_back:
                self.left_out += stop - start
                continue
            part = slice(start, stop)
            is_used, is_known = used[part], known[part]
            one = self.open.setdefault(label, Cluster())
            one.size += stop - start
            one.used += int(is_used.sum())
            one.bad += int(bad[part][is_used & is_known].sum())
            one.missing += int(np.sum(is_used & ~is_known))
            one.time = int(times[stop - 1])
            yield from self._closed(one.time, eta)

    def _closed(self, now: int, eta: float) -> Iterator[tuple[float, bool, int]]:
        """Values of those that are over and have none before them that is not."""
        while len(self.open) > 1:
            label, first = next(iter(self.open.items()))
            if now - first.time < QUIET and len(self.open) <= MOST_OPEN:
                return
            yield self.open.pop(label).value(eta)
            self._remember(label)

    def _remember(self, label: str) -> None:
        self.over = [*self.over, label][-MOST_CLOSED:]
        self.sample.append(label)
        if len(self.sample) >= 2 * MOST_CLOSED:
            self.sample = sorted(self.sample, key=_hash)[:MOST_CLOSED]
            self._known = {*self.over, *self.sample}
        self._known.add(label)

    @property
    def trouble(self) -> str | None:
        """Why clusters cannot be tested; None if they can."""
        if self.came_back:
            return (
                "the rows of a cluster must come within an hour of each other, or without rows of "
                "others between them, and rows of one came back later"
            )
        if self.left_out and not self.open:
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
        is_open = {str(label): Cluster(**one) for label, one in state["open"].items()}
        lists = {name: list(state[name]) for name in ("over", "sample")}
        return cls(**{**state, **lists, "open": is_open})


def _hash(label: str) -> bytes:
    return blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def runs(values: Sequence[Any] | np.ndarray) -> Iterator[tuple[int, int]]:
    """Start and stop of each stretch of equal values."""
    found = np.asarray(values)
    if not len(found):
        return
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    yield from zip(starts.tolist(), [*starts[1:].tolist(), len(found)], strict=True)
