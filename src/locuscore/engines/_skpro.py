"""FromSkpro: any skpro probabilistic regressor as an engine."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.checks import check_methods
from locuscore._shared.seeds import global_seed, seeded, spawn_seeds
from locuscore.draws import NormalDraws, smallest_scale
from locuscore.engines._skpro_laws import Losses, laws_of


@dataclass(eq=False, repr=False)
class FromSkpro(BaseEstimator):
    """A probabilistic regressor of skpro as a model of the loss; one draw per row.

    The regressor is fitted on the losses divided by a power of two near their spread, so that
    its settings mean the same in every unit. Normal and log-normal distributions are used in closed
    form, with full precision in the tails; empirical ones become steps with a tail. Any other
    distribution is mixed with a power tail that holds 0.001 of the mass, because many families end
    early. The survival function is exact for the families that skpro takes from scipy and for
    Student's; for the rest it is ``1 - cdf``, which has no precision below 1e-16. skpro's `ppf` is
    the lower inverse, and for some families an approximation, so it is only the starting point of
    our search for the upper inverse.

    There is no loop over rows here; skpro itself loops where it builds empirical distributions.
    Missing signals are passed on, and refused if the regressor refuses them.

    Parameters
    ----------
    regressor
        An unfitted skpro regressor with ``fit(X, y)`` and ``predict_proba(X)``, for instance
        ``NGBoostRegressor(verbose=False)``. Families on the positive axis, such as its
        ``dist="LogNormal"``, refuse losses that are zero.
    random_state
        Seed of every part of the regressor that has none.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skpro.regression.residual import ResidualDouble
    >>> from locuscore.engines import FromSkpro
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = FromSkpro(ResidualDouble(LinearRegression())).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 1)
    """

    regressor: Any
    _: KW_ONLY
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Fit the regressor on the losses in their own unit."""
        check_methods(self.regressor, ["fit", "predict_proba"], "regressor")
        spread = float(np.std(z)) or 1.0
        unit = float(2.0 ** np.round(np.log2(spread)))
        self.losses_ = Losses(float(z.min()), float(z.max()), unit, smallest_scale(z))
        # No family of positive variance can be fitted to one value.
        self.regressor_ = None
        if self.losses_.low < self.losses_.high:
            (seed,) = spawn_seeds(self.random_state, 1)
            regressor = _seeded_throughout(self.regressor, seed)
            target = pd.DataFrame({"loss": z / unit})
            with global_seed(seed):  # some regressors draw from numpy's own generator
                self._guarded(lambda X: regressor.fit(X, target), S, z)
            self.regressor_ = regressor
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return the law that the regressor predicts for each row."""
        check_is_fitted(self)
        if self.regressor_ is None:
            column = np.full((len(S), 1), self.losses_.low)
            return NormalDraws(column, np.full(column.shape, self.losses_.smallest))
        return laws_of(self._guarded(self.regressor_.predict_proba, S), self.losses_)

    def _guarded(
        self, function: Callable[[pd.DataFrame], Any], S: FloatArray, z: FloatArray | None = None
    ) -> Any:
        """Call the regressor, and explain the two usual reasons for a failure."""
        name = type(self.regressor).__name__
        try:
            return function(pd.DataFrame(S, columns=[f"s{j}" for j in range(S.shape[1])]))
        except Exception as error:
            missing = np.flatnonzero(np.isnan(S).any(axis=0))
            if len(missing):
                columns = ", ".join(map(str, missing))
                raise ValueError(
                    f"{name} does not take missing values, and the signals in columns {columns} "
                    "have some: fill them, or use an engine that takes them, such as Forest."
                ) from error
            if z is not None and z.min() <= 0:
                raise ValueError(
                    f"{name} could not be fitted to losses of which {int(np.sum(z <= 0))} of "
                    f"{len(z)} are not positive, as a log-normal or gamma law needs; choose a "
                    f"family on the whole line, such as Normal. It said: {error}"
                ) from error
            raise


def _seeded_throughout(regressor: Any, seed: int) -> Any:
    """Clone with a seed for each part, however deep, that has an unset `random_state`."""
    copy = seeded(regressor, seed)
    names = [k for k, v in copy.get_params().items() if k.endswith("__random_state") and v is None]
    return copy.set_params(**dict.fromkeys(names, seed)) if names else copy
