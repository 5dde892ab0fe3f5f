"""Where a certificate starts, planned on labelled rows that are not the certifying ones.

Samples of the certifying rows' size are drawn from these rows, the pilot; every start is followed
on every sample, and the one that accepts most on average is taken. It is a function of the pilot
and of the number of certifying rows, so the proof for a fixed start holds (docs/rules.md).
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.binomial_tests import most_bad, rows_needed
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.threshold_counts import evenly_spread
from locuscore._rules.thresholds import Start, ties_heavily

N_SAMPLES = 200
N_STARTS = 60
MOST_PILOT_ROWS = 2_000
MOST_EXACT_ROWS = 5_000  # beyond, the bad rows allowed are interpolated: this is only a plan
PLAN_SEED, TRIAL_SEED = 0, 1


@dataclass(frozen=True, eq=False)
class Pilot:
    """Labelled rows in ascending order of their score; an infinite score is never accepted.

    Only the order of the rows and the ties among them matter for a start that is a rank.
    """

    score: FloatArray
    bad: BoolArray

    @classmethod
    def of(cls, score: FloatArray, bad: BoolArray) -> Self:
        """Sort the rows; of many, some evenly spread over the ranks are enough."""
        order = np.argsort(score, kind="stable")
        if len(order) > MOST_PILOT_ROWS:
            order = order[evenly_spread(len(order), most=MOST_PILOT_ROWS)]
        return cls(score[order], bad[order])

    def with_ties_of(self, other: FloatArray) -> Self:
        """The same rows with the scores of others at equal ranks, where those tie differently."""
        ranked = np.sort(other)
        share = (np.arange(len(self.bad)) + 0.5) / len(self.bad)
        return type(self)(ranked[(share * len(ranked)).astype(np.int64)], self.bad)


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows accepted and bad at each threshold, (samples, thresholds), in samples of a pilot.

    The pilot is itself drawn anew for each sample, so that what it does not know is in them.
    """

    edge: FloatArray
    n: IntArray
    bad: IntArray
    n_rows: int

    @classmethod
    def of(
        cls,
        pilot: Pilot,
        n_rows: int,
        side: Literal["left", "right"],
        seed: int,
        *,
        cautious: bool = True,
    ) -> Self:
        """Draw samples; thresholds are the pilot's, with `side` as in `CandidateThresholds`."""
        score, is_bad = pilot.score, pilot.bad.astype(np.int64)
        if cautious:
            # A bad row before all others: a pilot without one among its lowest scores does not know
            # that there is none, and the lowest starts would look too good.
            score, is_bad = np.append(score[:1], score), np.append(1, is_bad)
        m, rng = len(score), np.random.default_rng(seed)
        weights = rng.multinomial(m, np.full(m, 1.0 / m), size=N_SAMPLES) / m
        rows = rng.multinomial(n_rows, weights)
        # Threshold j accepts the pilot's first `upto[j]` rows.
        finite = int(np.searchsorted(score, np.inf))
        change = np.flatnonzero(score[1:finite] > score[: finite - 1]) + 1
        upto = np.append(0 if side == "left" else change[:0], change)
        upto = np.unique(np.append(upto, finite)).astype(np.int64)
        n, bad = (_counted(counts, upto) for counts in (rows, rows * is_bad))
        edge = np.append(score[:finite], np.inf)[upto if side == "left" else upto - 1]
        return cls(edge, n, bad, n_rows)

    def accepted(self, eta: float, level: float) -> IntArray:
        """Rows accepted at the end of the sequence that starts at each threshold; 0 if it fails."""
        size = self.n.shape[1]
        grid = np.arange(self.n_rows + 1)
        if self.n_rows > MOST_EXACT_ROWS:
            grid = np.unique(np.linspace(0, self.n_rows, MOST_EXACT_ROWS).astype(np.int64))
        allowed = most_bad(grid, eta, level)
        failed = self.bad > np.interp(self.n, grid, allowed)
        # The first failure from each threshold on.
        end = np.where(failed, np.arange(size), size)
        end = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]
        last = np.take_along_axis(self.n, np.maximum(end - 1, 0), axis=1)
        return np.where(failed, 0, last)

    def accepted_from_ranks(self, ranks: IntArray, eta: float, level: float) -> IntArray:
        """The same for starts strictly below the score of each rank, (samples, ranks)."""
        by_threshold = self.accepted(eta, level)
        # Of tied rows a rank has the lowest, so the last threshold with at most so many rows.
        at = [np.searchsorted(n, ranks, side="right") - 1 for n in self.n]
        return np.take_along_axis(by_threshold, np.array(at), axis=1)


@dataclass(frozen=True)
class Planned:
    """A start that was planned, on ranks or among fixed thresholds, and the rows it accepts."""

    start: Start
    on_ranks: bool
    accepted: float
    n_pilot: int


def planned_start(
    pilot: Pilot, edge: FloatArray, n_rows: int, claim: ExceedanceCertificate
) -> Planned | None:
    """The best start on ranks or, where many scores tie, among the thresholds `edge`.

    None where no sample passes anywhere.
    """
    if ties_heavily(pilot.score):
        best = planned_threshold(pilot, edge, n_rows, claim)
    else:
        best = planned_rank(pilot, n_rows, claim)
    return best if best.accepted > 0 else None


def planned_rank(pilot: Pilot, n_rows: int, claim: ExceedanceCertificate) -> Planned:
    """The rank whose sequence accepts most on average."""
    ranks = start_ranks(n_rows, claim)
    samples = Samples.of(pilot, n_rows, "left", PLAN_SEED)
    mean = samples.accepted_from_ranks(ranks, claim.eta, claim.delta).mean(axis=0)
    at = int(np.argmax(mean))
    start = Start(int(ranks[at]), claim.delta)
    return Planned(start, True, float(mean[at]), len(pilot.bad))


def planned_threshold(
    pilot: Pilot, edge: FloatArray, n_rows: int, claim: ExceedanceCertificate
) -> Planned:
    """The same among thresholds that are fixed, in ascending order."""
    samples = Samples.of(pilot, n_rows, "right", PLAN_SEED)
    mean = samples.accepted(claim.eta, claim.delta).mean(axis=0)
    at = int(np.argmax(mean))
    start = Start(int(np.searchsorted(edge, samples.edge[at])), claim.delta)
    return Planned(start, False, float(mean[at]), len(pilot.bad))


def start_ranks(n_rows: int, claim: ExceedanceCertificate) -> IntArray:
    """Ranks worth starting from: those that can pass, evenly spread over their logarithm."""
    least = min(rows_needed(0, claim.eta, claim.delta), n_rows)
    return np.unique(np.geomspace(least, n_rows, N_STARTS).round().astype(np.int64))


def _counted(counts: IntArray, upto: IntArray) -> IntArray:
    """Sums of the first columns."""
    total = np.zeros((len(counts), counts.shape[1] + 1), dtype=np.int64)
    np.cumsum(counts, axis=1, out=total[:, 1:])
    return total[:, upto]
