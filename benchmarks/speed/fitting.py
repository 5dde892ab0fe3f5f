"""`Locus.fit` beside quantile-forest's, with and without the second opinion."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from quantile_forest import RandomForestQuantileRegressor
from sklearn.ensemble import RandomForestRegressor

from benchmarks.speed.batches import OWN, TREES
from benchmarks.speed.figures import Figure, in_turns, ratios
from benchmarks.speed.subjects import diamonds, linear
from locuscore import Locus

TITLE = "Fit"
ABOUT = (
    "All 10,000 labelled rows of diamonds, linear g, 100 trees: `Locus.fit` splits, learns the "
    "second opinion, fits the engine and calibrates; quantile-forest learns the losses from x. "
    "Its trees have the leaves of our default, or the package's own."
)
ROUNDS = 3
WITH, WITHOUT = "`Locus.fit`", "`Locus.fit` without second opinion"


def figures() -> Iterator[Figure]:
    (X, y), g = diamonds().labelled, linear()
    z = np.abs(y - g.predict(X))

    def ours(signals: Any) -> Callable[[], object]:
        return lambda: Locus(g, signals=signals, random_state=0).fit(X, y)

    calls = {
        WITH: ours("all"),
        WITHOUT: ours(["x", "predictor"]),
        "quantile-forest": lambda: RandomForestQuantileRegressor(**TREES).fit(X, z),
        "quantile-forest, its own settings": lambda: RandomForestQuantileRegressor(**OWN).fit(X, z),
        "`RandomForestRegressor.fit`": lambda: RandomForestRegressor(**TREES).fit(X, z),
    }
    times = in_turns(calls, ROUNDS)
    for name in list(calls)[2:]:
        most = 1.2 if name == "quantile-forest, its own settings" else None
        yield ratios(WITH, times[WITH], times[name], name, most=most)
        yield ratios(WITHOUT, times[WITHOUT], times[name], name)
    yield ratios(WITH, times[WITH], times[WITHOUT], WITHOUT)
    yield Figure(WITH, tuple(times[WITH]), unit="s")
