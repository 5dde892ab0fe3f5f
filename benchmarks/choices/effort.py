"""How long BART and MDN should be trained: held-out pinball loss inside D1 against fit time.

For each dataset D1 is at most 1,000 rows that g was not trained on, and nothing else is read.
`select_engine` compares by two-fold cross-validation, on the same folds and seeds for all. Each
line of effort.jsonl is one comparison and is not run again. Run ``make choices-effort``, or
``BENCH=BART`` for one engine; about fifteen minutes on one core.
"""

import json
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore.engines import BART, MDN, select_engine

PAGE = Path(__file__).with_name("RESULTS.md")
RECORDS = Path(__file__).with_name("effort.jsonl")
NAMES = ["concrete", "airfoil", "winewhite", "electric", "bike", "homes"]
MOST_ROWS = 1_000
N_MASKS = 100  # of MDN, in predictions: the training does not depend on their number
# The first of each is what others are compared with: the former defaults.
LONG = {"n_draws": 200, "n_burn": 50, "n_cutpoints": 100}
SLOW = {"batch_size": 128, "learning_rate": 2e-3, "patience": 30}
CANDIDATES: dict[str, dict[str, Any]] = {
    "BART": {
        "200 draws, 50 discarded, 100 cutpoints": BART(**LONG),
        "200 draws, 50 discarded, 20 cutpoints": BART(**LONG | {"n_cutpoints": 20}),
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
def losses(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of D1, and the losses of a forest that was trained on others."""
    X, y = load(name)
    order = np.random.default_rng(0).permutation(len(y))[: 5 * MOST_ROWS]
    train, rest = np.split(order, [int(0.6 * len(order))])
    g = RandomForestRegressor(100, random_state=0).fit(X[train], y[train])
    rows = rest[: min(MOST_ROWS, len(rest) // 2)]
    return X[rows], np.abs(y[rows] - g.predict(X[rows]))


def read(engine: str) -> list[dict[str, Any]]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [record for record in map(json.loads, lines) if record["engine"] == engine]


def compare(engine: str, name: str) -> None:
    """Add the records of one dataset that are missing."""
    done = {record["how"] for record in read(engine) if record["dataset"] == name}
    for how, candidate in CANDIDATES[engine].items():
        if how in done:
            continue
        S, z = losses(name)
        start = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            (row,) = select_engine({how: candidate}, S, z, cv=2, random_state=0).table
        record = {"engine": engine, "dataset": name, "how": how, "rows": len(z)}
        record |= {"seconds": time.process_time() - start}
        record |= {key: row[key] for key in ("crps", "pinball")}
        with RECORDS.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(record, flush=True)


def write(engine: str) -> None:
    """Write the section of one engine: geometric means of ratios to its first candidate."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for record in read(engine):
        found.setdefault(record["dataset"], {})[record["how"]] = record
    hows = list(CANDIDATES[engine])
    whole = {name: by for name, by in found.items() if set(by) >= set(hows)}
    if not whole:
        return
    lines = [
        TITLES[engine],
        "",
        f"Made by `make choices-effort BENCH={engine}`. Two-fold cross-validation inside D1 (at "
        f"most {MOST_ROWS:,} rows) with x alone, on {', '.join(whole)}. Time of the processor (fit "
        "and prediction), CRPS of the law and pinball loss of the calibrated bound at alpha = 0.1, "
        "each over that of the first line: geometric mean over the datasets, and for the pinball "
        "loss the range.",
        "",
        "| settings | time | CRPS | pinball | range |",
        "|---|---|---|---|---|",
    ]
    for how in hows:
        ratios = {
            key: np.array([by[how][key] / by[hows[0]][key] for by in whole.values()])
            for key in ("seconds", "crps", "pinball")
        }
        means = [f"{np.exp(np.log(each).mean()):.3f}" for each in ratios.values()]
        low, high = ratios["pinball"].min(), ratios["pinball"].max()
        lines.append(f"| {how} | {' | '.join(means)} | {low:.3f} to {high:.3f} |")
    write_section(PAGE, lines)
    print("\n".join(lines))


def main() -> None:
    asked = sys.argv[1:] or list(TITLES)
    for name in NAMES:
        for engine in asked:
            compare(engine, name)
            write(engine)


if __name__ == "__main__":
    main()
