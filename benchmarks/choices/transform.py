"""On which scale an engine models the loss: held-out pinball loss inside D1.

For each dataset D1 is a fifth of the rows (at most 1,500), as in the paper's split, and nothing
else is read. `select_engine` compares the scales by two-fold cross-validation. Run
``make choices-transform`` for BART, Flow and VariationalGP, or ``BENCH=Flow`` for one of them;
about ten minutes each on one core.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from benchmarks.costs.bart import make_losses
from benchmarks.pages import write_section
from locuscore import engines
from locuscore.engines import select_engine

PAGE = Path(__file__).with_name("RESULTS.md")
NAMES = [
    "concrete",
    "airfoil",
    "winered",
    "winewhite",
    "cycle",
    "electric",
    "bike",
    "homes",
    "protein",
    "superconductivity",
]
SCALES = ("identity", "sqrt", "log")
TITLES = {
    "BART": "## Scale of BART",
    "Flow": "## Scale of Flow",
    "VariationalGP": "## Scale of VariationalGP",
}
MOST_ROWS = 1_500


def compare(name: str, engine: str) -> dict[str, tuple[float, float]]:
    """CRPS and pinball loss of each scale, over those of the identity."""
    X, z = make_losses(name, seed=0)
    n = min(len(z) // 3, MOST_ROWS)
    candidates = {scale: getattr(engines, engine)(transform=scale) for scale in SCALES}
    with warnings.catch_warnings(action="ignore"):
        result = select_engine(candidates, X[:n], z[:n], cv=2, random_state=0)
    scores = {r["name"]: np.array([r["crps"], r["pinball"]]) for r in result.table}
    ratios = {scale: scores[scale] / scores["identity"] for scale in SCALES}
    return {scale: (float(crps), float(pinball)) for scale, (crps, pinball) in ratios.items()}


def write(engine: str) -> None:
    """Compare the scales of one engine, and write its section."""
    columns = [f"{scale}, {what}" for scale in SCALES[1:] for what in ("CRPS", "pinball")]
    lines = [
        TITLES[engine],
        "",
        f"Made by `make choices-transform BENCH={engine}`. Two-fold cross-validation inside D1 (at "
        f"most {MOST_ROWS:,} rows) with x alone; CRPS of the law and pinball loss of the "
        "calibrated bound at alpha = 0.1, each over that of the identity: below 1 is better.",
        "",
        "| dataset | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    rows = []
    for name in NAMES:
        ratios = compare(name, engine)
        rows.append([value for scale in SCALES[1:] for value in ratios[scale]])
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in rows[-1]) + " |")
        print(lines[-1], flush=True)
    means = np.exp(np.log(rows).mean(axis=0))
    lines.append("| geometric mean | " + " | ".join(f"{value:.3f}" for value in means) + " |")
    write_section(PAGE, lines)


if __name__ == "__main__":
    for asked in sys.argv[1:] or TITLES:
        write(asked)
