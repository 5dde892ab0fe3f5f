"""Theorems 2, 4 and 6 on data with known truth, as the calibration sample grows.

Writes docs/figures/consistency.png and docs/figures/consistency.md. Run: make guarantees.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from locuscore import Locus
from locuscore.engines import Forest, default_engine
from locuscore.testing import GENERATORS, Generator

SIZES = (500, 2_000, 8_000, 32_000)
SEEDS = (0, 1, 2)
ALPHA = 0.1
N_FRESH = 5_000
ORACLE_PLACE = 4 * SIZES[-1]  # where the horizontal axis of Theorem 6 shows the oracle
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "figures"


def growing_leaves(n: int) -> Forest:
    """Leaves that grow with D1 while their share of it shrinks, as consistency asks."""
    return Forest(min_samples_leaf=max(5, round((n / 2) ** (1 / 3))))


ENGINES: dict[str, Callable[[int], object]] = {
    "default forest": lambda n: default_engine(),
    "growing leaves": growing_leaves,
}
STYLES = {"default forest": "--", "growing leaves": "-"}
# Okabe and Ito's colours, told apart by colour-blind readers; markers say it again.
LOOKS = dict(
    zip(
        GENERATORS,
        [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D")],
        strict=True,
    )
)


@dataclass(frozen=True)
class Truth:
    """Fresh rows of a generator and what an oracle knows about them."""

    generator: Generator
    X: np.ndarray
    tau: float
    exceedance: np.ndarray
    oracle_exceedance: float


@dataclass(frozen=True)
class Record:
    """One fit: its errors against the truth, each a mean over the fresh rows."""

    generator: str
    engine: str
    n: int
    coverage_error: float
    different: float
    accepted_exceedance: float


def truth_of(generator: Generator) -> Truth:
    """Tolerance at the median oracle bound, so that the oracle accepts half of the rows."""
    X, _ = generator.sample(N_FRESH, 10_000)
    bound = generator.loss_quantile(X, generator.predictor, ALPHA)
    tau = float(np.median(bound))
    exceedance = generator.exceedance(X, generator.predictor, tau)
    return Truth(generator, X, tau, exceedance, float(exceedance[bound <= tau].mean()))


def one_fit(truth: Truth, engine: str, n: int, seed: int) -> Record:
    generator, g = truth.generator, truth.generator.predictor
    locus = Locus(g, engine=ENGINES[engine](n), random_state=seed)
    bound = locus.fit(*generator.sample(n, seed)).loss_bound(truth.X, ALPHA)
    covered = 1.0 - generator.loss_sf(truth.X, g, bound)
    accepted = bound <= truth.tau
    return Record(
        generator.name,
        engine,
        n,
        coverage_error=float(np.mean(np.abs(covered - (1.0 - ALPHA)))),
        different=float(np.mean(accepted != (truth.exceedance <= ALPHA))),
        accepted_exceedance=float(truth.exceedance[accepted].mean()) if accepted.any() else np.nan,
    )


def run(truths: Sequence[Truth]) -> list[Record]:
    records = []
    start = time.perf_counter()
    for truth in truths:
        for engine in ENGINES:
            for n in SIZES:
                records += [one_fit(truth, engine, n, seed) for seed in SEEDS]
                last = means(records, truth.generator.name, engine, "coverage_error")[n]
                print(
                    f"{time.perf_counter() - start:5.0f} s  {truth.generator.name:14} {engine:15} "
                    f"n = {n:6,}  conditional coverage error {last:.4f}",
                    flush=True,
                )
    return records


def means(records: Sequence[Record], generator: str, engine: str, what: str) -> dict[int, float]:
    """Mean over seeds for each size that has been run."""
    found: dict[int, list[float]] = {}
    for record in records:
        if (record.generator, record.engine) == (generator, engine):
            found.setdefault(record.n, []).append(getattr(record, what))
    return {n: float(np.mean(values)) for n, values in found.items()}


def draw_errors(ax: Axes, records: Sequence[Record], what: str) -> None:
    for name, (colour, marker) in LOOKS.items():
        for engine, style in STYLES.items():
            series = means(records, name, engine, what)
            filled = colour if engine == "growing leaves" else "white"
            ax.plot(
                list(series), list(series.values()),
                style, color=colour, marker=marker, markerfacecolor=filled, ms=6, lw=1.7,
            )  # fmt: skip
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(SIZES))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{n:,}" for n in SIZES]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("labelled rows given to fit")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def log_percent(ax: Axes, ticks: Sequence[float]) -> None:
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(FixedLocator(ticks))
    ax.yaxis.set_major_formatter(FixedFormatter([f"{100 * t:g} %" for t in ticks]))
    ax.yaxis.set_minor_locator(NullLocator())


def draw(truths: Sequence[Truth], records: Sequence[Record], path: Path) -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    draw_errors(left, records, "coverage_error")
    log_percent(left, (0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15))
    left.set_title(
        "Theorem 2: coverage at each $x$\nmean of |$P(Z \\leq U(x)$ | $x)$ - 90 %|", loc="left"
    )
    draw_errors(middle, records, "different")
    log_percent(middle, (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3))
    middle.set_title("Theorem 4: accept or flag\ndecisions unlike the oracle's", loc="left")
    draw_errors(right, records, "accepted_exceedance")
    right.set_title("Theorem 6: large loss if accepted\n$P(Z > \\tau$ | accepted)", loc="left")
    right.axhline(ALPHA, color="black", lw=1, ls=":")
    right.annotate(
        rf"$\alpha$ = {100 * ALPHA:g} %",
        (SIZES[0], ALPHA),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=9,
    )
    for truth in truths:
        colour, marker = LOOKS[truth.generator.name]
        right.plot(
            ORACLE_PLACE, truth.oracle_exceedance,
            marker=marker, color=colour, ms=10, markeredgecolor="black",
        )  # fmt: skip
    right.xaxis.set_major_locator(FixedLocator([*SIZES, ORACLE_PLACE]))
    right.xaxis.set_major_formatter(FixedFormatter([*(f"{n:,}" for n in SIZES), "oracle"]))
    right.set_ylim(0, 0.115)
    right.yaxis.set_major_locator(FixedLocator([0, 0.02, 0.04, 0.06, 0.08, 0.1]))
    right.yaxis.set_major_formatter(FixedFormatter(["0", "2 %", "4 %", "6 %", "8 %", "10 %"]))
    handles = [
        Line2D([], [], color=colour, marker=marker, lw=1.7, label=name.replace("_", " "))
        for name, (colour, marker) in LOOKS.items()
    ]
    handles += [
        Line2D([], [], color="0.3", ls=style, lw=1.7, label=engine, marker="o",
               markerfacecolor="0.3" if engine == "growing leaves" else "white")
        for engine, style in STYLES.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def table(truths: Sequence[Truth], records: Sequence[Record], what: str, oracle: bool) -> str:
    heads = ["generator", "engine", *(f"n = {n:,}" for n in SIZES), *(["oracle"] if oracle else [])]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for truth in truths:
        for engine in ENGINES:
            series = means(records, truth.generator.name, engine, what)
            cells = [f"{100 * series[n]:.1f}" for n in SIZES]
            cells += [f"{100 * truth.oracle_exceedance:.1f}"] if oracle else []
            name = truth.generator.name.replace("_", " ")
            lines.append("| " + " | ".join([name, engine, *cells]) + " |")
    return "\n".join(lines)


def write(truths: Sequence[Truth], records: Sequence[Record], path: Path) -> None:
    path.write_text(
        f"""# Consistency on data with known truth

