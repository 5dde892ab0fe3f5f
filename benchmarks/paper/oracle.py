"""How far from the best possible: regret to the known truth as n grows.

On the generators of `locuscore.testing` the law of the loss is known for every g. Two kinds of g:
the generator's own fixed rule, and a random forest trained on as many rows as calibrate. The tail
rate of a ranking is the mean of the *true* exceedance over the 70 % of rows it accepts, so it
carries no noise of test labels. ``make bench-oracle``; resumable.
"""

import argparse
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks import grid
from benchmarks.paper import records
from benchmarks.paper.protocol import ACCEPTANCE, ALPHA, LARGE
from benchmarks.paper.summary import table
from locuscore import Locus, Score, engines
from locuscore.metrics import pinball_loss
from locuscore.testing import GENERATORS, Generator

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).with_name("records") / "oracle"
FIGURE = Path(__file__).with_name("figures") / "oracle.png"
SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
TICKS = SIZES[::2]  # of the picture, as PERCENT
PERCENT = (0.5, 1, 2, 3, 5, 10, 20)
N_TEST = 20_000
TARGET, TARGET_N = 0.03, 10_000
WITHOUT = "Locus without opinion"
BEFORE = ["x", "predictor"]
LOCUS_ENGINES: dict[str, dict[str, Any]] = {
    "Locus": {},
    WITHOUT: {"signals": BEFORE},
    "QuantileGrid": {"engine": engines.QuantileGrid(), "signals": BEFORE},
    "Scale": {"engine": engines.Scale(), "signals": BEFORE},
}
OURS = ("Locus", WITHOUT)
FORMER = "Locus 0.1.0"  # our default before there was an opinion; only compared with
SHOWN = {
    "Locus": "#D55E00",
    WITHOUT: "#E69F00",
    FORMER: "#999999",
    "QuantileGrid": "#0072B2",
    "Scale": "#009E73",
}


def repeats(n: int, method: str) -> int:
    """How often; at the size of the target ours are compared closely."""
    if n == TARGET_N and method in OURS:
        return 20
    return 3 if n <= 10_000 else 1


def fit_predictor(kind: str, data: Generator, n: int, seed: int) -> Any:
    """The generator's own rule, or a forest trained on n rows of its own."""
    if kind == "rule":
        return data.predictor
    X, y = data.sample(n, rng=np.random.default_rng((seed, 1)))
    forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=seed, n_jobs=1)
    return forest.fit(X, y)


def evaluate(
    name: str, kind: str, n: int, seed: int, wanted: Iterable[str] = tuple(LOCUS_ENGINES)
) -> list[dict[str, Any]]:
    """One record per method: regrets on rows whose truth is known."""
    data = GENERATORS[name]
    g = fit_predictor(kind, data, n, seed)
    X, y = data.sample(n, rng=np.random.default_rng((seed, 2)))
    X_test, y_test = data.sample(N_TEST, rng=np.random.default_rng((seed, 3)))
    predicted = np.asarray(g(X_test) if callable(g) else g.predict(X_test))
    z = np.abs(y_test - predicted)
    tau = float(np.quantile(z, LARGE))
    truth, quantile = data.exceedance(X_test, g, tau), data.loss_quantile(X_test, g, ALPHA)
    best = {"rate": accepted_rate(truth, truth), "pinball": pinball_loss(z, quantile, ALPHA)}
    by_quantile = accepted_rate(quantile, truth)
    out = []
    for method in wanted:
        start = time.perf_counter()
        locus = Locus(g, **LOCUS_ENGINES[method], random_state=seed).fit(X, y)
        bound, risk = locus.loss_bound(X_test, ALPHA), locus.scores(X_test, Score.tail(tau))
        out.append(
            {
                "dataset": name,
                "seed": seed,
                "method": f"{method}, {kind}, {n}",
                "engine": method,
                "g": kind,
                "n": n,
                "oracle_rate": best["rate"],
                "oracle_quantile_rate": by_quantile,
                "rate": accepted_rate(risk, truth),
                "bound_rate": accepted_rate(bound, truth),
                "oracle_pinball": best["pinball"],
                "pinball": pinball_loss(z, bound, ALPHA),
                "bound_error": float(np.mean(np.abs(bound - quantile)) / np.mean(quantile)),
                "seconds": time.perf_counter() - start,
            }
        )
    return out


def accepted_rate(score: np.ndarray, truth: np.ndarray) -> float:
    """Mean true exceedance of the rows with the smallest scores, ties in random order."""
    order = np.lexsort((np.random.default_rng(0).random(len(score)), score))
    return float(np.mean(truth[order[: round(ACCEPTANCE * len(score))]]))


def work(task: grid.Task) -> list[dict[str, Any]]:
    """The records of one task, whose methods are all for one g and one size."""
    parts = [method.split(", ") for method in task.methods]
    _, kind, n = parts[0]
    return evaluate(task.dataset, kind, int(n), task.seed, [name for name, _, _ in parts])


