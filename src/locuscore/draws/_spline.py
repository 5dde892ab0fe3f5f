"""Laws by a monotone spline to the normal scale: what a normalising flow of one variable is."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from locuscore._protocols import FloatArray, IntArray
from locuscore.draws._base import ArrayDraws, AverageDraws
from locuscore.draws._inversion import LARGEST_BELOW_ONE
from locuscore.draws._smooth_inversion import invert_smooth

NEARBY = 0.05  # normal deviations between two inverses that tell the slope of a law


@dataclass(frozen=True, repr=False)
class SplineDraws(ArrayDraws):
    """Laws of which an increasing spline makes the normal one: ``P(Z > z) = Phi(-T(z))``.

    `places`, `values` and `slopes` are (n, S, m), with m at least 2: T goes through ``(place,
    value)`` with that slope, between places as a rational quadratic, and beyond the ends as a
    straight line. Places and values are ascending and slopes positive. With ``w, h`` the width and
    height of a piece, ``s = h / w``, slopes ``a, b`` at its ends and ``t`` in [0, 1] the place in
    it,

    ``T = value + h (s t^2 + a t (1 - t)) / (s + (a + b - 2 s) t (1 - t))``,

    which increases, and whose inverse is a root of a quadratic equation.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import SplineDraws
    >>> places, values = np.array([[[0.0, 1.0]]]), np.array([[[-1.0, 1.0]]])
    >>> draws = SplineDraws(places, values, np.full((1, 1, 2), 2.0))
    >>> draws.sf(np.array([[0.5]])).round(3)
    array([[0.5]])
    """

    places: FloatArray
    values: FloatArray
    slopes: FloatArray

    arrays = ("places", "values", "slopes")

    def sf(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, self.shape)
        right = np.count_nonzero(self.places <= z[:, :, None], axis=2)
        x, y, w, h, a, b = self._piece(right)
        s = h / w
        with np.errstate(over="ignore"):  # the largest floats stand for infinity
            t = np.clip((z - x) / w, 0.0, 1.0)
        across = t * (1.0 - t)
        # Clipped: rounding must not let T fall where one piece ends and the next begins.
        inside = y + np.clip(h * (s * t**2 + a * across) / (s + (a + b - 2 * s) * across), 0.0, h)
        return ndtr(-self._outside(right, inside, z, self.places, self.values, self.slopes))

    def isf(self, level: FloatArray) -> FloatArray:
        # Survival rounds to 1 some 8 deviations below the middle; that is where level 1 ends.
        normal = -ndtri(np.minimum(np.broadcast_to(level, self.shape), LARGEST_BELOW_ONE))
        right = np.count_nonzero(self.values <= normal[:, :, None], axis=2)
        x, y, w, h, a, b = self._piece(right)
        s, rise = h / w, np.clip(normal - y, 0.0, h)
        bend = rise * (a + b - 2 * s)
        first, second, third = h * (s - a) + bend, h * a - bend, s * rise
        # The root that does not cancel; the discriminant is positive but for rounding.
        root = np.sqrt(np.maximum(second**2 + 4 * first * third, 0.0))
        t = np.clip(2 * third / (second + root), 0.0, 1.0)
        return self._outside(right, x + t * w, normal, self.values, self.places, 1.0 / self.slopes)

    def _piece(self, right: IntArray) -> tuple[FloatArray, ...]:
        """Start, value there, width, height and both slopes of the piece that ends at an index."""
        m = self.places.shape[2]
        end, law = np.clip(right, 1, m - 1), np.arange(right.size).reshape(right.shape) * m
        (x, x_end), (y, y_end), (a, b) = (
            [part.reshape(-1)[law + at] for at in (end - 1, end)]
            for part in (self.places, self.values, self.slopes)
        )
        return x, y, x_end - x, y_end - y, a, b

    @staticmethod
    def _outside(
        right: IntArray,
        inside: FloatArray,
        at: FloatArray,
        start: FloatArray,
        value: FloatArray,
        slope: FloatArray,
    ) -> FloatArray:
        """Take the straight lines where `at` lies before the first or after the last `start`."""
        with np.errstate(over="ignore", invalid="ignore"):
            before, after = (
                value[:, :, j] + slope[:, :, j] * (at - start[:, :, j]) for j in (0, -1)
            )
        last = start.shape[2]
        return np.where(right == 0, before, np.where(right == last, after, inside))

    def affine(self, offset: float, factor: float) -> "SplineDraws":
        """Laws of ``offset + factor * Z``; factor is positive."""
        return SplineDraws(offset + factor * self.places, self.values, self.slopes / factor)

    def average(self) -> "SplineAverageDraws":
        """The mean of the laws, which is as smooth as they are."""
        return SplineAverageDraws(self)

    def _take(self, rows: IntArray) -> "SplineDraws":
        return SplineDraws(self.places[rows], self.values[rows], self.slopes[rows])


@dataclass(frozen=True, repr=False)
class SplineAverageDraws(AverageDraws):
    """The mean of a stack of laws by splines, inverted at several levels together."""

    draws: SplineDraws

    inverts_jointly = True

    def isf(self, level: FloatArray) -> FloatArray:
        return self.joint_isf(np.broadcast_to(level, self.shape))

    def joint_isf(self, level: FloatArray) -> FloatArray:
        n, m = self.shape[0], level.shape[-1]
        level = np.broadcast_to(level, (n, m))
        # A second inverse beside the first tells the slope, in normal deviations.
        nearby = ndtr(ndtri(np.minimum(level, LARGEST_BELOW_ONE)) - NEARBY)
        ends, beside = (self._inverses(part) for part in (level, nearby))
        guess = ends.mean(axis=2)
        with np.errstate(invalid="ignore"):
            slope = np.abs(beside.mean(axis=2) - guess) / NEARBY
        return invert_smooth(self._sf, level, ends.min(axis=2), ends.max(axis=2), guess, slope)

    def _inverses(self, level: FloatArray) -> FloatArray:
        """Inverses of every draw at m levels, (n, m, S)."""
        return np.stack([self.draws.isf(column[:, None]) for column in level.T], axis=1)

    def _sf(self, rows: IntArray, z: FloatArray) -> FloatArray:
        return self.draws._take(rows).sf(z[:, None]).mean(axis=1)
