"""How many rows a tree of `Forest` needs on a large D1: held-out pinball loss against size.

Rows are divided into those of g, D1 (at most 60,000) and validation rows, and nothing else is
read. Each line of rows_per_tree.jsonl is one fit and is not made again. Run
``make choices-rows-per-tree``; about ten minutes on one core.
"""

import json
import pickle
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from benchmarks.datasets import load, read_flights
from benchmarks.pages import write_section
from locuscore.datasets import load_diamonds
from locuscore.draws import average
from locuscore.engines import Forest, _forest

PAGE = Path(__file__).with_name("RESULTS.md")
RECORDS = Path(__file__).with_name("rows_per_tree.jsonl")
N_PREDICTOR, N_HELD_OUT, MOST_ROWS = 5_000, 6_000, 60_000
ALPHAS = np.array([0.5, 0.2, 0.1, 0.05])
N_TREES = 50  # half of the default's: the comparison does not depend on them
CAP = 16_000
POWERS = (0.8, 0.9, 1.0)
NAMES = ["kin40k", "diamonds", "protein", "flights", "waves"]


def waves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A loss that changes quickly from row to row, without noise of its own: all rows help."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 4))
    size = 1.1 + np.sin(12 * X[:, 0]) * np.sin(12 * X[:, 1])
    return X, size * rng.choice([-1.0, 1.0], n) * rng.uniform(0.9, 1.1, n)


def flights() -> tuple[np.ndarray, np.ndarray]:
    """What is known of a flight before it leaves, and its delay on arrival."""
    frame = read_flights()
    numbers = ["month", "day", "sched_dep_time", "sched_arr_time", "distance"]
    codes = [frame[name].astype("category").cat.codes for name in ("carrier", "origin", "dest")]
    return np.column_stack([frame[numbers], *codes]), frame["arr_delay"].to_numpy()


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "diamonds":
        return load_diamonds(as_frame=False)
    if name == "waves":
        return waves(N_PREDICTOR + N_HELD_OUT + MOST_ROWS)
    return flights() if name == "flights" else load(name)


@cache
def losses(name: str) -> tuple[np.ndarray, ...]:
    """Rows of D1 with their losses, then validation rows with theirs."""
    X, y = (np.asarray(part, dtype=np.float64) for part in table(name))
    order = np.random.default_rng(0).permutation(len(y))
    train, held_out, rest = np.split(order, [N_PREDICTOR, N_PREDICTOR + N_HELD_OUT])
    kind = LinearRegression() if name == "waves" else RandomForestRegressor(50, random_state=0)
    g = kind.fit(X[train], y[train])
    d1 = rest[:MOST_ROWS]
    z = [np.abs(y[rows] - g.predict(X[rows])) for rows in (d1, held_out)]
    return X[d1], z[0], X[held_out], z[1]


def read() -> dict[tuple[str, str], dict[str, Any]]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return {(r["dataset"], r["how"]): r for r in map(json.loads, lines)}


def choices(n: int) -> dict[str, int | None]:
    """Rows per tree by name: powers of n among which the default chooses, a cap, and its own."""
    powers = {f"n^{power:g}": round(n**power) for power in POWERS}
    return powers | {"cap": CAP, "default": None}


def fit(name: str, how: str, n_rows: int | None) -> None:
    """Add one record."""
    S, z, S_new, z_new = losses(name)
    start = time.process_time()
    engine = Forest(N_TREES, max_samples=n_rows, random_state=0).fit(S, z)
    per_tree = engine.forest_.max_samples
    record = {"dataset": name, "how": how, "rows": len(z), "per_tree": per_tree}
    record |= {"seconds": time.process_time() - start}
    record |= {"megabytes": len(pickle.dumps(engine, protocol=5)) / 2**20}
    bound = average(engine.predict_draws(S_new)).isf(np.broadcast_to(ALPHAS, (len(S_new), 4)))
    above = z_new[:, None] - bound
    record["pinball"] = float(np.maximum((1 - ALPHAS) * above, -ALPHAS * above).mean())
    with RECORDS.open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(record, flush=True)


def write() -> None:
    """Write the section: each table's losses over those of the best power of n."""
    found = read()
    lines = [
        "## Rows per tree",
        "",
        "Made by `make choices-rows-per-tree`. `Forest` with 50 trees, x alone, D1 of at most "
        f"{MOST_ROWS:,} rows, {N_HELD_OUT:,} validation rows. Mean pinball loss at alpha = 0.5, "
        "0.2, 0.1 and 0.05, over that of the best power of n; in brackets the size in MB of 100 "
        f"trees. The cap is {CAP:,} rows per tree; the default takes the best power of n by its "
        "out-of-bag error, or as many rows as keep a fitted `Locus` within about 150 MB. The last "
        "table is simulated: its loss follows waves, so that every row helps.",
        "",
        "| table | rows of D1 | " + " | ".join(choices(1)) + " |",
        "|---|---|" + "---|" * len(choices(1)),
    ]
    for name in NAMES:
        own = {how: r for (table, how), r in found.items() if table == name}
        if not set(own) >= set(choices(1)):
            continue
        best = min(own[f"n^{power:g}"]["pinball"] for power in POWERS)
        cells = [
            f"{own[how]['pinball'] / best:.3f} ({own[how]['megabytes'] * 100 / N_TREES:,.0f})"
            for how in choices(1)
        ]
        lines.append(f"| {name} | {own['cap']['rows']:,} | {' | '.join(cells)} |")
    write_section(PAGE, lines)
    print("\n".join(lines))


def main() -> None:
    for part in ("MOST_BYTES", "LEAST_FOR_TREES", "SIGNAL_BYTES"):  # of half as many trees
        setattr(_forest, part, getattr(_forest, part) // 2)
    for name in NAMES:
        for how, n_rows in choices(len(losses(name)[1])).items():
            if (name, how) not in read():
                fit(name, how, n_rows)
        write()


if __name__ == "__main__":
    main()
