"""PyMCBART: the paper's own backend, for fidelity and comparison."""

import sys
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pymc as pm
import pymc_bart as pmb
from joblib import Parallel, delayed
from numba import njit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from locuscore._protocols import FloatArray, LossDraws
from locuscore._shared.checks import check_no_missing
from locuscore._shared.seeds import global_seed, spawn_seeds
from locuscore.draws import NormalDraws
from locuscore.engines._convergence import largest_split_rhat, warn_if_apart
from locuscore.engines._target import Target

LOG_OFFSET = 0.1  # keeps losses at the mean from ruling the start of the log scale


@dataclass(eq=False, repr=False)
class PyMCBART(BaseEstimator):
    """The paper's loss model: two sums of trees on pymc-bart and a normal likelihood.

    ``Z ~ Normal(m(x), exp(s(x)))`` with m and s of `n_trees` trees each. The trees of the kept
    draws are stored by `fit`, so prediction runs no sampler. Slow: `BART` is the same model on a
    faster backend. Missing values are refused.

    Parameters
    ----------
    n_draws
        Draws kept, of all chains together, evenly spaced in each.
    n_chains, n_samples, n_tune
        Chains, and iterations of each that may be kept or only tune the sampler. The defaults
        are the paper's.
    n_trees
        Trees for the location, and as many for the log scale.
    n_jobs
        Chains run at a time.
    random_state
        Seed of the sampler.

    Examples
    --------
    ::

        Locus(g, engine=PyMCBART(n_draws=200), random_state=0).fit(X_cal, y_cal)
    """

    n_draws: int = 200
    _: KW_ONLY
    n_chains: int = 4
    n_samples: int = 2000
    n_tune: int = 1000
    n_trees: int = 100
    n_jobs: int | None = None
    random_state: Any = None

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Run the chains on the standardised losses and keep the trees of evenly spaced draws."""
        per_chain = -(-self.n_draws // self.n_chains)
        if not 1 <= self.n_chains <= self.n_draws or per_chain > self.n_samples:
            raise ValueError(
                "n_draws must lie between n_chains and n_chains * n_samples; got "
                f"{self.n_draws}, {self.n_chains} and {self.n_samples}."
            )
        check_no_missing(S, "PyMCBART")
        self.target_ = Target.learn(z)
        u = self.target_.forward(z)
        # A process per chain, not PyMC's own: their shared lists mix up the draws of the chains.
        run = delayed(_run_chain)
        sizes = (self.n_trees, self.n_tune, self.n_samples, per_chain)
        seeds = spawn_seeds(self.random_state, self.n_chains)
        chains = Parallel(n_jobs=self.n_jobs)(run(S, u, *sizes, seed) for seed in seeds)
        self.trees_ = [draw for trees, *_ in chains for draw in trees][: self.n_draws]
        location, log_scale = (np.hstack([chain[part] for chain in chains]) for part in (1, 2))
        self.split_rhat_ = largest_split_rhat(location, log_scale, self.n_chains)
        warn_if_apart(self.split_rhat_, "PyMCBART", "a larger n_samples or n_tune")
        return self

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Return one normal law per row and kept draw, by adding up the stored trees."""
        check_is_fitted(self)
        check_no_missing(S, "PyMCBART")
        sums = np.empty((2, len(S), len(self.trees_)))
        for j, draw in enumerate(self.trees_):
            for part, trees in enumerate(draw):
                sums[part, :, j] = sum(tree.predict(S)[0] for tree in trees)
        return self.target_.laws(NormalDraws(sums[0], np.exp(sums[1])))


class Kept(list[Any]):
    """Takes the place of pymc-bart's list of all trees, and keeps every `step`-th entry."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step
        self.seen = 0

    def append(self, trees: Any) -> None:
        """Take the trees of one more draw; the sampler goes on to change the array it gives."""
        self.seen += 1
        if self.seen % self.step == 0:
            super().append(trees[0].tolist())


def _run_chain(
    S: FloatArray, u: FloatArray, n_trees: int, n_tune: int, n_samples: int, n_keep: int, seed: int
) -> tuple[list[tuple[Any, Any]], FloatArray, FloatArray]:
    """Trees of the kept draws as (location, log scale); both functions at S, (n, samples)."""
    location, log_scale = (Kept(n_samples // n_keep) for _ in range(2))
    with global_seed(seed), pm.Model():  # pymc-bart 0.11 reads no other generators
        _seed_compiled(seed)
        m = pmb.BART("m", S, u, m=n_trees)
        s = pmb.BART("s", S, np.log(np.abs(u) + LOG_OFFSET), m=n_trees)
        for variable, kept in ((m, location), (s, log_scale)):
            type(variable.owner.op).all_trees = kept
        pm.Normal("u", m, pm.math.exp(s), observed=u)
        trace = pm.sample(
            n_samples,
            tune=n_tune,
            chains=1,
            cores=1,
            random_seed=seed,
            progressbar=sys.stderr.isatty(),
            quiet=not sys.stderr.isatty(),
            compute_convergence_checks=False,
            return_inferencedata=False,
        )
    trees = list(zip(location, log_scale, strict=True))[:n_keep]
    return trees, trace["m"].T, trace["s"].T


def _seed(seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002 - the only generator that compiled code has


_seed_compiled = njit(_seed)
