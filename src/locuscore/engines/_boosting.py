"""Boosted trees that accept a feature with no value at all."""

from typing import Any, Self

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from locuscore._protocols import FloatArray


class BoostedTrees(HistGradientBoostingRegressor):
    """scikit-learn's boosted trees, which cannot bin a feature that is missing in every row.

    Such a feature is made constant, so no tree splits on it, and `predict` may find anything
    there. Happens with columns not filled yet, and in folds or parts that miss the few rows of a
    rarely filled one.
    """

    def fit(self, X: FloatArray, y: FloatArray, **kwargs: Any) -> Self:
        """Fit as scikit-learn does."""
        return super().fit(np.where(np.isnan(X).all(axis=0), 0.0, X), y, **kwargs)
