"""One law of the loss per row: draws averaged or enveloped, support applied, rounding guarded."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.kept import Kept
from locuscore._shared.shown import cut
from locuscore.draws import Draws, average, envelope, estimate
from locuscore.draws._inversion import decreasing_in_level, raise_until_below

SMALLEST_SURVIVAL = 1e-300
ROUNDING = 2.0**-48  # relative error of a survival function: computed, it is not quite monotone


@dataclass(frozen=True)
class Support:
    """The values a loss can take: an interval, or the finite set `points` (sorted)."""

    ARCHIVE = Kept("Support", numbers=("points",), single=("low", "high"))

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
    """The smallest survival any law may have: constant below `start`, then falling like 1 / z.

    It keeps a law from ending early. A normal tail rounds to zero 38 deviations out, and one such
    calibration row would make every bound infinite.
    """

    ARCHIVE = Kept("Floor", single=("start", "scale"))

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


@dataclass(frozen=True, repr=False)
class LossDistribution:
    """One distribution of the loss per row.

    It is the mean of the draws or, if `gamma` (one level per row) is given, their gamma-envelope:
    the ``r``-th largest draw survival with ``r = max(1, ceil(gamma * n_draws))``, whose inverse is
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

    def __repr__(self) -> str:
        rows, draws = self.draws.shape
        of = f"average of {draws:,} draws" if self.gamma is None else f"envelope of {draws:,} draws"
        return f"LossDistribution({rows:,} rows, {of}, support {cut(str(self.support), 60)})"

    def sf(self, z: FloatArray | float) -> FloatArray:
        """``P(Z > z | x)``."""
        return self._columnwise(self._sf, z)

    def cdf(self, z: FloatArray | float) -> FloatArray:
        """``P(Z <= z | x)``."""
        return 1.0 - self.sf(z)

    def isf(self, level: FloatArray | float) -> FloatArray:
        """``sup{z : P(Z > z | x) >= level}``, the upper inverse; at level 0 the support's top."""
        bound = self._attainable(self._isf(self._levels(level)))
        return bound[:, 0] if np.ndim(level) < 2 else bound

    def estimate(self) -> "LossDistribution":
        """The mean of the draws without what is added for caution: no envelope, no heavy tail."""
        return replace(self, draws=estimate(self.draws), gamma=None)

    def knots(self, level: FloatArray) -> FloatArray:
        """Unordered losses between which survival falls by no more than between the levels.

        These are the inverses. For a mixture they are the inverses of its parts, which include all
        its jumps and need no search.
        """
        return self._attainable(self._reduced.knots(self._levels(level)))

    def ppf(self, probability: FloatArray | float) -> FloatArray:
        """Upper quantile: ``isf(1 - probability)``."""
        return self.isf(1.0 - np.asarray(probability, dtype=np.float64))

    def tail(self, z: FloatArray | float) -> FloatArray:
        """``P(Z >= z | x)``, atom included; ``tail(z) >= s`` exactly when ``z <= isf(s)``.

        A margin for rounding is subtracted. Without it, one calibration row in 300 would miss the
        bound at its own level.
        """
        # P(Z >= z) is P(Z > the float below z): no loss lies between.
        below = np.nextafter(np.asarray(z, dtype=np.float64), -np.inf)
        return self.sf(below) * (1.0 - ROUNDING)

    @cached_property
    def _reduced(self) -> Draws:
        """The draws as one law per row."""
        if self.gamma is None:
            return average(self.draws)
        # Ranks from the top: a small gamma takes one of the heaviest tails, so a high bound.
        rank = np.maximum(1, np.ceil(self.gamma * self.draws.shape[1])).astype(np.int64)
        return envelope(self.draws, rank)

    def _columnwise(
        self, function: Callable[[FloatArray], FloatArray], argument: FloatArray | float
    ) -> FloatArray:
        # One column at a time bounds memory: laws of many points compare each with the argument.
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

    def _levels(self, level: FloatArray | float) -> FloatArray:
        """Return levels as (m,), shared by all rows, or (n, m), told by their shape."""
        full, given = self._per_row(level), np.asarray(level, dtype=np.float64)
        if not np.all((given >= 0) & (given <= 1)):
            raise ValueError("levels must be probabilities from 0 to 1; some are outside or NaN.")
        # One set for all rows is looked up, sorted and checked once.
        is_shared = given.ndim == 0 or given.shape[0] == 1
        return given.reshape(-1) if is_shared else full

    def _raw_sf(self, z: FloatArray) -> FloatArray:
        survival = self._reduced.sf(z)
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
        """Inverses before the support is applied, (n, m)."""
        floor, shape = self.floor, (len(self), level.shape[-1])
        if not level.size:
            return np.empty(shape)
        if floor is not None and np.any((level > 0) & (level <= SMALLEST_SURVIVAL)):
            # So far out the floor matters, which is no part of the draws.
            isf = partial(self._floored_isf, floor)
            bound = self._columnwise(isf, np.broadcast_to(level, shape))
        else:
            bound = self._reduced.joint_isf(level)
        if not level.all():
            bound = np.where(level > 0, bound, np.inf)  # contract 3, whatever a family answers
        return decreasing_in_level(bound, level)

    def _floored_isf(self, floor: Floor, level: FloatArray) -> FloatArray:
        bound = np.maximum(self._reduced.isf(level), floor.isf(level))
        return raise_until_below(self._raw_sf, level, bound)

    def _attainable(self, bound: FloatArray) -> FloatArray:
        """The largest loss that can occur and is not above each bound."""
        points = self.support.points
        if points is not None:
            # Rounded down: between two attainable losses nothing can happen.
            below = np.searchsorted(points, bound, side="right") - 1
            return points[np.maximum(below, 0)]
        return np.clip(bound, self.support.low, self.support.high)
