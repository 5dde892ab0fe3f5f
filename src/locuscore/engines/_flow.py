"""Flow: an ensemble of conditional spline flows, evaluated in closed form."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds
from locuscore.draws import SplineDraws
from locuscore.engines._flow_network import splines, train
from locuscore.engines._mixture_network import Trained
from locuscore.engines._standard_signals import centre_and_unit, check_present, standardise
from locuscore.engines._target import Target

HELD_OUT_SHARE = 0.2


@dataclass(eq=False, repr=False)
class Flow(BaseEstimator):
    """Conditional normalising flow; one draw per member of an ensemble of small ones.

    A network turns the signals into an increasing function ``T(. | x)``, a shift and a scale
    followed by a rational-quadratic spline, under which the loss is standard normal: ``P(Z > z | x)
    = Phi(-T(z | x))``. Survival and its inverse are closed forms, so nothing is sampled. Each of
    `n_draws` networks has its own initial weights and its own fifth of D1 held out, and stops where
    the likelihood of those rows is best; what the members disagree about is what D1 does not say.

    The distribution has a density. Losses are blurred by a twentieth of their standard deviation in
    training, so an atom (losses that are exactly zero, a 0-1 loss) becomes a steep rise that is
    about as narrow; calibration counts the ties. Missing signals are refused.

    Parameters
    ----------
    n_draws
        Members of the ensemble.
    n_bins
        Pieces of the spline, at least 2.
    n_hidden
        Units of each of the two hidden layers.
    transform
        Scale of the loss: ``"identity"``, ``"sqrt"`` or ``"log"``, as for `BART`.
    learning_rate, weight_decay, batch_size, max_epochs, patience
        Of the training (AdamW); `patience` is the number of epochs without progress.
    device
        Of the training, as torch names it. Prediction is done by numpy in double precision.
    random_state
        Seed of the held-out rows, the initial weights and the training.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import Flow
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = Flow(n_draws=2, max_epochs=2, random_state=0).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 2)
    """

    ARCHIVE = Kept(
        "Flow",
        fields=("target_", "network_"),
        numbers=("signal_centre_", "signal_unit_"),
        holds=(Target, Trained),
    )

    n_draws: int = 8
    _: KW_ONLY
    n_bins: int = 8
    n_hidden: int = 32
    transform: str = "identity"
    learning_rate: float = 5e-3
    weight_decay: float = 1e-2
    batch_size: int = 256
    max_epochs: int = 300
    patience: int = 10
    device: str = "cpu"
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Train the members, each on most rows, and stop each one by the rest."""
        if self.n_draws < 1 or self.n_bins < 2 or self.n_hidden < 1:
            raise ValueError(
                "n_draws and n_hidden must be at least 1 and n_bins at least 2; got "
                f"{self.n_draws}, {self.n_hidden}, {self.n_bins}."
            )
        check_present(S, "Flow")
        row_seed, seed = spawn_seeds(self.random_state, 2)
        self.target_ = Target.learn(z, self.transform)
        self.signal_centre_, self.signal_unit_ = centre_and_unit(S)
        n_out = max(1, round(HELD_OUT_SHARE * len(z)))
        random = np.random.default_rng(row_seed)
        parts = [random.permutation(len(z))[:n_out] for _ in range(self.n_draws)]
        self.held_out_rows_ = np.array(parts)
        signals, losses = self._standardise(S), self.target_.forward(z)
        self.network_ = train(self, signals, losses, self.held_out_rows_, seed)
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return one spline to the normal law per row and member."""
        check_is_fitted(self)
        check_present(S, "Flow")
        return self.target_.laws(SplineDraws(*splines(self.network_.weights, self._standardise(S))))

    def _standardise(self, S: FloatArray) -> FloatArray:
        return standardise(S, self.signal_centre_, self.signal_unit_, "Flow")
