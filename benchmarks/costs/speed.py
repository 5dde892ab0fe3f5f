"""Time and memory of `fit` and `loss_bound`, as ratios taken side by side.

Run ``make costs-speed``; about ten minutes on two cores.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from benchmarks.pages import write_section
from benchmarks.speed.figures import MEGABYTE, peak_memory
from benchmarks.speed.figures import seconds as on_the_clock
from locuscore import Locus
from locuscore.datasets import load_diamonds
from locuscore.engines import Bagged, Forest, Gaussian, QuantileGrid, Scale

PAGE = Path(__file__).with_name("RESULTS.md")
REPEATS = 5
# Engine, and the most rows it is timed on: the slow one would take a quarter of an hour.
ENGINES = {
    "Forest (default)": (Forest(), 2_000_000),
    "Scale": (Scale(), 2_000_000),
    "Gaussian": (Gaussian(), 2_000_000),
    "QuantileGrid": (QuantileGrid(), 2_000_000),
    "Bagged(Scale), 20 draws": (Bagged(Scale(), n_draws=20), 200_000),
}


def seconds(function: Callable[[], object]) -> float:
    return on_the_clock(function, time.perf_counter)


def against_the_predictor() -> list[str]:
    """Default engine on diamonds beside a random forest of 300 trees."""
    X, y = load_diamonds(as_frame=False)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    n = 18_000
    g = RandomForestRegressor(300, random_state=0)
    locus = Locus(g, random_state=0)
    X_new = X[2 * n : 2 * n + 15_000]
    alphas = np.linspace(0.05, 0.5, 10)
    fit_ratio, bound_ratio, many_ratio = [], [], []
    for repeat in range(REPEATS):
        if repeat < 3:
            slow = seconds(lambda: g.fit(X[:n], y[:n]))
            fit_ratio.append(seconds(lambda: locus.fit(X[n : 2 * n], y[n : 2 * n])) / slow)
        one = seconds(lambda: locus.loss_bound(X_new, 0.1))
        bound_ratio.append(one / seconds(lambda: g.predict(X_new)))
        many_ratio.append(seconds(lambda: locus.loss_bound(X_new, alphas)) / one)
    rows = [
        ("`fit`, of the time g took to fit as many rows (18,000)", fit_ratio, 0.5),
        ("`loss_bound`, of `g.predict` on the same 15,000 rows", bound_ratio, 2.0),
        ("ten alphas, of one alpha", many_ratio, 1.3),
    ]
    return [
        "| default engine on diamonds, g = 300 trees | ratio (median) | range | target, at most |",
        "|---|---|---|---|",
        *(
            f"| {name} | {median(r):.2f} | {min(r):.2f} to {max(r):.2f} | {most} |"
            for name, r, most in rows
        ),
    ]


def many_rows() -> Iterator[str]:
    """Peak memory and growth of `loss_bound` on up to two million rows, g linear."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2_000_000, 5))
    y = X[:, 0] + (0.1 + X[:, 1]) * rng.normal(size=len(X))
    g = LinearRegression().fit(X[:1000], y[:1000])
    yield (
        "| engine (10,000 labelled rows, 5 features) | rows | a tenth of them, s | all, s | ratio "
        "(target 8 to 12) | peak above input, MB (target at most 300) |"
    )
    yield "|---|---|---|---|---|---|"
    for name, (engine, n) in ENGINES.items():
        locus = Locus(g, engine=engine, random_state=0).fit(X[1000:11_000], y[1000:11_000])
        parts = X[: n // 10], X[:n], X[-n // 10 :]
        locus.loss_bound(X[: min(n // 10, 70_000)])  # warm up
        first = seconds(lambda: locus.loss_bound(parts[0]))  # noqa: B023 - called at once
        with peak_memory() as peak:
            many = seconds(lambda: locus.loss_bound(parts[1]))  # noqa: B023 - called at once
        few = (first + seconds(lambda: locus.loss_bound(parts[2]))) / 2  # noqa: B023 - at once
        yield (
            f"| {name} | {n:,} | {few:.1f} | {many:.1f} | {many / few:.1f} | "
            f"{peak[0] / MEGABYTE:.0f} |"
        )


def main() -> None:
    lines = [
        "## Fit and bound",
        "",
        "Made by `make costs-speed`; ratios are taken side by side in one run.",
        "",
    ]
    for part in (against_the_predictor, many_rows):
        print(f"{part.__name__} ...", flush=True)
        for line in part():
            print(line, flush=True)
            lines.append(line)
            write_section(PAGE, lines)  # as it goes: a long run may be cut
        lines.append("")


if __name__ == "__main__":
    main()
