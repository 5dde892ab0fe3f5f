"""Rows of a stream that were decided and wait for their labels, by the ticket of their batch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray, IntArray

MOST_SHOWN = 10  # tickets in a message
MOST_FLOATS = 50_000_000  # of all batches, in a state that may be forged
MOST_ROWS = 2**53  # that a state can count


@dataclass(eq=False)
class Batch:
    """Rows decided together: serial number of the first, bounds (n, m), signals, which wait."""

    start: int
    bounds: FloatArray
    signals: FloatArray
    is_open: BoolArray

    def state(self) -> dict[str, Any]:
        """The rows that wait, by name."""
        return {
            "start": self.start,
            "n": len(self.bounds),
            "rows": np.flatnonzero(self.is_open),
            "bounds": self.bounds[self.is_open],
            "signals": self.signals[self.is_open],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], m: int, room: int) -> "Batch":
        """The batch that `state` described, with bounds at m alphas, if `room` floats hold it."""
        n, rows = read_count(state["n"]), [read_count(row) for row in state["rows"]]
        bounds, signals = (read_floats(state[name]) for name in ("bounds", "signals"))
        width = signals.shape[1] if signals.ndim == 2 else 1
        if n * (m + width) > room:
            raise ValueError(f"a batch of {n:,} rows in this state of a stream is too large.")
        is_open = np.zeros(n, dtype=bool)
        is_open[rows] = True
        is_sound = 0 < len(rows) == is_open.sum() and bounds.shape == (len(rows), m)
        if not is_sound or np.isnan(bounds).any() or signals.ndim != 2 or len(signals) != len(rows):
            raise ValueError("the waiting rows of this state of a stream are incomplete.")
        every, all_signals = np.full((n, m), np.inf), np.zeros((n, signals.shape[1]))
        every[rows], all_signals[rows] = bounds, signals
        return cls(read_count(state["start"]), every, all_signals, is_open)


class WaitingRows:
    """Batches by ticket; each row is taken once."""

    def __init__(self) -> None:
        self.next_ticket = 0
        self._batches: dict[int, Batch] = {}

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        return iter(self._batches.items())

    @property
    def n(self) -> int:
        """Number of rows that wait."""
        return sum(int(batch.is_open.sum()) for batch in self._batches.values())

    @property
    def end(self) -> int:
        """Serial number after the last row of all batches that wait."""
        return max((batch.start + len(batch.bounds) for _, batch in self), default=0)

    def add(self, batch: Batch) -> int:
        """Keep a batch, unless it is empty, and return its ticket."""
        ticket = self.next_ticket
        self.next_ticket += 1
        if len(batch.bounds):
            self._batches[ticket] = batch
        return ticket

    def find(self, ticket: Any) -> Batch:
        """Return the batch of a ticket; raise where none of its rows waits."""
        is_number = isinstance(ticket, int | np.integer) and not isinstance(ticket, bool)
        if is_number and ticket in self._batches:
            return self._batches[ticket]
        if is_number and 0 <= ticket < self.next_ticket:
            raise ValueError(
                f"no row of ticket {ticket} waits for a label: they have had theirs, or were "
                "dropped. A label counts once."
            )
        shown = ", ".join(map(str, list(self._batches)[:MOST_SHOWN])) or "none"
        raise ValueError(f"there is no ticket {ticket!r}; those that wait are: {shown}.")

    def positions(self, ticket: int, rows: ArrayLike | None) -> IntArray:
        """Positions of rows of a batch, None for all of them; raise unless each waits."""
        batch = self.find(ticket)
        n = len(batch.bounds)
        at = np.arange(n) if rows is None else np.asarray(rows)
        if at.ndim != 1 or (at.size and at.dtype.kind not in "iu"):
            raise ValueError(f"rows are positions in the batch, 0 to {n - 1}; got {rows!r:.100}.")
        at = at.astype(np.int64)
        if at.size and (at.min() < 0 or at.max() >= n):
            raise ValueError(
                f"ticket {ticket} has the rows 0 to {n - 1}; got {at.min()} to {at.max()}."
            )
        n_known, n_twice = int(np.sum(~batch.is_open[at])), len(at) - len(np.unique(at))
        if n_known or n_twice:
            raise ValueError(
                f"a label counts once, but {n_known} of these rows of ticket {ticket} have had "
                f"theirs, and {n_twice} come twice; pass rows=, the positions of those that wait."
            )
        return at

    def close(self, ticket: int, at: IntArray) -> None:
        """Rows of a batch have their labels."""
        batch = self._batches[ticket]
        batch.is_open[at] = False
        if not batch.is_open.any():
            del self._batches[ticket]

    def drop(self, ticket: int) -> None:
        """Forget the rows of a batch."""
        self.find(ticket)
        del self._batches[ticket]

    def state(self) -> list[dict[str, Any]]:
        """The batches, by name."""
        return [{"ticket": ticket, **batch.state()} for ticket, batch in self]

    def read(self, state: Any, m: int) -> None:
        """Add the batches that `state` described."""
        room = MOST_FLOATS
        for one in state:
            ticket, last = read_count(one["ticket"]), max(self._batches, default=-1)
            batch = Batch.from_state(one, m, room)
            if ticket <= last or batch.start < self.end:
                raise ValueError(
                    "the batches of this state of a stream overlap, or are in disorder."
                )
            self._batches[ticket] = batch
            room -= batch.bounds.size + batch.signals.size


def read_count(value: Any) -> int:
    """Return a whole number of a state."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_ROWS:
        raise ValueError(f"a state of a stream counts rows by whole numbers; got {value!r:.50}.")
    return value


def read_floats(value: Any) -> FloatArray:
    """Return an array of numbers of a state."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("a part of this state of a stream is no array of numbers.") from None
