"""Cutoffs of conditional calibration: a quantile regression for each set of groups and each alpha.

Rows i = 1..n have scores ``v_i`` (large is bad) and vectors ``f_i`` of 0 and 1, the groups that
they are in. For a new row with the vector f, let

    ``M(t) = max sum w_i v_i  over 0 <= w_i <= 1  with  sum w_i f_i + t f = alpha (sum f_i + f)``.

It is the dual of the quantile regression at 1 - alpha of all n + 1 scores on their vectors, with
the weight t of the new row held fixed: w is 1 above the fit, 0 below, and between on it. If the new
score is s, the dual is ``max_t M(t) + s t``. As M is concave, t = 1 is its only solution exactly
when s is above the cutoff ``S = -M'(1-)``.

Theorem. If the n + 1 rows are exchangeable, ``P(s > S, row in g) <= alpha P(row in g)`` for every
group g. Proof: let w solve the dual for all n + 1 rows. A row whose score is above its own cutoff,
computed from the others, has ``w_i = 1``. So ``1{v_i > S_i} <= w_i`` for every row; summed over the
rows of g, the right side is ``alpha n_g``, by the constraint. All rows have the same probability to
be the new one. Nothing is drawn at random, and ties need no rule.

Only the right side of the constraints depends on alpha and on f. So the dual simplex method goes
from each problem to the next in a few steps. Rows with one vector are one type: only one of its
scores can be in the basis, those above it have w = 1, those below 0. So a type is its sorted scores
and a position, and many new rows are solved side by side.
"""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from scipy.linalg import qr

from locuscore._protocols import BoolArray, FloatArray, IntArray

BEFORE_ONE = 1e-6  # S is read at t = 1 - BEFORE_ONE: P(miss) <= alpha / t whatever happens between
CLOSE = 1e-9
SHIFT = 1e-12  # scores of different types do not tie, so that no step of the simplex is void
MOST_STEPS = 50  # for each score
AT_ONCE = 100  # new rows, so that arrays stay in the cache