def missing(sizes: list[int]) -> list[grid.Task]:
    """Tasks with a record missing, small sizes first."""
    done = {records.key(record) for record in records.read(FOLDER)}
    tasks = []
    for n, seed, name, kind in product(sizes, range(20), GENERATORS, ("rule", "forest")):
        wanted = [f"{m}, {kind}, {n}" for m in LOCUS_ENGINES if seed < repeats(n, m)]
        lacking = tuple(method for method in wanted if (name, seed, method) not in done)
        if lacking:
            tasks.append(grid.Task(name, seed, lacking))
    return tasks


def regret(found: list[dict[str, Any]], key: str, best: str) -> float:
    """Mean relative regret, in percent."""
    return 100 * float(np.mean([record[key] / record[best] - 1 for record in found]))


@dataclass(frozen=True)
class Worst:
    """Our default at the size of the target: its largest regret over generators and kinds of g."""

    regret: float
    where: str
    n_met: int
    n: int


def worst_regret() -> Worst | None:
    """None before any record of the size of the target was made."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for record in records.read(FOLDER):
        if record["n"] == TARGET_N and record["engine"] == "Locus":
            cases.setdefault(f"{record['dataset']}, g = {record['g']}", []).append(record)
    if not cases:
        return None
    regrets = {where: regret(found, "rate", "oracle_rate") for where, found in cases.items()}
    where = max(regrets, key=lambda name: regrets[name])
    n_met = sum(value <= 100 * TARGET for value in regrets.values())
    return Worst(regrets[where], where, n_met, len(regrets))


def section() -> list[str]:
    """Lines for RESULTS.md; nothing before any record was made."""
    there = records.read(FOLDER)
    if not there:
        return []
    sizes = sorted({record["n"] for record in there})
    lines = [
        "## Distance to the oracle",
        "",
        "Made by `make bench-oracle`. n labelled rows for `Locus`; g is the generator's own rule, "
        "or a random forest trained on n more rows. Regret in percent, mean over repetitions "
        "(three up to 10,000 rows, one above; of ours up to 20 at 10,000 rows): tail rate at 70 % "
        "acceptance (mean true exceedance of the accepted) above that of the ranking by the true "
        "exceedance; pinball loss of the bound above that of the true quantile. "
        f"Target: at most {100 * TARGET:.0f} % for the tail rate at n = {TARGET_N:,}.",
        "",
    ]
    for title, key, best in (
        ("Tail rate, ranked by tail probability", "rate", "oracle_rate"),
        ("Tail rate, ranked by the bound", "bound_rate", "oracle_rate"),
        ("Pinball loss of the bound", "pinball", "oracle_pinball"),
    ):
        rows = []
        for name in GENERATORS:
            for kind in ("rule", "forest"):
                for engine in SHOWN:
                    same = {"dataset": name, "g": kind, "engine": engine}
                    mine = [r for r in there if all(r[k] == v for k, v in same.items())]
                    found = [[r for r in mine if r["n"] == n] for n in sizes]
                    cells = [f"{regret(part, key, best):.2f}" if part else "" for part in found]
                    rows.append([name, kind, engine, *cells])
        head = ["generator", "g", "method", *(f"n = {n:,}" for n in sizes)]
        lines += [f"### {title}", "", *table(head, rows)]
    return [*lines, "![regret](figures/oracle.png)", ""]


def draw(there: list[dict[str, Any]]) -> None:
    figure, grid = plt.subplots(2, len(GENERATORS), figsize=(12, 5.6), sharex=True, sharey="row")
    for column, name in enumerate(GENERATORS):
        for row, kind in enumerate(("rule", "forest")):
            axes = grid[row, column]
            for engine, colour in SHOWN.items():
                mine = [
                    r for r in there if (r["dataset"], r["g"], r["engine"]) == (name, kind, engine)
                ]
                sizes = sorted({r["n"] for r in mine})
                values = [
                    regret([r for r in mine if r["n"] == n], "rate", "oracle_rate") for n in sizes
                ]
                axes.plot(sizes, values, "o-", ms=3, color=colour, label=engine)
            axes.axhline(100 * TARGET, color="0.6", ls="--", lw=0.8)
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(TICKS, [f"{n:,}" for n in TICKS], fontsize=8, minor=False)
            axes.set_yticks(PERCENT, [f"{tick:g}" for tick in PERCENT], fontsize=8)
            axes.minorticks_off()
            axes.set_title(f"{name}, g = {kind}", fontsize=9, loc="left")
            axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("labelled rows", fontsize=9)
    figure.supylabel("tail rate above the oracle's, %", fontsize=9)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(SHOWN), frameon=False)
    figure.set_layout_engine("constrained")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=110)
    plt.close(figure)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one thread")
    options = parser.parse_args()
    failures = grid.run(
        missing(options.sizes), work, FOLDER, n_jobs=options.jobs, minutes=options.minutes
    )
    print(*failures, sep="\n")
    draw(records.read(FOLDER))
    print("make bench-report puts the figures into RESULTS.md")


if __name__ == "__main__":
    main()
