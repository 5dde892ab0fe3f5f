"""VariationalGP: a sparse Gaussian process of the loss and of its noise."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds
from locuscore.draws import NormalDraws
from locuscore.engines._latent_processes import LOG_SCALES, SMALLEST_SCALE, Processes, learn
from locuscore.engines._standard_signals import centre_and_unit, check_present, standardise
from locuscore.engines._target import Target

GOLDEN = (5**0.5 - 1) / 2
MOST_DRAWS = 2**16


@dataclass(eq=False, repr=False)
class VariationalGP(BaseEstimator):
    """Sparse variational Gaussian process with noise that depends on x.

    On the scale of `transform`, ``Z = f(x) + exp(s(x)) e`` with e standard normal and f and s
    Gaussian processes (Matern 5/2, one length per signal), learned through `n_points` inducing
    points by maximising the evidence lower bound. At a row, f and s are then independent and
    normal. Draw j is the normal law with location ``mean_f + sd_f a_j`` and log scale ``mean_s +
    sd_s b_j``, where the ``(a_j, b_j)`` are evenly spread normal quantiles, the same for all rows.
    So nothing is sampled, and the mean of the draws is close to the posterior predictive law.

    The distribution has a density: an atom, such as losses that are exactly zero, becomes a narrow
    peak, and calibration counts the ties. Missing signals are refused.

    Parameters
    ----------
    n_draws
        Number of draws.
    n_points
        Inducing points, at most one per row of D1.
    transform
        Scale of the loss: ``"identity"``, ``"sqrt"`` or ``"log"``, as for `BART`.
    n_steps, learning_rate, batch_size
        Of the training (Adam); the steps become smaller towards the end.
    device
        Of the training, as torch names it. Prediction is done by numpy.
    random_state
        Seed of the inducing points and of the batches.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import VariationalGP
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = VariationalGP(n_draws=5, n_points=8, n_steps=2, random_state=0).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 5)
    """

    ARCHIVE = Kept(
        "VariationalGP",
        fields=("target_", "processes_"),
        numbers=("signal_centre_", "signal_unit_", "quantiles_"),
        holds=(Processes, Target),
    )

    n_draws: int = 50
    _: KW_ONLY
    n_points: int = 64
    transform: str = "sqrt"
    n_steps: int = 500
    learning_rate: float = 0.05
    batch_size: int = 256
    device: str = "cpu"
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Fit both processes, and fix the quantiles that make the draws."""
        if self.n_draws < 1 or self.n_points < 1 or self.n_steps < 0 or self.batch_size < 1:
            raise ValueError(
                "n_draws, n_points and batch_size must be at least 1 and n_steps at least 0; got "
                f"{self.n_draws}, {self.n_points}, {self.batch_size}, {self.n_steps}."
            )
        check_present(S, "VariationalGP")
        (seed,) = spawn_seeds(self.random_state, 1)
        self.target_ = Target.learn(z, self.transform)
        self.signal_centre_, self.signal_unit_ = centre_and_unit(S)
        # Equal losses leave nothing that draws could disagree about.
        self.quantiles_ = spread_quantiles(self.n_draws) * float(np.ptp(z) > 0)
        self.processes_ = learn(self, self._standardise(S), self.target_.forward(z), seed)
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return one normal law per row and pair of quantiles, on the scale of the transform."""
        check_is_fitted(self)
        check_present(S, "VariationalGP")
        if self.quantiles_.shape[1:] != (2,) or not 0 < len(self.quantiles_) <= MOST_DRAWS:
            raise ValueError(
                f"the draws of VariationalGP are pairs, 1 to at most {MOST_DRAWS}; got an array "
                f"of shape {self.quantiles_.shape}."
            )
        mean, deviation = self.processes_.moments(self._standardise(S))
        values = mean[:, :, None] + deviation[:, :, None] * self.quantiles_.T[:, None]
        scale = SMALLEST_SCALE + np.exp(np.clip(values[1], *LOG_SCALES))
        return self.target_.laws(NormalDraws(values[0], scale))

    def _standardise(self, S: FloatArray) -> FloatArray:
        return standardise(S, self.signal_centre_, self.signal_unit_, "VariationalGP")


def spread_quantiles(n: int) -> FloatArray:
    """Return n pairs of normal quantiles that fill the plane evenly, (n, 2)."""
    steps = np.arange(n) + 0.5
    return ndtri(np.column_stack([steps / n, (steps * GOLDEN) % 1.0]))
