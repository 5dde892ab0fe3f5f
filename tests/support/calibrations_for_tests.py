"""A calibration that gives every row another level, as groups or weights would."""

from dataclasses import dataclass

import numpy as np

from locuscore import Kept, Locus
from locuscore._laws.calibration import BaseCalibration
from locuscore._shared.frames import column
from locuscore.calibration import ByGroup, ClusterRows, CrossFit, Shifted
from locuscore.engines import Scale


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


def _larger(X):
    return 1.0 + np.asarray(column(X, "size"), dtype=np.float64)


# One of each kind: the choice, and the names of what goes to `fit` beside X and y.
CALIBRATIONS = {
    "by group": (lambda: ByGroup("town"), ()),
    "by group with a pool": (lambda: ByGroup("rooms", pool_below=60), ()),
    "overlapping groups": (lambda: ByGroup(["town", "state"]), ()),
    "clusters": (lambda: None, ("clusters",)),
    "rows of clusters": (lambda: ClusterRows(3), ("clusters",)),
    "weights": (lambda: Shifted(_larger), ()),
    "learned weights": (Shifted, ("target",)),
    "folds": (lambda: CrossFit(3), ()),
}


def calibrated(name, X, y, predictor):
    """A small `Locus` with the calibration of this name, on rows of `service_for_tests.frame`."""
    choice, names = CALIBRATIONS[name]
    given = {"clusters": np.arange(len(y)) // 3, "target": X[X["size"] > 0.3]}
    locus = Locus(predictor, engine=Scale(), calibration=choice(), random_state=0)
    return locus.fit(X, y, **{name: given[name] for name in names})
