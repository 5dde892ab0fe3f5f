"""Laws made of other laws: transformed, stacked, mixed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from locuscore._protocols import FloatArray, IntArray, LossDraws
from locuscore.draws._base import Draws, as_draws, average, envelope, estimate, floats_per_row
from locuscore.draws._inversion import invert

Function = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, repr=False)
class TransformedDraws(Draws):
    """Laws of an increasing function of the loss: ``P(Z > z) = P(T > forward(z))``.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, TransformedDraws
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> positive = TransformedDraws(draws, np.log, np.exp)  # log-normal laws
    >>> positive.isf(np.array([[0.5]])).round(3)
    array([[1.   , 2.718, 7.389]])
    """

    draws: LossDraws
    forward: Function
    backward: Function

    @property
    def shape(self) -> tuple[int, int]:
        return self.draws.shape

    @property
    def floats_per_row(self) -> int:
        return floats_per_row(self.draws)

    def sf(self, z: FloatArray) -> FloatArray:
        return self.draws.sf(self.forward(z))

    def isf(self, level: FloatArray) -> FloatArray:
        return self.backward(self.draws.isf(level))

    @property
    def inverts_jointly(self) -> bool:
        return as_draws(self.draws).inverts_jointly

    def joint_isf(self, level: FloatArray) -> FloatArray:
        # Closed forms cost nothing; guarding them on this side of the transformation is exact.
        if not self.inverts_jointly:
            return super().joint_isf(level)
        return self._back(as_draws(self.draws).joint_isf(level))

    def _back(self, inner: FloatArray) -> FloatArray:
        """Transform back without falling short of `inner` by rounding or overflow."""
        # Minus infinity would be no answer: far below, the lowest float stands for it.
        value = np.maximum(self.backward(inner), np.finfo(np.float64).min)
        with np.errstate(over="ignore"):
            step = np.spacing(np.abs(value))
        # `inner` has survival below its level, so every place that maps to it or beyond has too.
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


@dataclass(frozen=True, repr=False)
class StackedDraws(Draws):
    """Several stacks over the same rows, side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, StackedDraws
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> StackedDraws([draws, draws]).shape
    (1, 6)
    """

    parts: Sequence[LossDraws]

    @property
    def shape(self) -> tuple[int, int]:
        return (self.parts[0].shape[0], sum(part.shape[1] for part in self.parts))

    @property
    def floats_per_row(self) -> int:
        return sum(floats_per_row(part) for part in self.parts)

    def sf(self, z: FloatArray) -> FloatArray:
        return np.hstack([part.sf(values) for part, values in self._split(z)])

    def isf(self, level: FloatArray) -> FloatArray:
        return np.hstack([part.isf(values) for part, values in self._split(level)])

    def _split(self, values: FloatArray) -> list[tuple[LossDraws, FloatArray]]:
        widths = [part.shape[1] for part in self.parts]
        full = np.broadcast_to(values, self.shape)
        return list(zip(self.parts, np.split(full, np.cumsum(widths)[:-1], axis=1), strict=True))


@dataclass(frozen=True, repr=False)
class WeightedDraws(Draws):
    """Weighted mixtures of several stacks over the same rows: draw by draw, ``sum_j w_j P_j``.

    `weights` are positive and sum to 1, one per part. There are as many draws as in the largest
    part; a smaller one starts over, so draw s is paired with its draw ``s mod (its number)``. The
    mean is the weighted mean of the parts' own means, in which every draw counts once.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, WeightedDraws
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> wide = NormalDraws(np.zeros((1, 3)), np.full((1, 3), 5.0))
    >>> WeightedDraws([draws, wide], np.array([0.9, 0.1])).sf(np.array([[3.0]])).round(3)
    array([[0.029, 0.048, 0.17 ]])
    """

    parts: Sequence[LossDraws]
    weights: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return (self.parts[0].shape[0], max(part.shape[1] for part in self.parts))

    @property
    def floats_per_row(self) -> int:
        return sum(floats_per_row(part) for part in self.parts)

    def sf(self, z: FloatArray) -> FloatArray:
        first, *others = self._each("sf", repeat(z))
        # Where all parts agree so does the mixture, whatever the weights round to: 1 stays 1.
        rest = zip(others, self.weights[1:], strict=True)
        return np.clip(first + sum(w * (survival - first) for survival, w in rest), 0.0, 1.0)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        # Below all of the parts' inverses the mixture has the level, above all of them it has not.
        ends = self._each("isf", repeat(level))
        return invert(self.sf, level, ends.min(axis=0), ends.max(axis=0), self._next_jump)

    def knots(self, level: FloatArray) -> FloatArray:
        """The knots of the parts, which hold all jumps of the mixture and need no search."""
        return np.hstack([as_draws(part).knots(level) for part in self.parts])

    def average(self) -> "WeightedDraws":
        """Mix the means of the parts, which is the weighted mean of the laws exactly."""
        return WeightedDraws([average(part) for part in self.parts], self.weights)

    def estimate(self) -> "WeightedDraws":
        """Mix the estimates of the parts."""
        return WeightedDraws([estimate(part) for part in self.parts], self.weights)

    def _each(self, method: str, values: Iterable[FloatArray]) -> FloatArray:
        """Evaluate `sf` or `isf` of each part, at values of its own."""
        n_draws = self.shape[1]
        pairs = zip(self.parts, values, strict=False)  # the values may be one repeated forever
        return np.stack([_cycled(part, getattr(part, method), at, n_draws) for part, at in pairs])

    def _next_jump(self, z: FloatArray) -> FloatArray:
        """Where the first part's survival changes after z: the end of its flat."""
        ends = self._each("isf", self._each("sf", repeat(z)))
        return np.where(ends > z, ends, np.inf).min(axis=0)


def _cycled(part: LossDraws, function: Function, values: FloatArray, n_draws: int) -> FloatArray:
    """Evaluate a part's `sf` or `isf` for so many draws, its own ones over and over."""
    width = part.shape[1]
    if width == n_draws:
        return function(values)
    values = np.asarray(values)
    if values.ndim < 2 or values.shape[1] == 1:  # one argument for all draws: evaluate once
        return function(values)[:, np.arange(n_draws) % width]
    # Its draws meet the first `width` arguments, then the next ones; the last round is padded.
    rounds = -(-n_draws // width)
    padded = values[:, np.arange(rounds * width) % n_draws]
    blocks = np.split(padded, rounds, axis=1)
    return np.hstack([function(block) for block in blocks])[:, :n_draws]
