"""Boosted trees that accept a feature with no value at all, and stay quick on busy cores."""

from typing import Any, Self

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from locuscore._protocols import FloatArray

MOST_ROWS_OF_ONE_THREAD = 30_000


class BoostedTrees(HistGradientBoostingRegressor):
    """scikit-learn's boosted trees, which cannot bin a feature that is missing in every row.

    Such a feature is made constant, so no tree splits on it, and `predict` may find anything
    there. Happens with columns not filled yet, and in folds or parts that miss the few rows of a
    rarely filled one.
    """

    def fit(self, X: FloatArray, y: FloatArray, **kwargs: Any) -> Self:
        """Fit as scikit-learn does, small samples with one thread.

        Up to some 30,000 rows more threads gain nothing, and on cores that other programs use they
        wait for each other: a fit of a second then takes a minute.
        """
        n_threads = 1 if len(X) <= MOST_ROWS_OF_ONE_THREAD else None
        with threadpool_limits(n_threads, user_api="openmp"):
            return super().fit(np.where(np.isnan(X).all(axis=0), 0.0, X), y, **kwargs)
