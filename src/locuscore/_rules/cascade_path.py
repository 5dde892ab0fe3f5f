"""The path of thresholds that a cascade is certified along: from safe to cheap.

It is fixed on rows that have no part in the tests.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy.special import betaincinv

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.binomial_tests import allowed_bad, binomial_p_value
from locuscore._shared.accepted import sorted_finite
from locuscore._shared.blocks import row_blocks

# Compared in benchmarks/choices/cascade_path.py.
THRESHOLDS = {1: 60, 2: 15, 3: 10, 4: 7}  # of each model, by the number of models
STEPS_BETWEEN = 8  # two vertices
RATES = 15  # over which power is averaged


@dataclass(frozen=True, eq=False)
class GradedRows:
    """Scores of each model's answer, whether it is bad, and the cost of each way to answer.

    `scores` and `bad` have shape (n, models); a score that is never accepted is inf. A question
    that reaches model k has cost the first ``k + 1`` of `costs`, and all if a person answers.
    """

    scores: FloatArray
    bad: BoolArray
    costs: FloatArray

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: IntArray) -> Self:
        """Some of the rows."""
        return type(self)(self.scores[rows], self.bad[rows], self.costs)

    def outcomes(self, path: FloatArray) -> tuple[IntArray, IntArray]:
        """Rows that each model and the person answer (steps, models + 1), and bad answers sent."""
        n_models = self.scores.shape[1]
        by = np.zeros((len(path), n_models + 1), dtype=np.int64)
        n_bad = np.zeros(len(path), dtype=np.int64)
        for steps in row_blocks(len(path), len(self)):
            left = np.ones((len(path[steps]), len(self)), dtype=bool)
            for k in range(n_models):
                answered = left & (self.scores[:, k] <= path[steps, k, None])
                by[steps, k] = answered.sum(axis=1)
                n_bad[steps] += (answered & self.bad[:, k]).sum(axis=1)
                left &= ~answered
            by[steps, -1] = left.sum(axis=1)
        return by, n_bad

    def counts_on_grid(self, grid: list[FloatArray]) -> tuple[FloatArray, IntArray, IntArray]:
        """Cost of all rows, answers sent, and bad ones of them, at all points of a grid.

        One axis for each model, over its thresholds, which ascend.
        """
        cells = [np.searchsorted(g, s, "left") for g, s in zip(grid, self.scores.T, strict=True)]
        reached = np.broadcast_to(np.int64(len(self)), tuple(map(len, grid)))
        cost = len(self) * self.costs[0] + np.zeros(reached.shape)
        sent, n_bad = (np.zeros(reached.shape, dtype=np.int64) for _ in range(2))
        for model in range(len(grid)):
            answered, bad = (self._answered(grid, cells, model, which) for which in (False, True))
            sent, n_bad, reached = sent + answered, n_bad + bad, reached - answered
            cost = cost + reached * self.costs[model + 1]
        return cost, sent, n_bad

    def _answered(
        self, grid: list[FloatArray], cells: list[IntArray], model: int, only_bad: bool
    ) -> IntArray:
        """Rows that reach a model and get its answer, at all points of the grid."""
        # A row is answered by this model where all earlier thresholds are below its cell, and its
        # own threshold is not: cumulative sums, downwards and upwards, of a histogram of the rows.
        shape = tuple(len(g) + 1 for g in grid[: model + 1])
        place = np.ravel_multi_index(cells[: model + 1], shape)
        chosen = place[self.bad[:, model]] if only_bad else place
        counts = np.bincount(chosen, minlength=int(np.prod(shape))).reshape(shape)
        for axis in range(model):
            above = np.flip(np.cumsum(np.flip(counts, axis), axis), axis)
            counts = np.delete(above, 0, axis)
        counts = np.delete(np.cumsum(counts, model), -1, model)
        return counts.reshape(counts.shape + (1,) * (len(grid) - model - 1))


@dataclass(frozen=True, eq=False)
class CandidateCascades:
    """Steps of a path, with the rows that would be sent at each and the bad ones of them.

    `n` is what the bad ones are counted among: the rows sent, or all rows.
    """

    path: FloatArray
    by: IntArray  # (steps, models + 1): who answers
    n: IntArray
    n_bad: IntArray
    n_rows: int
    side: Literal["left", "right"] = "right"

    @classmethod
    def along(cls, rows: GradedRows, path: FloatArray, among_all: bool) -> Self:
        """Count at every step."""
        by, n_bad = rows.outcomes(path)
        n = np.full(len(path), len(rows)) if among_all else by[:, :-1].sum(axis=1)
        return cls(path, by, n, n_bad, len(rows))

    @property
    def size(self) -> int:
        """Number of steps."""
        return len(self.path)

    def counts(self, at: slice | IntArray) -> tuple[IntArray, IntArray]:
        """Rows at these steps, and the bad ones of them."""
        return self.n[at], self.n_bad[at]

    def count(self, position: int) -> tuple[int, int]:
        """The same at one step."""
        return int(self.n[position]), int(self.n_bad[position])


def safe_to_cheap(rows: GradedRows, eta: float, among_all: bool) -> FloatArray:
    """Thresholds (steps, models) from sending nothing by the safest to the cheapest, on these rows.

    A point is safe by how far its bad answers stay below what eta allows, ``eta * n - bad``. On a
    grid of quantiles the vertices are the points that minimise ``cost + price * (bad - eta * n)``
    for some price of a bad answer, from dear to cheap. Between vertices the path goes straight, in
    ranks. So along it the cost falls.
    """
    n_models = rows.scores.shape[1]
    ranked = [sorted_finite(column) for column in rows.scores.T]
    ranks = [_quantile_ranks(len(part), THRESHOLDS[n_models]) for part in ranked]
    grid = [_at_ranks(*pair) for pair in zip(ranked, ranks, strict=True)]
    cost, sent, n_bad = rows.counts_on_grid(grid)
    excess = n_bad - eta * (len(rows) if among_all else sent)
    places = np.unravel_index(_lower_hull(excess.ravel(), cost.ravel()), cost.shape)
    vertices = np.column_stack([r[at] for r, at in zip(ranks, places, strict=True)])
    vertices = np.vstack([np.zeros(n_models), vertices])
    known = np.arange(len(vertices))
    at = np.linspace(0, known[-1], known[-1] * STEPS_BETWEEN + 1)
    dense = np.column_stack([np.interp(at, known, column) for column in vertices.T])
    dense = dense.round().astype(np.int64)
    path = np.column_stack([_at_ranks(*pair) for pair in zip(ranked, dense.T, strict=True)])
    total = rows.outcomes(path)[0] @ np.cumsum(rows.costs)
    lowest = np.minimum.accumulate(total)
    return path[np.append(True, total[1:] < lowest[:-1])]


def likeliest_start(known: CandidateCascades, n_rows: int, eta: float, delta: float) -> int:
    """The step that is likeliest to pass on so many rows, by what other rows show; the last such.

    After `bad` of n rows the rate is taken as ``Beta(bad + 1, n - bad + 1)``, and the power is
    averaged over it. This knows how little a few rows show.
    """
    expected = np.round(n_rows * known.n / known.n_rows).astype(np.int64)
    allowed = np.array([allowed_bad(int(count), eta, delta) for count in expected])
    levels = (np.arange(RATES)[:, None] + 0.5) / RATES
    rates = betaincinv(known.n_bad + 1.0, known.n - known.n_bad + 1.0, levels)
    passes = binomial_p_value(np.maximum(allowed, 0), expected, rates).mean(axis=0)
    power = np.where(allowed >= 0, passes, 0.0)
    return int(np.flatnonzero(power == power.max())[-1])


def _quantile_ranks(n: int, most: int) -> IntArray:
    """0, and at most so many ranks up to n, evenly spread."""
    places = np.linspace(1, n, min(most, n)).round().astype(np.int64)
    return np.append(0, places)


def _at_ranks(ranked: FloatArray, ranks: IntArray) -> FloatArray:
    """Scores of these ranks; -inf for rank 0."""
    return np.append(-np.inf, ranked)[ranks]


def _lower_hull(x: FloatArray, y: FloatArray) -> IntArray:
    """Points of the lower left hull: from the least x, of these the least y, to the least y."""
    order = np.lexsort((y, x))
    lowest = np.minimum.accumulate(y[order])
    order = order[np.append(True, lowest[1:] < lowest[:-1])]
    hull: list[int] = []
    for i in order.tolist():
        while len(hull) > 1 and _is_above(x, y, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    return np.array(hull)


def _is_above(x: FloatArray, y: FloatArray, a: int, b: int, c: int) -> bool:
    """Whether b lies on or above the line from a to c, in the order of x."""
    return bool((y[b] - y[a]) * (x[c] - x[a]) >= (y[c] - y[a]) * (x[b] - x[a]))
