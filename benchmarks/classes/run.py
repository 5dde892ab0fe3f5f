"""Run the grid: tables, classifiers and losses, 30 splits each; resumable.

``python -m benchmarks.classes.run`` for all of it, ``--datasets "electric forest 0-1"`` for a part.
"""

from pathlib import Path

from benchmarks import grid
from benchmarks.classes import report
from benchmarks.classes.methods import METHODS, methods_of
from benchmarks.classes.protocol import DATASETS, measure, prepare
from benchmarks.paper.records import Record

N_SEEDS = 30
RECORDS = Path(__file__).with_name("records")


def work(task: grid.Task) -> list[Record]:
    """The records of one task; g and its answers are computed once for all methods."""
    prepared = prepare(task.dataset, task.seed)
    return [measure(prepared, name, METHODS[name].run(prepared)) for name in task.methods]


def missing(datasets: list[str], methods: list[str], n_seeds: int, folder: Path) -> list[grid.Task]:
    """The tasks with a record missing; a method that knows no costs, or needs none, is left out."""
    tasks = []
    for loss in sorted({DATASETS[name][-1] for name in datasets}):
        wanted = [m for m in methods_of(loss) if m in methods and METHODS[m].is_available]
        names = [name for name in datasets if DATASETS[name][-1] == loss]
        tasks += grid.missing_tasks(names, lambda _: n_seeds, wanted, folder)
    return sorted(tasks, key=lambda task: task.seed)


def main() -> None:
    options = grid.options(__doc__, DATASETS, METHODS)
    if not options.report:
        n_seeds = min(options.seeds or N_SEEDS, N_SEEDS)
        tasks = missing(options.datasets, options.methods, n_seeds, RECORDS)
        failures = grid.run(tasks, work, RECORDS, n_jobs=options.jobs, minutes=options.minutes)
        print("\n".join(failures))
    report.write(RECORDS)


if __name__ == "__main__":
    main()
