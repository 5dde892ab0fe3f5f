"""Bounds from 60 to 500 labelled rows: our default, a constant bound, and other packages.

g is a forest trained on other rows of the same table. Run with ``python -m benchmarks.small.run``;
records are kept, so a stopped run goes on where it was. ``--report`` only writes the page.
"""

import time
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks import grid
from benchmarks.paper.protocol import ACCEPTANCE, LARGE, tail_rates
from benchmarks.paper.records import Record
from benchmarks.small import report
from benchmarks.small.methods import ALPHAS, METHODS, Bounds, Part, Problem
from benchmarks.small.tables import DATASETS, MOST_TO_TEST, TABLES
from locuscore.metrics import coverage, pinball_loss

FOLDER = Path(__file__).with_name("records")
N_TREES, N_SEEDS = 300, 30


@lru_cache(maxsize=2)  # the processes go through the tables in turn
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    return TABLES[name].load()


def make_problem(
    X: np.ndarray, y: np.ndarray, n_for_g: int, n: int, seed: int, n_trees: int = N_TREES
) -> Problem:
    """Shuffle the table: first the rows of g, then n labelled rows, then test rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, labelled, test = np.split(order, [n_for_g, n_for_g + n])
    g = RandomForestRegressor(n_trees, random_state=seed, n_jobs=1).fit(X[train], y[train])
    labelled, test = (Part.of(g, X[rows], y[rows]) for rows in (labelled, test[:MOST_TO_TEST]))
    return Problem(g, labelled, test, seed)


def measure(problem: Problem, bounds: Bounds) -> Record:
    """Pinball losses and bounds in units of the mean loss, so that tables can be averaged.

    Rows are ranked by their bound at the first alpha; tau is a quantile of the test losses.
    """
    z = problem.test.z
    unit, tau = float(z.mean()), float(np.quantile(z, LARGE))
    # Rounded, since half of an interval's width ties only up to the last bits.
    record: Record = {"tail70": tail_rates(np.round(bounds[0] / unit, 9), z, tau, [ACCEPTANCE])[0]}
    for alpha, bound in zip(ALPHAS, bounds, strict=True):
        record |= {
            f"pinball_{alpha}": pinball_loss(z, bound, alpha) / unit,
            f"coverage_{alpha}": coverage(z, bound),
            f"bound_{alpha}": float(np.mean(bound)) / unit,
        }
    return record


def work(task: grid.Task) -> list[Record]:
    """The records of one table, number of labelled rows and seed."""
    name, n = DATASETS[task.dataset]
    problem = make_problem(*load(name), TABLES[name].n_for_g(n), n, task.seed)
    return [_record(task, method, problem) for method in task.methods]


def _record(task: grid.Task, method: str, problem: Problem) -> Record:
    start = time.process_time()
    bounds = METHODS[method](problem)
    seconds = round(time.process_time() - start, 4)
    own = {"dataset": task.dataset, "seed": task.seed, "method": method, "seconds": seconds}
    return own | measure(problem, bounds)


def main() -> None:
    chosen = grid.options(str(__doc__).partition("\n")[0], DATASETS, METHODS)
    if not chosen.report:
        n_seeds = min(chosen.seeds or N_SEEDS, N_SEEDS)
        tasks = grid.missing_tasks(chosen.datasets, lambda _: n_seeds, chosen.methods, FOLDER)
        failures = grid.run(tasks, work, FOLDER, n_jobs=chosen.jobs, minutes=chosen.minutes)
        print(*failures, sep="\n")
    report.write(FOLDER)


if __name__ == "__main__":
    main()
