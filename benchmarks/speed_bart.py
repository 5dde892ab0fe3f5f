"""`BART` beside `PyMCBART`, the paper's backend, on the same D1; writes SPEED_BART.md.

Run from the repository's root: ``make speed-bart``, or with names of datasets after it. Each
finished dataset is one line of speed_bart.jsonl and is not run again; remove the line to repeat.
PyMC takes several minutes on `concrete` and most of an hour on `bike`.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor

from datasets import load
from locuscore import Locus
from locuscore.engines import BART, PyMCBART
from locuscore.metrics import pinball_loss

RECORDS = Path(__file__).with_name("speed_bart.jsonl")
REPORT = Path(__file__).with_name("SPEED_BART.md")
DATASETS = ("concrete", "bike")
ALPHA = 0.1
N_PREDICTED = 1000
OURS = BART(random_state=0)
THEIRS = PyMCBART(
    2000, n_chains=4, n_tune=500, n_samples=500, n_jobs=os.cpu_count(), random_state=0
)


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


def make_losses(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and absolute losses of a forest trained on other rows: 60 % of the data."""
    X, y = load(name)
    order = np.random.default_rng(0).permutation(len(y))
    n_train = int(0.4 * len(y))
    train, rest = order[:n_train], order[n_train:]
    g = RandomForestRegressor(300, random_state=0, n_jobs=-1).fit(X[train], y[train])
    return X[rest], np.abs(y[rest] - g.predict(X[rest]))


def measure(engine: Any, X: np.ndarray, z: np.ndarray, repeats: int) -> dict[str, float]:
    """Fit on D1 (the first third), calibrate on D2 (the second), score the third."""
    n = len(z) // 3
    new = X[2 * n :]
    many = new[np.arange(N_PREDICTED) % len(new)]
    fit, predict = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        engine.fit(X[:n], z[:n])
        fit.append(time.perf_counter() - start)
    for _ in range(3):
        # One thread, so that its own time is the wall time of a machine with nothing else to do.
        start = time.process_time()
        n_draws = engine.predict_draws(many).shape[1]
        predict.append(time.process_time() - start)
    locus = Locus(
        None, engine=Fitted(engine), signals="x", calibration_size=np.arange(n, 2 * n)
    ).fit_losses(X[: 2 * n], z[: 2 * n])
    plain = locus.loss_dist(new).isf(ALPHA)
    return {
        "fit": median(fit),
        "predict": median(predict),
        "n_draws": n_draws,
        "pinball": pinball_loss(z[2 * n :], locus.loss_bound(new, ALPHA), ALPHA) / z[:n].mean(),
        "pinball_uncalibrated": pinball_loss(z[2 * n :], plain, ALPHA) / z[:n].mean(),
        "split_rhat": engine.split_rhat_,
    }


def run(name: str) -> None:
    X, z = make_losses(name)
    with warnings.catch_warnings(action="ignore"):
        ours = measure(OURS, X, z, repeats=3)
        print(name, "BART", ours, flush=True)
        theirs = measure(THEIRS, X, z, repeats=1)
    print(name, "PyMCBART", theirs, flush=True)
    record = {"dataset": name, "rows": len(z) // 3, "BART": ours, "PyMCBART": theirs}
    with RECORDS.open("a") as file:
        file.write(json.dumps(record) + "\n")


def read() -> dict[str, dict[str, Any]]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return {record["dataset"]: record for record in map(json.loads, lines)}


def report(records: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# BART beside the paper's backend",
        "",
        "Made by `make speed-bart`. Both engines see x alone and the same D1. `BART` has its "
        "defaults and one thread; `PyMCBART` has 4 chains of 500 tuning iterations and 500 draws "
        "on all cores, and keeps all draws. Seconds: wall time to fit, processor time (one thread) "
        "to predict 1,000 rows, and the same per 100 draws. Pinball loss at alpha = 0.1 of "
        "the bound on held-out rows, over the mean loss: calibrated on D2, and of the law itself.",
        "",
        "| dataset (rows of D1) | engine | draws | fit | predict | per 100 draws | pinball, "
        "calibrated | pinball, uncalibrated | split R-hat |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        for engine in ("BART", "PyMCBART"):
            r = record[engine]
            lines.append(
                f"| {name} ({record['rows']}) | {engine} | {r['n_draws']} | {r['fit']:.1f} | "
                f"{r['predict']:.2f} | {100 * r['predict'] / r['n_draws']:.2f} | "
                f"{r['pinball']:.4f} | {r['pinball_uncalibrated']:.4f} | {r['split_rhat']:.2f} |"
            )
    lines += [
        "",
        "| dataset | fit, times less (wanted at least 30) | prediction, times less (wanted at "
        "least 10) | calibrated pinball, ratio (wanted at most 1) |",
        "|---|---|---|---|",
    ]
    for name, record in records.items():
        ours, theirs = record["BART"], record["PyMCBART"]
        lines.append(
            f"| {name} | {theirs['fit'] / ours['fit']:.0f} | "
            f"{theirs['predict'] / ours['predict']:.0f} | "
            f"{ours['pinball'] / theirs['pinball']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    for name in sys.argv[1:] or DATASETS:
        if name not in read():
            run(name)
        REPORT.write_text(report(read()))
    print(REPORT.read_text())


if __name__ == "__main__":
    main()
