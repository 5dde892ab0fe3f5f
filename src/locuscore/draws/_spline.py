"""Laws by a monotone spline to the normal scale: what a normalising flow of one variable is."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from locuscore._protocols import FloatArray, IntArray
from locuscore.draws._base import ArrayDraws
from locuscore.draws._inversion import LARGEST_BELOW_ONE


@dataclass(frozen=True)
class SplineDraws(ArrayDraws):
    """Laws of which an increasing spline makes the normal one: ``P(Z > z) = Phi(-T(z))``.

    `places`, `values` and `slopes` are (n, S, m), with m at least 2: T goes through ``(place,
    value)`` with that slope, between places as a rational quadratic, and beyond the ends as a
    straight line. Places and values are ascending and slopes positive. With ``w, h`` the width and
    height of a piece, ``s = h / w``, slopes ``a, b`` at its ends and ``t`` in [0, 1] the place in
    it,

    ``T = value + h (s t^2 + a t (1 - t)) / (s + (a + b - 2 s) t (1 - t))``,

    which increases, and whose inverse is a root of a quadratic equation.
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
        with np.errstate(divide="ignore"):
            flat = 1.0 / self.slopes
        return self._outside(right, x + t * w, normal, self.values, self.places, flat)

    def _piece(self, right: IntArray) -> tuple[FloatArray, ...]:
        """Start, value there, width, height and both slopes of the piece that ends at an index."""
        end = np.clip(right, 1, self.places.shape[2] - 1)[:, :, None]
        ends = [
            [np.take_along_axis(part, at, axis=2)[:, :, 0] for at in (end - 1, end)]
            for part in (self.places, self.values, self.slopes)
        ]
        (x, x_end), (y, y_end), (a, b) = ends
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