Written by `make guarantees`. All figures in %, from the closed-form law of the loss at
alpha = {100 * ALPHA:g} %: means over {len(SEEDS)} samples and {N_FRESH:,} fresh rows. n rows are
given to `fit`, which models the loss on three quarters of them and calibrates on the rest. The
tolerance tau is the median oracle bound.

"default forest" is what `Locus` uses when no engine is named. Its leaves have a fixed size, so its
law at x rests on a bounded number of losses, and there is a limit to how exact it becomes. "growing
leaves" is the same forest with leaves of (n / 2)^(1/3) rows: their number of rows grows and their
share of the sample shrinks, which is what the assumption of Theorem 2 asks for. Large leaves pay
where noise rules; small ones where the loss changes fast with x, as in "misfit".

![the three tables as curves](consistency.png)

## Theorem 2: mean of |P(Z <= U(x) | x) - {100 * (1 - ALPHA):g} %|

{table(truths, records, "coverage_error", False)}

## Theorem 4: share of accept decisions that differ from the oracle's, P(Z > tau | x) <= alpha

{table(truths, records, "different", False)}

## Theorem 6: P(Z > tau | accepted), at most {100 * ALPHA:g} % for the oracle bound

{table(truths, records, "accepted_exceedance", True)}
"""
    )


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    truths = [truth_of(generator) for generator in GENERATORS.values()]
    records = run(truths)
    draw(truths, records, FOLDER / "consistency.png")
    write(truths, records, FOLDER / "consistency.md")
    print(f"written to {FOLDER}")


if __name__ == "__main__":
    main()
