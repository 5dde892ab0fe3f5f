"""How much a row's bound depends on chance: on the split, the opinion's folds and the trees.

The same predictor and labelled rows, fitted again with one source of chance varied at a time.
Validation rows are scored; test parts are never read. ``make choices-stability``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import write_section
from benchmarks.paper.protocol import ALPHA, LARGE, Task, default_n2, prepare
from locuscore import Locus, prediction_column
from locuscore.engines import Forest

PAGE = Path(__file__).with_name("RESULTS.md")
NAMES = ("concrete", "airfoil", "bike", "electric", "homes")
MOST_ROWS, N_FITS = 10_000, 8
Settings = Callable[[int, int], dict[str, Any]]  # of a fit, given the number of rows and a seed


def positions(n: int, seed: int) -> np.ndarray:
    """Rows of D2, as many as by default."""
    return np.random.default_rng(seed).permutation(n)[: default_n2(n)]


def varied(split: bool, folds: bool, trees: bool, **forest: Any) -> Settings:
    """Settings in which the named sources follow the seed and the others stay."""
    return lambda n, seed: {
        "calibration_size": positions(n, seed if split else 0),
        "random_state": seed if folds else 0,
        "engine": Forest(**forest, random_state=seed if trees else 0),
    }


SOURCES: dict[str, Settings] = {
    "all of them": varied(True, True, True),
    "split": varied(True, False, False),
    "folds and trees": varied(False, True, True),
    "folds": varied(False, True, False),
    "trees": varied(False, False, True),
    "folds and trees, leaves of 6": varied(False, True, True, min_samples_leaf=6),
    "folds and trees, 200 trees": varied(False, True, True, n_trees=200),
}


def spread(task: Task, settings: Settings) -> tuple[float, float]:
    """Median over rows of sd / mean of the bound, and sd of the share accepted at tau."""
    rows, targets, p = task.calibration.all, task.calibration.y, task.test.x.shape[1]
    tau = float(np.quantile(task.calibration.z, LARGE))
    bounds = np.array(
        [
            Locus(prediction_column(p), signals=["x", "opinion"], **settings(len(rows), seed))
            .fit(rows, targets)
            .loss_bound(task.validation.all, ALPHA)
            for seed in range(N_FITS)
        ]
    )
    accepted = np.mean(bounds <= tau, axis=1)
    ratio = np.std(bounds, axis=0, ddof=1) / np.mean(bounds, axis=0)
    return float(np.median(ratio)), float(np.std(accepted, ddof=1))


def table(found: dict[str, list[tuple[float, float]]]) -> list[str]:
    lines = [
        "## Stability",
        "",
        f"Made by `make choices-stability`: {N_FITS} fits to the same labelled rows with one "
        "source of chance varied, the others fixed. A row's standard deviation of the bound at "
        f"alpha = {ALPHA} over its mean, in percent, median over the validation rows; last column: "
        "standard deviation of the share of rows whose bound is at most the "
        f"{LARGE} quantile of the losses, in points, mean over the datasets. At most "
        f"{MOST_ROWS:,} rows of a dataset, g = random forest with 300 trees. New folds change the "
        "signals of D1 and so all trees; their part contains most of that of the trees.",
        "",
        f"| varied | {' | '.join(NAMES)} | mean | accepted |",
        "|" + "---|" * (3 + len(NAMES)),
    ]
    for name, values in found.items():
        ratios, accepted = np.array(values).T
        cells = [f"{100 * value:.1f}" for value in (*ratios, ratios.mean(), accepted.mean())]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SOURCES}
    for dataset in NAMES:
        task = prepare(dataset, 0, MOST_ROWS)
        for name, settings in SOURCES.items():
            found[name].append(spread(task, settings))
            print(dataset, name, found[name][-1], flush=True)
    write_section(PAGE, table(found))


if __name__ == "__main__":
    main()
