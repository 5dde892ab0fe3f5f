"""Upper inverses of smooth laws at many levels, in few evaluations: mixtures cost little else."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtri

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore.draws._inversion import (
    LARGEST_BELOW_ONE,
    SAME_LEVEL,
    SAME_PLACE,
    SMALLEST_FLOAT,
    invert,
)

# `scipy.optimize.elementwise.find_root` (1.17) was measured in place of this and of `invert`.
# Mixtures of 10 and of 100 normal laws, 5,000 rows, one and ten levels: it takes 10 to 11
# evaluations per level, this 4.4 to 5.4, and 1.6 to 2.0 times the time; and it stops where survival
# equals the level, in 3 of 100 rows, which undershoots. Averages of step laws, whose jumps `invert`
# finds to the float: at a tolerance of 1e-11 it takes 2 to 3 times the time and finds none of
# those floats; at no tolerance it finds them, in 9 to 12 times the time.
MOST_POINTS = 6  # of a law that a polynomial goes through
MOST_ROUNDS = 10  # of interpolation, after which `invert` takes over


def invert_smooth(
    sf: Callable[[IntArray, FloatArray], FloatArray],
    level: FloatArray,
    low: FloatArray,
    high: FloatArray,
    guess: FloatArray,
    slope: FloatArray,
) -> FloatArray:
    """Like `invert`, for m levels (n, m) of each of n smooth laws; ``sf(rows, z)`` evaluates some.

    A trial is where the polynomial through the nearest known points of the law, z as a function of
    ``ndtri(sf)``, takes the level; for a normal law that is a straight line. The first trials of a
    law, at `guess`, serve all its levels; the second of a single level follows `slope`, ``-dz / d
    ndtri(sf)``. Trials aim just right of the answer: one that survival has fallen below the level
    at, where the polynomial through it says so too, is returned. Levels still open after some
    rounds, as beside a jump, go to `invert`.
    """
    search = _Search.start(sf, level, low, high, guess, slope)
    answer = high.ravel().copy()
    for _ in range(MOST_ROUNDS):
        if not len(search.rows):
            break
        estimate = search.interpolate()
        # Relative to z, or beside zero to the law's width: the unit of the losses plays no part.
        place = SAME_PLACE * np.maximum(np.abs(estimate), 0.01 * search.slope)
        # Two polynomials agree, and the latest one crosses the level just left of a known point.
        settled = np.abs(estimate - search.estimate) <= 0.5 * place
        done = search.is_near & settled & (search.right - estimate <= place)
        answer[search.pair[done]] = search.right[done]
        search.estimate = estimate
        search = search.keep(~done)
        # A trial right of the estimate by less than the tolerance will be the right end itself.
        search.add(sf, search.estimate + 0.4 * place[~done])
    if len(search.rows):
        answer[search.pair] = search.finish(sf)
    return answer.reshape(level.shape)


@dataclass
class _Search:
    """The pairs of a law and a level that `invert_smooth` has not solved; pairs are the last axis.

    `z` and `q` hold the nearest known points, (points, pairs): place, and ``ndtri(sf)`` there less
    that of the level.
    """

    pair: IntArray  # position among all pairs
    rows: IntArray  # the law
    level: FloatArray
    target: FloatArray  # ndtri(level)
    slope: FloatArray
    left: FloatArray
    right: FloatArray
    z: FloatArray
    q: FloatArray
    estimate: FloatArray  # where the latest polynomial took the level
    is_near: BoolArray  # the right end has survival next to the level
    is_poor: BoolArray  # the latest trial came no nearer

    @classmethod
    def start(
        cls,
        sf: Callable[[IntArray, FloatArray], FloatArray],
        level: FloatArray,
        low: FloatArray,
        high: FloatArray,
        guess: FloatArray,
        slope: FloatArray,
    ) -> "_Search":
        """Evaluate each law at the guesses for its levels."""
        n, m = level.shape
        rows = np.repeat(np.arange(n), m)
        # At level 0 the ends are infinite, and are the answer.
        finite = np.isfinite(low) & np.isfinite(high)
        low, high, guess = (np.where(finite, part, 0.0) for part in (low, high, guess))
        place = np.clip(guess, low, high)
        normal = _probit(sf(rows, place.ravel())).reshape(n, m)
        # The guesses for the neighbouring levels are the nearest points.
        order = np.argsort(level, axis=1)
        points = min(m, MOST_POINTS)
        first = np.clip(np.argsort(order, axis=1) - points // 2, 0, m - points).ravel()
        nearest = [order[rows, first + j] for j in range(points)]
        z = np.array([place[rows, column] for column in nearest])
        target = _probit(level).ravel()
        q = np.array([normal[rows, column] for column in nearest]) - target
        # Rounding may leave the ends on the wrong side of the level by an ulp or two.
        margin = SAME_PLACE * np.maximum(np.abs(low), np.abs(high))
        left = np.where(q >= 0, z, (low - margin).ravel()).max(axis=0)
        right = np.where(q < 0, z, (high + margin).ravel()).min(axis=0)
        none = np.zeros(n * m, dtype=bool)
        pairs = (np.arange(n * m), rows, level.ravel(), target, slope.ravel())
        search = cls(*pairs, left, right, z, q, np.full(n * m, np.nan), none, none)
        return search.keep(finite.ravel())

    def keep(self, mask: BoolArray) -> "_Search":
        """The pairs that a mask selects."""
        if mask.all():
            return self
        return _Search(*(getattr(self, field.name)[..., mask] for field in fields(self)))

    def interpolate(self) -> FloatArray:
        """Where a polynomial takes the level, or the middle of the bracket if that is outside."""
        if len(self.z) == 1:
            estimate = self.z[0] + self.slope * self.q[0]
        else:
            estimate = _neville(self.z, self.q)
        # Beside a kink a polynomial of high degree goes astray, a straight line does not.
        if self.is_poor.any():
            estimate[self.is_poor] = _chord(self.z[:, self.is_poor], self.q[:, self.is_poor])
        inside = (estimate >= self.left) & (estimate <= self.right)
        return np.where(inside, estimate, 0.5 * (self.left + self.right))

    def add(self, sf: Callable[[IntArray, FloatArray], FloatArray], trial: FloatArray) -> None:
        """Evaluate a trial per pair, narrow the brackets and keep the nearest points."""
        # Halving keeps the bracket shrinking where the estimate lies on one of its ends.
        inside = (trial > self.left) & (trial < self.right)
        trial = np.where(inside, trial, 0.5 * (self.left + self.right))
        survival = sf(self.rows, trial)
        below = survival < self.level
        self.right = np.where(below, trial, self.right)
        self.left = np.where(below, self.left, trial)
        # Across a jump survival would fall by more: such a right end may be far from the answer.
        near = survival >= (1 - SAME_LEVEL) * self.level
        self.is_near = np.where(below, near, self.is_near)
        q, known = _probit(survival) - self.target, np.abs(self.q)
        self.is_poor = np.abs(q) > known.min(axis=0)
        if len(self.z) < MOST_POINTS:
            self.z, self.q = np.vstack([self.z, trial]), np.vstack([self.q, q])
        else:
            # Of what is known, the point farthest from the level says least about the law there.
            farthest, every = known.argmax(axis=0), np.arange(len(q))
            self.z[farthest, every], self.q[farthest, every] = trial, q

    def finish(self, sf: Callable[[IntArray, FloatArray], FloatArray]) -> FloatArray:
        """Solve what is left by the method that trusts nothing."""
        level, left, right = (part[:, None] for part in (self.level, self.left, self.right))
        return invert(lambda z: sf(self.rows, z[:, 0])[:, None], level, left, right)[:, 0]


def _probit(survival: FloatArray) -> FloatArray:
    """Quantile of the normal law, finite where survival has rounded to 0 or 1."""
    return ndtri(np.clip(survival, SMALLEST_FLOAT, LARGEST_BELOW_ONE))


def _chord(z: FloatArray, q: FloatArray) -> FloatArray:
    """Where the straight line between the nearest points on either side of q = 0 crosses it."""
    above = q >= 0
    left, right = np.where(above, z, -np.inf).max(axis=0), np.where(above, np.inf, z).min(axis=0)
    over, under = np.where(above, q, np.inf).min(axis=0), np.where(above, -np.inf, q).max(axis=0)
    with np.errstate(invalid="ignore"):
        return left + (right - left) * (over / (over - under))


def _neville(z: FloatArray, q: FloatArray) -> FloatArray:
    """Value at q = 0 of the polynomial of z in q through the points of each column."""
    values = list(z)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for width in range(1, len(values)):
            for i in range(len(values) - width):
                a, b = q[i], q[i + width]
                values[i] = (a * values[i + 1] - b * values[i]) / (a - b)
    return values[0]
