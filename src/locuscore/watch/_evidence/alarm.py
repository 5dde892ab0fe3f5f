"""The alarm of bets whose products are supermartingales in one filtration.

With such bets evidence from different starts may be added: ::

    sum over bets of their mean, and over starts s of w_s f_(s+1) ... f_t

is a supermartingale but for the starts to come, whose weights it lacks. All weights together are at
most 1, so by Ville's inequality it ever reaches ``1 / delta`` with probability at most delta. Every
row is a start (the recursion of Shiryaev and Roberts).
"""

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray
from locuscore.watch._evidence.betting import MeanBets
from locuscore.watch._evidence.evidence import Evidence, checked_rows, read_state
from locuscore.watch._evidence.intervals import mean_interval
from locuscore.watch._evidence.starts import log_weight
from locuscore.watch._evidence.sums import log_mean, running_sums

ROWS = 1_000.0  # about so many starts have nearly equal weights


class Bets(Protocol):
    """Bets that are fixed before the rows they are made on."""

    @property
    def n_bets(self) -> int:
        """Number of bets that are mixed, with equal weights."""

    def log_factors(self, values: FloatArray, labelled: BoolArray) -> FloatArray:
        """Logarithms of the factors, (rows, bets)."""

    def to_state(self) -> dict[str, Any]:
        """What later rows need."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""


class BetsAlarm(Evidence):
    """An alarm by bets, `MeanBets` or `RankBets`; what a value is, they say."""

    def __init__(self, bets: Bets, delta: float) -> None:
        super().__init__(delta)
        self.bets = bets
        self.total = 0.0
        self.log_sums = np.full(bets.n_bets, log_weight(np.array(0), ROWS))

    def update(self, values: ArrayLike, labelled: ArrayLike | None = None) -> None:
        """See more rows, in order, each once; one without a label counts as good."""
        numbers, known = checked_rows(values, labelled)
        if not len(numbers):
            return
        rows = self.n + 1 + np.arange(len(numbers))
        steps = self.bets.log_factors(numbers, known)
        sums = running_sums(self.log_sums, log_weight(rows, ROWS), steps)
        log_values = log_mean(sums)
        self._see(rows, log_values)
        self.n += len(numbers)
        self.missing += int(np.sum(~known))
        if isinstance(self.bets, MeanBets):
            self.total += float(self.bets.shares(numbers[known]).sum())
        self.log_sums, self.log_value = sums[-1], float(log_values[-1])

    def interval(self, delta: float) -> tuple[float, float] | None:
        """Limits of the mean of the conditional means, for all times at once; see `intervals`.

        A value beyond `high` counts as `high`. None for bets on ranks, which estimate nothing.
        """
        if not isinstance(self.bets, MeanBets):
            return None
        low, high = self.bets.low, self.bets.high
        ends = mean_interval(self.n, self.total, self.total + self.missing, delta)
        return low + (high - low) * ends[0], low + (high - low) * ends[1]

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        own = {"total": self.total, "log_sums": self.log_sums.tolist()}
        return super().to_state() | own | self.bets.to_state()

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Continue from a state that `to_state` gave."""
        self._read(state)
        found = read_state(state, total=float, log_sums=list)
        self.total, self.log_sums = found["total"], np.asarray(found["log_sums"], np.float64)
        if len(self.log_sums) != self.bets.n_bets:
            raise ValueError(
                f"the state of an alarm must have sums of {self.bets.n_bets} bets; got "
                f"{len(self.log_sums)}. It belongs to other settings."
            )
        self.bets.restore(state)
        return self
