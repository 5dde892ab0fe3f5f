"""The thresholds a certificate tries, where it starts, and how far up it gets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules import counts_up_to
from locuscore._sequential import allowed_bad, binomial_p_value, passes, rows_for, sequence_end

# Shares of the rows at which sequences begin, and how delta is divided. Compared over ten
# shapes of the risk in benchmarks/certificate_starts.py; docs/rules.md says where they are weak.
FIRST_SHARE = 0.4
NEXT_SHARE = 0.25
LOWER_PART = 0.1
LOWER_BAD_ROWS = 2
MOST_LOWER_STARTS = 3


@dataclass(frozen=True)
class Start:
    """A position in the list of thresholds, and the error probability spent from there up."""

    position: int
    level: float


@dataclass(frozen=True)
class Ladder:
    """Thresholds in ascending order, with the rows accepted at each and the bad ones of them."""

    threshold: FloatArray
    n: IntArray
    bad: IntArray
    n_rows: int


def own_ladder(score: FloatArray, bad: BoolArray) -> Ladder:
    """Entry i is rank i + 1: accept strictly below that score; the last accepts all finite ones."""
    ranked = np.append(np.sort(score), np.inf)
    first = np.append(True, ranked[1:] > ranked[:-1])
    # Ties: all rows of a block have only the rows below the block.
    n = np.maximum.accumulate(np.where(first, np.arange(len(ranked)), 0))
    below = np.where(ranked < np.inf, np.nextafter(ranked, -np.inf), np.inf)
    return Ladder(below, n, np.searchsorted(np.sort(np.compress(bad, score)), ranked), len(score))


def grid_ladder(score: FloatArray, bad: BoolArray, grid: FloatArray) -> Ladder:
    n, k = counts_up_to(score, bad, grid)
    return Ladder(grid, n, k, len(score))


def thresholds_of(reference: FloatArray) -> FloatArray:
    finite = reference[np.isfinite(reference)]
    if not len(finite):
        raise ValueError("reference has no finite score, so there is no threshold to test.")
    return np.unique(finite)


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
    ladder: Ladder, reference: FloatArray, eta: float, delta: float, shares: FloatArray | None
) -> list[Start]:
    ranked = np.sort(reference)
    found = []
    for share, level in _share_levels(ladder.n_rows, eta, delta, shares):
        # Never below what a clean sample would need.
        least = max(share, min(rows_for(0, eta, level) / ladder.n_rows, 1.0))
        score = ranked[max(math.ceil(least * len(ranked)) - 1, 0)]
        position = int(np.searchsorted(ladder.threshold, score))
        found.append(Start(min(position, len(ladder.threshold) - 1), level))
    return found


def powerful_start(
    ladder: Ladder, reference: FloatArray, bad: BoolArray, eta: float, delta: float
) -> list[Start]:
    """The largest threshold whose estimated power is within 0.01 of the greatest."""
    m, k = counts_up_to(reference, bad, ladder.threshold)
    places = np.unique(np.linspace(0, len(m) - 1, 200).round().astype(np.int64))
    expected = np.round(ladder.n_rows * m[places] / len(reference)).astype(np.int64)
    allowed = np.array([allowed_bad(int(n), eta, delta) for n in expected])
    # One bad and one good row more: few rows do not look better than they can be.
    rate = (k[places] + 1.0) / (m[places] + 2.0)
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
    size = len(ladder.threshold)

    def passed(rows: slice, level: float) -> BoolArray:
        return passes(ladder.bad[rows], ladder.n[rows], eta, level)

    for start in reversed(starts):
        end = sequence_end(passed, size, start.position, start.level)
        if end > start.position:
            return end - 1, (start.position, min(end + 1, size))
    return None, (starts[0].position, starts[-1].position + 1)
