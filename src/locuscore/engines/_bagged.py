"""Bagged: turns an engine with one draw into one with many."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, LossEngine
from locuscore._shared.kept import Kept
from locuscore._shared.progress import tracked
from locuscore._shared.seeds import seeded, spawn_seeds
from locuscore.draws import StackedDraws


@dataclass(eq=False, repr=False)
class Bagged(BaseEstimator):
    """The same engine fitted on many random parts of D1; each copy is one draw.

    Parts are drawn without replacement. A bootstrap sample would put copies of one row on both
    sides of the folds in which engines estimate their shape, and make them overconfident.

    Parameters
    ----------
    engine
        The engine to copy.
    n_draws
        Number of copies.
    share
        Share of D1 each copy sees.
    random_state
        Seed of the parts and the copies.
    """

    ARCHIVE = Kept("Bagged", fields=("engines_",))

    engine: LossEngine
    _: KW_ONLY
    n_draws: int = 20
    share: float = 0.632
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Fit every copy on its part of the rows."""
        if self.n_draws < 1 or not 0 < self.share <= 1:
            raise ValueError(
                f"n_draws must be at least 1 and share in (0, 1]; got {self.n_draws}, {self.share}."
            )
        part_seed, *seeds = spawn_seeds(self.random_state, self.n_draws + 1)
        rng = np.random.default_rng(part_seed)
        size = max(min(2, len(z)), round(self.share * len(z)))
        self.engines_ = []
        for seed in tracked(seeds, "copies of the engine"):
            rows = rng.permutation(len(z))[:size]
            self.engines_.append(seeded(self.engine, seed).fit(S[rows], z[rows]))
        return self

    def predict_draws(self, S: FloatArray) -> StackedDraws:
        """Return the laws of all copies side by side."""
        check_is_fitted(self)
        return StackedDraws([engine.predict_draws(S) for engine in self.engines_])
