"""FlexCode: the density of the loss as a series whose coefficients are regressions."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray
from locuscore._shared.checks import check_count
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import seeded, spawn_seeds
from locuscore.draws import SurvivalDraws, smallest_scale
from locuscore.engines._loss_cells import LossCells

POWERS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)  # below 1 a density is flattened, above sharpened
MOST_TUNING_ROWS = 2_000
MARGINAL_SHARE = 0.01  # of every law is that of D1: no row rules out what others have seen


@dataclass(eq=False, repr=False)
class FlexCode(BaseEstimator):
    """Density of the loss as a cosine series, whose coefficients one regressor predicts.

    With u in [0, 1] the loss on a logarithmic scale, the density is ``f(u | x) = 1 + sum_j
    beta_j(x) phi_j(u)`` with ``phi_j(u) = sqrt(2) cos(pi j u)``, where ``beta_j(x) = E[phi_j(U) |
    x]`` is a regression (Izbicki and Lee, 2017). One regressor learns all coefficients. How many
    are used is chosen inside D1, by the squared error ``E[integral f(u | X)^2 du] - 2 E[f(U | X)]``
    of rows left out. The series is made a density by ``max(f - c, 0)``, which also removes small
    bumps, and then sharpened or flattened to ``f ** power``, where power is chosen by the same
    error. One draw per row.

    A loss that more than one row in fifty has, such as exactly zero, is an atom. The probabilities
    of atoms are further coefficients, and the series describes the other losses. A 0-1 loss has
    atoms only. Each distribution has 1 % of that of all losses of D1, and beyond the largest of
    them it falls off like a power.

    Parameters
    ----------
    model
        Regressor of several outputs; None for extremely randomised trees, which take missing
        values.
    n_basis
        Largest number of cosines.
    cv
        Number of folds for the choices inside D1.
    random_state
        Seed of the model and the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import FlexCode
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(300, 1))
    >>> engine = FlexCode(random_state=0).fit(S, S[:, 0] * rng.exponential(size=300))
    >>> small, large = engine.predict_draws(np.array([[0.2], [0.9]])).isf(0.1)[:, 0]
    >>> bool(small < large)
    True
    """

    ARCHIVE = Kept(
        "FlexCode",
        fields=("model_", "cells_"),
        numbers=("marginal_",),
        single=("power_", "tail_mass_", "scale_"),
        holds=(LossCells,),
    )

    model: Any = None
    _: KW_ONLY
    n_basis: int = 30
    cv: int = 5
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Choose the number of cosines and the power, then fit the coefficients."""
        check_count(self.n_basis, "n_basis")
        check_count(self.cv, "cv", least=2)
        model_seed, fold_seed = spawn_seeds(self.random_state, 2)
        default = ExtraTreesRegressor(100, min_samples_leaf=5)
        self.model_ = seeded(default if self.model is None else self.model, model_seed)
        self.cells_ = LossCells.learned(z)
        self.marginal_ = self.cells_.seen(z)
        self.n_basis_, self.power_ = self._chosen(S, z, fold_seed)
        self.model_.fit(S, self._targets(z, self.n_basis_))
        self.tail_mass_ = 1.0 / (len(z) + 2)
        self.scale_ = max(float(np.max(z) - np.median(z)), smallest_scale(z))
        return self

    def predict_draws(self, S: FloatArray) -> SurvivalDraws:
        """Return the law of each row's series."""
        check_is_fitted(self)
        found = _matrix(self.model_.predict(S), len(S))
        shares = self.cells_.shares(found, self.power_)
        shares = shares + MARGINAL_SHARE * (self.marginal_ - shares)
        survival = self.tail_mass_ + (1.0 - self.tail_mass_) * self.cells_.survival(shares)
        return SurvivalDraws(survival[:, None], self.cells_.places, np.full(len(S), self.scale_))

    def _targets(self, z: FloatArray, n_basis: int) -> FloatArray:
        targets = self.cells_.targets(z, n_basis)
        # A single output without an axis of its own, as scikit-learn wants it.
        return targets[:, 0] if targets.shape[1] == 1 else targets

    def _chosen(self, S: FloatArray, z: FloatArray, seed: int) -> tuple[int, float]:
        """Return the number of cosines and the power with the least error of rows left out."""
        cells = self.cells_
        if not cells.n_cells:
            return 0, 1.0
        folds = KFold(min(self.cv, len(z)), shuffle=True, random_state=seed)
        targets = self._targets(z, self.n_basis)
        found = _matrix(cross_val_predict(self.model_, S, targets, cv=folds), len(z))
        step = -(-len(z) // MOST_TUNING_ROWS)
        found, some = found[::step], z[::step]

        def error(n_basis: int, power: float) -> float:
            used = np.delete(found, np.s_[n_basis : self.n_basis], axis=1)
            return cells.score(cells.shares(used, power), some)

        # At least one: without any, all rows have the same law.
        n_basis = min(range(1, self.n_basis + 1), key=lambda n: error(n, 1.0))
        return n_basis, min(POWERS, key=lambda power: error(n_basis, power))

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the engine that an archive holds, if its numbers can be those of one."""
        engine = cls()
        for name, part in parts.items():
            setattr(engine, name, part)
        cells, marginal = parts["cells_"], parts["marginal_"]
        if not isinstance(cells, LossCells) or not isinstance(marginal, np.ndarray):
            raise ValueError("a FlexCode has no cells")
        if marginal.shape != (cells.n_cells + len(cells.atoms),):
            raise ValueError("a FlexCode has other cells than shares of them")
        numbers = [parts[name] for name in ("power_", "tail_mass_", "scale_")]
        if not all(type(number) is float and 0 < number < np.inf for number in numbers):
            raise ValueError("a FlexCode has a power, tail or scale that is not positive")
        if numbers[1] >= 1:
            raise ValueError("a FlexCode has all of its mass on the tail")
        return engine


def _matrix(predicted: Any, n: int) -> FloatArray:
    """Coefficients (n, outputs) of a model, which may return a single one without its axis."""
    return np.asarray(predicted, dtype=np.float64).reshape(n, -1)
