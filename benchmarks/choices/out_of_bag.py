"""What calibrating out of bag gains over a split, and what coverage it has.

g is a forest of other rows of the same table. A default `Locus` with a split and one with
``calibration=OutOfBag()`` get the same n labelled rows. Run ``make choices-out-of-bag``; about ten
minutes.
"""

from pathlib import Path

import numpy as np

from benchmarks.datasets import load
from benchmarks.pages import write_section
from benchmarks.small.methods import ALPHAS, Problem
from benchmarks.small.run import make_problem, measure
from locuscore import Locus
from locuscore.calibration import OutOfBag

PAGE = Path(__file__).with_name("RESULTS.md")
NAMES = ("airfoil", "cycle", "homes", "kin40k")
SIZES, SEEDS, N_FOR_G, N_TREES = (200, 1_000, 5_000), range(3), 500, 100
CHOICES = {"split": None, "out of bag": OutOfBag()}


def bounds(problem: Problem, name: str) -> list[np.ndarray]:
    locus = Locus(problem.g, calibration=CHOICES[name], random_state=problem.seed)
    locus.fit(problem.labelled.x, problem.labelled.y)
    return list(locus.loss_bound(problem.test.x, ALPHAS).T)


def line(name: str, n: int) -> str | None:
    """One line of the table; None if the table has too few rows."""
    X, y = load(name)
    if len(y) < N_FOR_G + n + 500:
        return None
    found: dict[str, list[dict[str, float]]] = {choice: [] for choice in CHOICES}
    for seed in SEEDS:
        problem = make_problem(X, y, N_FOR_G, n, seed, N_TREES)
        for choice in CHOICES:
            found[choice].append(measure(problem, bounds(problem, choice)))

    def mean(choice: str, what: str) -> float:
        return float(np.mean([record[what] for record in found[choice]]))

    cells = []
    for alpha in ALPHAS:
        split, own = (mean(choice, f"pinball_{alpha}") for choice in CHOICES)
        cells.append(f"{100 * (own / split - 1):+.1f} %")
        for choice in CHOICES:
            all_of = [record[f"coverage_{alpha}"] for record in found[choice]]
            cells.append(f"{np.mean(all_of):.3f} ({np.std(all_of):.3f})")
    return f"| {name} | {n:,} | {' | '.join(cells)} |"


def main() -> None:
    lines = [found for n in SIZES for name in NAMES if (found := line(name, n)) is not None]
    heads = [f"pinball at {a} | coverage, split | coverage, out of bag" for a in ALPHAS]
    write_section(
        PAGE,
        [
            "## Out of bag",
            "",
            "`calibration=OutOfBag()` against the default split, with the same labelled rows; mean "
            f"of {len(SEEDS)} seeds, with the standard deviation of the coverage over seeds. "
            "Pinball loss is relative to the split's.",
            "",
            f"| table | rows | {' | '.join(heads)} |",
            "|---|---:|" + "---:|" * 3 * len(ALPHAS),
            *lines,
        ],
    )


if __name__ == "__main__":
    main()
