"""Bets against exchangeability of any kind: a conformal test martingale on ranks.

Rows fall into bins by their tail, the worst first. For row t the p-value is ::

    p_t = (1 + #{rows of D2 or before t in the same bin or a worse one}) / (n + t)

**Validity.** If all rows are exchangeable and ties of their tails are broken at random, the ranks
are independent, and so are the smoothed p-values p'_t, which are uniform. A row with at most the
tail of row t is in the same bin or a worse one, wherever the borders of the bins lie and whoever
chose them, also D2. So p_t >= p'_t. Each bet is a function f of p that is fixed beforehand, does
not increase, and has an integral of at most 1; so ``f(p_t) <= f(p'_t)``, and the products are at
most martingales in the common filtration of the p'_t. Nothing is drawn at random.

A row without a label has p = 1 itself, and stands in the worst bin for all later rows: both can
only raise p-values. (In the best bin it would make later ones too small.)

An increasing bet would need p_t <= p'_t, which ties break.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore.watch._evidence.evidence import read_state

POWERS = (0.4, 0.6, 0.8)  # f(p) = power p^(power - 1)
ODDS = (1.5, 3.0)  # f(p) is larger up to a step, by these odds
BEYOND = (1.05, 1.2, 1.5)  # steps, as multiples of the shares
STEPS = tuple(0.01 * 2.0**i for i in range(6))  # where the bins are many
AT_ONCE = 256  # rows that are compared with each other
LOWER = np.tri(AT_ONCE, dtype=bool)


class RankBets:
    """Bets that tails get worse; a value is the number of a row's bin, 0 the worst.

    `counts` has the number of rows of D2 in each bin. Where the bins are few, `shares` are those of
    rows expected below each border, such as the alphas of the bounds between them. Bets step a
    little beyond these, since p-values grow as bad rows come. They must not be counted in D2: given
    its rows, p'_t is not uniform, so D2 must not choose the bets.
    """

    def __init__(self, counts: Sequence[int], shares: Sequence[float] = ()) -> None:
        self.counts: IntArray = np.asarray(counts, dtype=np.int64)
        if self.counts.ndim != 1 or len(self.counts) < 2 or np.any(self.counts < 0):
            raise ValueError(
                f"counts must be the rows of D2 in two bins or more; got {list(counts)!r:.80}."
            )
        steps = np.outer(shares, BEYOND).ravel() if len(shares) else np.array(STEPS)
        self.steps = np.unique(steps[steps < 1])
        # Powers lose much on p-values that are coarse.
        self.powers = np.array([] if len(self.steps) and len(shares) else POWERS)

    @property
    def n_bets(self) -> int:
        """Number of bets that are mixed."""
        return len(ODDS) * len(self.steps) + len(self.powers)

    def log_bets(self, p: FloatArray) -> FloatArray:
        """Logarithms of all bets at each p-value, (rows, bets)."""
        columns = []
        for odds in ODDS:
            total = 1.0 - self.steps + odds * self.steps
            columns.append(np.where(p[:, None] <= self.steps, np.log(odds), 0.0) - np.log(total))
        columns.append(np.log(self.powers) + np.outer(np.log(p), self.powers - 1.0))
        return np.concatenate(columns, axis=1)

    def log_factors(self, values: FloatArray, labelled: BoolArray) -> FloatArray:
        """Logarithms of the factors, (rows, bets); the rows count for all later ones."""
        return self.log_bets(self.p_values(values, labelled))

    def p_values(self, values: FloatArray, labelled: BoolArray) -> FloatArray:
        """P-value of each row; the rows count for all later ones."""
        n_bins = len(self.counts)
        bins = np.where(labelled, values, 0).astype(np.int64)
        if np.any((bins < 0) | (bins >= n_bins)):
            raise ValueError(
                f"values must be bins from 0 to {n_bins - 1}; got {bins.min()} to {bins.max()}."
            )
        found = [self._p_values(bins[i : i + AT_ONCE]) for i in range(0, len(bins), AT_ONCE)]
        return np.where(labelled, np.concatenate([np.empty(0), *found]), 1.0)

    def _p_values(self, bins: IntArray) -> FloatArray:
        n, k = int(self.counts.sum()), len(bins)
        # The row itself is among those counted: the 1 of the formula.
        is_up_to = (bins <= bins[:, None]) & LOWER[:k, :k]
        up_to = np.cumsum(self.counts)[bins] + np.count_nonzero(is_up_to, axis=1)
        self.counts = self.counts + np.bincount(bins, minlength=len(self.counts))
        return np.asarray(up_to / (n + 1.0 + np.arange(k)))

    def to_state(self) -> dict[str, Any]:
        """How many rows are in each bin by now."""
        return {"counts": self.counts.tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `to_state` gave."""
        counts = np.asarray(read_state(state, counts=list)["counts"])
        if counts.dtype.kind != "i" or counts.shape != self.counts.shape or counts.min() < 0:
            raise ValueError(
                f"the state of an alarm must count the rows of {len(self.counts)} bins; got "
                f"{counts.tolist()!r:.80}."
            )
        self.counts = counts
