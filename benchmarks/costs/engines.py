"""Time to fit and to score of each engine on diamonds, in units of the default's.

The source of the table in docs/engines.md. Run ``make costs-engines``; about ten minutes on one
core.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor
from skpro.regression.bootstrap import BootstrapRegressor
from skpro.regression.ensemble import NGBoostRegressor

from benchmarks.pages import write_section
from locuscore import KNNGamma, Locus
from locuscore.datasets import load_diamonds
from locuscore.engines import (
    BART,
    MDN,
    Auto,
    Bagged,
    BayesianMDN,
    Ensemble,
    FlexCode,
    Flow,
    Forest,
    FromSkpro,
    Gaussian,
    QuantileGrid,
    Scale,
    VariationalGP,
)

PAGE = Path(__file__).with_name("RESULTS.md")
N_FIT, N_SCORE, REPEATS = 3_000, 3_000, 3
MANY = np.linspace(0.02, 0.5, 10)
TREE = DecisionTreeRegressor(max_depth=3)
CLOSED_FORM = "closed form"
# Engine, whether to use gamma, and how its averaged law is inverted.
ENGINES: dict[str, tuple[Any, bool, str]] = {
    "Forest": (Forest(), False, CLOSED_FORM),
    "Forest, gamma": (Forest(), True, CLOSED_FORM),
    "QuantileGrid": (QuantileGrid(), False, CLOSED_FORM),
    "FlexCode": (FlexCode(), False, CLOSED_FORM),
    "Gaussian": (Gaussian(), False, CLOSED_FORM),
    "Scale": (Scale(), False, CLOSED_FORM),
    "Bagged(Scale())": (Bagged(Scale()), False, "search"),
    "Ensemble([Forest(), QuantileGrid()])": (Ensemble([Forest(), QuantileGrid()]), False, "search"),
    "the same, stacked": (
        Ensemble([Forest(), QuantileGrid()], weights="stacked"),
        False,
        "search",
    ),
    "Auto": (Auto(), False, "search"),
    "BART": (BART(), False, "search"),
    "BART, gamma": (BART(), True, CLOSED_FORM),
    "MDN": (MDN(), False, "search"),
    "MDN, gamma": (MDN(), True, "search"),
    "Flow": (Flow(), False, "search"),
    "Flow, gamma": (Flow(), True, CLOSED_FORM),
    "VariationalGP": (VariationalGP(), False, "search"),
    "VariationalGP, gamma": (VariationalGP(), True, CLOSED_FORM),
    "BayesianMDN": (BayesianMDN(), False, "search"),
    "BayesianMDN, gamma": (BayesianMDN(), True, "search"),
    "FromSkpro, NGBoost": (
        FromSkpro(NGBoostRegressor(estimator=TREE, verbose=False)),
        False,
        CLOSED_FORM,
    ),
    "FromSkpro, bootstrap": (
        FromSkpro(BootstrapRegressor(DecisionTreeRegressor())),
        False,
        CLOSED_FORM,
    ),
}


def seconds(function: Callable[[], object]) -> float:
    """Time of the processor: the engines run on one thread, and other work does not count."""
    start = time.process_time()
    function()
    return time.process_time() - start


def fastest(function: Callable[[], object], repeats: int = REPEATS) -> float:
    return min(seconds(function) for _ in range(repeats))


def measure(engine: Any, with_gamma: bool, S: np.ndarray, z: np.ndarray) -> tuple[float, ...]:
    """Seconds to fit on D1, to score one alpha and to score ten."""
    single = clone(engine).set_params(random_state=0)
    fit = fastest(lambda: single.fit(S[:N_FIT], z[:N_FIT]), 1)
    locus = Locus(
        None,
        engine=engine,
        gamma=KNNGamma() if with_gamma else None,
        signals="x",
        calibration_size=0.2,
        random_state=0,
    ).fit_losses(S[:N_FIT], z[:N_FIT])
    new = S[N_FIT:]
    one = fastest(lambda: locus.loss_bound(new, 0.1))
    return fit, one, fastest(lambda: locus.loss_bound(new, MANY))


def main() -> None:
    X, y = load_diamonds(as_frame=False)
    rows = np.random.default_rng(0).permutation(len(y))[: N_FIT + N_SCORE]
    S, z = X[rows], np.abs(y[rows] - y.mean())
    lines = [
        "## Engines",
        "",
        f"Made by `make costs-engines`: {N_FIT:,} rows of diamonds to fit, {N_SCORE:,} to score, "
        "one thread, processor time. Fit (the engine alone) and score (`loss_bound` at one alpha) "
        "are in units of `Forest`'s; the last column is the cost of ten alphas over that of one, "
        "target at most 1.5 where laws are inverted in closed form and 5 where the inverse is "
        "searched.",
        "",
        "| engine | inverse | fit | score | ten alphas |",
        "|---|---|---|---|---|",
    ]
    unit: tuple[float, ...] | None = None
    for name, (engine, with_gamma, inverse) in ENGINES.items():
        with warnings.catch_warnings(action="ignore"):
            fit, one, ten = measure(engine, with_gamma, S, z)
        unit = unit or (fit, one)
        cells = f"{fit / unit[0]:.1f} | {one / unit[1]:.1f} | {ten / one:.2f}"
        lines.append(f"| `{name}` | {inverse} | {cells} |")
        print(lines[-1], flush=True)
    assert unit is not None
    lines += ["", f"`Forest`: {unit[0]:.2f} s to fit, {unit[1]:.2f} s to score.", ""]
    write_section(PAGE, lines)


if __name__ == "__main__":
    main()
