"""The thresholds a certificate tries, where it starts, how far up it gets, and what it lacks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.binomial_tests import (
    MOST_ROWS,
    allowed_bad,
    binomial_p_value,
    passes,
    rows_at_rate,
    rows_for,
    sequence_end,
)
from locuscore._rules.threshold_counts import (
    count_sorted,
    counts_up_to,
    sorted_bad,
    sorted_finite,
    thinned,
)

# Shares of the rows at which sequences begin, and how delta is divided. Compared over ten shapes
# of the risk in benchmarks/choices/certificate_starts.py; docs/rules.md says where they are weak.
FIRST_SHARE = 0.4
NEXT_SHARE = 0.25
LOWER_PART = 0.1
LOWER_BAD_ROWS = 2
MOST_LOWER_STARTS = 3
LARGEST_TIE = 0.05  # share of the rows: a larger block of ties may swallow a start


@dataclass(frozen=True)
class Start:
    """A position in the list of thresholds, and the error probability spent from there up."""

    position: int
    level: float


@dataclass(frozen=True)
class Ladder:
    """Thresholds in ascending order; the rows accepted at each are counted when asked for.

    A sequence seldom tests all of them, so most are never counted. With `side` "right" a threshold
    accepts up to its edge, with "left" strictly below it.
    """

    edge: FloatArray
    scores: FloatArray
    bad_scores: FloatArray
    n_rows: int
    side: Literal["left", "right"]

    def counts(self, at: slice | IntArray) -> tuple[IntArray, IntArray]:
        """Rows accepted at these positions, and the bad ones of them."""
        edges = self.edge[at]
        return (
            count_sorted(self.scores, edges, self.side),
            count_sorted(self.bad_scores, edges, self.side),
        )

    def count(self, position: int) -> tuple[int, int]:
        """The same at one position."""
        n, bad = self.counts(np.array([position]))
        return int(n[0]), int(bad[0])

    def thresholds(self, at: IntArray) -> FloatArray:
        """Largest score accepted at these positions."""
        edges = self.edge[at]
        if self.side == "right":
            return edges
        return np.where(edges < np.inf, np.nextafter(edges, -np.inf), np.inf)

    def table(
        self, tested: tuple[int, int], certified: int | None, eta: float
    ) -> dict[str, tuple[float, ...]]:
        """Distinct thresholds that were tested, with their counts and p-values."""
        edges = self.edge[slice(*tested)]
        # Ranks in a block of ties are one threshold.
        distinct = tested[0] + np.flatnonzero(np.append(True, edges[1:] > edges[:-1]))
        keep = None if certified is None else int(np.searchsorted(distinct, certified, "right")) - 1
        at = distinct[thinned(len(distinct), keep)]
        n, bad = self.counts(at)
        columns = {"threshold": self.thresholds(at), "n_accepted": n, "n_bad": bad}
        columns["p_value"] = binomial_p_value(bad, n, eta)
        return {name: tuple(column.tolist()) for name, column in columns.items()}


def own_ladder(score: FloatArray, bad: BoolArray) -> Ladder:
    """Entry i is rank i + 1: accept strictly below that score; the last accepts all finite ones."""
    ranked = np.append(np.sort(score), np.inf)
    finite = ranked[: np.searchsorted(ranked, np.inf, side="left")]
    return Ladder(ranked, finite, sorted_bad(score, bad), len(score), "left")


def grid_ladder(score: FloatArray, bad: BoolArray, grid: FloatArray) -> Ladder:
    return Ladder(grid, sorted_finite(score), sorted_bad(score, bad), len(score), "right")


def distinct(ranked: FloatArray) -> FloatArray:
    """Distinct values of a sorted reference."""
    if not len(ranked):
        raise ValueError("reference has no finite score, so there is no threshold to test.")
    new = ranked[1:] > ranked[:-1]
    return ranked if new.all() else np.compress(np.append(True, new), ranked)


def ties_heavily(score: FloatArray) -> bool:
    """Whether one value is shared by so many scores that a start may fall among them."""
    return bool(np.unique(score, return_counts=True)[1].max() > LARGEST_TIE * len(score))


def _share_levels(
    n_rows: int, eta: float, delta: float, shares: FloatArray | None
) -> list[tuple[float, float]]:
    """Shares of the rows at which sequences begin, each with its level."""
    if shares is not None:
        return [(float(share), delta / len(shares)) for share in shares]
    for count in range(MOST_LOWER_STARTS, 0, -1):
        level = LOWER_PART * delta / count
        lowest = FIRST_SHARE * NEXT_SHARE**count
        if lowest * n_rows >= rows_for(LOWER_BAD_ROWS, eta, level):
            lower = [(FIRST_SHARE * NEXT_SHARE**j, level) for j in range(count, 0, -1)]
            return [*lower, (FIRST_SHARE, (1.0 - LOWER_PART) * delta)]
    return [(FIRST_SHARE, delta)]


def rank_starts(n_rows: int, eta: float, delta: float, shares: FloatArray | None) -> list[Start]:
    """Ranks to start from, moved to where the allowed number of bad rows has just gone up."""
    found = []
    for share, level in _share_levels(n_rows, eta, delta, shares):
        wanted = max(round(share * n_rows), 1)
        bad = max(allowed_bad(wanted, eta, level), 0)
        steps = [rows_for(bad, eta, level), rows_for(bad + 1, eta, level)]
        nearest = min(steps, key=lambda n: abs(n - wanted))
        found.append(Start(nearest if nearest <= n_rows else min(steps[0], n_rows), level))
    return found


def quantile_starts(
    ladder: Ladder,
    ranked: FloatArray,
    n_reference: int,
    eta: float,
    delta: float,
    shares: FloatArray | None,
) -> list[Start]:
    """Starts at quantiles of the reference; `ranked` are its finite scores."""
    found = []
    for share, level in _share_levels(ladder.n_rows, eta, delta, shares):
        # Never below what a clean sample would need.
        least = max(share, min(rows_for(0, eta, level) / ladder.n_rows, 1.0))
        rank = min(max(math.ceil(least * n_reference), 1), len(ranked))
        found.append(Start(int(np.searchsorted(ladder.edge, ranked[rank - 1])), level))
    return found


def powerful_start(
    ladder: Ladder, reference: FloatArray, bad: BoolArray, eta: float, delta: float
) -> list[Start]:
    """The largest threshold whose estimated power is within 0.01 of the greatest."""
    places = np.unique(np.linspace(0, len(ladder.edge) - 1, 200).round().astype(np.int64))
    m, k = counts_up_to(reference, bad, ladder.edge[places])
    expected = np.round(ladder.n_rows * m / len(reference)).astype(np.int64)
    allowed = np.array([allowed_bad(int(n), eta, delta) for n in expected])
    # One bad and one good row more: few rows do not look better than they can be.
    rate = (k + 1.0) / (m + 2.0)
    power = np.where(allowed >= 0, binomial_p_value(np.maximum(allowed, 0), expected, rate), 0.0)
    best = np.flatnonzero(power >= power.max() - 0.01)[-1]
    return [Start(int(places[best]), delta)]


def climb(
    ladder: Ladder, starts: Sequence[Start], eta: float
) -> tuple[int | None, tuple[int, int]]:
    """Position of the largest certified threshold, and the range of positions tested for it.

    Starts ascend, and so do their levels: what passes at a lower level passes at a higher one, so a
    sequence from below cannot get past the end of one that began higher up and passed there.
    """
    size = len(ladder.edge)

    def passed(rows: slice, level: float) -> BoolArray:
        n, bad = ladder.counts(rows)
        return passes(bad, n, eta, level)

    for start in reversed(starts):
        end = sequence_end(passed, size, start.position, start.level)
        if end > start.position:
            return end - 1, (start.position, min(end + 1, size))
    return None, (starts[0].position, starts[-1].position + 1)


def shortfall(
    ladder: Ladder, starts: Sequence[Start], eta: float, where: str, lower: str
) -> tuple[dict[str, int | None], str]:
    """How many rows would have been needed, from the start that came closest.

    Where more rows would not help, fewer accepted ones may: `lower` says what would accept fewer.
    """
    n_at, bad_at = ladder.counts(np.array([start.position for start in starts]))
    distance = binomial_p_value(bad_at, n_at, eta) / [start.level for start in starts]
    i = int(np.flatnonzero(distance == distance.min())[-1])  # of equals, where most are accepted
    bad, n, level = int(bad_at[i]), int(n_at[i]), starts[i].level
    clean = rows_for(0, eta, level)
    accepted = rows_at_rate(bad / n, eta, level) if n else None
    if accepted is not None:
        accepted = max(accepted, rows_for(bad, eta, level))  # with the bad ones there are
    total = None if accepted is None else max(math.ceil(accepted * ladder.n_rows / n), 1)
    why = f"At {where} {bad} of {n} accepted rows are bad"
    if n < clean:
        why += f"; {clean} without a bad one are the least that can pass"
    if total is not None:
        why += f"; at this rate {total} rows would have been needed instead of {ladder.n_rows}"
    elif n and bad < eta * n:
        why += f"; at this rate more than {MOST_ROWS} accepted rows would have been needed"
    elif n:
        why += f"; at this rate no number of rows would pass eta = {eta:g} there"
    why += "."
    if total is None and n > clean:
        why += f" {lower} may still pass, if chosen without these losses."
    if ladder.side == "left" and n < 0.9 * min(starts[i].position, ladder.n_rows):
        why += " The start lies in a block of tied scores; pass reference scores to test at ties."
    needed = {"accepted_rows_needed_without_a_bad_one": clean, "rows_needed_at_this_rate": total}
    return needed, why
