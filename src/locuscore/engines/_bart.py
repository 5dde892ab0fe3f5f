"""BART: heteroskedastic sums of trees on stochtree; one normal law per posterior draw."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from stochtree import BARTModel

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.checks import check_no_missing
from locuscore._shared.kept import Kept
from locuscore._shared.progress import spinner
from locuscore._shared.seeds import spawn_seeds
from locuscore.draws import NormalDraws
from locuscore.engines._convergence import largest_split_rhat, warn_if_apart
from locuscore.engines._stochtree_forests import Forests
from locuscore.engines._target import Target

WARM_STARTS = 10  # grow-from-root sweeps; each chain starts from one of the last


@dataclass(eq=False, repr=False)
class BART(BaseEstimator):
    """Bayesian additive regression trees for the location and the log scale of the loss.

    ``T(Z) ~ Normal(m(x), s(x))`` with m a sum and s a product of trees. Every kept sweep of the
    sampler is one draw, so the average and the gamma-envelope need no further sampling. With T the
    identity, this is the paper's model; `PyMCBART` is the same model on the paper's own, slower
    backend. Missing values are refused.

    Parameters
    ----------
    n_draws
        Draws kept, of all chains together.
    n_chains
        Independent chains, at most 10.
    n_trees
        Trees for the location, and as many for the scale.
    transform
        T: ``"identity"``, ``"sqrt"`` or ``"log"`` (of one plus the loss over its mean), each
        extended to negative losses as an odd function; the transformation back is exact. On the
        benchmark sets the identity has the lowest held-out pinball loss inside D1, by a small
        margin; the others have a better CRPS.
    n_burn
        Sweeps each chain discards after its warm start.
    thin
        Sweeps per draw that is kept.
    n_cutpoints
        Splits tried per feature while the warm start grows its trees; the draws that follow split
        anywhere. The warm start takes time in proportion, with 100 more than all draws together.
    n_threads
        Threads of the sampler; -1 for all.
    random_state
        Seed of the sampler.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.engines import BART
    >>> S = np.random.default_rng(0).uniform(size=(80, 2))
    >>> engine = BART(n_draws=20, n_trees=10, n_burn=0, thin=1, random_state=0).fit(S, S[:, 0])
    >>> engine.predict_draws(S[:3]).shape
    (3, 20)
    """

    ARCHIVE = Kept("BART", fields=("target_", "forests_"), holds=(Target, Forests))

    n_draws: int = 100
    _: KW_ONLY
    n_chains: int = 2
    n_trees: int = 100
    transform: str = "identity"
    n_burn: int = 20
    thin: int = 1
    n_cutpoints: int = 20
    n_threads: int = 1
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Run the sampler on the standardised losses and keep its forests."""
        self._check_parameters()
        check_no_missing(S, "BART")
        self.target_ = Target.learn(z, self.transform)
        # Equal losses say nothing about the rows; the trees would split on noise.
        rows = S if np.ptp(z) else np.zeros_like(S)
        model = BARTModel()
        sweeps = self.n_chains * self.n_burn + self.n_draws * self.thin
        with spinner(f"BART: {sweeps} sweeps over {len(z)} rows"):
            model.sample(
                np.ascontiguousarray(rows, dtype=np.float64),
                self.target_.forward(z),
                num_gfr=WARM_STARTS,
                num_burnin=self.n_burn,
                num_mcmc=-(-self.n_draws // self.n_chains),  # rounded up; the surplus is dropped
                **self._settings(len(z)),
            )
        log_scale = 0.5 * np.log(model.sigma2_x_train)
        self.split_rhat_ = largest_split_rhat(model.y_hat_train, log_scale, self.n_chains)
        warn_if_apart(self.split_rhat_, "BART", "a larger thin or n_burn")
        mean, variance = model.forest_container_mean, model.forest_container_variance
        self.forests_ = Forests(mean, variance, S.shape[1])
        self.forests_.keep(self.n_draws)
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return one law per row and kept draw."""
        check_is_fitted(self)
        check_no_missing(S, "BART")
        location, variance = self.forests_.predict(S)
        return self.target_.laws(NormalDraws(location, np.sqrt(variance)))

    def _settings(self, n: int) -> dict[str, dict[str, Any]]:
        """Parameters of the sampler for n losses of mean 0 and deviation 1."""
        general = {
            # Losses are standardised already; stochtree would divide by zero if all are equal.
            "standardize": False,
            "sigma2_init": 1.0,
            "sample_sigma2_global": False,  # the variance forest holds the scale
            "num_chains": self.n_chains,
            "keep_every": self.thin,
            "cutpoint_grid_size": self.n_cutpoints,
            "num_threads": self.n_threads,
            "random_seed": spawn_seeds(self.random_state, 1)[0],
        }
        # A tree needs room for one split, even among ten rows.
        trees = {"num_trees": self.n_trees, "min_samples_leaf": min(5, (n - 1) // 2)}
        # A sum of n_trees leaf values then has prior variance 1, that of the standardised losses.
        share = 1.0 / self.n_trees
        return {
            "general_params": general,
            "mean_forest_params": trees | {"sigma2_leaf_init": share, "sigma2_leaf_scale": share},
            # stochtree's default is 0.6 of the variance, which is zero if all losses are equal.
            "variance_forest_params": trees | {"var_forest_leaf_init": 0.6},
        }

    def _check_parameters(self) -> None:
        least = {"n_trees": 1, "thin": 1, "n_burn": 0, "n_chains": 1, "n_cutpoints": 1}
        least |= {"n_draws": self.n_chains}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ValueError(f"{name} must be at least {value}; got {getattr(self, name)}.")
        if self.n_chains > WARM_STARTS:
            raise ValueError(f"n_chains must be at most {WARM_STARTS}; got {self.n_chains}.")
