"""The alarm for coverage and joint share: are new rows exchangeable with those of D2?

The promise of a bound averages over D2 (Theorems 1 and 3). Given one D2, the chance of a miss is
above alpha in about half of all healthy deployments, so "at most alpha" is the wrong thing to test.
What holds is this. Without ties, the misses of new rows that are exchangeable with the n rows of D2
are drawn from a Polya urn of m0 misses and h0 hits, ``m0 = n + 1 - k`` and ``h0 = k`` with the rank
``k = conformal_rank(n, alpha)``: the next row falls into each of the n + 1 gaps between the tails
of D2 with the same chance, and then there is one gap more on its side. In other words, each row is
missed with chance theta, and theta is a draw of Beta(m0, h0).

Let m of the t rows since a start be missed. Against an urn with c times the odds, c > 1, ::

    E(m, t) = B(c m0 + m, h0 + t - m) / B(c m0, h0)  :  B(m0 + m, h0 + t - m) / B(m0, h0)

is a likelihood ratio: a martingale that starts at 1. It is also the mean of an increasing function
of theta over the posterior Beta(m0 + m, h0 + t - m), so every further miss among the rows raises
it.

**Ties** are broken at random in thought. A row that is missed for real, its tail below the level,
is missed in the urn too. So the real evidence is never above that of the urn. For the same reason a
row without a label may count as a hit, and bad rows that are accepted, which are among the missed,
have the urn of the misses.

**Starts.** Rows before a start tell about theta, so evidence of different starts is no martingale
in common and must not be added. The alarm takes the largest ``w_s E_s``, with the weights of
`starts`. The urn is the same from any start on, so by Ville's inequality each ``E_s`` ever reaches
``1 / (delta w_s)`` with probability at most ``delta w_s``, and these add up to at most delta.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, xlogy

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import check_count
from locuscore.watch._evidence.evidence import Evidence, checked_rows, read_state
from locuscore.watch._evidence.intervals import mean_interval
from locuscore.watch._evidence.starts import active_starts, log_weight, recent_starts
from locuscore.watch._evidence.sums import log_mean

ODDS = (1.2, 1.5, 2.0, 4.0)  # times those of the urn, equally mixed
BLOCKS = 20.0  # about so many starts have nearly equal weights
MISSES_PER_BLOCK = 8  # as many as a block of rows is expected to have


class UrnAlarm(Evidence):
    """An alarm for an urn of so many misses and hits; a value is 1 for a missed row, 0 otherwise.

    Parameters
    ----------
    misses, hits
        What the urn has before the first row: ``n + 1 - k`` and ``k``.
    delta
        The chance of ever alarming while rows are exchangeable with D2.
    odds
        Alternatives, as multiples of the odds of a miss; all above 1, all of the same weight.
    """

    def __init__(
        self, misses: int, hits: int, delta: float, *, odds: tuple[float, ...] = ODDS
    ) -> None:
        super().__init__(delta)
        self.urn = check_count(misses, "misses"), check_count(hits, "hits")
        self.odds = np.array(odds)
        if not len(odds) or not np.all(np.isfinite(self.odds) & (self.odds > 1)):
            raise ValueError(f"odds must be finite and above 1; got {odds}.")
        self.block = math.ceil(MISSES_PER_BLOCK * (misses + hits) / misses)
        self.misses = 0
        # Number of misses before each start that is active.
        self.starts = {0: 0}

    def update(self, values: ArrayLike, labelled: ArrayLike | None = None) -> None:
        """See more rows, in order, each once; one without a label counts as a hit."""
        numbers, known = checked_rows(values, labelled)
        is_miss = known & (numbers > 0)
        at = np.flatnonzero(is_miss)
        rows, misses = self.n + 1 + at, self.misses + 1 + np.arange(len(at))
        first, last = (self.n // self.block) + 1, (self.n + len(numbers)) // self.block
        new = np.arange(first, last + 1)
        before = self.misses + np.searchsorted(at, new * self.block - self.n)
        starts = self.starts | dict(zip(new.tolist(), before.tolist(), strict=True))
        # Evidence rises at a miss only.
        self._see(rows, self._log_values(rows, misses, starts, self.largest))
        self.n += len(numbers)
        self.misses += len(at)
        self.missing += int(np.sum(~known))
        self.starts = {j: starts[j] for j in active_starts(self.n // self.block)}
        now = np.array([self.n]), np.array([self.misses])
        self.log_value = float(self._log_values(*now, self.starts)[0])

    def interval(self, delta: float) -> tuple[float, float]:
        """Limits of the mean chance of a miss, for all times at once; see `intervals`."""
        return mean_interval(self.n, self.misses, self.misses + self.missing, delta)

    def _log_values(
        self,
        rows: IntArray,
        misses: IntArray,
        starts: dict[int, int],
        floor: float = -math.inf,
    ) -> FloatArray:
        """Logarithm of the largest ``w_s E_s`` after each of these rows, numbered from 1.

        It may be too small where it is below `floor`, which saves much time.
        """
        best = log_weight(np.array(0), BLOCKS) + self._log_ratio(misses, rows)
        keys = np.array(sorted(starts))
        before = np.array([starts[j] for j in keys.tolist()])
        # A start at the very end of the rows has none after it.
        blocks = np.maximum(rows - 1, 0) // self.block
        for v in range(int(blocks.max(initial=0)).bit_length()):
            for j in recent_starts(blocks, v):
                m = np.where(j < 0, 0, misses - before[np.searchsorted(keys, np.maximum(j, 0))])
                t = np.where(j < 0, 0, rows - j * self.block)
                weight = np.where(j < 0, -math.inf, log_weight(np.maximum(j, 0), BLOCKS))
                (some,) = np.nonzero(weight + self._log_ratio_at_most(m, t) > floor)
                found = weight[some] + self._log_ratio(m[some], t[some])
                best[some] = np.maximum(best[some], found)
        return best

    def _log_ratio_at_most(self, m: IntArray, t: IntArray) -> FloatArray:
        """No less than log E, and quickly computed.

        No urn is likelier than the observed share itself, and by Jensen's inequality the urn of D2
        is at least as likely as the mean of the log-likelihood over Beta(m0, h0) says.
        """
        m0, h0 = self.urn
        share = m / np.maximum(t, 1)
        likeliest = xlogy(m, share) + xlogy(t - m, 1.0 - share)
        mean = m * (digamma(m0) - digamma(m0 + h0)) + (t - m) * (digamma(h0) - digamma(m0 + h0))
        return np.asarray(likeliest - mean)

    def _log_ratio(self, m: IntArray, t: IntArray) -> FloatArray:
        """Logarithm of E, the mean over the alternatives."""
        m0, h0 = self.urn
        more = self.odds * m0
        # The parts of the beta functions that count hits are the same in both urns.
        start = gammaln(more) - gammaln(m0) - gammaln(more + h0) + gammaln(m0 + h0)
        gain = gammaln(more + m[:, None]) - gammaln(m0 + m)[:, None]
        size = gammaln(more + h0 + t[:, None]) - gammaln(m0 + h0 + t)[:, None]
        return log_mean(gain - size - start)

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        starts = [list(self.starts), list(self.starts.values())]
        return super().to_state() | {
            "misses": self.misses,
            "starts": starts[0],
            "before": starts[1],
        }

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Continue from a state that `to_state` gave."""
        self._read(state)
        found = read_state(state, misses=int, starts=list, before=list)
        self.misses = found["misses"]
        self.starts = dict(zip(found["starts"], found["before"], strict=False))
        starts = active_starts(self.n // self.block)
        if list(self.starts) != starts or len(found["before"]) != len(starts):
            raise ValueError(
                "the state of an alarm must have the starts that are active after its "
                f"{self.n} rows; it belongs to other settings or was changed."
            )
        return self
