"""What levels per row cost when a million rows are scored, by the time of the processor.

Each calibration is fitted on the same rows with the same seed, so the loss model is the same and
only the levels differ. The rows come in batches; all calibrations score a batch before the next
one is drawn, in an order that turns, so that other work on the machine disturbs all alike.

Run ``make costs-groups``; about three minutes.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.pages import write_section
from locuscore import Locus, Scorer
from locuscore.calibration import ByGroup, Marginal

PAGE = Path(__file__).with_name("RESULTS.md")
BATCH_ROWS = 50_000
CHOICES = {
    "marginal": Marginal(),
    "by carrier (16)": ByGroup("carrier"),
    "by carrier and month, overlapping (28)": ByGroup(["carrier", "month"]),
}


def rows(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, 16 carriers and 12 months; the noise depends on the carrier."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(size=(n, 8)), columns=[f"x{j}" for j in range(8)])
    codes = rng.integers(16, size=n)
    X["carrier"] = pd.Categorical.from_codes(codes, [f"carrier {k}" for k in range(16)])
    X["month"] = rng.integers(1, 13, size=n)
    numbers = X.iloc[:, :8].to_numpy()
    return X, numbers.sum(axis=1) + (1 + codes / 8) * numbers[:, 0] * rng.normal(size=n)


def fitted() -> dict[str, Scorer]:
    g = HistGradientBoostingRegressor(categorical_features="from_dtype").fit(*rows(5_000, seed=1))
    labelled = rows(20_000, seed=2)
    found = {}
    for name, choice in CHOICES.items():
        locus = Locus(g, calibration=choice, random_state=0).fit(*labelled)
        found[name] = Scorer(locus, locus.tau_rule(tau=2.0, alpha=0.1))
    return found


def measured(n_rows: int) -> dict[str, float]:
    """Seconds of the processor by calibration."""
    scorers = fitted()
    names, spent = list(scorers), dict.fromkeys(scorers, 0.0)
    for number in range(n_rows // BATCH_ROWS):
        X, _ = rows(BATCH_ROWS, seed=10 + number)
        for name in np.roll(names, number):
            start = time.process_time()
            scorers[name](X)
            spent[name] += time.process_time() - start
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n_rows = parser.parse_args().rows
    spent = measured(n_rows)
    lines = [
        "## Levels per row",
        "",
        f"Made by `make costs-groups`: {n_rows:,} rows of a frame through a `Scorer` with a "
        f"rule, in batches of {BATCH_ROWS:,}, one thread; seconds of the processor.",
        "",
        "| calibration | seconds | ratio to marginal |",
        "|---|---:|---:|",
    ]
    for name, seconds in spent.items():
        lines.append(f"| {name} | {seconds:.1f} | {seconds / spent['marginal']:.2f} |")
    write_section(PAGE, lines)


if __name__ == "__main__":
    main()
