"""QuantileGrid: boosted quantiles of the loss, made monotone."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray
from locuscore._shared.boosting import BoostedTrees
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import seeded, spawn_seeds
from locuscore.draws import GridDraws, smallest_scale


@dataclass(eq=False, repr=False)
class QuantileGrid(BaseEstimator):
    """One boosted regressor per quantile, sorted per row and joined by straight lines.

    Below the first quantile the distribution reaches down to the smallest loss seen; beyond the
    last one it falls off like a power. One draw per row.

    Parameters
    ----------
    probabilities
        Quantiles to learn, each between 0 and 1.
    model
        Regressor with a parameter ``quantile``; None for boosted trees, which take missing values.
    random_state
        Seed of the models.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import QuantileGrid
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = QuantileGrid((0.5, 0.9), random_state=0).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 1)
    """

    ARCHIVE = Kept(
        "QuantileGrid", fields=("models_",), numbers=("levels_",), single=("lowest_", "smallest_")
    )

    probabilities: Sequence[float] = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
    model: Any = None
    _: KW_ONLY
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Fit one model per quantile."""
        wanted = np.sort(np.asarray(self.probabilities, dtype=np.float64))
        if wanted.size == 0 or wanted[0] <= 0 or wanted[-1] >= 1:
            raise ValueError(f"probabilities must lie strictly between 0 and 1; got {wanted}.")
        default = BoostedTrees(
            loss="quantile", quantile=0.5, max_iter=100, learning_rate=0.05, max_leaf_nodes=15
        )
        base = default if self.model is None else self.model
        seeds = spawn_seeds(self.random_state, len(wanted))
        self.models_ = [
            seeded(base, seed).set_params(quantile=float(p)).fit(S, z)
            for p, seed in zip(wanted, seeds, strict=True)
        ]
        self.levels_ = np.append(1.0, 1.0 - wanted)  # survival is 1 at the smallest loss seen
        self.lowest_ = float(z.min())
        self.smallest_ = smallest_scale(z)
        return self

    def predict_draws(self, S: FloatArray) -> GridDraws:
        """Return the law through each row's quantiles."""
        check_is_fitted(self)
        lowest = np.full(len(S), self.lowest_)
        columns = np.column_stack([lowest, *(model.predict(S) for model in self.models_)])
        # The models are fitted one by one, so their quantiles may cross; sorting repairs it.
        quantiles = np.sort(columns, axis=1)
        scale = np.maximum(quantiles[:, -1] - quantiles[:, 0], self.smallest_)
        return GridDraws(quantiles[:, None, :], self.levels_, scale)
