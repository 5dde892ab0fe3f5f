"""BayesianMDN: mixture density networks from many random starts, one draw each."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.checks import check_count
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds
from locuscore.draws import MixtureDraws
from locuscore.engines._mixture_network import Trained, hidden
from locuscore.engines._network_ensemble import check_members, mixtures, train_members
from locuscore.engines._standard_signals import centre_and_unit, check_present, standardise
from locuscore.engines._target import Target


@dataclass(eq=False, repr=False)
class BayesianMDN(BaseEstimator):
    """Deep ensemble of mixture density networks; one draw per network.

    Each network is that of `MDN`, with dropout in training only. It has a random start of its own
    and leaves out a random fifth of D1, by whose likelihood its training stops. Networks agree
    where D1 determines the distribution of the loss and differ elsewhere, so they stand for draws
    from a posterior over weights (Lakshminarayanan, Pritzel and Blundell, 2017). They are trained
    side by side, which takes two to three times as long as one `MDN`; all randomness is in `fit`.
    Missing signals are refused.

    Parameters
    ----------
    n_draws
        Number of networks.
    n_components
        Normal distributions per mixture.
    n_hidden
        Units of the hidden layer.
    dropout
        Share of hidden units switched off in each step of the training.
    transform
        Scale of the loss: ``"identity"``, ``"sqrt"`` or ``"log"``, as for `BART`.
    learning_rate, weight_decay, batch_size, max_epochs, patience
        Of the training (AdamW). It ends when no network has made progress for `patience` epochs.
    device
        Of the training, as torch names it. Prediction is done by numpy in double precision.
    random_state
        Seed of the held-out rows, the initial weights and the training.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import BayesianMDN
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(300, 1))
    >>> engine = BayesianMDN(4, max_epochs=30, random_state=0)
    >>> draws = engine.fit(S, S[:, 0] * rng.exponential(size=300)).predict_draws(S[:5])
    >>> draws.shape
    (5, 4)
    """

    ARCHIVE = Kept(
        "BayesianMDN",
        fields=("target_", "network_"),
        numbers=("signal_centre_", "signal_unit_"),
        holds=(Target, Trained),
    )

    n_draws: int = 10
    _: KW_ONLY
    n_components: int = 5
    n_hidden: int = 64
    dropout: float = 0.2
    transform: str = "identity"
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    batch_size: int = 128
    max_epochs: int = 500
    patience: int = 30
    device: str = "cpu"
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Train all networks on most rows each."""
        for name in ("n_draws", "n_components", "n_hidden", "batch_size"):
            check_count(getattr(self, name), name)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1); got {self.dropout}.")
        (seed,) = spawn_seeds(self.random_state, 1)
        check_present(S, "BayesianMDN")  # before means of missing values are learned
        self.signal_centre_, self.signal_unit_ = centre_and_unit(S)
        self.target_ = Target.learn(z, self.transform)
        self.network_ = train_members(self, self._standardise(S), self.target_.forward(z), seed)
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return one mixture of normal laws per row and network."""
        check_is_fitted(self)
        parts = mixtures(self.network_.weights, self._standardise(S))
        return self.target_.laws(MixtureDraws(*parts))

    def embed(self, S: FloatArray) -> FloatArray:
        """Hidden layer of the first network, for `KNNGamma`."""
        check_is_fitted(self)
        check_members(self.network_.weights)
        first, bias = (part[0] for part in self.network_.weights[:2])
        return hidden([first, bias], self._standardise(S))

    def _standardise(self, S: FloatArray) -> FloatArray:
        check_present(S, "BayesianMDN")
        return standardise(S, self.signal_centre_, self.signal_unit_, "BayesianMDN")
