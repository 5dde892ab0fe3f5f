"""Laws given by their survival at places that all rows share."""

from dataclasses import dataclass

import numpy as np

from locuscore._protocols import FloatArray, IntArray
from locuscore.draws._base import ArrayDraws
from locuscore.draws._points import power_tail, power_tail_excess


@dataclass(frozen=True, repr=False)
class SurvivalDraws(ArrayDraws):
    """Survival at shared places joined by straight lines, and a power tail beyond the last place.

    `survival` is (n, S, m), at the ascending `places` (m,); along the last axis it never rises, and
    it ends above zero. A place that occurs twice is an atom: its first survival is that just below
    it. Below the first place survival is 1. The tail has the row's own `scale` (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import SurvivalDraws
    >>> survival = np.array([[[1.0, 0.5, 0.1]]])
    >>> draws = SurvivalDraws(survival, np.array([0.0, 1.0, 4.0]), np.ones(1))
    >>> draws.sf(np.array([[2.5]])).round(3)
    array([[0.3]])
    """

    survival: FloatArray
    places: FloatArray
    scale: FloatArray

    arrays = ("survival", "scale")

    def sf(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, self.shape)
        right = np.searchsorted(self.places, z, side="right")
        low, high, s_low, s_high = self._piece(right)
        # Equal places divide by zero at the ends only, where the line is not used.
        with np.errstate(divide="ignore", invalid="ignore"):
            line = s_low + (s_high - s_low) * ((z - low) / (high - low))
        last = self.survival[:, :, -1]
        beyond = last * power_tail(z - self.places[-1], self.scale[:, None])
        inside = np.where(right == 0, 1.0, np.clip(line, s_high, s_low))
        return np.where(right == len(self.places), beyond, inside)

    def isf(self, level: FloatArray) -> FloatArray:
        level = np.broadcast_to(level, self.shape)
        # Survival never rises, so the places that keep the level come first.
        count = np.count_nonzero(self.survival >= level[:, :, None], axis=2)
        low, high, s_low, s_high = self._piece(count)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = low + (high - low) * ((s_low - level) / (s_low - s_high))
        share = np.minimum(level / self.survival[:, :, -1], 1.0)
        beyond = self.places[-1] + power_tail_excess(share, self.scale[:, None])
        inside = np.where(count == 0, self.places[0], np.clip(inside, low, high))
        return np.where(count == len(self.places), beyond, inside)

    def average(self) -> "SurvivalDraws":
        """The mean of the survivals, which is the mean of the laws exactly."""
        mean = self.survival.mean(axis=1, keepdims=True)
        return SurvivalDraws(mean, self.places, self.scale)

    def _piece(self, index: IntArray) -> tuple[FloatArray, ...]:
        """Places, then survivals, at both ends of the piece that ends at an index, (n, S) each."""
        last = len(self.places) - 1
        ends = (np.clip(index - 1, 0, last), np.clip(index, 0, last))
        found = (np.take_along_axis(self.survival, at[:, :, None], axis=2) for at in ends)
        return (*(self.places[at] for at in ends), *(survival[:, :, 0] for survival in found))
