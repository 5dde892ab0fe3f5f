"""The thresholds a certificate tests, where it starts, how far up it gets, and what it lacks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.binomial_tests import (
    MOST_ROWS,
    allowed_bad,
    binomial_p_value,
    first_failure,
    is_rejected,
    rows_needed,
    rows_needed_at_rate,
)
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.threshold_counts import evenly_spread, sorted_bad
from locuscore._shared.accepted import count_up_to, distinct_counts, sorted_finite

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


class Candidates(Protocol):
    """What is tested in sequence: so many rows are accepted at each position, so many are bad."""

    @property
    def size(self) -> int:
        """Number of positions."""

    @property
    def n_rows(self) -> int:
        """Number of certifying rows."""

    @property
    def side(self) -> Literal["left", "right"]:
        """Whether a threshold accepts up to its edge, or strictly below it."""

    def counts(self, at: slice | IntArray) -> tuple[IntArray, IntArray]:
        """Rows accepted at these positions, and the bad ones of them."""

    def count(self, position: int) -> tuple[int, int]:
        """The same at one position."""


@dataclass(frozen=True)
class CandidateThresholds:
    """Thresholds in ascending order; the rows accepted at each are counted when asked for.

    A sequence seldom tests all of them, so most are never counted. With `side` "right" a threshold
    accepts up to its edge, with "left" strictly below it.
    """

    edge: FloatArray
    scores: FloatArray
    bad_scores: FloatArray
    n_rows: int
    side: Literal["left", "right"]

    @classmethod
    def own_scores(cls, score: FloatArray, bad: BoolArray) -> Self:
        """Entry i accepts strictly below the score of rank i + 1; the last all finite scores.

        Strictly below, because given the k-th smallest score the k - 1 rows below it are a sample
        of the rows below that value, and the row that set the threshold is not.
        """
        finite = sorted_finite(score)
        edge = np.append(finite, np.full(len(score) + 1 - len(finite), np.inf))
        return cls(edge, finite, sorted_bad(score, bad), len(score), "left")

    @classmethod
    def on_grid(cls, score: FloatArray, bad: BoolArray, grid: FloatArray) -> Self:
        """Thresholds that were fixed without these rows, ascending."""
        return cls(grid, sorted_finite(score), sorted_bad(score, bad), len(score), "right")

    @property
    def size(self) -> int:
        """Number of thresholds."""
        return len(self.edge)

    def counts(self, at: slice | IntArray) -> tuple[IntArray, IntArray]:
        """Rows accepted at these positions, and the bad ones of them."""
        edges = self.edge[at]
        return (
            count_up_to(self.scores, edges, self.side),
            count_up_to(self.bad_scores, edges, self.side),
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
        at = distinct[evenly_spread(len(distinct), keep)]
        n, bad = self.counts(at)
        columns = {"threshold": self.thresholds(at), "n_accepted": n, "n_bad": bad}
        columns["p_value"] = binomial_p_value(bad, n, eta)
        return {name: tuple(column.tolist()) for name, column in columns.items()}


def distinct_reference(ranked: FloatArray) -> FloatArray:
    """Distinct values of the sorted finite scores of a reference."""
    if not len(ranked):
        raise ValueError("reference has no finite score, so there is no threshold to test.")
    return distinct_counts(ranked)[0]


def ties_heavily(score: FloatArray) -> bool:
    """Whether so many scores share one value that a start may fall among them."""
    ranked = sorted_finite(score)
    largest = np.diff(distinct_counts(ranked)[1], prepend=0).max(initial=0)
    return bool(largest > LARGEST_TIE * len(score))


def _share_levels(
    n_rows: int, claim: ExceedanceCertificate, shares: FloatArray | None
) -> list[tuple[float, float]]:
    """Shares of the rows at which sequences begin, each with its level."""
    if shares is not None:
        return [(float(share), claim.delta / len(shares)) for share in shares]
    # As many lower starts as the rows allow: the lowest must have enough of them to pass with a
    # few bad ones, or its part of delta is spent for nothing.
    for count in range(MOST_LOWER_STARTS, 0, -1):
        level = LOWER_PART * claim.delta / count
        lowest = FIRST_SHARE * NEXT_SHARE**count
        if lowest * n_rows >= rows_needed(LOWER_BAD_ROWS, claim.eta, level):
            lower = [(FIRST_SHARE * NEXT_SHARE**j, level) for j in range(count, 0, -1)]
            return [*lower, (FIRST_SHARE, (1.0 - LOWER_PART) * claim.delta)]
    return [(FIRST_SHARE, claim.delta)]


def rank_starts(
    n_rows: int, claim: ExceedanceCertificate, shares: FloatArray | None
) -> list[Start]:
    """Ranks to start from, moved to where the allowed number of bad rows has just gone up."""
    found = []
    for share, level in _share_levels(n_rows, claim, shares):
        wanted = max(round(share * n_rows), 1)
        bad = max(allowed_bad(wanted, claim.eta, level), 0)
        # The bad rows allowed go up in steps; a start just before one wastes almost a whole step.
        # Ranks depend on n_rows alone, so moving them costs no delta.
        steps = [rows_needed(n, claim.eta, level) for n in (bad, bad + 1)]
        nearest = min(steps, key=lambda n: abs(n - wanted))
        found.append(Start(nearest if nearest <= n_rows else min(steps[0], n_rows), level))
    return found


def quantile_starts(
    candidates: CandidateThresholds,
    ranked: FloatArray,
    n_reference: int,
    claim: ExceedanceCertificate,
    shares: FloatArray | None,
) -> list[Start]:
    """Starts at quantiles of the reference; `ranked` are its finite scores."""
    found = []
    for share, level in _share_levels(candidates.n_rows, claim, shares):
        # Fewer rows than a sample without a bad one needs could not pass at all.
        least = max(share, min(rows_needed(0, claim.eta, level) / candidates.n_rows, 1.0))
        rank = min(max(math.ceil(least * n_reference), 1), len(ranked))
        found.append(Start(int(np.searchsorted(candidates.edge, ranked[rank - 1])), level))
    return found


def largest_certified(
    candidates: Candidates, starts: Sequence[Start], eta: float
) -> tuple[int | None, tuple[int, int]]:
    """Position of the largest certified threshold, and the range of positions tested for it.

    Each start is followed upwards until its first failure. The first threshold of a sequence that
    breaks eta passes with probability at most that sequence's level, and none above it is certified
    unless it does; the levels sum to delta.
    """
    size = candidates.size

    def passed(rows: slice, level: float) -> BoolArray:
        n, bad = candidates.counts(rows)
        return is_rejected(bad, n, eta, level)

    # Starts ascend, and so do their levels: what passes at a lower level passes at a higher one, so
    # a sequence from below cannot get past the end of one that began higher up and passed there.
    for start in reversed(starts):
        end = first_failure(passed, size, start.position, start.level)
        if end > start.position:
            return end - 1, (start.position, min(end + 1, size))
    return None, (starts[0].position, starts[-1].position + 1)


def why_none_passed(
    candidates: Candidates, starts: Sequence[Start], eta: float, where: str, lower: str
) -> tuple[int, float, str]:
    """Accepted rows needed without a bad one, all rows needed at the rate seen, and the sentence.

    From the start that came closest; inf if no number of rows would pass at that rate. Where more
    rows would not help, fewer accepted ones may: `lower` says what would accept fewer.
    """
    n_at, bad_at = candidates.counts(np.array([start.position for start in starts]))
    distance = binomial_p_value(bad_at, n_at, eta) / [start.level for start in starts]
    i = int(np.flatnonzero(distance == distance.min())[-1])  # of equals, where most are accepted
    bad, n, level = int(bad_at[i]), int(n_at[i]), starts[i].level
    clean = rows_needed(0, eta, level)
    accepted = rows_needed_at_rate(bad / n, eta, level) if n else None
    if accepted is not None:
        # Rounding down the bad rows of a smaller sample must not forget those already seen.
        accepted = max(accepted, rows_needed(bad, eta, level))
    total = None if accepted is None else max(math.ceil(accepted * candidates.n_rows / n), 1)
    why = f"At {where} {bad} of {n} accepted rows are bad"
    if n < clean:
        why += f"; {clean} without a bad one are the least that can pass"
    if total is not None:
        why += f"; at this rate {total} rows would have been needed instead of {candidates.n_rows}"
    elif n and bad < eta * n:
        why += f"; at this rate more than {MOST_ROWS} accepted rows would have been needed"
    elif n:
        why += f"; at this rate no number of rows would pass eta = {eta:g} there"
    why += "."
    if not n and candidates.side == "right":
        why += " A reference of rows like the certifying ones would start higher."
    if total is None and n > clean:
        why += f" {lower} may still pass, if chosen without these losses."
    if candidates.side == "left" and n < 0.9 * min(starts[i].position, candidates.n_rows):
        why += " The start lies in a block of tied scores; pass reference scores to test at ties."
    return clean, math.inf if total is None else total, why
