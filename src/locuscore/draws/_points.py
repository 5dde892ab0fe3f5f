"""Laws made of points or quantiles, with a power tail beyond the last one."""

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore.draws._base import ArrayDraws
from locuscore.draws._inversion import SMALLEST_FLOAT, raise_until_below
from locuscore.draws._order import order_statistics

FEWEST_TO_SEARCH = 64  # points; fewer are counted faster
FEWEST_SEARCHES = 32  # laws; halving has many small steps
TAIL_INDEX = 3.0  # beyond the last point a law falls off like a power, so it never reaches zero


def power_tail(excess: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Share of the tail's mass beyond `excess` above its start."""
    with np.errstate(over="ignore", under="ignore"):
        return (1.0 + np.maximum(excess, 0.0) / scale) ** -TAIL_INDEX


def power_tail_excess(share: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Inverse of `power_tail`."""
    with np.errstate(divide="ignore"):
        return scale * (share ** (-1.0 / TAIL_INDEX) - 1.0)


def _count(flags: BoolArray) -> IntArray:
    """How many are true along the last axis; eight of them are the bytes of one integer."""
    if flags.shape[-1] % 8:
        return np.count_nonzero(flags, axis=-1)
    counts = np.bitwise_count(np.ascontiguousarray(flags).view(np.uint64))
    return counts.sum(axis=-1, dtype=np.int64)


@lru_cache(16)
def _even_survival(tail_mass: float, m: int) -> FloatArray:
    """From the mass of the tail to 1 in m equal steps."""
    # Both ends exact: below its smallest point a law's survival is 1, not nearly 1.
    found = np.linspace(tail_mass, 1.0, m + 1)
    found.flags.writeable = False
    return found


@dataclass(frozen=True, repr=False)
class StepDraws(ArrayDraws):
    """Equally weighted points per draw, and a power tail that all draws of a row share.

    `points` is (n, S, m), in any order; the tail starts at `top`, at least the row's largest point,
    with the row's own `scale` (both (n,)) and holds the share `tail_mass` of every draw.
    """

    points: FloatArray
    top: FloatArray
    scale: FloatArray
    tail_mass: float = 0.01
    # Filled by the first inverse: to sort costs more than to count, unless it serves twice.
    _in_order: list[FloatArray] = field(default_factory=list, init=False, repr=False, compare=False)

    arrays = ("points", "top", "scale")
    inverts_jointly = True

    def sf(self, z: FloatArray) -> FloatArray:
        above = self._count_above(np.asarray(z))
        # Beyond `top` no point is left, and the tail that all draws share takes over.
        excess = z - self.top[:, None]
        beyond = self.tail_mass * power_tail(excess, self.scale[:, None])
        return np.where(excess >= 0, beyond, self._survival_by_count[above])

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.atleast_2d(level)  # one for all draws is looked up once
        count = np.searchsorted(self._survival_by_count, level, side="left")
        m = self.points.shape[2]
        # `count` points above keep survival at the level; at the lowest of them it drops below.
        index = np.clip(m - count, 0, m - 1)[:, :, None]
        step = np.take_along_axis(self._sorted(), index, axis=2)[:, :, 0]
        with np.errstate(divide="ignore"):
            share = np.minimum(level / self.tail_mass, 1.0)
        beyond = self.top[:, None] + power_tail_excess(share, self.scale[:, None])
        return np.where(count == 0, beyond, step)

    def joint_isf(self, level: FloatArray) -> FloatArray:
        """Inverses at m levels of the one law per row, (n, m): order statistics of its points."""
        count = np.searchsorted(self._survival_by_count, level, side="left")
        m = self.points.shape[2]
        values = order_statistics(self.points[:, 0], np.clip(m - count, 0, m - 1))
        # A step is exact; on the tail the inverse is rounded, and raised until it covers.
        in_tail = np.flatnonzero((np.atleast_2d(count) == 0).any(axis=0))
        full = np.broadcast_to(level, values.shape)
        for j in in_tail:
            column = full[:, [j]]
            values[:, [j]] = raise_until_below(self.sf, column, self.isf(column))
        return values

    def average(self) -> "StepDraws":
        """Pool the points of all draws, which is the mean of the laws exactly."""
        pooled = self.points.reshape(len(self.points), 1, -1)
        return StepDraws(pooled, self.top, self.scale, self.tail_mass)

    def estimate(self) -> "StepDraws":
        """The mean, with the mass of one further point on the tail.

        `tail_mass` keeps bounds from ending early; in a probability it would be an error of its
        size wherever losses above z are rarer than that.
        """
        pooled = self.average()
        return replace(pooled, tail_mass=1.0 / (pooled.points.shape[2] + 1))

    def _count_above(self, z: FloatArray) -> IntArray:
        """How many points of each draw lie above z: by halving, once many are in order."""
        m = self.points.shape[2]
        if not self._in_order or m < FEWEST_TO_SEARCH or z.size < FEWEST_SEARCHES:
            return _count(self.points > z[:, :, None])
        # Halving on all draws at once, where np.searchsorted takes one sorted array.
        upto = np.zeros(self.shape, dtype=np.int64)  # this many are known not to lie above
        before = np.arange(upto.size).reshape(self.shape) * m - 1
        step = 1 << (m.bit_length() - 1)
        while step:
            trial = upto + step
            # Beyond the end any point will do: `trial <= m` refuses it.
            value = self._sorted().take(before + np.minimum(trial, m))
            upto = np.where((trial <= m) & (value <= z), trial, upto)
            step //= 2
        return m - upto

    @cached_property
    def _survival_by_count(self) -> FloatArray:
        """Survival below the tail's start, by the number of points above."""
        return _even_survival(self.tail_mass, self.points.shape[2])

    def _sorted(self) -> FloatArray:
        if not self._in_order:
            self._in_order.append(np.sort(self.points, axis=2))
        return self._in_order[0]


@dataclass(frozen=True, repr=False)
class ShapeDraws(ArrayDraws):
    """One fixed shape times a scale: ``P(Z > z) = P(R > z / scale)``, R of `shape_points`.

    `scale` is (n, S) and positive, `shape_points` is (m,) and sorted. The last of the m + 1 equal
    shares of mass lies on a power tail beyond the largest point, with scale `tail_scale`.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import ShapeDraws
    >>> draws = ShapeDraws(np.array([[1.0], [10.0]]), np.array([0.5, 1.0, 2.0]), 1.0)
    >>> draws.isf(np.array([[0.5]]))  # two rows: one shape, two scales
    array([[ 2.],
           [20.]])
    """

    scale: FloatArray
    shape_points: FloatArray
    tail_scale: float

    arrays = ("scale",)

    def sf(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # the largest floats stand for infinity
            ratio = z / self.scale
        # The float just below zero must stay below it, or the tail at zero loses its atom.
        ratio = np.where((ratio == 0) & (z < 0), -SMALLEST_FLOAT, ratio)
        m = len(self.shape_points)
        above = m - np.searchsorted(self.shape_points, ratio, side="right")
        tail = power_tail(ratio - self.shape_points[-1], self.tail_scale)
        return (above + tail) / (m + 1)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        m = len(self.shape_points)
        # Survival by the number of points above, rounded as `sf` rounds it.
        count = np.searchsorted((np.arange(m + 1) + 1.0) / (m + 1), level, side="left")
        step = self.shape_points[np.clip(m - count, 0, m - 1)]
        share = np.minimum(level * (m + 1), 1.0)
        beyond = self.shape_points[-1] + power_tail_excess(share, self.tail_scale)
        return np.where(count == 0, beyond, step) * self.scale


@dataclass(frozen=True, repr=False)
class GridDraws(ArrayDraws):
    """Quantiles joined by straight lines, and a power tail beyond the last one.

    `quantiles` is (n, S, m), ascending along the last axis, at the survival levels `levels` (m,),
    which fall from 1 to a positive last one. Equal quantiles are an atom. The tail has the row's
    own `scale` (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import GridDraws
    >>> quantiles = np.array([[[0.0, 1.0, 4.0]]])
    >>> draws = GridDraws(quantiles, np.array([1.0, 0.5, 0.1]), np.ones(1))
    >>> draws.sf(np.array([[1.0]])), draws.isf(np.array([[0.3]]))
    (array([[0.5]]), array([[2.5]]))
    """

    quantiles: FloatArray
    levels: FloatArray
    scale: FloatArray

    arrays = ("quantiles", "scale")

    def sf(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, self.shape)
        right = np.count_nonzero(self.quantiles <= z[:, :, None], axis=2)
        q_low, q_high, s_low, s_high = self._piece(right)
        # Equal quantiles divide by zero at the ends only, where the line is not used.
        with np.errstate(divide="ignore", invalid="ignore"):
            line = s_low + (s_high - s_low) * ((z - q_low) / (q_high - q_low))
        last = self.levels[-1]
        beyond = last * power_tail(z - self.quantiles[:, :, -1], self.scale[:, None])
        inside = np.where(right == 0, 1.0, np.clip(line, s_high, s_low))
        return np.where(right == len(self.levels), beyond, inside)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        # The last level that is at least the wanted one starts the piece that holds the answer.
        index = np.searchsorted(-self.levels, -level, side="right")
        q_low, q_high, s_low, s_high = self._piece(index)
        inside = q_low + (q_high - q_low) * ((level - s_low) / (s_high - s_low))
        share = np.minimum(level / self.levels[-1], 1.0)
        beyond = self.quantiles[:, :, -1] + power_tail_excess(share, self.scale[:, None])
        return np.where(index == len(self.levels), beyond, inside)

    def _piece(self, index: IntArray) -> tuple[FloatArray, ...]:
        """Quantiles, then levels, at both ends of the piece that ends at an index, (n, S) each."""
        end = np.clip(index, 1, len(self.levels) - 1)
        ends = (end - 1, end)
        places = (np.take_along_axis(self.quantiles, at[:, :, None], axis=2) for at in ends)
        return (*(place[:, :, 0] for place in places), *(self.levels[at] for at in ends))
