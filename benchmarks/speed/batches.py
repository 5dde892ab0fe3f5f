"""Many rows: the engine's own part and that of the second opinion beside other packages."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from crepes import WrapRegressor
from quantile_forest import RandomForestQuantileRegressor
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_limits

from benchmarks.rivals import mapie_quantiles
from benchmarks.speed.figures import Figure, in_turns, ratios, two_processes
from benchmarks.speed.subjects import (
    ALPHA,
    diamonds,
    fitted,
    linear,
    with_numba,
    without_numba,
)
from locuscore import Locus
from locuscore.engines import Forest

TITLE = "Batches"
ABOUT = (
    "10,000 new rows of diamonds in one call; every model has learned the losses of the same D1 "
    "from the same signals, with 100 trees. The engine's own part is `loss_bound` minus "
    "`row_signals`, the second opinion's is `row_signals` minus g's `predict`. Forests of the "
    "rivals have the leaves of our default (3 rows, half of the features) or, where it is said, "
    "their package's own settings. Lines with numba are the extra `fast`, the others the core "
    "alone. Two threads are timed by the clock on the wall, beside what two processes that share "
    "nothing reach on the same two cores."
)
ROUNDS = 7
N_NEW = 10_000
TREES = {"n_estimators": 100, "min_samples_leaf": 3, "max_features": 0.5, "random_state": 0}
OWN = {"n_estimators": 100, "random_state": 0}
TEN_ALPHAS = np.linspace(0.05, 0.5, 10)


def rivals(locus: Locus, S: np.ndarray) -> dict[str, Callable[[], object]]:
    """Other packages on the rows and signals that the engine has learned from."""
    X, y = diamonds().labelled
    z = np.abs(y - linear().predict(X))
    z1, z2 = z[locus.fit_rows_], z[locus.calibration_rows_]
    S1, S2 = locus.fit_signals_, locus.calibration_signals_
    made: dict[str, Callable[[], object]] = {}
    for ending, how in (("", TREES), (", its own settings", OWN)):
        quantiles = RandomForestQuantileRegressor(**how).fit(S1, z1)
        forest = RandomForestRegressor(**how).fit(S1, z1)
        made[f"quantile-forest{ending}"] = lambda m=quantiles: m.predict(S, quantiles=[1 - ALPHA])
        made[f"`RandomForestRegressor.predict`{ending}"] = lambda m=forest: m.predict(S)
    wrapped = WrapRegressor(RandomForestRegressor(**TREES))
    wrapped.fit(S1, z1)
    wrapped.calibrate(S2, z2, cps=True)
    percentile = 100 * (1 - ALPHA)
    made["crepes"] = lambda: wrapped.predict_percentiles(S, higher_percentiles=percentile)
    mapie = mapie_quantiles(S1, z1, S2, z2, seed=0)
    made["MAPIE, boosted quantiles"] = lambda: mapie.score(S)
    return made


WAYS = {"": without_numba, " with numba": with_numba}
# The targets of the core are beside the packages as they come, those with numba beside equal trees.
TARGETS = {
    "quantile-forest, its own settings": 0.8,
    "`RandomForestRegressor.predict`, its own settings": 1.0,
    "quantile-forest with numba": 0.8,
    "`RandomForestRegressor.predict` with numba": 1.0,
}


def figures() -> Iterator[Figure]:
    locus, X = fitted(), diamonds().new[:N_NEW]
    others = rivals(locus, locus.row_signals(X))
    calls: dict[str, Callable[[], object]] = {"g": lambda: linear().predict(X), **others}
    for ending, way in WAYS.items():
        calls[f"bound{ending}"] = way(lambda: locus.loss_bound(X, ALPHA))
        calls[f"ten alphas{ending}"] = way(lambda: locus.loss_bound(X, TEN_ALPHAS))
        calls[f"signals{ending}"] = way(lambda: locus.row_signals(X))
    times = {name: np.array(found) for name, found in in_turns(calls, ROUNDS).items()}
    for ending in WAYS:
        yield from beside(others, times, ending)
    with_it, without_it = (list(times[f"bound{ending}"]) for ending in (" with numba", ""))
    yield ratios("`loss_bound` with numba", with_it, without_it, "without")
    yield from two_threads(X)


def beside(others: Iterable[str], times: Mapping[str, np.ndarray], ending: str) -> Iterator[Figure]:
    """One way of scoring beside the others."""
    bound, ten, signals = (times[f"{name}{ending}"] for name in ("bound", "ten alphas", "signals"))
    engine, opinion = bound - signals, signals - times["g"]
    own, whole = f"engine's own part{ending}", f"`loss_bound` as a whole{ending}"
    for name in others:
        most = TARGETS.get(f"{name}{ending}")
        yield ratios(own, list(engine), list(times[name]), name, most=most)
    yield ratios(f"second opinion{ending}", list(opinion), list(engine), own, most=0.5)
    for name in others:
        yield ratios(whole, list(bound), list(times[name]), name)
    yield ratios(f"ten alphas{ending}", list(ten), list(bound), "one", most=1.1)
    for name, found in ((own, engine), (f"second opinion{ending}", opinion)):
        yield Figure(name, tuple(1e6 * found / N_NEW), unit="us a row")


def two_threads(X: np.ndarray) -> Iterator[Figure]:
    """How much faster two threads, and two processes, are than one, on the same fitted engine."""
    engine = Forest(n_jobs=2)
    locus = Locus(linear(), engine=engine, random_state=0).fit(*diamonds().labelled)
    many = np.tile(X, (5, 1))

    def bounds(n_jobs: int) -> Callable[[], Any]:
        def call() -> Any:
            locus.engine_.n_jobs = n_jobs
            # The boosted trees of the second opinion have threads of their own.
            with threadpool_limits(n_jobs, user_api="openmp"):
                return locus.loss_bound(many, ALPHA)

        return call

    locus.engine_.n_jobs = 1
    halves = tuple(np.array_split(many, 2))
    for ending, way in WAYS.items():
        score = way(lambda rows: locus.loss_bound(rows, ALPHA))
        with two_processes(score, halves) as processes:
            calls = {"one": way(bounds(1)), "two": way(bounds(2)), "processes": processes}
            times = in_turns(calls, ROUNDS, clock=time.perf_counter)
        for what, name, least in (
            ("rows a second on two threads, 50,000 rows", "two", 1.8),
            ("rows a second in two processes that share nothing", "processes", None),
        ):
            unit = "one thread" + ending
            yield ratios(what + ending, times["one"], times[name], unit, least=least)
