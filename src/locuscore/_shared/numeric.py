"""Order statistics, exact upper inverses and memory-bounded blocks of rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtri

from locuscore._protocols import BoolArray, FloatArray, IntArray

BLOCK_FLOATS = 4_000_000  # 32 MB: what one temporary array of a block may hold
SAME_PLACE = 1e-11  # relative width at which a bracket counts as closed
NEGLIGIBLE_PLACE = 1e-15  # the same, relative to the first bracket: for roots close to zero
FIRST_GUESS = 12  # smooth laws are inverted by then; what is left has jumps
SAME_LEVEL = 1e-7  # relative drop of a survival function inside it that is no jump
LARGEST_BELOW_ONE = float(np.nextafter(1.0, 0.0))
SMALLEST_RELATIVE_SCALE = 1e-9
SMALLEST_FLOAT = float(np.nextafter(0.0, 1.0))
MOST_POINTS = 6  # of a law that a polynomial goes through
MOST_ROUNDS = 10  # of interpolation, after which `invert` takes over


def kth_largest(values: FloatArray, k: IntArray) -> FloatArray:
    """Return the k-th largest value of each row (k counts from 1, one per row), as a column."""
    ordered = np.sort(values, axis=1)
    return np.take_along_axis(ordered, (values.shape[1] - k)[:, None], axis=1)


def smallest_scale(z: FloatArray) -> float:
    """Return a scale negligible beside the losses z, positive even if they are all equal."""
    size = float(np.std(z)) or float(np.max(np.abs(z)))
    return SMALLEST_RELATIVE_SCALE * (size or 1.0)


def row_blocks(n: int, floats_per_row: int, most: int | None = None) -> Iterator[slice]:
    """Cut n rows into slices whose arrays of `floats_per_row` stay within a fixed size."""
    size = max(1, BLOCK_FLOATS // max(1, floats_per_row))
    size = size if most is None else min(size, most)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def raise_until_below(
    sf: Callable[[FloatArray], FloatArray], level: FloatArray, value: FloatArray
) -> FloatArray:
    """Raise each value by ulps, more of them each time, until ``sf(value) < level``.

    A rounded inverse may stop short of its level; the calibration row that set the level would then
    be missed. Levels that no value can fall below are left alone.
    """
    value = value.copy()
    step = np.spacing(np.abs(value))
    for attempt in range(300):  # 2 ** (8 * 270) crosses the whole range of a float
        short = (sf(value) >= level) & np.isfinite(value) & (level > 0)
        if not short.any():
            break
        value = np.where(short, value + step, value)
        step = np.where(short, step * (2.0 if attempt < 30 else 2.0**8), step)
    return value


def invert(
    sf: Callable[[FloatArray], FloatArray],
    level: FloatArray,
    low: FloatArray,
    high: FloatArray,
    next_jump: Callable[[FloatArray], FloatArray] | None = None,
) -> FloatArray:
    """Smallest z in each bracket with ``sf(z) < level``, from its upper side.

    Chandrupatla's method (inverse quadratic steps, halving where they cannot be trusted) on all
    rows at once. The right end of the final bracket is returned, so the result never undershoots.
    Where `sf` jumps inside a closed bracket, halving goes on until the ends are neighbouring
    floats. `next_jump`, if given, guesses the first jump after a place; a good guess saves most of
    that halving, a bad one costs a step.
    """
    low, high = _split_at_zero(sf, level, low, high)
    with np.errstate(invalid="ignore"):
        negligible = np.nan_to_num(NEGLIGIBLE_PLACE * (high - low), posinf=0.0)
    b, fb = low, sf(low) - level  # the end where the sign is known to change last
    a, fa = high, sf(high) - level
    # Without a change of sign the bracket's own end is the answer; see `raise_until_below`.
    done = (fb < 0) | (fa >= 0) | ~np.isfinite(a) | ~np.isfinite(b)
    answer = np.where(fb < 0, b, a)
    c, fc = a, fa
    share = np.full(np.shape(a), 0.5)
    for step in range(200):
        right, left = np.where(fa < 0, a, b), np.where(fa < 0, b, a)
        answer = np.where(done, answer, right)
        with np.errstate(invalid="ignore"):
            width = right - left
        drop = np.abs(fa - fb)
        place = np.maximum(SAME_PLACE * np.maximum(np.abs(left), np.abs(right)), negligible)
        closed = (width <= place) & (drop <= SAME_LEVEL * level)
        done = done | closed | (np.nextafter(left, np.inf) >= right)
        if done.all():
            break
        trial = a + share * (b - a)
        if next_jump is not None and step >= FIRST_GUESS and step % 4 < 2:
            # First just beyond the jump, then just before it: the guess may be off by an ulp.
            ulp = np.spacing(np.abs(right))
            guess = next_jump(left) + 2 * ulp if step % 4 == 0 else right - 4 * ulp
            trial = np.where((guess > left) & (guess < right), guess, trial)
        trial = np.where(done, answer, trial)
        ft = sf(trial) - level
        same = (ft < 0) == (fa < 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = trial, ft
        share = _next_share(a, fa, b, fb, c, fc)
    return answer


def _split_at_zero(
    sf: Callable[[FloatArray], FloatArray], level: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Keep the side of zero that holds the answer, or zero itself.

    Zero is where losses have their atom, and halving would take a thousand steps to reach it.
    """
    around = (low < 0) & (high >= 0)
    if not around.any():
        return low, high
    just_below = np.nextafter(np.where(around, 0.0, low), -np.inf)
    negative, positive = sf(just_below) < level, sf(np.where(around, 0.0, low)) >= level
    high = np.where(around & ~positive, np.where(negative, just_below, 0.0), high)
    low = np.where(around & ~negative, 0.0, low)
    return low, high


