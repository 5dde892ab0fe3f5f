"""How cautious the envelope is at each row, from the distance to its neighbours in D1."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray
from locuscore._shared.kept import Kept


class Neighbours:
    """The rows of D1, searched for the k-th nearest."""

    ARCHIVE = Kept("Neighbours", numbers=("rows",), single=("k",))

    def __init__(self, rows: FloatArray, k: int) -> None:
        self.rows, self.k = rows, k
        self._index = NearestNeighbors(n_neighbors=k).fit(rows)

    def radius(self, rows: FloatArray | None = None) -> FloatArray:
        """Distance to the k-th nearest; without rows, of those of D1 to the others."""
        distances: FloatArray = self._index.kneighbors(rows)[0]
        return distances[:, -1]

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Index the rows again: the index is an opaque C structure, and comes out the same."""
        return cls(**parts)


class KNNGamma(BaseEstimator):
    """Trimming level gamma(x) from the kNN radius (Section 2.1.1 of the paper).

    With r(x) the distance to the k-th nearest row of D1 in standardised signals, and q50, q90 the
    quantiles of r over D1, scarcity is ``s = (r - q50) / (q90 - q50 + epsilon)`` and ``gamma =
    gamma_max - (gamma_max - gamma_min) * sigmoid((s - midpoint) / slope)``.

    A row of D1 is not its own neighbour, so that rows of D1 and new rows are treated alike; k is at
    most ``n1 - 1``. Missing signals are replaced by the mean of D1. The cost is one neighbour
    search per row.
    """

    ARCHIVE = Kept(
        "KNNGamma",
        fields=("neighbours_",),
        numbers=("mean_", "spread_"),
        single=("q_lo_", "q_hi_"),
        holds=(Neighbours,),
    )

    def __init__(
        self,
        k: int = 50,
        gamma_min: float = 0.15,
        gamma_max: float = 0.9,
        midpoint: float = 0.0,
        slope: float = 1.0,
        epsilon: float = 1e-6,
    ) -> None:
        self.k = k
        self.gamma_min = gamma_min
        self.gamma_max = gamma_max
        self.midpoint = midpoint
        self.slope = slope
        self.epsilon = epsilon

    def fit(self, S: FloatArray) -> Self:
        """Index D1 and learn its reference radii."""
        if not 0 < self.gamma_min <= self.gamma_max < 1:
            raise ValueError(
                "gamma_min and gamma_max must satisfy 0 < gamma_min <= gamma_max < 1; "
                f"got {self.gamma_min} and {self.gamma_max}."
            )
        if self.k < 1 or self.slope <= 0:
            raise ValueError(
                f"k must be at least 1 and slope positive; got k={self.k}, slope={self.slope}."
            )
        if len(S) < 2:
            raise ValueError(f"KNNGamma needs at least 2 rows in D1; got {len(S)}.")
        seen = np.where(np.isfinite(S), S, np.nan)
        missing_everywhere = np.isnan(seen).all(axis=0)
        seen[:, missing_everywhere] = 0.0
        self.mean_ = np.nanmean(seen, axis=0)
        spread = np.nanstd(seen, axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        self.neighbours_ = Neighbours(self._standardise(S), min(self.k, len(S) - 1))
        radius = self.neighbours_.radius()
        self.q_lo_, self.q_hi_ = (float(q) for q in np.quantile(radius, [0.5, 0.9]))
        return self

    def predict(self, S: FloatArray) -> FloatArray:
        """Trimming level of each row; smaller where D1 is scarce."""
        check_is_fitted(self)
        radius = self.neighbours_.radius(self._standardise(S))
        scarcity = (radius - self.q_lo_) / (self.q_hi_ - self.q_lo_ + self.epsilon)
        share = expit((scarcity - self.midpoint) / self.slope)
        return self.gamma_max - (self.gamma_max - self.gamma_min) * share

    def _standardise(self, S: FloatArray) -> FloatArray:
        if not self.mean_.shape == self.spread_.shape == S.shape[1:]:
            raise ValueError(f"KNNGamma was fitted on {self.mean_.size} signals; got {S.shape[1]}.")
        return np.nan_to_num((S - self.mean_) / self.spread_, nan=0.0, posinf=0.0, neginf=0.0)
