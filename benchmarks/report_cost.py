"""What a report costs on top of scoring the same rows, by the time of the processor.

Rows come in batches of 65,536 and are drawn when they are wanted, so none are held. For each batch
the scorer is called and the summary adds the batch, one after the other, so that other work on the
machine disturbs both alike; what comes before and after, the pilot and the finished page, is
counted in full. "On top" is the report's time less that of scoring, since the report includes
the scoring. Peak memory is that of the process, less what it had before the first batch.

Run: make report-cost
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

from locuscore import Locus, Scorer
from locuscore.report import PILOT_ROWS, Report
from locuscore.report._summary import Summary

N_FEATURES = 8
BATCH_ROWS = 65_536
OUT = Path(__file__).with_name("REPORT_COST.md")
PREDICTORS: dict[str, Any] = {
    "linear": LinearRegression(),
    "forest, 100 trees": RandomForestRegressor(100, min_samples_leaf=5, random_state=0),
}


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and a target whose noise depends on one of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, N_FEATURES))
    return X, X.sum(axis=1) + X[:, 0] * rng.normal(size=n)


def batches(n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for number, start in enumerate(range(0, n, BATCH_ROWS)):
        yield rows(min(BATCH_ROWS, n - start), seed=100 + number)


def fitted(predictor: Any) -> Scorer:
    g = predictor.fit(*rows(5000, seed=1))
    locus = Locus(g, random_state=0).fit(*rows(5000, seed=2))
    return Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass
class Cost:
    """Seconds of the processor: scoring, the batches of the report, and what it does once."""

    predictor: str
    n_rows: int
    scoring: float = 0.0
    batches: float = 0.0
    once: float = 0.0
    page: float = 0.0  # megabytes
    memory: float = 0.0

    @property
    def on_top(self) -> float:
        return (self.batches + self.once) / self.scoring - 1

    @property
    def row(self) -> str:
        per_row = [1e6 * part / self.n_rows for part in (self.scoring, self.batches)]
        return (
            f"| {self.predictor} | {self.n_rows:,} | {per_row[0]:.1f} | {per_row[1]:.1f} | "
            f"{self.once:.1f} | {self.on_top:.2f}x | {self.page:.2f} | {self.memory:.0f} |"
        )


def measure(name: str, n: int) -> Cost:
    scorer, cost = fitted(PREDICTORS[name]), Cost(name, n)
    warm = rows(10_000, seed=3)
    scorer(warm[0])
    Summary(scorer, [(*warm, None)]).add(*warm)
    before, start = megabytes(), time.process_time()
    X, y = rows(PILOT_ROWS, seed=4)
    summary = Summary(scorer, [(X, y, None)])
    cost.once += time.process_time() - start
    for X, y in batches(n):
        start = time.process_time()
        scorer(X)
        cost.scoring += time.process_time() - start
        start = time.process_time()
        summary.add(X, y)
        cost.batches += time.process_time() - start
    start = time.process_time()
    page = Report(summary.finish()).to_html()
    cost.once += time.process_time() - start
    cost.page, cost.memory = len(page.encode()) / 1e6, megabytes() - before
    return cost


HEAD = """# What a report costs

Made by `make report-cost` on {day}; figures by the time of the processor, one thread.
Default engine (`Forest`), {features} features, 3,750 + 1,250 labelled rows. "Report" includes the
scoring of the rows; "on top" is what the report adds to scoring them, whole, as a multiple.
The target is at most 0.5x on a million rows.

| predictor | rows | scoring, us per row | report, us per row | once, s | on top | page, MB | memory, MB |
|---|---:|---:|---:|---:|---:|---:|---:|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    lines = []
    for n in options.rows:
        for name in PREDICTORS:
            lines.append(measure(name, n).row)
            print(lines[-1], flush=True)
    head = HEAD.format(day=date.today().isoformat(), features=N_FEATURES)
    options.out.write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