def cutoffs(
    vectors: FloatArray, types: IntArray, scores: FloatArray, new: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Cutoffs (s, m) of s new rows at m alphas; infinite where the rows do not suffice.

    `vectors` (k, d) are those of k types, `types` (n,) the type of each of the scores, and `new`
    (s, d) the vectors of the new rows. Alphas must descend.
    """
    columns = _independent(vectors)
    A, P = vectors[:, columns], new[:, columns]
    # What depends on these columns in all rows must do so in a new row: no row is like it if not.
    others = np.linalg.lstsq(A, vectors, rcond=None)[0]
    is_alive = np.all(np.abs(P @ others - new) < CLOSE**0.5, axis=1)
    known = Types.of(A, types, scores)
    out = np.full((len(new), len(alphas)), np.inf)
    base = known.start(1.0 - alphas[0])
    for j, alpha in enumerate(alphas):
        # Without a new row there is always a solution, near those with one.
        base = known.refreshed(base)
        known.solve(base, alpha * known.total[None])
        for part in np.array_split(np.flatnonzero(is_alive), len(new) // AT_ONCE + 1):
            state = base.repeated(len(part))
            right = alpha * (known.total + P[part]) - (1.0 - BEFORE_ONE) * P[part]
            is_solved = known.solve(state, right)
            is_alive[part[~is_solved]] = False  # then there is no solution at a lower alpha either
            found = np.sum(state.fit * P[part], axis=1)
            out[part[is_solved], j] = found[is_solved]
    return out


@dataclass
class State:
    """Bases of several problems side by side, each with d types in its basis.

    `above` counts, for each type, the scores above the one that is, or would be, in the basis.
    """

    above: IntArray  # (s, k)
    basis: IntArray  # (s, d)
    inverse: FloatArray  # (s, d, d), of the matrix whose columns are the vectors of the basis
    fit: FloatArray  # (s, d), the coefficients of the quantile regression

    def repeated(self, n: int) -> Self:
        """The first problem n times."""
        return type(self)(*(np.repeat(getattr(self, f.name)[:1], n, axis=0) for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Types:
    """The scores of each type, and the steps of the simplex method on them.

    `scores` (k, m + 3) descend from an infinite one at place 0; equal ones are one, `counts` of
    them. `up_to` (k, m + 3) are the counts of all up to a place.
    """

    A: FloatArray
    scores: FloatArray
    counts: FloatArray
    up_to: FloatArray

    @classmethod
    def of(cls, A: FloatArray, types: IntArray, scores: FloatArray) -> Self:
        """Sort the scores of each type."""
        order = np.lexsort((-scores, types))
        t, v = types[order], scores[order]
        first = np.flatnonzero(np.r_[True, (t[1:] != t[:-1]) | (v[1:] != v[:-1])])
        t, v, counts = t[first], v[first], np.diff(np.r_[first, len(v)])
        sizes = np.bincount(t, minlength=len(A))
        place = np.arange(len(t)) - (np.cumsum(sizes) - sizes)[t] + 1
        shape = (len(A), int(sizes.max()) + 3)
        table, n = np.full(shape, -np.inf), np.zeros(shape)
        shifts = SHIFT * (np.arange(len(A)) * 0.6180339887498949 % 1.0)
        table[:, 0], table[t, place], n[t, place] = np.inf, v + shifts[t], counts
        return cls(A, table, n, np.cumsum(n, axis=1))

    @property
    def total(self) -> FloatArray:
        """The sum of the vectors of all rows."""
        return np.asarray(self.up_to[:, -1] @ self.A)

    def start(self, share: float) -> State:
        """A basis of the largest types, each with its quantile; any fit has a position for each."""
        largest = _independent((self.A * np.sqrt(self.up_to[:, -1:])).T)
        sizes = np.sum(self.counts[largest] > 0, axis=1)
        place = np.maximum(1, np.ceil(sizes * (1.0 - share))).astype(np.int64)
        inverse = _inverse(self.A[largest].T)
        fit = self.scores[largest, place] @ inverse
        above = np.sum(self.scores[:, 1:] > (self.A @ fit)[:, None], axis=1)
        above[largest] = place - 1
        return State(above[None], largest[None], inverse[None], fit[None])

    def refreshed(self, state: State) -> State:
        """The same bases without the rounding of many steps."""
        inverse = _inverse(np.swapaxes(self.A[state.basis], 1, 2))
        places = np.take_along_axis(state.above, state.basis, axis=1) + 1
        fit = np.einsum("sij,si->sj", inverse, self.scores[state.basis, places])
        return State(state.above, state.basis, inverse, fit)

    def solve(self, state: State, right: FloatArray) -> BoolArray:
        """Step until every basis solves its problem; False for those without a solution."""
        is_solved = np.ones(len(right), dtype=bool)
        active = np.arange(len(right))
        for _ in range(MOST_STEPS * self.scores.size):
            active, row, to_upper = self._leaving(state, right, active)
            if not len(active):
                return is_solved
            has_solution = self._step(state, active, row, to_upper)
            is_solved[active[~has_solution]] = False
            active = active[has_solution]
        is_solved[active] = False  # never seen; no cutoff is a safe answer
        return is_solved

    def _leaving(
        self, state: State, right: FloatArray, active: IntArray
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """Problems with a weight outside its range: its place in the basis, and if it is above."""
        above, basis = state.above[active], state.basis[active]
        rest = right[active] - self.up_to[np.arange(len(self.A)), above] @ self.A
        w = np.einsum("sij,sj->si", state.inverse[active], rest)
        most = self.counts[basis, np.take_along_axis(above, basis, axis=1) + 1]
        outside = np.maximum(-w, w - most)
        row = outside.argmax(axis=1)
        each = np.arange(len(active))
        go_on = outside[each, row] > CLOSE
        to_upper = w[each, row] > most[each, row]
        return active[go_on], row[go_on], to_upper[go_on]

    def _step(
        self, state: State, active: IntArray, row: IntArray, to_upper: BoolArray
    ) -> BoolArray:
        """One step of the dual simplex method; False where no score can enter the basis."""
        each, every = np.arange(len(active)), np.arange(len(self.A))
        direction = state.inverse[active, row]
        slope, fit = direction @ self.A.T, state.fit[active] @ self.A.T
        leaves = state.basis[active, row]
        # Of each type one score can enter: the first below the fit, or the last above it.
        from_below = (slope > 0) == to_upper[:, None]
        place = state.above[active] + from_below
        place[each, leaves] += to_upper  # of its own type, the one after it
        is_flat = np.abs(slope) < CLOSE  # among them all other types of the basis
        steps = (self.scores[every, place] - fit) / np.where(is_flat, 1.0, slope)
        enters = np.where(is_flat, np.inf, np.abs(steps)).argmin(axis=1)
        step = np.where(is_flat, np.inf, steps)[each, enters]
        ok = np.isfinite(step)
        self._pivot(state, active[ok], row[ok], enters[ok], step[ok, None] * direction[ok])
        state.above[active[ok], leaves[ok]] += to_upper[ok]
        state.above[active[ok], enters[ok]] -= ~from_below[each, enters][ok]
        return ok

    def _pivot(
        self, state: State, active: IntArray, row: IntArray, enters: IntArray, change: FloatArray
    ) -> None:
        each = np.arange(len(active))
        inverse = state.inverse[active]
        column = np.einsum("sij,sj->si", inverse, self.A[enters])
        pivot = inverse[each, row] / column[each, row][:, None]
        column[each, row] = 0.0
        inverse -= column[:, :, None] * pivot[:, None, :]
        inverse[each, row] = pivot
        state.inverse[active], state.basis[active, row] = inverse, enters
        state.fit[active] += change


def _inverse(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _independent(matrix: FloatArray) -> IntArray:
    """Columns, in order, that span the others."""
    _, R, columns = qr(matrix, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int(np.sum(diagonal > CLOSE * diagonal[0]))
    return np.sort(columns[:rank]).astype(np.int64)
