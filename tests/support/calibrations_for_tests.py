"""A calibration that gives every row another level, as groups or weights would."""

from dataclasses import dataclass

import numpy as np

from locuscore import Kept
from locuscore._laws.calibration import BaseCalibration
from locuscore._shared.frames import column


@dataclass(frozen=True, eq=False)
class LevelPerRow(BaseCalibration):
    """The level at alpha is ``alpha ** (1 + entry)``, with the entry in a column of the rows."""

    ARCHIVE = Kept("LevelPerRow", fields=("tails",), single=("name",))

    tails: np.ndarray
    name: object

    @property
    def reads(self):
        return lambda X: np.asarray(column(X, self.name), dtype=np.float64)

    def level(self, alpha, rows):
        alpha = np.asarray(alpha, dtype=np.float64)
        return alpha ** (1.0 + rows.reshape(-1, *[1] * alpha.ndim))

    def smallest_alpha(self, survival, rows):
        # The bound is at most tau exactly when survival is below the level.
        return np.nextafter(survival ** (1.0 / (1.0 + rows[:, None])), np.inf)

    def too_few(self, alpha, top=None):
        return None

    def rule_facts(self, alpha):
        return {"n_calibration": None}

    def again(self, cal):
        return LevelPerRow(np.sort(cal.tails), self.name)

    def sentence(self, alphas):
        return "Every row has its own level."
