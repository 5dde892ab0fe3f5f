"""Time to fit and to score of each engine on diamonds, as ratios to the default engine.

Run from the repository's root: ``python benchmarks/engine_costs.py``. The table in docs/engines.md.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor
from skpro.regression.bootstrap import BootstrapRegressor
from skpro.regression.ensemble import NGBoostRegressor

from locuscore._distribution import LossDistribution
from locuscore.datasets import load_diamonds
from locuscore.engines import (
    Auto,
    Bagged,
    Ensemble,
    Forest,
    FromSkpro,
    Gaussian,
    QuantileGrid,
    Scale,
)

N_FIT, N_SCORE, REPEATS = 3_000, 3_000, 2
TREE = DecisionTreeRegressor(max_depth=3)
ENGINES: dict[str, Any] = {
    "Forest": Forest(),
    "QuantileGrid": QuantileGrid(),
    "Gaussian": Gaussian(),
    "Scale": Scale(),
    "Bagged(Scale())": Bagged(Scale()),
    "Ensemble([Forest(), QuantileGrid()])": Ensemble([Forest(), QuantileGrid()]),
    "the same, stacked": Ensemble([Forest(), QuantileGrid()], weights="stacked"),
    "Auto": Auto(),
    "FromSkpro, NGBoost": FromSkpro(NGBoostRegressor(estimator=TREE, verbose=False)),
    "FromSkpro, bootstrap": FromSkpro(BootstrapRegressor(DecisionTreeRegressor())),
}


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def bounds(engine: Any, S: np.ndarray) -> np.ndarray:
    return LossDistribution(engine.predict_draws(S)).isf(0.1)


def main() -> None:
    X, y = load_diamonds(as_frame=False)
    rows = np.random.default_rng(0).permutation(len(y))[: N_FIT + N_SCORE]
    S, z = X[rows], np.abs(y[rows] - y.mean())
    fit, score = {}, {}
    for name, engine in ENGINES.items():
        fitted = clone(engine).set_params(random_state=0)
        fit[name] = min(
            seconds(lambda: fitted.fit(S[:N_FIT], z[:N_FIT]))  # noqa: B023 - called at once
            for _ in range(REPEATS)
        )
        score[name] = min(
            seconds(lambda: bounds(fitted, S[N_FIT:]))  # noqa: B023 - at once
            for _ in range(REPEATS)
        )
        ratios = fit[name] / fit["Forest"], score[name] / score["Forest"]
        print(f"| {name} | {ratios[0]:.1f} | {ratios[1]:.1f} |", flush=True)
    print(f"Forest: {fit['Forest']:.2f} s to fit, {score['Forest']:.2f} s to score", flush=True)


if __name__ == "__main__":
    main()
