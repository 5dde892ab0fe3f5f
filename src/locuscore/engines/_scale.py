"""Scale: a mean-loss model times one fixed shape."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import cross_val_predict
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.boosting import BoostedTrees
from locuscore._shared.checks import one_per_row
from locuscore._shared.folds import make_folds
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import seeded, spawn_seeds
from locuscore.draws import ShapeDraws
from locuscore.draws._scale import SMALLEST_RELATIVE_SCALE


@dataclass(eq=False, repr=False)
class Scale(BaseEstimator):
    """Mean size of the loss from one regressor, times the shape of its out-of-fold ratios.

    ``Z = m(x) * R`` with ``m(x)`` the predicted mean of ``|Z|`` and R the pooled ratios
    ``z / m(x)``. It is the cheapest engine, and the baseline to beat. One draw per row.

    Parameters
    ----------
    model
        Regressor of ``|z|`` divided by its mean; None for boosted trees with the Poisson
        deviance, which are positive and take missing values.
    cv
        Number of folds for the ratios.
    random_state
        Seed of the model and the folds.
    """

    ARCHIVE = Kept(
        "Scale", fields=("model_",), numbers=("shape_points_",), single=("unit_", "tail_scale_")
    )

    model: Any = None
    _: KW_ONLY
    cv: int = 5
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray, clusters: IntArray | None = None) -> Self:
        """Fit the mean-loss model and its shape; `clusters` stay whole in its folds."""
        seeds = spawn_seeds(self.random_state, 2)
        default = BoostedTrees(loss="poisson", max_iter=100, learning_rate=0.05)
        self.model_ = seeded(default if self.model is None else self.model, seeds[0])
        self.unit_ = float(np.mean(np.abs(z))) or 1.0
        # Never zero: the Poisson deviance refuses a fold in which every loss is zero.
        size = self._positive(np.abs(z) / self.unit_)
        folds = make_folds(len(z), self.cv, seeds[1], clusters)
        # Out of fold: on its own rows the model fits too well, and the ratios would be too narrow.
        expected = cross_val_predict(self.model_, S, size, cv=folds)
        self.model_.fit(S, size)
        ratios = np.sort(z / self.unit_ / self._positive(expected))
        self.shape_points_ = ratios
        self.tail_scale_ = max(float(ratios[-1] - np.median(ratios)), SMALLEST_RELATIVE_SCALE)
        return self

    def predict_draws(self, S: FloatArray) -> ShapeDraws:
        """Return the shape scaled to the predicted size of each row."""
        check_is_fitted(self)
        scale = self.unit_ * self._positive(
            one_per_row(self.model_.predict(S), len(S), "the model")
        )
        return ShapeDraws(scale[:, None], self.shape_points_, self.tail_scale_)

    @staticmethod
    def _positive(expected: FloatArray) -> FloatArray:
        # A thousandth of the mean loss: a prediction near zero would make a ratio enormous.
        return np.maximum(expected, 1e-3)