def _next_share(
    a: FloatArray, fa: FloatArray, b: FloatArray, fb: FloatArray, c: FloatArray, fc: FloatArray
) -> FloatArray:
    """How far from a to b the next trial lies (Chandrupatla 1997, eq. 1 to 3)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        xi = (a - b) / (c - b)
        phi = (fa - fb) / (fc - fb)
        trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        quadratic = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
            fc - fb
        )
        edge = 0.5 * SAME_PLACE * np.abs(a) / np.abs(b - a)
    share = np.where(trusted & np.isfinite(quadratic), quadratic, 0.5)
    edge = np.clip(np.nan_to_num(edge, nan=0.5, posinf=0.5), 0.0, 0.5)
    return np.clip(share, edge, 1 - edge)


def falling(value: FloatArray, level: FloatArray) -> FloatArray:
    """Raise the values (n, m) so that a smaller level has no smaller one, and equal levels agree.

    Found by iteration, inverses at close levels may be in the wrong order by their tolerance.
    """
    if level.strides[0] == 0:  # the same levels in every row: one order serves all
        return _falling_alike(value, level[0])
    order = np.argsort(-level, axis=1, kind="stable")
    ordered, value = (np.take_along_axis(part, order, axis=1) for part in (level, value))
    value = np.maximum.accumulate(value, axis=1)
    for j in range(level.shape[1] - 2, -1, -1):
        tied = ordered[:, j] == ordered[:, j + 1]
        value[:, j] = np.where(tied, value[:, j + 1], value[:, j])
    out = np.empty(value.shape)
    np.put_along_axis(out, order, value, axis=1)
    return out


def _falling_alike(value: FloatArray, level: FloatArray) -> FloatArray:
    if np.all(level[1:] > level[:-1]) and np.all(value[:, 1:] <= value[:, :-1]):
        return value
    order = np.argsort(-level, kind="stable")
    ordered = level[order]
    value = np.maximum.accumulate(value[:, order], axis=1)
    for j in np.flatnonzero(ordered[:-1] == ordered[1:])[::-1]:
        value[:, j] = value[:, j + 1]
    out = np.empty(value.shape)
    out[:, order] = value
    return out


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
        place = SAME_PLACE * np.maximum(np.abs(estimate), 0.01 * search.slope)
        settled = np.abs(estimate - search.estimate) <= 0.5 * place
        done = search.is_near & settled & (search.right - estimate <= place)
        answer[search.pair[done]] = search.right[done]
        search.estimate = estimate
        search = search.keep(~done)
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
        if self.is_poor.any():
            estimate[self.is_poor] = _chord(self.z[:, self.is_poor], self.q[:, self.is_poor])
        inside = (estimate >= self.left) & (estimate <= self.right)
        return np.where(inside, estimate, 0.5 * (self.left + self.right))

    def add(self, sf: Callable[[IntArray, FloatArray], FloatArray], trial: FloatArray) -> None:
        """Evaluate a trial per pair, narrow the brackets and keep the nearest points."""
        inside = (trial > self.left) & (trial < self.right)
        trial = np.where(inside, trial, 0.5 * (self.left + self.right))
        survival = sf(self.rows, trial)
        below = survival < self.level
        self.right, self.left = (
            np.where(below, trial, self.right),
            np.where(below, self.left, trial),
        )
        near = survival >= (1 - SAME_LEVEL) * self.level
        self.is_near = np.where(below, near, self.is_near)
        q, known = _probit(survival) - self.target, np.abs(self.q)
        self.is_poor = np.abs(q) > known.min(axis=0)
        if len(self.z) < MOST_POINTS:
            self.z, self.q = np.vstack([self.z, trial]), np.vstack([self.q, q])
        else:
            farthest, every = known.argmax(axis=0), np.arange(len(q))
            self.z[farthest, every], self.q[farthest, every] = trial, q

    def finish(self, sf: Callable[[IntArray, FloatArray], FloatArray]) -> FloatArray:
        """Solve what is left by the method that trusts nothing."""
        level, left, right = (part[:, None] for part in (self.level, self.left, self.right))
        return invert(lambda z: sf(self.rows, z[:, 0])[:, None], level, left, right)[:, 0]


def _probit(survival: FloatArray) -> FloatArray:
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
