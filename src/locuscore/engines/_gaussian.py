"""Gaussian: two regressors, location and log scale; the template for new engines."""

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
from locuscore.draws import NormalDraws, smallest_scale


@dataclass(eq=False, repr=False)
class Gaussian(BaseEstimator):
    """Location and scale of the loss from two regressors; one normal law per row.

    The scale is learned from the out-of-fold errors of the location.

    Parameters
    ----------
    location, scale
        Regressors; None for boosted trees, which take missing values.
    random_state
        Seed of both and of the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = Gaussian(random_state=0).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 1)
    """

    ARCHIVE = Kept("Gaussian", fields=("location_", "scale_"))

    location: Any = None
    scale: Any = None
    _: KW_ONLY
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray, clusters: IntArray | None = None) -> Self:
        """Fit the location, then the log scale of its out-of-fold errors, by whole clusters."""
        seeds = spawn_seeds(self.random_state, 3)
        default = BoostedTrees(max_iter=100, learning_rate=0.05)
        self.location_ = seeded(default if self.location is None else self.location, seeds[0])
        self.scale_ = seeded(default if self.scale is None else self.scale, seeds[1])
        folds = make_folds(len(z), 5, seeds[2], clusters)
        errors = np.abs(z - cross_val_predict(self.location_, S, z, cv=folds))
        # A tenth of the mean error keeps rows with almost no error from dominating the log scale.
        self.floor_ = max(0.1 * float(errors.mean()), smallest_scale(z))
        self.location_.fit(S, z)
        self.scale_.fit(S, np.log(errors + self.floor_))
        return self

    def predict_draws(self, S: FloatArray) -> NormalDraws:
        """Return one normal law per row."""
        check_is_fitted(self)
        location = one_per_row(self.location_.predict(S), len(S), "the location")
        scale = np.exp(one_per_row(self.scale_.predict(S), len(S), "the scale"))
        return NormalDraws(location[:, None], scale[:, None])
