"""One row through the `Scorer`: prediction, two bounds, score and flag."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.linear_model import LinearRegression

from benchmarks.speed.figures import Figure, in_turns, ratios
from benchmarks.speed.subjects import diamonds
from locuscore import Locus, Scorer

TITLE = "One row"
ABOUT = (
    "Median of 500 calls in each round, each on another row: the default engine with its second "
    'opinion, two bounds, score and flag. "Above g" is the call minus g\'s own `predict` of that '
    "row. Diamonds, 10,000 labelled rows; LightGBM has 300 trees and one thread."
)
ROUNDS, CALLS = 7, 500
ALPHAS = (0.1, 0.05)
NAMES = [f"x{j}" for j in range(9)]
MILLISECONDS = 1e3


def scorer(g: Any, X: Any, y: np.ndarray) -> Scorer:
    locus = Locus(g, random_state=0).fit(X, y)
    return Scorer(locus, locus.tau_rule(tau=1000, alpha=0.1), alphas=ALPHAS)


def framed(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


def on_new_rows(function: Callable[[Any], object], rows: list[Any]) -> Callable[[], object]:
    """Call the function on the next row, and from the first again after the last."""
    state = [0]

    def call() -> object:
        state[0] = (state[0] + 1) % len(rows)
        return function(rows[state[0]])

    return call


def figures() -> Iterator[Figure]:
    (X, y), (X_labelled, y_labelled) = diamonds().train, diamonds().labelled
    new = diamonds().new[:CALLS]
    arrays = [new[i : i + 1] for i in range(CALLS)]
    frames = [framed(row) for row in arrays]
    linear, linear_named = LinearRegression().fit(X, y), LinearRegression().fit(framed(X), y)
    boosted = LGBMRegressor(n_estimators=300, n_jobs=1, verbose=-1, random_state=0).fit(X, y)
    on_array = scorer(linear, X_labelled, y_labelled)
    on_frame = scorer(linear_named, framed(X_labelled), y_labelled)
    on_boosted = scorer(boosted, X_labelled, y_labelled)
    calls = {
        "array": on_new_rows(on_array, arrays),
        "linear, array": on_new_rows(linear.predict, arrays),
        "frame": on_new_rows(on_frame, frames),
        "linear, frame": on_new_rows(linear_named.predict, frames),
        "LightGBM g": on_new_rows(on_boosted, arrays),
        "wrapper": on_new_rows(boosted.predict, arrays),
        "Booster": on_new_rows(lambda row: boosted.booster_.predict(row, num_threads=1), arrays),
    }
    times = in_turns(calls, ROUNDS, CALLS)

    def above(what: str, ours: str, g: str, most: float | None) -> Figure:
        pairs = zip(times[ours], times[g], strict=True)
        values = tuple(MILLISECONDS * (own - base) for own, base in pairs)
        return Figure(f"{what}, above g", values, most=most, unit="ms")

    yield above("`Scorer` on an array, linear g", "array", "linear, array", 1.0)
    yield above("`Scorer` on a one-row frame, linear g", "frame", "linear, frame", 1.5)
    yield above("`Scorer` on an array, LightGBM as g", "LightGBM g", "wrapper", 1.0)
    for rival in ("wrapper", "Booster"):
        for ours in ("array", "frame"):
            yield ratios(
                f"`Scorer` on {'an' if ours == 'array' else 'a one-row'} {ours}, g included",
                times[ours],
                times[rival],
                f"LightGBM's {rival}",
            )
    for name in ("linear, array", "linear, frame", "wrapper", "Booster"):
        values = tuple(MILLISECONDS * value for value in times[name])
        yield Figure(f"`predict` of one row: {name}", values, unit="ms")
