"""How cautious the envelope is at each row, from the distance to its neighbours in D1."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FittedEngine, FloatArray, GammaModel
from locuscore._shared.kept import Kept

PHI = ("signals", "x", "predictor", "functions", "engine")


class Neighbours:
    """The rows of D1, searched for the k-th nearest."""

    ARCHIVE = Kept("Neighbours", numbers=("rows",), single=("k",))

    def __init__(self, rows: FloatArray, k: int) -> None:
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 - when first used

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

    With r(x) the distance of phi(x) to the k-th nearest row of D1, where phi is standardised on D1,
    and q50, q90 the quantiles of r over D1, scarcity is ``s = (r - q50) / (q90 - q50 + epsilon)``
    and ``gamma = gamma_max - (gamma_max - gamma_min) * sigmoid((s - midpoint) / slope)``.

    A row of D1 is not its own neighbour, so that rows of D1 and new rows are treated alike; k is at
    most ``n1 - 1``. Missing signals are replaced by the mean of D1. The cost is one neighbour
    search per row.

    Parameters
    ----------
    k
        Which neighbour.
    gamma_min, gamma_max, midpoint, slope, epsilon
        Of the formula.
    phi
        Where distances are measured: ``"signals"`` for all that the engine sees, ``"x"``,
        ``"predictor"`` or ``"functions"`` for one part of it, ``"engine"`` for the engine's own
        embedding, ``engine.embed(S)``: the hidden layer of `engines.MDN` and
        `engines.BayesianMDN`. For a layer of the predictor, give a function that returns it to
        `Locus` (``signals=["all", layer]``) and use ``"functions"``.
    """

    ARCHIVE = Kept(
        "KNNGamma",
        fields=("neighbours_",),
        numbers=("mean_", "spread_"),
        single=("q_lo_", "q_hi_", "begin_", "end_"),
        later=("begin_", "end_"),
        holds=(Neighbours,),
    )

    begin_: int = 0  # archives of earlier versions have all signals in phi
    end_: int | None = None

    def __init__(
        self,
        k: int = 50,
        gamma_min: float = 0.15,
        gamma_max: float = 0.9,
        midpoint: float = 0.0,
        slope: float = 1.0,
        epsilon: float = 1e-6,
        phi: str = "signals",
    ) -> None:
        self.k = k
        self.gamma_min = gamma_min
        self.gamma_max = gamma_max
        self.midpoint = midpoint
        self.slope = slope
        self.epsilon = epsilon
        self.phi = phi

    def fit(self, S: FloatArray, columns: slice | None = None) -> Self:
        """Index D1 and learn its reference radii; `columns` of S are phi, or else all of them."""
        if not 0 < self.gamma_min <= self.gamma_max < 1:
            raise ValueError(
                "gamma_min and gamma_max must satisfy 0 < gamma_min <= gamma_max < 1; "
                f"got {self.gamma_min} and {self.gamma_max}."
            )
        if self.k < 1 or self.slope <= 0:
            raise ValueError(
                f"k must be at least 1 and slope positive; got k={self.k}, slope={self.slope}."
            )
        check_phi(self)
        if len(S) < 2:
            raise ValueError(f"KNNGamma needs at least 2 rows in D1; got {len(S)}.")
        self.begin_, self.end_ = (0, None) if columns is None else (columns.start, columns.stop)
        S = self._columns(S)
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
        radius = self.neighbours_.radius(self._standardise(self._columns(S)))
        scarcity = (radius - self.q_lo_) / (self.q_hi_ - self.q_lo_ + self.epsilon)
        share = expit((scarcity - self.midpoint) / self.slope)
        return self.gamma_max - (self.gamma_max - self.gamma_min) * share

    def _columns(self, S: FloatArray) -> FloatArray:
        ends = self.begin_, self.end_
        if type(ends[0]) is not int or type(ends[1]) not in (int, type(None)):
            raise ValueError(f"the columns of a KNNGamma are no whole numbers: {ends}.")
        return S[:, slice(*ends)]

    def _standardise(self, S: FloatArray) -> FloatArray:
        if not self.mean_.shape == self.spread_.shape == S.shape[1:]:
            raise ValueError(f"KNNGamma was fitted on {self.mean_.size} signals; got {S.shape[1]}.")
        return np.nan_to_num((S - self.mean_) / self.spread_, nan=0.0, posinf=0.0, neginf=0.0)


def check_phi(gamma: Any) -> None:
    """Raise if a `KNNGamma` has an unknown phi."""
    if isinstance(gamma, KNNGamma) and not (isinstance(gamma.phi, str) and gamma.phi in PHI):
        raise ValueError(
            f"phi must be one of {', '.join(map(repr, PHI))}; got {gamma.phi!r}. A function of X "
            "goes into the signals of Locus; phi='functions' then stands for it."
        )


def fit_gamma(
    gamma: GammaModel, engine: FittedEngine, S: FloatArray, columns: Callable[[str], slice]
) -> GammaModel:
    """Fit a copy of gamma on D1; `columns` says where a part of the signals stands."""
    model = clone(gamma, safe=False)
    if isinstance(model, KNNGamma):
        check_phi(model)
        if model.phi not in ("signals", "engine"):
            return model.fit(S, columns(model.phi))
    return model.fit(phi_of(model, engine, S))


def phi_of(gamma: GammaModel, engine: FittedEngine, S: FloatArray) -> FloatArray:
    """What a gamma model is given of rows: their signals, or the engine's embedding of them."""
    if not isinstance(gamma, KNNGamma) or gamma.phi != "engine":
        return S
    if not hasattr(engine, "embed"):
        raise ValueError(
            "KNNGamma(phi='engine') needs an engine with the method embed, such as MDN or "
            f"BayesianMDN; {type(engine).__name__} has none. Use phi='signals' or phi='x'."
        )
    values = np.asarray(engine.embed(S), dtype=np.float64)
    if values.ndim != 2 or len(values) != len(S):
        raise ValueError(
            f"embed of {type(engine).__name__} must give one row of numbers per row, shape "
            f"({len(S)}, d); got {values.shape}."
        )
    return values
