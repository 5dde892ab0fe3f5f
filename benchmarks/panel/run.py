"""A wider panel to choose on: twelve real tables, two predictors, ours and rivals.

``python -m benchmarks.panel.run`` makes the records that are missing and writes RESULTS.md.
"""

import logging
import sys
from pathlib import Path

from benchmarks import grid
from benchmarks.panel import report
from benchmarks.panel.methods import METHODS
from benchmarks.panel.protocol import DATASETS, N_SEEDS, measure, prepare
from benchmarks.paper import records

FOLDER = Path(__file__).with_name("records")


def work(task: grid.Task) -> list[records.Record]:
    """The records of one task."""
    logging.disable(logging.INFO)  # MAPIE tells of quantiles that cross
    shared = prepare(task.dataset, task.seed)
    return [measure(shared, name, METHODS[name](shared)) for name in task.methods]


def main() -> int:
    options = grid.options(__doc__.partition("\n")[0], DATASETS, METHODS)
    n_seeds = min(options.seeds or N_SEEDS, N_SEEDS)
    failures: list[str] = []
    if not options.report:
        tasks = grid.missing_tasks(options.datasets, lambda _: n_seeds, options.methods, FOLDER)
        failures = grid.run(tasks, work, FOLDER, n_jobs=options.jobs, minutes=options.minutes)
    report.write(records.read(FOLDER))
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
