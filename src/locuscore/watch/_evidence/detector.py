"""The detector: it calls when something seems to have begun to break, and starts again.

With bets as in `alarm`, let ``R_t = (1 + R_(t-1)) f_t`` for each bet, and R their mean. While the
claim holds, ``R_t - t`` is a supermartingale that starts at 0. So at the time T of the first call,
when R reaches A, ``E[T] >= E[R_T] >= A``: on average at least A rows pass before a false call, and
the same between two calls, since nothing is kept after one. That is no limit on the chance of a
call: in the long run a detector calls in every healthy deployment. It is never called an alarm.

**Coverage** is no claim given D2, see `urn`: the chance theta of a miss is a draw of a beta law.
The detector then bets against the rate r that theta exceeds with probability LUCK only, and calls
at ``A / (1 - LUCK)``. Given theta <= r its run length is at least that, so it is at least A on
average over D2 and the rows. Ties and rows without a label can only delay a call.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from locuscore._protocols import FloatArray
from locuscore._shared.checks import check_count
from locuscore.watch._evidence.alarm import Bets
from locuscore.watch._evidence.betting import MeanBets
from locuscore.watch._evidence.evidence import checked_rows, read_state
from locuscore.watch._evidence.sums import log_mean, running_sums

LUCK = 0.05
AT_ONCE = 1_024  # rows between two looks for a call
MOST_CALLS = 100  # whose rows are kept


class Detector:
    """Calls when bets gain, and starts again; at least `run_length` rows on average if all is well.

    `called_at` has the number of rows at the latest calls, at most 100 of them, and `calls` their
    number.
    """

    def __init__(self, bets: Bets, run_length: float) -> None:
        self.bets = bets
        self.run_length = float(run_length)
        if not 1 < self.run_length < math.inf:
            raise ValueError(f"run_length must be a number of rows above 1; got {run_length!r}.")
        self.n = 0
        self.calls = 0
        self.called_at: list[int] = []
        self.log_sums = self._fresh()

    @classmethod
    def of_urn(cls, misses: int, hits: int, run_length: float) -> Self:
        """A detector of misses, where D2 leaves their rate open; see the module."""
        m0, h0 = check_count(misses, "misses"), check_count(hits, "hits")
        rate = float(betaincinv(m0, h0, 1.0 - LUCK))
        return cls(MeanBets(rate), run_length / (1.0 - LUCK))

    def _fresh(self) -> FloatArray:
        # The sums with the start before the next row: log(1 + R).
        return np.zeros(self.bets.n_bets)

    @property
    def log_value(self) -> float:
        """Logarithm of 1 + R."""
        return float(log_mean(self.log_sums))

    def update(self, values: ArrayLike, labelled: ArrayLike | None = None) -> None:
        """See more rows, in order, each once; one without a label counts as good."""
        numbers, known = checked_rows(values, labelled)
        steps = self.bets.log_factors(numbers, known) if len(numbers) else np.empty((0, 1))
        while len(steps):
            part = steps[:AT_ONCE]
            with_next = running_sums(self.log_sums, np.zeros(len(part)), part)
            # Without the start before the next row it is R.
            called = np.flatnonzero(np.expm1(log_mean(with_next)) >= self.run_length)
            n_seen = int(called[0]) + 1 if len(called) else len(part)
            self.n += n_seen
            steps = steps[n_seen:]
            self.log_sums = with_next[n_seen - 1]
            if len(called):
                self.calls += 1
                self.called_at = [*self.called_at, self.n][-MOST_CALLS:]
                self.log_sums = self._fresh()

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        own = {"n": self.n, "calls": self.calls, "called_at": self.called_at}
        return own | {"log_sums": self.log_sums.tolist()} | self.bets.to_state()

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Continue from a state that `to_state` gave."""
        found = read_state(state, n=int, calls=int, called_at=list, log_sums=list)
        self.n, self.calls, self.called_at = found["n"], found["calls"], found["called_at"]
        self.log_sums = np.asarray(found["log_sums"], np.float64)
        if len(self.log_sums) != self.bets.n_bets:
            raise ValueError(
                f"the state of a detector must have sums of {self.bets.n_bets} bets; got "
                f"{len(self.log_sums)}. It belongs to other settings."
            )
        self.bets.restore(state)
        return self
