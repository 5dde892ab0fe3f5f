"""The families of laws that engines return. Shapes: rows, draws, components.

Each family has one `sf` and the upper inverse `isf` that goes with it; see `_protocols.LossDraws`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from locuscore._numeric import LARGEST_BELOW_ONE, SMALLEST_FLOAT, invert, invert_smooth, kth_largest
from locuscore._protocols import FloatArray, IntArray, LossDraws

TAIL_INDEX = 3.0  # beyond the last point a law falls off like a power, so it never reaches zero
SMALLEST_RELATIVE_SCALE = 1e-9
MOST_TRIALS = 8  # of an envelope, after which all its draws are inverted
FLOATS_AT_ONCE = 100_000  # of a temporary array that should stay in the processor's cache


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

    def average(self) -> "MixtureDraws":
        """The mean of the laws, a mixture with equal weights."""
        n, n_draws = self.shape
        # In full, not broadcast: sums must round alike for all rows and for some of them.
        weight = np.full((n, 1, n_draws), 1.0 / n_draws)
        return MixtureDraws(weight, self.location[:, None], self.scale[:, None], n_draws)


@dataclass(frozen=True)
class MixtureDraws:
    """Mixtures of normal laws: `weight`, `location` and `scale`, each (n, S, K).

    The K components of a law are `repeats` versions, one after the other, of ``K / repeats`` kinds.
    Merging the versions of each kind gives a cheap law near to this one, from which its inversion
    starts.
    """

    weight: FloatArray
    location: FloatArray
    scale: FloatArray
    repeats: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        return (self.location.shape[0], self.location.shape[1])

    def sf(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            standard = self.location - np.asarray(z)[:, :, None]
            standard /= self.scale
        ndtr(standard, out=standard)
        # Not a matrix product: that would round by the number of rows. Weights sum to about one.
        return np.minimum(np.einsum("nsk,nsk->ns", self.weight, standard), 1.0)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        return self._inverses(level.reshape(-1, 1)).reshape(self.shape)

    def joint_isf(self, level: FloatArray) -> FloatArray | None:
        """Inverses at m levels per row of a stack of one."""
        return self._inverses(level) if self.shape[1] == 1 else None

    def average(self) -> "MixtureDraws":
        """Pool the components of all draws, which is the mean of the laws."""
        n, n_draws, _ = self.location.shape
        weight, location, scale = (
            part.reshape(n, 1, -1) for part in (self.weight, self.location, self.scale)
        )
        return MixtureDraws(weight / n_draws, location, scale, n_draws * self.repeats)

    def envelope(self, rank: IntArray) -> "EnvelopeDraws":
        """The rank-th largest survival of each row, inverted once instead of once per draw."""
        return EnvelopeDraws(self, rank)

    @cached_property
    def _flat(self) -> "MixtureDraws":
        """The same laws, one per row."""
        shape = (self.shape[0] * self.shape[1], 1, self.location.shape[2])
        weight, location, scale = (
            part.reshape(shape) for part in (self.weight, self.location, self.scale)
        )
        return MixtureDraws(weight, location, scale, self.repeats)

    def _take(self, rows: IntArray | slice) -> "MixtureDraws":
        return MixtureDraws(self.weight[rows], self.location[rows], self.scale[rows], self.repeats)

    def _inverses(self, level: FloatArray) -> FloatArray:
        """Inverses at m levels of each law, (laws, m)."""
        out = np.empty(level.shape)
        size = max(1, FLOATS_AT_ONCE // (10 * level.shape[1]))
        for start in range(0, len(level), size):
            part = slice(start, start + size)
            laws = self._flat._take(part)
            out[part] = invert_smooth(
                laws._sf, level[part], *laws._ends(level[part]), *laws._start(level[part])
            )
        return out

    def _sf(self, rows: IntArray, z: FloatArray) -> FloatArray:
        """Survival of the laws `rows` at one z each, a few at a time so that they stay in cache."""
        out = np.empty(len(rows))
        size = max(1, FLOATS_AT_ONCE // self.location.shape[2])
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            out[part] = self._take(rows[part]).sf(z[part, None])[:, 0]
        return out

    def _ends(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Places below and above the inverses of all components."""
        location, scale = self._flat.location[:, 0], self._flat.scale[:, 0]
        q = -ndtri(np.minimum(level, LARGEST_BELOW_ONE))
        smallest, largest = (f(scale, axis=1, keepdims=True) * q for f in (np.min, np.max))
        low = location.min(axis=1, keepdims=True) + np.minimum(smallest, largest)
        return low, location.max(axis=1, keepdims=True) + np.maximum(smallest, largest)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each law, (laws, 1)."""
        laws = self._flat
        merged = MixtureDraws(
            laws.weight, laws.location, laws.scale, laws.weight.shape[2]
        )._merged()
        return merged.location[:, 0], merged.scale[:, 0]

    def _merged(self) -> "MixtureDraws":
        """One component per kind, with the mean and the variance of all its versions."""
        n, _, k = self.location.shape
        shape = (n, self.repeats, k // self.repeats)
        weight, location, scale = (
            part.reshape(shape) for part in (self.weight, self.location, self.scale)
        )
        total = weight.sum(axis=1, keepdims=True)
        share = weight / np.where(total > 0, total, 1.0)
        centre = np.einsum("nrk,nrk->nk", share, location)[:, None]
        variance = np.einsum("nrk,nrk->nk", share, (location - centre) ** 2 + scale**2)[:, None]
        return MixtureDraws(total, centre, np.sqrt(variance))

    def _start(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A guess of the inverse, and how fast it grows with the normal quantile."""
        q = ndtri(np.minimum(level, LARGEST_BELOW_ONE))
        if self.repeats in (1, self.location.shape[2]):
            centre, spread = self._moments()
            return centre - spread * q, np.broadcast_to(spread, level.shape)
        nearby = np.minimum(ndtr(q + 0.05), LARGEST_BELOW_ONE)
        both = self._merged()._inverses(np.hstack([level, nearby]))
        guess, beside = np.hsplit(both, 2)
        with np.errstate(invalid="ignore"):
            return guess, np.abs(guess - beside) / 0.05


