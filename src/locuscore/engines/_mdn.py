"""MDN: a mixture density network whose dropout masks are drawn once and kept."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds
from locuscore.draws import MixtureDraws
from locuscore.engines._mixture_network import Trained, hidden, mixture, train
from locuscore.engines._standard_signals import centre_and_unit, check_present, standardise
from locuscore.engines._target import Target

HELD_OUT_SHARE = 0.2


@dataclass(eq=False, repr=False)
class MDN(BaseEstimator):
    """Mixture density network with Monte-Carlo dropout; one draw per dropout mask.

    A hidden layer gives weights, locations and scales of `n_components` normal distributions,
    fitted by maximum likelihood with dropout on the hidden units. Each of `n_draws` masks, drawn in
    `fit` and stored, is one draw: a mixture in closed form. Mixtures are evaluated and never
    sampled, so results are repeatable and tails carry no Monte-Carlo noise. Training stops when the
    likelihood of held-out rows of D1 stops growing, and the best epoch is kept. Missing signals are
    refused.

    Parameters
    ----------
    n_draws
        Number of dropout masks.
    n_components
        Normal distributions per mixture.
    n_hidden
        Units of the hidden layer.
    dropout
        Share of hidden units switched off in each pass.
    transform
        Scale of the loss: ``"identity"``, ``"sqrt"`` or ``"log"``, as for `BART`.
    learning_rate, weight_decay, batch_size, max_epochs, patience
        Of the training (AdamW); `patience` is the number of epochs without progress.
    device
        Of the training, as torch names it. Prediction is done by numpy in double precision.
    random_state
        Seed of the held-out rows, the initial weights, the training and the masks.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import MDN
    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(size=(200, 2))
    >>> z = S[:, 0] * rng.exponential(size=200)
    >>> engine = MDN(n_draws=5, max_epochs=2, random_state=0).fit(S, z)
    >>> engine.predict_draws(S[:3]).shape
    (3, 5)
    """

    ARCHIVE = Kept(
        "MDN",
        fields=("target_", "network_"),
        numbers=("signal_centre_", "signal_unit_", "masks_"),
        holds=(Target, Trained),
    )

    n_draws: int = 500
    _: KW_ONLY
    n_components: int = 5
    n_hidden: int = 64
    dropout: float = 0.4
    transform: str = "identity"
    learning_rate: float = 4e-3
    weight_decay: float = 1e-4
    batch_size: int = 256
    max_epochs: int = 500
    patience: int = 20
    device: str = "cpu"
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Train the network on most rows, stop by the rest, and keep the dropout masks."""
        if self.n_draws < 1 or self.n_components < 1 or not 0 <= self.dropout < 1:
            raise ValueError(
                "n_draws and n_components must be at least 1 and dropout in [0, 1); got "
                f"{self.n_draws}, {self.n_components}, {self.dropout}."
            )
        check_present(S, "MDN")
        row_seed, mask_seed, seed = spawn_seeds(self.random_state, 3)
        self.target_ = Target.learn(z, self.transform)
        self.signal_centre_, self.signal_unit_ = centre_and_unit(S)
        # The masks are drawn once, so that nothing is random after fit. Units that stay are
        # enlarged, so that the expected input of the next layer is the same with and without
        # dropout.
        units = np.random.default_rng(mask_seed).random((self.n_draws, self.n_hidden))
        self.masks_ = (units >= self.dropout) / (1.0 - self.dropout)
        n_out = max(1, round(HELD_OUT_SHARE * len(z)))
        self.held_out_rows_ = np.random.default_rng(row_seed).permutation(len(z))[:n_out]
        signals, losses = self._standardise(S), self.target_.forward(z)
        self.network_ = train(self, signals, losses, self.masks_, self.held_out_rows_, seed)
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return one mixture of normal laws per row and mask."""
        check_is_fitted(self)
        check_present(S, "MDN")
        parts = mixture(self.network_.weights, self._standardise(S), self.masks_)
        return self.target_.laws(MixtureDraws(*parts))

    def embed(self, S: FloatArray) -> FloatArray:
        """Hidden layer of each row, for `KNNGamma`."""
        check_is_fitted(self)
        check_present(S, "MDN")
        return hidden(self.network_.weights, self._standardise(S))

    def _standardise(self, S: FloatArray) -> FloatArray:
        return standardise(S, self.signal_centre_, self.signal_unit_, "MDN")
