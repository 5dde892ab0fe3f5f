"""How long BART and MDN should be trained: held-out pinball loss inside D1 against fit time.

For each dataset and seed D1 is at most 1,000 rows that g was not trained on, and nothing else is
read. `select_engine` compares by two-fold cross-validation, on the same folds and seeds for all.
Each line of effort.jsonl is one comparison and is not run again. For BART it also has the split
R-hat of a fit to the whole of D1. Run ``make choices-effort``, or ``BENCH=BART`` for one engine;
about an hour on one core.
"""

import json
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore.datasets import load_diamonds
from locuscore.engines import BART, MDN, select_engine
from locuscore.engines._convergence import LARGEST_SPLIT_RHAT

PAGE = Path(__file__).with_name("RESULTS.md")
RECORDS = Path(__file__).with_name("effort.jsonl")
# The first four and the first seed are those that the defaults were chosen on.
NAMES = ["concrete", "airfoil", "winewhite", "electric"]
NAMES += ["bike", "homes", "cycle", "kin40k", "diamonds"]
SEEDS = (0, 1, 2)
CHOSEN_ON = {(name, 0) for name in NAMES[:4]}
MOST_ROWS = 1_000
N_MASKS = 100  # of MDN, in predictions: the training does not depend on their number
# The first of each is what others are compared with: the former defaults.
LONG = {"n_draws": 200, "n_burn": 50, "n_cutpoints": 100}
SLOW = {"batch_size": 128, "learning_rate": 2e-3, "patience": 30}
CANDIDATES: dict[str, dict[str, Any]] = {
    "BART": {
        "200 draws, 50 discarded, 100 cutpoints": BART(**LONG),
        "200 draws, 50 discarded, 20 cutpoints": BART(**LONG | {"n_cutpoints": 20}),
        "100 draws, 20 discarded, 50 cutpoints": BART(100, n_burn=20, n_cutpoints=50),
        "100 draws, 20 discarded, 20 cutpoints": BART(100, n_burn=20, n_cutpoints=20),
    },
    "MDN": {
        "128 rows a step, patience 30": MDN(N_MASKS, **SLOW),
        "256 rows a step, twice the rate, patience 20": MDN(
            N_MASKS, batch_size=256, learning_rate=4e-3, patience=20
        ),
        "512 rows a step, twice the rate, patience 30": MDN(
            N_MASKS, batch_size=512, learning_rate=4e-3, patience=30
        ),
    },
}
TITLES = {"BART": "## Sweeps of BART", "MDN": "## Steps of MDN"}


@cache
def losses(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of D1, and the losses of a forest that was trained on others."""
    X, y = load_diamonds(as_frame=False) if name == "diamonds" else load(name)
    order = np.random.default_rng(seed).permutation(len(y))[: 5 * MOST_ROWS]
    train, rest = np.split(order, [int(0.6 * len(order))])
    g = RandomForestRegressor(100, random_state=seed).fit(X[train], y[train])
    rows = rest[: min(MOST_ROWS, len(rest) // 2)]
    return X[rows], np.abs(y[rows] - g.predict(X[rows]))


def read(engine: str) -> list[dict[str, Any]]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [record for record in map(json.loads, lines) if record["engine"] == engine]


def compare(engine: str, name: str, seed: int) -> None:
    """Add the records of one dataset and seed that are missing."""
    case = {"engine": engine, "dataset": name, "seed": seed}
    done = {record["how"] for record in read(engine) if case.items() <= record.items()}
    for how, candidate in CANDIDATES[engine].items():
        if how in done:
            continue
        S, z = losses(name, seed)
        start = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            (row,) = select_engine({how: candidate}, S, z, cv=2, random_state=seed).table
            record = case | {"how": how, "rows": len(z), "seconds": time.process_time() - start}
            record |= {key: row[key] for key in ("crps", "pinball")}
            if engine == "BART":
                whole = clone(candidate).set_params(random_state=seed).fit(S, z)
                record["split_rhat"] = whole.split_rhat_
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(record, flush=True)


def cases(engine: str) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
    """Records by settings, for each dataset and seed that has all of them."""
    found: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for record in read(engine):
        found.setdefault((record["dataset"], record["seed"]), {})[record["how"]] = record
    return {case: by for case, by in found.items() if set(by) >= set(CANDIDATES[engine])}


def lines_of(engine: str, found: list[dict[str, dict[str, Any]]]) -> list[str]:
    """One line of a table for each setting: geometric means of ratios to the first one."""
    first, *_ = hows = list(CANDIDATES[engine])
    lines = []
    for how in hows:
        ratios = {
            key: np.array([by[how][key] / by[first][key] for by in found])
            for key in ("seconds", "crps", "pinball")
        }
        cells = [f"{np.exp(np.log(each).mean()):.3f}" for each in ratios.values()]
        logs = np.log(ratios["pinball"])
        cells.append(f"{np.exp(logs.min()):.3f} to {np.exp(logs.max()):.3f}")
        if engine == "BART":
            rhats = np.array([by[how]["split_rhat"] for by in found])
            cells.append(f"{np.median(rhats):.2f}, {np.mean(rhats > LARGEST_SPLIT_RHAT):.0%}")
        lines.append(f"| {how} | {' | '.join(cells)} |")
    return lines


def write(engine: str) -> None:
    """Write the section of one engine: what the defaults were chosen on, and all else."""
    found = cases(engine)
    chosen_on = [by for case, by in found.items() if case in CHOSEN_ON]
    others = [by for case, by in found.items() if case not in CHOSEN_ON]
    lines = [
        TITLES[engine],
        "",
        f"Made by `make choices-effort BENCH={engine}`. Two-fold cross-validation inside D1 (at "
        f"most {MOST_ROWS:,} rows) with x alone. Time of the processor (fit and prediction), CRPS "
        "of the law and pinball loss of the calibrated bound at alpha = 0.1, each over that of the "
        "first line: geometric mean over datasets and seeds, and for the pinball loss the range. "
        "`fit` alone is timed under [speed](../speed/RESULTS.md#bart-and-mdn).",
    ]
    columns = ["settings", "time", "CRPS", "pinball", "range"]
    if engine == "BART":
        lines[-1] += (
            " Split R-hat is that of a fit to the whole of D1: its median, and how often it is "
            f"above {LARGEST_SPLIT_RHAT}, where `BART` warns."
        )
        columns.append("split R-hat")
    for records, of in ((chosen_on, "that the defaults were chosen on"), (others, "beside these")):
        if not records:
            continue
        names = sorted({by[how]["dataset"] for by in records for how in by})
        lines += ["", f"Datasets and seeds {of}, {len(records)} in all, of {', '.join(names)}:", ""]
        lines += [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        lines += lines_of(engine, records)
    if found:
        write_section(PAGE, lines)
        print("\n".join(lines), flush=True)


def main() -> None:
    asked = sys.argv[1:] or list(TITLES)
    for seed in SEEDS:
        for name in NAMES:
            for engine in asked:
                compare(engine, name, seed)
    for engine in asked:
        write(engine)


if __name__ == "__main__":
    main()
