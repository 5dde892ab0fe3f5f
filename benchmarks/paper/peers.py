"""Other packages on the same splits, each in its best variant for a bound on Z.

Columns "x" is what the paper's engines see; "all" adds g(x) and the spread of g's trees.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.paper.baselines import choose, mean_loss, mean_loss_forest
from benchmarks.paper.protocol import ALPHA, Scores, Task, stopwatch

N_BINS = 5


def mapie_quantiles(task: Task, columns: str) -> Scores:
    """MAPIE: conformalised quantile regression on Z.

    It has no one-sided mode, so the level is 1 - 2 alpha and the upper end is kept.
    """
    from mapie.regression import ConformalizedQuantileRegressor  # noqa: PLC0415 - optional

    d1, d2 = task.split(columns)
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        # As our own QuantileGrid boosts, so that like is compared with like.
        models = [
            HistGradientBoostingRegressor(
                loss="quantile",
                quantile=q,
                max_iter=100,
                learning_rate=0.05,
                max_leaf_nodes=15,
                random_state=task.seed,
            ).fit(choose(d1, columns), d1.z)
            for q in (ALPHA, 1 - ALPHA, 0.5)
        ]
        peer = ConformalizedQuantileRegressor(models, confidence_level=1 - 2 * ALPHA, prefit=True)
        peer.conformalize(choose(d2, columns), d2.z)
    with stopwatch(times, "score"):
        bounds = tuple(
            peer.predict_interval(choose(part, columns), symmetric_correction=False)[1][:, 1, 0]
            for part in (task.validation, task.test)
        )
    return Scores(bounds, is_bound=True, fit_seconds=times["fit"], score_seconds=times["score"])


def crepes_mondrian(task: Task, columns: str) -> Scores:
    """crepes: conformal predictive system on Z, Mondrian by predicted loss."""
    from crepes import WrapRegressor  # noqa: PLC0415 - optional
    from crepes.extras import MondrianCategorizer  # noqa: PLC0415 - optional

    d1, d2 = task.split(columns)
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        peer = WrapRegressor(mean_loss_forest(task.seed))
        peer.fit(choose(d1, columns), d1.z)
        bins = MondrianCategorizer()
        bins.fit(choose(d2, columns), f=peer.learner.predict, no_bins=N_BINS)
        peer.calibrate(choose(d2, columns), d2.z, mc=bins, cps=True)
    rows = [choose(part, columns) for part in (task.validation, task.test)]
    with stopwatch(times, "score"):
        percentile = 100 * (1 - ALPHA)
        bounds = tuple(
            np.ravel(peer.predict_percentiles(part, higher_percentiles=percentile)) for part in rows
        )
    exceedance = tuple(
        np.column_stack(
            [1 - np.ravel(peer.predict_p(part, tau, smoothing=False)) for tau in task.taus]
        )
        for part in rows
    )
    return Scores(
        bounds, exceedance, is_bound=True, fit_seconds=times["fit"], score_seconds=times["score"]
    )


def quantile_forest(task: Task, columns: str) -> Scores:
    """quantile-forest, which needs no calibration, so it sees D1 and D2.

    Trees as in all forests of the rivals: leaves of 5 and half of the features, both better than
    the package's defaults.
    """
    from quantile_forest import RandomForestQuantileRegressor  # noqa: PLC0415 - optional

    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        peer = RandomForestQuantileRegressor(
            100, min_samples_leaf=5, max_features=0.5, n_jobs=1, random_state=task.seed
        ).fit(choose(task.calibration, columns), task.calibration.z)
    rows = [choose(part, columns) for part in (task.validation, task.test)]
    with stopwatch(times, "score"):
        bounds = tuple(np.ravel(peer.predict(part, quantiles=[1 - ALPHA])) for part in rows)
    exceedance = tuple(
        np.column_stack(
            [1 - np.ravel(peer.quantile_ranks(part, np.full(len(part), tau))) for tau in task.taus]
        )
        for part in rows
    )
    return Scores(
        bounds, exceedance, is_bound=True, fit_seconds=times["fit"], score_seconds=times["score"]
    )


def direct_loss_estimation(task: Task, columns: str) -> Scores:
    """LightGBM with its defaults for the mean loss, as NannyML's direct loss estimation does it."""
    from lightgbm import LGBMRegressor  # noqa: PLC0415 - optional

    model = LGBMRegressor(random_state=task.seed, n_jobs=1, verbose=-1)
    return mean_loss(task, model, columns)
