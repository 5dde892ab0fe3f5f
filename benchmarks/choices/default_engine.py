"""Which engine is the default: the core's engines on validation rows.

The paper's split (40 % for g, 40 % for D1 and D2, 10 % validation, 10 % test) with the test part
left untouched: choices are made on the validation part alone. Run
``make choices-default-engine``; about ten minutes on two cores.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore import Locus, prediction_column
from locuscore.engines import Ensemble, Forest, Gaussian, QuantileGrid, Scale
from locuscore.metrics import pinball_loss

PAGE = Path(__file__).with_name("RESULTS.md")
NAMES = [
    "airfoil",
    "concrete",
    "star",
    "winered",
    "winewhite",
    "cycle",
    "electric",
    "bike",
    "homes",
    "protein",
    "superconductivity",
]
SEEDS = range(3)
MOST_ROWS = 15_000
ALPHA, ACCEPTANCE = 0.1, 0.7
HALF = 0.5  # of the rows calibrate, as in the paper
WHOLE = 10**9  # rows per tree: a full bootstrap sample


class Subsampled(Forest):
    """Trees grown on ``n ** 0.9`` rows, whatever the losses are like."""

    def fit(self, S: np.ndarray, z: np.ndarray) -> "Subsampled":
        self.max_samples = round(len(z) ** 0.9)
        return super().fit(S, z)


# Engine, what it sees, and the size of D2.
SETTINGS: dict[str, tuple[Any, str, float | None]] = {
    "Forest (default)": (Forest(), "all", None),
    "the same, half of the rows for D2": (Forest(), "all", HALF),
    "the same, x alone (the paper's setting)": (Forest(), "x", HALF),
    "Forest, full bootstrap": (Forest(max_samples=WHOLE), "all", None),
    "Forest, n ** 0.9 rows per tree": (Subsampled(), "all", None),
    "Forest, leaves of 10": (Forest(min_samples_leaf=10), "all", None),
    "Forest + QuantileGrid": (Ensemble([Forest(), QuantileGrid()]), "all", None),
    "QuantileGrid": (QuantileGrid(), "all", None),
    "Gaussian": (Gaussian(), "all", None),
    "Scale": (Scale(), "all", None),
}
Record = dict[str, float]


def tail_rate(score: np.ndarray, losses: np.ndarray, tau: float) -> float:
    """Share of losses above tau among the rows with the smallest scores, in percent."""
    order = np.lexsort((np.random.default_rng(0).random(len(score)), score))
    kept = order[: round(ACCEPTANCE * len(order))]
    return 100 * float(np.mean(losses[kept] > tau))


def prepare(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Signals [x, g(x), spread] and targets of the calibration rows, then the validation rows."""
    X, y = load(name)
    rows = np.random.default_rng(seed).permutation(len(y))[:MOST_ROWS]
    n = len(rows)
    train, rest = rows[: int(0.4 * n)], rows[int(0.4 * n) : int(0.9 * n)]
    y = (y - y[train].mean()) / y[train].std()
    g = RandomForestRegressor(300, n_jobs=-1, random_state=seed).fit(X[train], y[train])
    wrapped = Locus(g, engine=Scale(), random_state=0).fit(X[rest[:50]], y[rest[:50]])
    return wrapped.row_signals(X[rest]), y[rest], int(0.8 * n) - len(train), X.shape[1]


def evaluate(locus: Locus, S: np.ndarray, y: np.ndarray, n: int) -> Record:
    start = time.process_time()
    locus.fit(S[:n], y[:n])
    fitted = time.process_time()
    bound = locus.loss_bound(S[n:], ALPHA)
    scored = time.process_time()
    z = locus.losses(S[n:], y[n:])
    tau = float(np.quantile(z, 0.7))
    unit = float(np.mean(locus.losses(S[:n], y[:n])))
    return {
        "pinball": 100 * float(pinball_loss(z, bound, ALPHA)) / unit,
        "tail_exceedance": tail_rate(locus.exceedance(S[n:], tau), z, tau),
        "tail_bound": tail_rate(bound, z, tau),
        "coverage": 100 * float(np.mean(z <= bound)),
        "fit": fitted - start,
        "score": 1e6 * (scored - fitted) / len(z),
    }


def main() -> None:
    records: dict[str, dict[str, list[Record]]] = {label: {} for label in SETTINGS}
    for dataset in NAMES:
        for seed in SEEDS:
            S, y, n, p = prepare(dataset, seed)
            for label, (engine, what, size) in SETTINGS.items():
                locus = Locus(
                    prediction_column(p),
                    engine=clone(engine),
                    # The matrix holds g(x) and the spread already, as its last two columns.
                    signals="x" if what == "all" else lambda rows, p=p: rows[:, :p],
                    calibration_size=size,
                    random_state=seed,
                )
                records[label].setdefault(dataset, []).append(evaluate(locus, S, y, n))
            print(dataset, seed, flush=True)
    write_section(PAGE, tables(records))


def tables(records: dict[str, dict[str, list[Record]]]) -> list[str]:
    def mean(label: str, key: str, dataset: str | None = None) -> float:
        chosen = NAMES if dataset is None else [dataset]
        return float(np.mean([np.mean([r[key] for r in records[label][d]]) for d in chosen]))

    summary = [
        f"| {label} | {mean(label, 'pinball'):.2f} | {mean(label, 'tail_exceedance'):.2f} | "
        f"{mean(label, 'tail_bound'):.2f} | {mean(label, 'coverage'):.1f} | "
        f"{mean(label, 'fit'):.2f} | {mean(label, 'score'):.0f} |"
        for label in records
    ]
    detail = [
        f"| {label} | "
        + " | ".join(f"{mean(label, 'tail_exceedance', d):.1f}" for d in NAMES)
        + " |"
        for label in records
    ]
    return [
        "## Default engine",
        "",
        "Made by `make choices-default-engine` on the validation part of the paper's split; the "
        f"test part is never read. {len(SEEDS)} seeds, at most {MOST_ROWS:,} rows per dataset, g = "
        "random forest with 300 trees, absolute loss, alpha = 0.1. Pinball loss of the bound in "
        "percent of the mean loss; tail rate = share of losses above their 0.7 quantile among the "
        "70 % of rows accepted, ranked by `exceedance` or by `loss_bound` (30 = no ranking at "
        "all). Lower is better.",
        "",
        "| engine | pinball | tail rate, exceedance | tail rate, bound | coverage, % | fit, s | "
        "score, microseconds per row |",
        "|---|---|---|---|---|---|---|",
        *summary,
        "",
        "Tail rate by `exceedance`, per dataset:",
        "",
        "| engine | " + " | ".join(NAMES) + " |",
        "|---|" + "---|" * len(NAMES),
        *detail,
    ]


if __name__ == "__main__":
    main()
