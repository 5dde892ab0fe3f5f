"""`BART` beside `PyMCBART`, the paper's backend, on the same D1.

Run ``make costs-bart``. Each finished fit is one line of bart.jsonl and is not run again; remove
lines to repeat them. PyMC takes several minutes for a split of `concrete` and most of an hour for
one of `bike`.
"""

import json
import os
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor

from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore import Locus
from locuscore.engines import BART, PyMCBART
from locuscore.metrics import pinball_loss

RECORDS = Path(__file__).with_name("bart.jsonl")
PAGE = Path(__file__).with_name("RESULTS.md")
# Dataset and seed of the split.
SPLITS = (("concrete", 0), ("bike", 0), ("concrete", 1), ("concrete", 2))
ALPHA = 0.1
N_PREDICTED = 1000
THEIRS = "PyMCBART"
OURS = {"n_draws": 200, "n_burn": 50, "n_cutpoints": 100, "random_state": 0}
ENGINES = {
    "BART": BART(**OURS),  # the same model as theirs: a normal law of the loss itself
    "BART, sqrt": BART(**OURS, transform="sqrt"),
    THEIRS: PyMCBART(
        2000, n_chains=4, n_tune=500, n_samples=500, n_jobs=os.cpu_count(), random_state=0
    ),
}


class Fitted(BaseEstimator):
    """An engine fitted before, for `Locus` to calibrate."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __sklearn_clone__(self) -> Self:
        return self

    def fit(self, S: np.ndarray, z: np.ndarray) -> Self:
        """Do nothing."""
        return self

    def predict_draws(self, S: np.ndarray) -> Any:
        """Laws of the engine."""
        return self.engine.predict_draws(S)


def make_losses(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and absolute losses of a forest trained on other rows: 60 % of the data."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n_train = int(0.4 * len(y))
    train, rest = order[:n_train], order[n_train:]
    g = RandomForestRegressor(300, random_state=0, n_jobs=-1).fit(X[train], y[train])
    return X[rest], np.abs(y[rest] - g.predict(X[rest]))


def measure(engine: Any, X: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """Fit on D1 (the first third), calibrate on D2 (the second), score the third."""
    n = len(z) // 3
    new = X[2 * n :]
    many = new[np.arange(N_PREDICTED) % len(new)]
    predict = []
    # With one thread, its own time is the wall time of a machine with nothing else to do.
    clock = time.perf_counter if isinstance(engine, PyMCBART) else time.process_time
    start = clock()
    engine.fit(X[:n], z[:n])
    fit = clock() - start
    for _ in range(3):
        start = time.process_time()
        n_draws = engine.predict_draws(many).shape[1]
        predict.append(time.process_time() - start)
    locus = Locus(
        None, engine=Fitted(engine), signals="x", calibration_size=np.arange(n, 2 * n)
    ).fit_losses(X[: 2 * n], z[: 2 * n])
    plain = locus.loss_dist(new).isf(ALPHA)
    return {
        "fit": fit,
        "predict": median(predict),
        "n_draws": n_draws,
        "pinball": pinball_loss(z[2 * n :], locus.loss_bound(new, ALPHA), ALPHA) / z[:n].mean(),
        "pinball_uncalibrated": pinball_loss(z[2 * n :], plain, ALPHA) / z[:n].mean(),
        "split_rhat": engine.split_rhat_,
    }


def read() -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []
    )


def run(name: str, seed: int) -> None:
    done = {r["engine"] for r in read() if (r["dataset"], r["seed"]) == (name, seed)}
    missing = [engine for engine in ENGINES if engine not in done]
    X, z = make_losses(name, seed) if missing else (None, None)
    for engine in missing:
        print(f"{name}, split {seed}, {engine} ...", flush=True)
        with warnings.catch_warnings(action="ignore"):
            figures = measure(ENGINES[engine], X, z)
        record = {"dataset": name, "seed": seed, "engine": engine, "rows": len(z) // 3, **figures}
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")


def report(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## BART and the paper's backend",
        "",
        "Made by `make costs-bart`. Both engines see x alone and the same D1. `BART` has one "
        "thread, 200 draws, on the scale of the loss or of its root; `PyMCBART` has 4 chains of "
        "500 tuning iterations and 500 draws on all cores, and keeps all draws. Seconds to "
        "fit (wall time of `PyMCBART`, processor time of `BART`), processor time to predict 1,000 "
        "rows, and the same per 100 draws. Pinball loss at alpha = 0.1 of the bound on held-out "
        "rows, over the mean loss: calibrated on D2, and of the law itself.",
        "",
        "| dataset (rows of D1), split | engine | draws | fit | predict | per 100 draws | pinball, "
        "calibrated | pinball, uncalibrated | split R-hat |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in records:
        lines.append(
            f"| {r['dataset']} ({r['rows']}), {r['seed']} | {r['engine']} | {r['n_draws']} | "
            f"{r['fit']:.1f} | {r['predict']:.2f} | {100 * r['predict'] / r['n_draws']:.2f} | "
            f"{r['pinball']:.4f} | {r['pinball_uncalibrated']:.4f} | {r['split_rhat']:.2f} |"
        )
    lines += [
        "",
        "| dataset, split | engine | fit, times faster (target at least 30) | prediction, "
        "times faster (target at least 10) | calibrated pinball, ratio (target at most 1) | "
        "uncalibrated |",
        "|---|---|---|---|---|---|",
    ]
    theirs = {(r["dataset"], r["seed"]): r for r in records if r["engine"] == THEIRS}
    for ours in records:
        other = theirs.get((ours["dataset"], ours["seed"]))
        if other is None or ours["engine"] == THEIRS:
            continue
        fit = f"{other['fit'] / ours['fit']:.0f}" if ours["seed"] == 0 else ""
        lines.append(
            f"| {ours['dataset']}, {ours['seed']} | {ours['engine']} | {fit} | "
            f"{other['predict'] / ours['predict']:.0f} | "
            f"{ours['pinball'] / other['pinball']:.3f} | "
            f"{ours['pinball_uncalibrated'] / other['pinball_uncalibrated']:.3f} |"
        )
    lines += ["", "Only split 0 was timed on a quiet machine."]
    return lines


def main() -> None:
    for name, seed in SPLITS:
        run(name, seed)
        write_section(PAGE, report(read()))
    print("\n".join(report(read())))


if __name__ == "__main__":
    main()
