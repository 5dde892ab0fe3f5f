"""Where the time of the default engine goes, on one row and in a batch, beside its rivals.

The rivals have learned the losses of the same D1 from the same signals, with as many trees and the
same leaves. Stages are timed in turns, in processor time; a figure is the median of its rounds.
"""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from quantile_forest import RandomForestQuantileRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from locuscore import Locus
from locuscore.datasets import load_diamonds
from locuscore.draws import average

N_PREDICTOR, N_LABELLED = 5_000, 10_000
ALPHA, TEN_ALPHAS = 0.1, np.linspace(0.05, 0.5, 10)
TREES = {"n_estimators": 100, "min_samples_leaf": 3, "max_features": 0.5, "random_state": 0}
Call = Callable[[], object]


def fitted() -> tuple[Locus, np.ndarray]:
    """A default `Locus` for a linear predictor on diamonds, and new rows."""
    X, y = load_diamonds(as_frame=False)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    g = LinearRegression().fit(X[:N_PREDICTOR], y[:N_PREDICTOR])
    labelled = slice(N_PREDICTOR, N_PREDICTOR + N_LABELLED)
    locus = Locus(g, random_state=0).fit(X[labelled], y[labelled])
    z = locus.losses(X[labelled], y[labelled])
    locus.losses_of_fit_rows = z[locus.fit_rows_]
    return locus, X[labelled.stop :]


def stages(locus: Locus, S: np.ndarray) -> dict[str, Call]:
    """Parts of the work on rows given by their signals, each with all that comes before it."""
    engine, model, opinion = locus.engine_, locus.loss_model_, locus.signals_.opinion.part
    level, ten = (
        np.atleast_2d(locus.calibration_.level(np.atleast_1d(alpha), None))
        for alpha in (ALPHA, TEN_ALPHAS)
    )
    seen = S[:, : opinion.model.n_features_in_]
    tau = np.array([[float(np.median(locus.losses_of_fit_rows))]])
    return {
        "second opinion": lambda: opinion.columns(seen, None),
        "leaves": lambda: engine._places(S),
        "laws, one bound": lambda: model.dist(S).isf(level),
        "laws, ten bounds": lambda: model.dist(S).isf(ten),
        "laws, one bound and one survival": lambda: _both(model.dist(S), level, tau),
        "mean law": lambda: average(engine.predict_draws(S)),
    }


def _both(law: object, level: np.ndarray, tau: np.ndarray) -> None:
    law.isf(level)
    law.sf(tau)


def rivals(locus: Locus, S: np.ndarray) -> dict[str, Call]:
    """Forests of others on the rows and signals that the engine has learned from."""
    S1, z1 = locus.fit_signals_, locus.losses_of_fit_rows
    quantiles = RandomForestQuantileRegressor(**TREES).fit(S1, z1)
    forest = RandomForestRegressor(**TREES).fit(S1, z1)
    return {
        "quantile-forest": lambda: quantiles.predict(S, quantiles=[1 - ALPHA]),
        "RandomForestRegressor.predict": lambda: forest.predict(S),
    }


def in_turns(calls: dict[str, Call], n_rounds: int) -> dict[str, float]:
    """Median seconds of processor time of each call."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(n_rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            found[name].append(time.process_time() - start)
    return {name: median(times) for name, times in found.items()}


def rows(n_new: int = 20_000, n_rounds: int = 5) -> list[tuple[str, float, str]]:
    """All figures: what, how much, and its unit."""
    locus, X = fitted()
    S = locus.row_signals(X[:n_new])
    batch = in_turns(stages(locus, S) | rivals(locus, S), n_rounds)
    one = in_turns(stages(locus, S[:1]), 40 * n_rounds)
    return [
        *(
            (f"{n_new:,} rows: {name}", 1e6 * time / n_new, "us a row")
            for name, time in batch.items()
        ),
        *((f"one row: {name}", 1e3 * time, "ms") for name, time in one.items()),
    ]
