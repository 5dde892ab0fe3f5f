"""Other packages as functions of arrays: signals and losses in, a fitted rival out.

`S` is whatever a benchmark lets a model see of its rows, `z` their losses. Those that calibrate
take D1 and D2, the others one set of rows.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from benchmarks.paper.protocol import ALPHA

N_BINS = 5


@dataclass(frozen=True)
class Rival:
    """A fitted method: a number per row, small is safe, and how likely a loss above tau is."""

    score: Callable[[Any], np.ndarray]  # a bound on the loss, or its mean if `is_bound` is false
    exceedance: Callable[[Any, float], np.ndarray] | None = None
    is_bound: bool = True


def mapie_quantiles(
    S1: np.ndarray, z1: np.ndarray, S2: np.ndarray, z2: np.ndarray, seed: int
) -> Rival:
    """MAPIE: conformalised quantile regression on Z.

    It has no one-sided mode, so the level is 1 - 2 alpha and the upper end is kept.
    """
    from mapie.regression import ConformalizedQuantileRegressor  # noqa: PLC0415 - optional

    # As our own QuantileGrid boosts, so that like is compared with like.
    models = [
        HistGradientBoostingRegressor(
            loss="quantile",
            quantile=q,
            max_iter=100,
            learning_rate=0.05,
            max_leaf_nodes=15,
            random_state=seed,
        ).fit(S1, z1)
        for q in (ALPHA, 1 - ALPHA, 0.5)
    ]
    peer = ConformalizedQuantileRegressor(models, confidence_level=1 - 2 * ALPHA, prefit=True)
    peer.conformalize(S2, z2)
    return Rival(lambda S: peer.predict_interval(S, symmetric_correction=False)[1][:, 1, 0])


def crepes_mondrian(
    S1: np.ndarray, z1: np.ndarray, S2: np.ndarray, z2: np.ndarray, seed: int
) -> Rival:
    """crepes: conformal predictive system on Z, Mondrian by predicted loss."""
    with warnings.catch_warnings():  # its import turns warnings on again that a run has turned off
        from crepes import WrapRegressor  # noqa: PLC0415 - optional
        from crepes.extras import MondrianCategorizer  # noqa: PLC0415 - optional

    peer = WrapRegressor(_forest(seed))
    peer.fit(S1, z1)
    bins = MondrianCategorizer()
    bins.fit(S2, f=peer.learner.predict, no_bins=N_BINS)
    peer.calibrate(S2, z2, mc=bins, cps=True)
    percentile = 100 * (1 - ALPHA)
    return Rival(
        lambda S: np.ravel(peer.predict_percentiles(S, higher_percentiles=percentile)),
        lambda S, tau: 1 - np.ravel(peer.predict_p(S, tau, smoothing=False)),
    )


def quantile_forest(S: np.ndarray, z: np.ndarray, seed: int) -> Rival:
    """quantile-forest, which needs no calibration.

    Trees as in all forests of the rivals: leaves of 5 and half of the features, both better than
    the package's defaults.
    """
    from quantile_forest import RandomForestQuantileRegressor  # noqa: PLC0415 - optional

    # It refuses missing values; below all others, a tree can tell them apart.
    low = np.nanmin(S) - 1.0

    def full(S: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(S), low, S)

    peer = RandomForestQuantileRegressor(
        100, min_samples_leaf=5, max_features=0.5, n_jobs=1, random_state=seed
    ).fit(full(S), z)
    return Rival(
        lambda S: np.ravel(peer.predict(full(S), quantiles=[1 - ALPHA])),
        lambda S, tau: 1 - np.ravel(peer.quantile_ranks(full(S), np.full(len(S), tau))),
    )


def lightgbm_mean_loss(S: np.ndarray, z: np.ndarray, seed: int) -> Rival:
    """LightGBM with its defaults for the mean loss, as NannyML's direct loss estimation does it."""
    from lightgbm import LGBMRegressor  # noqa: PLC0415 - optional

    model = LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1).fit(S, z)
    return Rival(lambda S: np.asarray(model.predict(S)), is_bound=False)


def forest_mean_loss(S: np.ndarray, z: np.ndarray, seed: int) -> Rival:
    """A random forest for the mean loss."""
    return Rival(_forest(seed).fit(S, z).predict, is_bound=False)


def _forest(seed: int) -> RandomForestRegressor:
    return RandomForestRegressor(
        100, min_samples_leaf=5, max_features=0.5, n_jobs=1, random_state=seed
    )
