"""Laws made of other laws: reduced to one per row, transformed, stacked, mixed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locuscore._protocols import FloatArray, IntArray, LossDraws
from locuscore._shared.numeric import invert


def average(draws: LossDraws) -> LossDraws:
    """Return the mean of the draws' laws, a stack of one."""
    if draws.shape[1] == 1:
        return draws
    own: Any = getattr(draws, "average", None)
    return AverageDraws(draws) if own is None else own()


def estimate(draws: LossDraws) -> LossDraws:
    """Return the mean of the draws' laws as an estimate: without mass kept on a tail for caution.

    The same as `average` for families that keep none.
    """
    own: Any = getattr(draws, "estimate", None)
    return average(draws) if own is None else own()


def envelope(draws: LossDraws, rank: IntArray) -> LossDraws:
    """Return each row's `rank`-th largest survival as a law of its own, or the draws as they are.

    The inverse of that law is the rank-th largest inverse, which is simple where inverses are.
    """
    own: Any = getattr(draws, "envelope", None)
    return draws if own is None else own(rank)


def joint_isf(draws: LossDraws, level: FloatArray) -> FloatArray | None:
    """Return the inverses at m levels per row, (n, m), where the family finds them together."""
    own: Any = getattr(draws, "joint_isf", None)
    return None if own is None else own(level)


def floats_per_row(draws: LossDraws) -> int:
    """Count the numbers that describe the laws of a single row, given as `draws`."""
    return max(_own_size(draws), draws.shape[1])


def _own_size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.size if len(value) == 1 else 0  # longer arrays are shared by all rows
    parts = value if isinstance(value, list | tuple) else getattr(value, "__dict__", {}).values()
    return sum(_own_size(part) for part in parts)


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

    def joint_isf(self, level: FloatArray) -> FloatArray | None:
        """Inverses at m levels per row; None where those of the inner laws are in closed form."""
        inner = joint_isf(self.draws, level)
        return None if inner is None else self._back(inner)

    def _back(self, inner: FloatArray) -> FloatArray:
        """Transform back without falling short of `inner` by rounding or overflow."""
        value = np.maximum(self.backward(inner), np.finfo(np.float64).min)
        with np.errstate(over="ignore"):
            step = np.spacing(np.abs(value))
        for _ in range(60):
            short = (self.forward(value) < inner) & np.isfinite(value)
            if not short.any():
                break
            value, step = np.where(short, value + step, value), 2 * step
        return value

    def average(self) -> "TransformedDraws":
        """The mean of the laws, taken on the transformed scale, where its inverse is cheap."""
        return TransformedDraws(average(self.draws), self.forward, self.backward)

    def estimate(self) -> "TransformedDraws":
        """The estimate of the inner laws, transformed."""
        return TransformedDraws(estimate(self.draws), self.forward, self.backward)

    def envelope(self, rank: IntArray) -> "TransformedDraws":
        """The envelope of the inner laws: an increasing function keeps the order of survivals."""
        return TransformedDraws(envelope(self.draws, rank), self.forward, self.backward)


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
        low, high = (end(axis=1, keepdims=True) for end in (ends.min, ends.max))
        return invert(self.sf, np.broadcast_to(level, self.shape), low, high, self._next_jump)

    def _next_jump(self, z: FloatArray) -> FloatArray:
        """Where the first draw's survival changes after z."""
        ends = self.draws.isf(self.draws.sf(z))
        return np.where(ends > z, ends, np.inf).min(axis=1, keepdims=True)


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

    def estimate(self) -> "WeightedDraws":
        """Mix the estimates of the parts."""
        return WeightedDraws([estimate(part) for part in self.parts], self.weights)

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
