"""Distributions of skpro as laws of the loss."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtr
from skpro.distributions import Empirical, LogNormal, Normal, TDistribution
from skpro.distributions.adapters.scipy import _ScipyAdapter
from skpro.distributions.base import BaseDistribution

from locuscore._protocols import FloatArray, LossDraws
from locuscore.draws import Draws, NormalDraws, StepDraws, TransformedDraws
from locuscore.draws._inversion import invert
from locuscore.draws._points import power_tail, power_tail_excess

TAIL_MASS = 0.001
CLOSEST_TO_CERTAIN = 1e-6  # a ppf may be infinite at 0 and 1, so it is asked no closer than this
SMALLEST_LOG_SCALE = 1e-9


@dataclass(frozen=True)
class Losses:
    """What the laws need from D1: range, unit of the regressor's target, smallest scale."""

    low: float
    high: float
    unit: float
    smallest: float


def laws_of(dist: BaseDistribution, losses: Losses) -> LossDraws:
    """Laws of the loss from a distribution of ``loss / unit``, one row each."""
    unit = losses.unit
    # Exact types only: a subclass may have another distribution function.
    if type(dist) is Normal:
        location, scale = _parameters(dist, "mu", "sigma")
        return NormalDraws(unit * location, np.maximum(unit * scale, losses.smallest))
    if type(dist) is LogNormal:
        location, scale = _parameters(dist, "mu", "sigma")
        # Multiplying by the unit is adding its logarithm to the location.
        normal = NormalDraws(location + np.log(unit), np.maximum(scale, SMALLEST_LOG_SCALE))
        return TransformedDraws(normal, _log, _exp)
    if type(dist) is Empirical and dist.weights is None:
        points = unit * _points(dist)
        top, middle = points[:, 0].max(axis=1), np.median(points[:, 0], axis=1)
        return StepDraws(points, top, np.maximum(top - middle, losses.smallest))
    if type(dist)._cdf is BaseDistribution._cdf:
        raise TypeError(
            f"{type(dist).__name__} has no cdf of its own, and skpro would sample one: choose a "
            "regressor whose distribution has one."
        )
    return SearchedDraws(dist, losses)


@dataclass(frozen=True, repr=False)
class SearchedDraws(Draws):
    """Laws known by their own survival function, mixed with a power tail; one draw.

    ``sf = (1 - TAIL_MASS) * survival + TAIL_MASS * tail``. The tail starts at the law's median; its
    scale is the distance from there to the upper tenth. Searches start at the family's own ppf, or,
    if it has none, from the range of the losses seen.
    """

    dist: BaseDistribution
    losses: Losses

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and 1."""
        return (len(self.dist), 1)

    def survival(self, z: FloatArray) -> FloatArray:
        """The family's own ``P(Z > z)``; below zero, one on the positive axis may say NaN for 1."""
        with np.errstate(all="ignore"):
            place = z / self.losses.unit
            # The float just below zero must stay below it, or the tail at zero loses its atom.
            place = np.where((place == 0) & (z < 0), np.nextafter(0.0, -1.0), place)
            values = np.asarray(_own_survival(self.dist, place), np.float64).reshape(z.shape)
        return np.clip(np.where(np.isnan(values) & (z <= 0), 1.0, values), 0.0, 1.0)

    def sf(self, z: FloatArray) -> FloatArray:
        """``P(Z > z)``."""
        z = np.broadcast_to(z, self.shape)
        start, scale = self._tail
        own = self.survival(z)
        return np.clip(own + TAIL_MASS * (power_tail(z - start, scale) - own), 0.0, 1.0)

    def isf(self, level: FloatArray) -> FloatArray:
        """Upper inverse of `sf`."""
        level = np.broadcast_to(level, self.shape)
        start, scale = self._tail
        # Where the tail alone reaches the level: for very small levels the inverse is near there.
        share = np.clip(level / TAIL_MASS, 0.0, 1.0)
        beyond = start + power_tail_excess(share, scale)
        return self._search(self.sf, level, beyond)

    @cached_property
    def _tail(self) -> tuple[FloatArray, FloatArray]:
        """Start and scale of each row's tail."""
        middle, upper = (
            self._search(self.survival, np.full(self.shape, level), None) for level in (0.5, 0.1)
        )
        return middle, np.maximum(upper - middle, self.losses.smallest)

    def _search(
        self,
        sf: Callable[[FloatArray], FloatArray],
        level: FloatArray,
        also: FloatArray | None,
    ) -> FloatArray:
        """Upper inverse of a survival function, from a bracket widened until it holds one."""
        if type(self.dist)._ppf is BaseDistribution._ppf:  # the general one loops over rows
            low, high = (np.full(self.shape, end) for end in (self.losses.low, self.losses.high))
        else:
            inside = np.clip(1.0 - level, CLOSEST_TO_CERTAIN, 1.0 - CLOSEST_TO_CERTAIN)
            quantile = np.asarray(self.dist.ppf(inside), np.float64).reshape(self.shape)
            low = high = self.losses.unit * quantile
        if also is not None:
            low, high = np.minimum(low, also), np.maximum(high, also)
        # Small first steps, because a start from a quantile is close; they grow in `_widened`.
        step = np.maximum(high - low, self.losses.high - self.losses.low) * 1e-6
        low = _widened(lambda z: sf(z) >= level, low, -step)
        high = _widened(lambda z: sf(z) < level, high, step)
        return invert(sf, level, low, high)


def _widened(
    holds: Callable[[FloatArray], np.ndarray], end: FloatArray, step: FloatArray
) -> FloatArray:
    """Move each end outwards, faster each time, until `holds` is true; at most 60 steps."""
    for _ in range(60):
        wanting = ~holds(end) & np.isfinite(end)
        if not wanting.any():
            break
        end = np.where(wanting, end + step, end)
        step = 8.0 * step
    return end


def _parameters(dist: BaseDistribution, *names: str) -> list[FloatArray]:
    frames = dist.get_params_df()
    return [np.asarray(frames[name], dtype=np.float64).reshape(len(dist), 1) for name in names]


def _points(dist: Empirical) -> FloatArray:
    """Return the sample of each row, (n, 1, m)."""
    # skpro stacks the rows sample by sample: all rows of the first sample come first.
    values = dist.spl.to_numpy(dtype=np.float64)
    m = len(values) // len(dist)
    return np.ascontiguousarray(values.reshape(m, len(dist)).T)[:, None, :]


def _own_survival(dist: BaseDistribution, place: FloatArray) -> Any:
    """Survival with full precision where there is a closed form, as heavy tails need it."""
    if type(dist) is TDistribution:
        location, scale, freedom = _parameters(dist, "mu", "sigma", "df")
        return stdtr(freedom, (location - place) / scale)
    if isinstance(dist, _ScipyAdapter):
        args, kwargs = dist._get_scipy_param()
        return dist._get_scipy_object().sf(place, *args, **kwargs)
    return 1.0 - np.asarray(dist.cdf(place), dtype=np.float64)


def _log(z: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(z, 0.0))


def _exp(value: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.exp(value)