@dataclass(frozen=True)
class EnvelopeDraws:
    """The `rank`-th largest survival of each row of a stack of mixtures; `rank` is (n,)."""

    draws: MixtureDraws
    rank: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        return (self.draws.shape[0], 1)

    def sf(self, z: FloatArray) -> FloatArray:
        return kth_largest(self.draws.sf(z), self.rank)

    def isf(self, level: FloatArray) -> FloatArray:
        return self.joint_isf(np.broadcast_to(level, self.shape))

    def joint_isf(self, level: FloatArray) -> FloatArray:
        """Inverses at m levels per row; every third level corrects the guesses for the others."""
        n, n_draws = self.draws.shape
        centre, spread = (part.reshape(n, n_draws) for part in self.draws._flat._moments())
        order = np.argsort(level, axis=1)
        level = np.take_along_axis(level, order, axis=1)
        q = ndtri(np.minimum(level, LARGEST_BELOW_ONE))
        guess = np.hstack([kth_largest(centre - spread * t[:, None], self.rank) for t in q.T])
        solved, out = self._solve(level[:, ::3], guess[:, ::3]), np.empty(level.shape)
        with np.errstate(invalid="ignore"):
            shift = np.nan_to_num(solved - guess[:, ::3])
        rest = np.flatnonzero(np.arange(level.shape[1]) % 3)
        before, share = rest // 3, rest % 3 / 3
        after = np.minimum(before + 1, shift.shape[1] - 1)
        guess[:, rest] += (1 - share) * shift[:, before] + share * shift[:, after]
        np.put_along_axis(out, order[:, ::3], solved, axis=1)
        others = self._solve(level[:, rest], guess[:, rest])
        np.put_along_axis(out, order[:, rest], others, axis=1)
        return out

    def _solve(self, level: FloatArray, guess: FloatArray) -> FloatArray:
        """Find the draw whose inverse is the answer.

        At a trial, take the draw with the rank-th largest survival there; its own inverse is the
        next trial, until it has that rank itself.
        """
        n_draws = self.draws.shape[1]
        answer, at, draw = guess.flatten(), level.ravel(), np.full(guess.size, -1)
        pair = np.flatnonzero(np.isfinite(answer))
        for _ in range(MOST_TRIALS):
            rows = pair // level.shape[1]
            survival, following, own = self._ranked(rows, answer[pair], draw[pair])
            # Not above the level, and not below the draw that comes down to it here.
            is_open = (survival >= at[pair]) | (survival < own)
            pair, rows, following = pair[is_open], rows[is_open], following[is_open]
            if not len(pair):
                break
            draw[pair] = following
            laws = self.draws._flat._take(rows * n_draws + following)
            answer[pair] = laws._inverses(at[pair, None])[:, 0]
        else:
            rows = pair // level.shape[1]
            inverses = self.draws._take(rows).isf(at[pair, None])
            answer[pair] = kth_largest(inverses, self.rank[rows])[:, 0]
        return answer.reshape(level.shape)

    def _ranked(
        self, rows: IntArray, z: FloatArray, draw: IntArray
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Survival of the ranked draw of each row at z, which draw that is, and that of `draw`."""
        survival, index, own = np.empty(len(rows)), np.empty_like(rows), np.empty(len(rows))
        size = max(1, FLOATS_AT_ONCE // self.draws.location[0].size)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            values = self.draws._take(rows[part]).sf(z[part, None])
            ranked = kth_largest(values, self.rank[rows[part]])
            survival[part], index[part] = ranked[:, 0], np.argmax(values == ranked, axis=1)
            own[part] = values[np.arange(len(values)), draw[part]]
        return survival, index, np.where(draw < 0, np.inf, own)


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
