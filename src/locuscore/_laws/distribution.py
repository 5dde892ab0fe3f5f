"""One law of the loss per row: draws averaged or enveloped, support applied, rounding guarded."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from locuscore._protocols import FloatArray, IntArray, LossDraws
from locuscore._shared.numeric import falling, kth_largest, raise_until_below
from locuscore.draws import WeightedDraws, average, envelope, estimate, joint_isf

SMALLEST_SURVIVAL = 1e-300
ROUNDING = 2.0**-48  # relative error of a survival function: computed, it is not quite monotone


@dataclass(frozen=True)
class Support:
    """The values a loss can take: an interval, or the finite set `points` (sorted)."""

    low: float = -np.inf
    high: float = np.inf
    points: FloatArray | None = None

    def contains(self, z: FloatArray) -> np.ndarray:
        """Whether each loss can occur."""
        if self.points is not None:
            return np.isin(z, self.points)
        return (z >= self.low) & (z <= self.high)

    def check(self, z: FloatArray) -> FloatArray:
        """Return the losses, all of which must be able to occur."""
        outside = ~self.contains(z)
        if outside.any():
            raise ValueError(
                f"{int(outside.sum())} losses out of {len(z)} lie outside the support {self}, for "
                f"instance {z[outside][0]}. Correct the loss, or declare its support."
            )
        return z

    def __str__(self) -> str:
        if self.points is None:
            return f"[{self.low:g}, {self.high:g}]"
        return "{" + ", ".join(f"{point:g}" for point in self.points) + "}"


@dataclass(frozen=True)
class Floor:
    """The smallest survival any law may have: below `start` a constant, then falling like 1 / z.

    Keeps a law from ending early (a normal tail rounds to zero 38 deviations out, and one such
    calibration row would turn every bound into infinity).
    """

    start: float
    scale: float

    def sf(self, z: FloatArray) -> FloatArray:
        """Smallest survival at z."""
        with np.errstate(over="ignore"):  # the largest floats stand for infinity
            return SMALLEST_SURVIVAL / (1.0 + np.maximum(z - self.start, 0.0) / self.scale)

    def isf(self, level: FloatArray) -> FloatArray:
        """Upper inverse of `sf`."""
        with np.errstate(divide="ignore", over="ignore"):
            beyond = self.start + self.scale * (SMALLEST_SURVIVAL / level - 1.0)
        return np.where(level > SMALLEST_SURVIVAL, -np.inf, beyond)


@dataclass(frozen=True)
class LossDistribution:
    """One law of the loss per row.

    The draws' mean, or, where `gamma` (one level per row) is given, their gamma-envelope: the
    ``r``-th largest draw survival with ``r = max(1, ceil(gamma * n_draws))``, whose inverse is
    the ``r``-th largest draw inverse.

    Shapes: for n rows, a scalar or an array of shape (n,) gives (n,); (1, m) or (n, m) gives (n,
    m).
    """

    draws: LossDraws
    gamma: FloatArray | None = None
    support: Support = Support()
    floor: Floor | None = None

    def __len__(self) -> int:
        return self.draws.shape[0]

    def sf(self, z: FloatArray | float) -> FloatArray:
        """``P(Z > z | x)``."""
        return self._columnwise(self._sf, z)

    def cdf(self, z: FloatArray | float) -> FloatArray:
        """``P(Z <= z | x)``."""
        return 1.0 - self.sf(z)

    def isf(self, level: FloatArray | float) -> FloatArray:
        """``sup{z : P(Z > z | x) >= level}``, the upper inverse; at level 0 the support's top."""
        values = self._per_row(level)
        given = np.asarray(level)
        if not np.all((given >= 0) & (given <= 1)):
            raise ValueError("levels are probabilities, from 0 to 1; some are not, or are missing.")
        bound = self._isf(values)
        return bound[:, 0] if np.ndim(level) < 2 else bound

    def estimate(self) -> "LossDistribution":
        """The mean of the draws without what is added for caution: no envelope, no heavy tail."""
        return replace(self, draws=estimate(self.draws), gamma=None)

    def knots(self, level: FloatArray) -> FloatArray:
        """Places, in no order, between which survival falls by no more than between the levels.

        The inverses; of a mixture those of its parts, which hold all its jumps and need no search.
        """
        mixture = self._reduced
        if self.gamma is not None or not isinstance(mixture, WeightedDraws):
            return self.isf(level)
        return np.hstack([replace(self, draws=part).knots(level) for part in mixture.parts])

    def ppf(self, probability: FloatArray | float) -> FloatArray:
        """Upper quantile: ``isf(1 - probability)``."""
        return self.isf(1.0 - np.asarray(probability, dtype=np.float64))

    def tail(self, z: FloatArray | float) -> FloatArray:
        """``P(Z >= z | x)``, atom included; ``tail(z) >= s`` exactly when ``z <= isf(s)``.

        Less a margin for rounding, without which one calibration row in 300 would miss the bound
        at its own level.
        """
        below = np.nextafter(np.asarray(z, dtype=np.float64), -np.inf)
        return self.sf(below) * (1.0 - ROUNDING)

    @cached_property
    def _reduced(self) -> LossDraws:
        return average(self.draws) if self.gamma is None else envelope(self.draws, self._rank)

    @cached_property
    def _rank(self) -> IntArray:
        n, n_draws = self.draws.shape
        if self.gamma is None:
            return np.ones(n, dtype=np.int64)
        return np.maximum(1, np.ceil(self.gamma * n_draws)).astype(np.int64)

    def _columnwise(
        self, function: Callable[[FloatArray], FloatArray], argument: FloatArray | float
    ) -> FloatArray:
        full = self._per_row(argument)
        columns = [function(full[:, [j]]) for j in range(full.shape[1])]
        values = np.hstack(columns) if columns else np.empty(full.shape)
        return values[:, 0] if np.ndim(argument) < 2 else values

    def _per_row(self, argument: FloatArray | float) -> FloatArray:
        """Return a scalar, one value per row or m values per row as an array (n, m)."""
        values = np.asarray(argument, dtype=np.float64)
        n = len(self)
        if values.shape not in ((), (1,), (n,)) and (
            values.ndim != 2 or values.shape[0] not in (1, n)
        ):
            raise ValueError(
                f"expected a number, {n} numbers (one per row), or an array of shape (1, m) or "
                f"({n}, m) for m numbers per row; got shape {values.shape}."
            )
        if values.ndim < 2:
            return np.broadcast_to(values, n)[:, None]
        return np.broadcast_to(values, (n, values.shape[1]))

    def _reduce(self, values: FloatArray) -> FloatArray:
        return values if values.shape[1] == 1 else kth_largest(values, self._rank)

    def _raw_sf(self, z: FloatArray) -> FloatArray:
        survival = self._reduce(self._reduced.sf(z))
        return survival if self.floor is None else np.maximum(survival, self.floor.sf(z))

    def _sf(self, z: FloatArray) -> FloatArray:
        points, at = self.support.points, z
        if points is not None:
            # P(Z > z) is the tail at the next attainable loss.
            following = np.searchsorted(points, z, side="right")
            at = np.nextafter(points[np.minimum(following, len(points) - 1)], -np.inf)
        survival = np.where(np.isposinf(z), 0.0, self._raw_sf(at))
        survival = np.where(at < self.support.low, 1.0, survival)
        return np.where(z >= self.support.high, 0.0, survival)

    def _isf(self, level: FloatArray) -> FloatArray:
        bound = self._joint_isf(level)
        if bound is None:
            bound = self._columnwise(self._guarded_isf, level)
        points = self.support.points
        if points is not None:
            attainable = np.searchsorted(points, bound, side="right") - 1
            return points[np.maximum(attainable, 0)]
        return np.clip(bound, self.support.low, self.support.high)

    def _joint_isf(self, level: FloatArray) -> FloatArray | None:
        """All levels of a row together, where the laws offer it and the floor plays no part."""
        few = level[:1] if level.strides[0] == 0 else level  # the same in every row
        if self.floor is not None and np.any((few > 0) & (few <= SMALLEST_SURVIVAL)):
            return None
        values = joint_isf(self._reduced, level) if level.size else None
        if values is None:
            return None
        return falling(values if few.all() else np.where(few > 0, values, np.inf), level)

    def _guarded_isf(self, level: FloatArray) -> FloatArray:
        bound = self._reduce(self._reduced.isf(level))
        if self.floor is not None:
            bound = np.maximum(bound, self.floor.isf(level))
        return np.where(level > 0, raise_until_below(self._raw_sf, level, bound), np.inf)
