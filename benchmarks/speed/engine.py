"""Where the time of the default engine goes, in a batch and on one row, with and without numba."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.speed.figures import Figure, in_turns
from benchmarks.speed.subjects import ALPHA, diamonds, fitted, linear, with_numba, without_numba
from locuscore import Locus

TITLE = "Where the time goes"
ABOUT = (
    "Parts of `loss_bound` on the same rows of diamonds, for the default engine with its second "
    "opinion and a linear g. Points are the order statistics and losses that a row finds in its "
    "leaves, and the bound is one of them. One row is scored without numba in any case."
)
ROUNDS, N_NEW, TEN_ALPHAS = 7, 10_000, np.linspace(0.05, 0.5, 10)
Call = Callable[[], object]


def stages(locus: Locus, X: np.ndarray) -> dict[str, Call]:
    """Parts of the work, each with all that comes before it but for the signals."""
    engine, model = locus.engine_, locus.loss_model_
    S = locus.row_signals(X)
    one, ten = (
        np.atleast_2d(locus.calibration_.level(np.atleast_1d(alpha), None))
        for alpha in (ALPHA, TEN_ALPHAS)
    )
    return {
        "g": lambda: linear().predict(X),
        "signals": lambda: locus.row_signals(X),
        "leaves": lambda: engine._places(S),
        "one bound": lambda: model.dist(S).isf(one),
        "ten bounds": lambda: model.dist(S).isf(ten),
        "all": lambda: locus.loss_bound(X, ALPHA),
    }


def parts(times: dict[str, np.ndarray], ending: str, unit: str) -> Iterator[Figure]:
    """What each stage adds to the one before it."""
    found = {
        "g": times["g"],
        "second opinion": times["signals"] - times["g"],
        "the leaf of each tree": times["leaves"],
        "points and one bound": times["one bound"] - times["leaves"],
        "nine more bounds": times["ten bounds"] - times["one bound"],
        "checks and all else": times["all"] - times["signals"] - times["one bound"],
        "`loss_bound` with one bound": times["all"],
    }
    for name, values in found.items():
        yield Figure(f"{name}{ending}", tuple(values), unit=unit)


def figures() -> Iterator[Figure]:
    locus, new = fitted(), diamonds().new
    ways = {", 10,000 rows": without_numba, ", 10,000 rows with numba": with_numba}
    batch = stages(locus, new[:N_NEW])
    calls = {
        f"{name}{ending}": way(call) for name, call in batch.items() for ending, way in ways.items()
    }
    times = in_turns(calls, ROUNDS)
    for ending in ways:
        each = {name: 1e6 * np.array(times[f"{name}{ending}"]) / N_NEW for name in batch}
        yield from parts(each, ending, "us a row")
    one = in_turns(stages(locus, new[:1]), ROUNDS, calls=200)
    yield from parts({name: 1e3 * np.array(t) for name, t in one.items()}, ", one row", "ms")
