"""The alarm of exchangeability: bets on ranks that know how new rows mix into the old ones.

P-values are those of `martingale`: the rank of a row among D2 and all rows before it. Say that from
a start on, when N rows were known, a share b of new rows falls where a share a < b fell before.
After age more rows, these are among those that a row is ranked with, so it is not the share a of
ranks that is now hit by a share b, but ::

    step = (a N + b age) / (N + age)

Bets that stay at a lose again what they won once the bad rows are common. Here each start has its
own bets, ::

    f(p) = b / step             for p <= step
           (1 - b) / (1 - step) for p > step

Where rows are in few bins, p-values are coarse, and the step is a little further, at most at b.

**Validity.** N and the age do not depend on any tail, so each f is fixed beforehand; it does not
increase, since ``step <= b``, and its integral is 1. As `martingale` shows, products of such bets
are at most martingales in one filtration, ties or not. So evidence of different starts may be
added, with the weights of `starts`, and a start that is left out only takes evidence away.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray, IntArray
from locuscore.watch._evidence.evidence import Evidence, checked_rows, read_state
from locuscore.watch._evidence.martingale import RankBets
from locuscore.watch._evidence.starts import active_starts, log_weight

LEVELS = (0.02, 0.05, 0.1, 0.2, 0.4)  # where the bins are many
ODDS = (1.5, 2.0, 4.0)  # of b, times those of a
BEYOND = (1.05, 1.2)  # steps where the bins are few, in units of those above
BLOCK = 128  # rows from one start to the next
BLOCKS = 8.0  # about so many starts have nearly equal weights


class RankAlarm(Evidence):
    """An alarm that tails get worse; a value is the number of a row's bin, 0 the worst.

    `counts` and `shares` are those of `RankBets`.
    """

    def __init__(self, counts: Sequence[int], shares: Sequence[float], delta: float) -> None:
        super().__init__(delta)
        self.ranks = RankBets(counts, shares)
        self.n_reference = int(self.ranks.counts.sum())
        levels = np.array(shares if len(shares) else LEVELS)
        beyond = np.array(BEYOND if len(shares) else (1.0,))
        grid = np.meshgrid(levels, np.array(ODDS), beyond, indexing="ij")
        self.levels, odds, self.beyond = (part.ravel() for part in grid)
        self.rates = odds * self.levels / (1.0 - self.levels + odds * self.levels)
        # Logarithm of the wealth of each bet since each start that is active.
        self.starts = {0: self._first(0)}

    def log_bets(self, p: FloatArray, known: IntArray, ages: IntArray) -> FloatArray:
        """Logarithms of all bets on a last axis, where `known` rows came before the start."""
        old = (known / (known + ages))[..., None]
        step = self.beyond * (self.rates + (self.levels - self.rates) * old)
        step = np.minimum(step, self.rates)
        above = (1.0 - self.rates) / (1.0 - step)
        return np.asarray(np.log(np.where(p[..., None] <= step, self.rates / step, above)))

    def update(self, values: ArrayLike, labelled: ArrayLike | None = None) -> None:
        """See more rows, in order, each once; one without a label counts as good."""
        numbers, known = checked_rows(values, labelled)
        p = self.ranks.p_values(numbers, known)
        self.missing += int(np.sum(~known))
        while len(p):
            here, p = np.split(p, [BLOCK - self.n % BLOCK])
            self._update_block(here)

    def interval(self, delta: float) -> None:
        """Nothing: ranks estimate no share."""

    def _update_block(self, p: FloatArray) -> None:
        """See rows among which nothing starts."""
        first: IntArray = BLOCK * np.array(list(self.starts))[:, None]
        rows = self.n + np.arange(len(p))
        steps = self.log_bets(p, self.n_reference + first, rows - first)
        wealth = np.array(list(self.starts.values()))[:, None] + np.cumsum(steps, axis=1)
        top = wealth.max(axis=(0, 2))
        log_values = top + np.log(np.exp(wealth - top[:, None]).sum(axis=(0, 2)))
        self._see(rows + 1, log_values)
        self.n += len(p)
        self.log_value = float(log_values[-1])
        now = dict(zip(self.starts, wealth[:, -1], strict=True))
        active = active_starts(self.n // BLOCK)
        self.starts = {j: now[j] if j in now else self._first(j) for j in active}

    def _first(self, j: int) -> FloatArray:
        """Wealth at start j: its weight, in equal parts."""
        weight = float(log_weight(np.array([j]), BLOCKS)[0])
        return np.full(len(self.rates), weight - math.log(len(self.rates)))

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        wealth = np.concatenate(list(self.starts.values())).tolist()
        return super().to_state() | {"wealth": wealth} | self.ranks.to_state()

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Continue from a state that `to_state` gave."""
        self._read(state)
        wealth = np.asarray(read_state(state, wealth=list)["wealth"], dtype=np.float64)
        active = active_starts(self.n // BLOCK)
        size = len(active) * len(self.rates)
        if len(wealth) != size:
            raise ValueError(
                f"the state of an alarm must have {size} numbers of wealth after its {self.n} "
                f"rows; got {len(wealth)}. It belongs to other settings."
            )
        self.starts = dict(zip(active, wealth.reshape(len(active), -1), strict=True))
        self.ranks.restore(state)
        return self
