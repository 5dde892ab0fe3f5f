"""Boosted trees that accept a feature with no value at all, and stay quick on few rows."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from locuscore._protocols import FloatArray
from locuscore._shared.blocks import row_blocks
from locuscore._shared.flat_trees import flat_boosting, forget
from locuscore._shared.machine_code import machine_code
from locuscore._shared.threads import few_threads, in_threads

FEW_ROWS = 32  # are predicted faster by following all trees together
ROWS_AT_A_TIME = 2048  # so many stay in the cache with their leaves
FLOATS = 2**21  # 16 MB, of each thread
UNIT_STEP = 128  # of the exponent of the unit: targets of usual size are left as they are


class _OnAnyFeatures:
    """For boosted trees of scikit-learn: features that they cannot take, and few threads.

    A feature that is missing in every row is made constant, so no tree splits on it, and `predict`
    accepts any value there. This happens with columns that are not filled yet, and in folds that
    miss the few filled rows of a column.
    """

    def fit(self, X: FloatArray, y: np.ndarray, **kwargs: Any) -> Self:
        """Fit as scikit-learn does, but small samples with one thread."""
        with few_threads(len(X)):
            filled = np.where(np.isnan(X).all(axis=0), 0.0, X)
            super().fit(filled, y, **kwargs)  # type: ignore[misc]  # of the class beside this one
        forget(self)
        return self

    def _raw_predict(self, X: FloatArray, n_threads: int | None = None) -> FloatArray:
        """What scikit-learn predicts, to the last bit."""
        is_plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64 and len(X) > 0
        if is_plain and not getattr(self, "_in_fit", False):
            are_few = len(X) <= FEW_ROWS
            is_quick = are_few or machine_code(len(X)) is not None
            flat = flat_boosting(self) if is_quick else None
            if flat is not None and flat.trees.n_features == X.shape[1]:
                n_jobs = 1 if are_few else _openmp_effective_n_threads(n_threads)
                # Each row takes what all trees add to it, three times over.
                parts = row_blocks(len(X), 3 * flat.trees.n_trees, ROWS_AT_A_TIME, FLOATS)
                found = np.concatenate(in_threads(lambda at: flat.raw(X[at]), parts, n_jobs))
                return np.asfortranarray(found)
        return super()._raw_predict(X, n_threads)  # type: ignore[misc]


class BoostedClasses(_OnAnyFeatures, HistGradientBoostingClassifier):
    """scikit-learn's boosted classifier, for features that it cannot take."""


class BoostedTrees(_OnAnyFeatures, HistGradientBoostingRegressor):
    """scikit-learn's boosted trees, for features and targets that they cannot take.

    Very large or small targets are measured in a unit of their size, a power of two, since
    gradients are kept in single precision.
    """

    unit_ = 1.0  # of models that were saved without one

    def fit(self, X: FloatArray, y: FloatArray, **kwargs: Any) -> Self:
        """Fit as scikit-learn does, but small samples with one thread."""
        _, exponent = np.frexp(np.max(np.abs(y)))
        self.unit_ = 2.0 ** (UNIT_STEP * min(round(int(exponent) / UNIT_STEP), 7))
        return super().fit(X, y / self.unit_, **kwargs)

    def predict(self, X: FloatArray) -> FloatArray:
        """Predict, in the unit of the targets."""
        return self.unit_ * super().predict(X)

    def staged_predict(self, X: FloatArray) -> Iterator[FloatArray]:
        """Predict after each round, in the unit of the targets."""
        for prediction in super().staged_predict(X):
            yield self.unit_ * prediction
