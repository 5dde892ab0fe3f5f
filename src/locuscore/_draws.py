"""The families of laws that engines return. Shapes: rows, draws, components.

Each family has one `sf` and the upper inverse `isf` that goes with it; see `_protocols.LossDraws`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from locuscore._numeric import invert
from locuscore._protocols import FloatArray, LossDraws

TAIL_INDEX = 3.0  # beyond the last point a law falls off like a power, so it never reaches zero
SMALLEST_RELATIVE_SCALE = 1e-9
LARGEST_BELOW_ONE = float(np.nextafter(1.0, 0.0))
SMALLEST_FLOAT = float(np.nextafter(0.0, 1.0))


def smallest_scale(z: FloatArray) -> float:
    """Return a scale negligible beside the losses z, positive even if they are all equal."""
    size = float(np.std(z)) or float(np.max(np.abs(z)))
    return SMALLEST_RELATIVE_SCALE * (size or 1.0)


def average(draws: LossDraws) -> LossDraws:
    """Return the mean of the draws' laws, a stack of one."""
    if draws.shape[1] == 1:
        return draws
    own: Any = getattr(draws, "average", None)
    return AverageDraws(draws) if own is None else own()


@dataclass(frozen=True)
class NormalDraws:
    """Normal laws: `location` and `scale`, each (n, S)."""

    location: FloatArray
    scale: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return (self.location.shape[0], self.location.shape[1])

    def sf(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return ndtr((self.location - z) / self.scale)

    def isf(self, level: FloatArray) -> FloatArray:
        # Survival rounds to 1 some 8 deviations below the location; that is where level 1 ends.
        return self.location - self.scale * ndtri(np.minimum(level, LARGEST_BELOW_ONE))


@dataclass(frozen=True)
class MixtureDraws:
    """Mixtures of normal laws: `weight`, `location` and `scale`, each (n, S, K)."""

    weight: FloatArray
    location: FloatArray
    scale: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return (self.location.shape[0], self.location.shape[1])

    def sf(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            standard = (self.location - np.asarray(z)[:, :, None]) / self.scale
        return np.einsum("nsk,nsk->ns", self.weight, ndtr(standard))

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        parts = NormalDraws(self.location, self.scale).isf(level[:, :, None])
        return invert(self.sf, level, parts.min(axis=2), parts.max(axis=2))

    def average(self) -> "MixtureDraws":
        """Pool the components of all draws, which is the mean of the laws."""
        n, n_draws, _ = self.location.shape
        weight, location, scale = (
            part.reshape(n, 1, -1) for part in (self.weight, self.location, self.scale)
        )
        return MixtureDraws(weight / n_draws, location, scale)


@dataclass(frozen=True)
class TransformedDraws:
    """Laws of an increasing function of the loss: ``P(Z > z) = P(T > forward(z))``."""

    draws: LossDraws
    forward: Callable[[FloatArray], FloatArray]
    backward: Callable[[FloatArray], FloatArray]

    @property
    def shape(self) -> tuple[int, int]:
        return self.draws.shape

    def sf(self, z: FloatArray) -> FloatArray:
        return self.draws.sf(self.forward(z))

    def isf(self, level: FloatArray) -> FloatArray:
        return self.backward(self.draws.isf(level))

    def average(self) -> "TransformedDraws":
        """The mean of the laws, taken on the transformed scale, where its inverse is cheap."""
        return TransformedDraws(average(self.draws), self.forward, self.backward)


@dataclass(frozen=True)
class AverageDraws:
    """The mean of a stack of laws, inverted between the smallest and the largest draw's inverse."""

    draws: LossDraws

    @property
    def shape(self) -> tuple[int, int]:
        return (self.draws.shape[0], 1)

    def sf(self, z: FloatArray) -> FloatArray:
        return self.draws.sf(z).mean(axis=1, keepdims=True)

    def isf(self, level: FloatArray) -> FloatArray:
        ends = self.draws.isf(level)
        level = np.broadcast_to(level, self.shape)
        return invert(
            self.sf, level, ends.min(axis=1, keepdims=True), ends.max(axis=1, keepdims=True)
        )


@dataclass(frozen=True)
class StackedDraws:
    """Several stacks over the same rows, side by side."""

    parts: Sequence[LossDraws]

    @property
    def shape(self) -> tuple[int, int]:
        return (self.parts[0].shape[0], sum(part.shape[1] for part in self.parts))

    def sf(self, z: FloatArray) -> FloatArray:
        return np.hstack([part.sf(values) for part, values in self._split(z)])

    def isf(self, level: FloatArray) -> FloatArray:
        return np.hstack([part.isf(values) for part, values in self._split(level)])

    def _split(self, values: FloatArray) -> list[tuple[LossDraws, FloatArray]]:
        widths = [part.shape[1] for part in self.parts]
        full = np.broadcast_to(values, self.shape)
        return list(zip(self.parts, np.split(full, np.cumsum(widths)[:-1], axis=1), strict=True))


@dataclass(frozen=True)
class WeightedDraws:
    """Weighted mixtures of several stacks over the same rows: draw by draw, ``sum_j w_j P_j``.

    `weights` are positive and sum to 1, one per part. There are as many draws as in the largest
    part; a smaller one starts over, so draw s is paired with its draw ``s mod (its number)``. The
    mean is the weighted mean of the parts' own means, in which every draw counts once.
    """

    parts: Sequence[LossDraws]
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return (self.parts[0].shape[0], max(part.shape[1] for part in self.parts))

    def sf(self, z: FloatArray) -> FloatArray:
        first, *others = self._each("sf", z)
        # Where all parts agree so does the mixture, whatever the weights round to: 1 stays 1.
        rest = zip(others, self.weights[1:], strict=True)
        return np.clip(first + sum(w * (survival - first) for survival, w in rest), 0.0, 1.0)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        ends = self._each("isf", level)
        return invert(self.sf, level, ends.min(axis=0), ends.max(axis=0), self._next_jump)

    def average(self) -> "WeightedDraws":
        """Mix the means of the parts, which is the weighted mean of the laws exactly."""
        return WeightedDraws([average(part) for part in self.parts], self.weights)

    def _each(self, method: str, values: FloatArray) -> FloatArray:
        return np.stack(
            [_cycled(getattr(part, method), part, values, self.shape) for part in self.parts]
        )

    def _next_jump(self, z: FloatArray) -> FloatArray:
        """Where the first part's survival changes after z: the end of its flat."""
        survival = [_cycled(part.sf, part, z, self.shape) for part in self.parts]
        pairs = zip(self.parts, survival, strict=True)
        ends = np.stack([_cycled(part.isf, part, values, self.shape) for part, values in pairs])
        return np.where(ends > z, ends, np.inf).min(axis=0)


def _cycled(
    function: Callable[[FloatArray], FloatArray],
    part: LossDraws,
    values: FloatArray,
    shape: tuple[int, int],
) -> FloatArray:
    """Evaluate a part's `sf` or `isf` for `shape` draws, its own ones over and over."""
    width, n_draws = part.shape[1], shape[1]
    if width == n_draws:
        return function(values)
    values = np.asarray(values)
    if values.ndim < 2 or values.shape[1] == 1:  # one argument for all draws: evaluate once
        return function(values)[:, np.arange(n_draws) % width]
    rounds = -(-n_draws // width)
    padded = values[:, np.arange(rounds * width) % n_draws]
    blocks = np.split(padded, rounds, axis=1)
    return np.hstack([function(block) for block in blocks])[:, :n_draws]


def power_tail(excess: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Share of the tail's mass beyond `excess` above its start."""
    with np.errstate(over="ignore", under="ignore"):
        return (1.0 + np.maximum(excess, 0.0) / scale) ** -TAIL_INDEX


def power_tail_excess(share: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Inverse of `power_tail`."""
    with np.errstate(divide="ignore"):
        return scale * (share ** (-1.0 / TAIL_INDEX) - 1.0)


@dataclass(frozen=True)
class StepDraws:
    """Equally weighted points per draw, and a power tail that all draws of a row share.

    `points` is (n, S, m), in any order; the tail starts at `top`, at least the row's largest point,
    with the row's own `scale` (both (n,)) and holds the share `tail_mass` of every draw.
    """

    points: FloatArray
    top: FloatArray
    scale: FloatArray
    tail_mass: float = 0.01

    @property
    def shape(self) -> tuple[int, int]:
        return (self.points.shape[0], self.points.shape[1])

    def sf(self, z: FloatArray) -> FloatArray:
        above = np.count_nonzero(self.points > np.asarray(z)[:, :, None], axis=2)
        excess = z - self.top[:, None]
        beyond = self.tail_mass * power_tail(excess, self.scale[:, None])
        return np.where(excess >= 0, beyond, self._survival_by_count[above])

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        count = np.searchsorted(self._survival_by_count, level, side="left")
        m = self.points.shape[2]
        index = np.clip(m - count, 0, m - 1)[:, :, None]
        step = np.take_along_axis(self._sorted, index, axis=2)[:, :, 0]
        with np.errstate(divide="ignore"):
            share = np.minimum(level / self.tail_mass, 1.0)
        beyond = self.top[:, None] + power_tail_excess(share, self.scale[:, None])
        return np.where(count == 0, beyond, step)

    def average(self) -> "StepDraws":
        """Pool the points of all draws, which is the mean of the laws exactly."""
        pooled = self.points.reshape(len(self.points), 1, -1)
        return StepDraws(pooled, self.top, self.scale, self.tail_mass)

    @cached_property
    def _survival_by_count(self) -> FloatArray:
        """Survival below the tail's start, by the number of points above."""
        # Both ends exact: below its smallest point a law's survival is 1, not nearly 1.
        return np.linspace(self.tail_mass, 1.0, self.points.shape[2] + 1)

    @cached_property
    def _sorted(self) -> FloatArray:
        return np.sort(self.points, axis=2)


@dataclass(frozen=True)
class ShapeDraws:
    """One fixed shape times a scale: ``P(Z > z) = P(R > z / scale)``, R of `shape_points`.

    `scale` is (n, S) and positive, `shape_points` is (m,) and sorted. The last of the m + 1 equal
    shares of mass lies on a power tail beyond the largest point, with scale `tail_scale`.
    """

    scale: FloatArray
    shape_points: FloatArray
    tail_scale: float

    @property
    def shape(self) -> tuple[int, int]:
        return (self.scale.shape[0], self.scale.shape[1])

    def sf(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
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
        count = np.searchsorted((np.arange(m + 1) + 1.0) / (m + 1), level, side="left")
        step = self.shape_points[np.clip(m - count, 0, m - 1)]
        share = np.minimum(level * (m + 1), 1.0)
        beyond = self.shape_points[-1] + power_tail_excess(share, self.tail_scale)
        return np.where(count == 0, beyond, step) * self.scale


@dataclass(frozen=True)
class GridDraws:
    """Quantiles joined by straight lines, and a power tail beyond the last one.

    `quantiles` is (n, S, m), ascending along the last axis, at the survival levels `levels` (m,),
    which fall from 1 to a positive last one. Equal quantiles are an atom. The tail has the row's
    own `scale` (n,).
    """

    quantiles: FloatArray
    levels: FloatArray
    scale: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return (self.quantiles.shape[0], self.quantiles.shape[1])

    def sf(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, self.shape)
        right = np.count_nonzero(self.quantiles <= z[:, :, None], axis=2)
        index = np.clip(right, 1, len(self.levels) - 1)[:, :, None]
        q_low = np.take_along_axis(self.quantiles, index - 1, axis=2)[:, :, 0]
        q_high = np.take_along_axis(self.quantiles, index, axis=2)[:, :, 0]
        s_low, s_high = self.levels[index - 1][:, :, 0], self.levels[index][:, :, 0]
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
        piece = np.clip(index, 1, len(self.levels) - 1)[:, :, None]
        q_low = np.take_along_axis(self.quantiles, piece - 1, axis=2)[:, :, 0]
        q_high = np.take_along_axis(self.quantiles, piece, axis=2)[:, :, 0]
        s_low, s_high = self.levels[piece - 1][:, :, 0], self.levels[piece][:, :, 0]
        inside = q_low + (q_high - q_low) * ((level - s_low) / (s_high - s_low))
        share = np.minimum(level / self.levels[-1], 1.0)
        beyond = self.quantiles[:, :, -1] + power_tail_excess(share, self.scale[:, None])
        return np.where(index == len(self.levels), beyond, inside)
