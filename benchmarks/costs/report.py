"""What a report costs on top of scoring the same rows, by the time of the processor.

Rows come in batches of 65,536 and are drawn when needed, so none are held. Each batch is
scored and then handed to the report, so that other work on the machine disturbs both alike. "On
top" is the report's time, from the pilot to the finished page, less that of scoring, since the
report includes the scoring. Memory is by how much the run raised the peak of the process.

Run ``make costs-report``.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from benchmarks.pages import write_section
from locuscore import Locus, Scorer
from locuscore.report import PILOT_ROWS, Batch, report_batches

N_FEATURES = 8
BATCH_ROWS = 65_536
PAGE = Path(__file__).with_name("RESULTS.md")
PREDICTORS: dict[str, Any] = {
    "linear": LinearRegression(),
    "forest, 100 trees": RandomForestRegressor(100, min_samples_leaf=5, random_state=0),
}


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and a target whose noise depends on one of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, N_FEATURES))
    return X, X.sum(axis=1) + X[:, 0] * rng.normal(size=n)


def fitted(predictor: Any) -> Scorer:
    g = predictor.fit(*rows(5000, seed=1))
    locus = Locus(g, random_state=0).fit(*rows(5000, seed=2))
    return Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass
class Cost:
    """Seconds of the processor: scoring the batches, reporting on them, and what is done once."""

    predictor: str
    n_rows: int
    scoring: float = 0.0
    drawing: float = 0.0
    whole: float = 0.0
    once: float = 0.0
    page: float = 0.0  # megabytes
    memory: float = 0.0

    @property
    def report(self) -> float:
        return self.whole - self.scoring - self.drawing

    @property
    def row(self) -> str:
        parts = (self.scoring, self.report - self.once)
        scoring, batches = (1e6 * part / self.n_rows for part in parts)
        return (
            f"| {self.predictor} | {self.n_rows:,} | {scoring:.1f} | {batches:.1f} | "
            f"{self.once:.1f} | {self.report / self.scoring - 1:.2f}x | {self.page:.2f} | "
            f"{self.memory:.0f} |"
        )


def timed_batches(scorer: Scorer, cost: Cost) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw a batch, score it, and hand it to the report."""
    for number, start in enumerate(range(0, cost.n_rows, BATCH_ROWS)):
        began = time.process_time()
        X, y = rows(min(BATCH_ROWS, cost.n_rows - start), seed=100 + number)
        drawn = time.process_time()
        scorer(X)
        cost.drawing += drawn - began
        cost.scoring += time.process_time() - drawn
        yield X, y


def measure(name: str, n: int) -> Cost:
    scorer, cost = fitted(PREDICTORS[name]), Cost(name, n)
    few = rows(PILOT_ROWS, seed=3)
    scorer(few[0])  # warm
    report_batches(scorer, [few]).to_html()
    before, start = megabytes(), time.process_time()
    # A report on a few rows, less the rows themselves, is what every report does once.
    report_batches(scorer, [few]).to_html()
    once, start = time.process_time() - start, time.process_time()
    found = report_batches(scorer, timed_batches(scorer, cost), pilot=[Batch(*few)])
    page = found.to_html()
    cost.whole, cost.once = time.process_time() - start, once
    cost.page, cost.memory = len(page.encode()) / 1e6, megabytes() - before
    return cost


HEAD = """## Report

Made by `make costs-report` on {day}; processor time, one thread.
Default engine (`Forest`), {features} features, 3,750 + 1,250 labelled rows. "Report" includes the
scoring of the rows; "once" is what does not grow with them (attribution, isolation forest, page).
"On top" is what the whole report adds to scoring, as a multiple of it; the target is at most 0.5x
on a million rows. "Memory" is by how much a run raised the peak of the process; runs are made in
the order shown.

| predictor | rows | scoring, us/row | report, us/row | once, s | on top | page, MB | memory, MB |
|---|---:|---:|---:|---:|---:|---:|---:|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    lines = []
    for n in options.rows:
        for name in PREDICTORS:
            lines.append(measure(name, n).row)
            print(lines[-1], flush=True)
    head = HEAD.format(day=date.today().isoformat(), features=N_FEATURES)
    write_section(options.out, [head.strip(), *lines])


if __name__ == "__main__":
    main()
