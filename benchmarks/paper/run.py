"""Run the benchmark's grid; ``make bench`` for all of it, ``make bench-smoke`` for a taste.

A task is one dataset and one seed: g is fitted once, then every missing method is scored and its
record appended. Seeds come first, then datasets, so that a run that is stopped early is balanced.
Starting it again goes on where it stopped, whatever stopped it.
"""

import argparse
import logging
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

from benchmarks.datasets import DATASETS
from benchmarks.paper import records
from benchmarks.paper.costs import Costs
from benchmarks.paper.methods import METHODS, chosen
from benchmarks.paper.progress import Progress
from benchmarks.paper.protocol import N_TREES, measure, prepare

SMOKE = ("concrete", "airfoil")
PACKAGES = (
    "locuscore",
    "numpy",
    "scipy",
    "scikit-learn",
    "stochtree",
    "torch",
    "zuko",
    "gpytorch",
    "pymc-bart",
    "mapie",
    "crepes",
    "quantile-forest",
    "lightgbm",
)


@dataclass(frozen=True)
class Job:
    """One task with the methods it still lacks; `most_rows` and `n_trees` shrink it for tests."""

    dataset: str
    seed: int
    methods: tuple[str, ...]
    folder: Path
    most_rows: int | None = None
    n_trees: int = N_TREES


def n_seeds(dataset: str) -> int:
    """Thirty repetitions as in the paper for small sets, fewer where each takes long."""
    rows = DATASETS[dataset].shape[0]
    return 30 if rows <= 2_200 else 10 if rows <= 11_000 else 5


def plan(options: argparse.Namespace, done: set[records.Key]) -> list[Job]:
    """The tasks with at least one record missing, seeds outermost, small datasets first."""
    names = [name for name in chosen(options.methods) if METHODS[name].available]
    jobs = []
    by_size = sorted(options.datasets, key=lambda name: DATASETS[name].shape[0])
    for seed in range(max(options.seeds or n_seeds(name) for name in by_size)):
        for dataset in by_size:
            if seed >= (options.seeds or n_seeds(dataset)):
                continue
            missing = tuple(
                name
                for name in names
                if METHODS[name].wants(dataset, seed) and (dataset, seed, name) not in done
            )
            if missing:
                shape = options.most_rows, options.trees
                jobs.append(Job(dataset, seed, missing, options.folder, *shape))
    return jobs


def run_job(job: Job, parent: int | None = None) -> list[str]:
    """Score the methods of one task; returns what failed. Stops if the parent is gone."""
    warnings.simplefilter("ignore")  # convergence and ties: the records say what they did
    logging.disable(logging.INFO)
    task = prepare(job.dataset, job.seed, job.most_rows, job.n_trees)
    installed = versions()
    failures = []
    for name in job.methods:
        if parent is not None and os.getppid() != parent:
            os._exit(1)
        start = time.process_time()
        try:
            record = measure(task, name, METHODS[name].run(task))
        except Exception:  # one method must not stop the others
            where = f"{name} on {job.dataset}, seed {job.seed}"
            failures.append(f"{where}: {traceback.format_exc(limit=-2)}")
            continue
        spent = {"total_seconds": round(time.process_time() - start, 3)}
        records.append(record | spent | {"versions": installed}, job.folder)
    return failures


def versions() -> dict[str, str]:
    """Versions of the packages that decide a result."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def run(jobs: list[Job], n_jobs: int, minutes: float, costs: Costs) -> list[str]:
    """Run the tasks in parallel processes, each with one thread; returns what failed."""
    for library in ("OMP", "OPENBLAS", "MKL"):  # read by the processes when they start
        os.environ[f"{library}_NUM_THREADS"] = "1"
    waiting, failures = list(jobs), []
    stop_at = time.monotonic() + 60 * minutes
    progress = Progress(jobs, costs, n_jobs)
    context = get_context("spawn")
    with progress, ProcessPoolExecutor(n_jobs, context, max_tasks_per_child=20) as pool:
        running: dict[Future[list[str]], Job] = {}
        while running or (waiting and time.monotonic() < stop_at):
            while waiting and len(running) < n_jobs and time.monotonic() < stop_at:
                job = waiting.pop(0)
                running[pool.submit(run_job, job, os.getpid())] = job
            finished, _ = wait(running, timeout=5, return_when=FIRST_COMPLETED)
            for future in finished:
                failures += future.result()
                progress.finished(running.pop(future))
            progress.update(running.values())
    return failures


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    parser.add_argument(
        "--seeds", type=int, help="repetitions; by default as many as the size allows"
    )
    parser.add_argument("--methods", nargs="+", help="names or groups; by default all but the slow")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one thread")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no task after")
    parser.add_argument("--folder", type=Path, default=records.FOLDER, help="where records go")
    parser.add_argument("--smoke", action="store_true", help="two small datasets, two seeds")
    parser.add_argument("--estimate", action="store_true", help="print the estimate and stop")
    parser.add_argument("--most-rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--trees", type=int, default=N_TREES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.smoke:
        options.datasets, options.seeds = list(SMOKE), 2
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    left_out = [name for name in chosen(options.methods) if not METHODS[name].available]
    if left_out:
        print(f"left out, package not installed: {', '.join(left_out)}")
    there = records.read(options.folder)
    costs = Costs(there)
    jobs = plan(options, {records.key(record) for record in there})
    hours = sum(costs.job(job) for job in jobs) / 3600
    n_records = sum(len(job.methods) for job in jobs)
    print(
        f"{len(jobs)} tasks, {n_records} records to make ({len(there)} are there); estimate: "
        f"{hours:.2f} hours of one core, {hours / options.jobs:.2f} hours with {options.jobs} jobs",
        flush=True,
    )
    if options.estimate:
        print(breakdown(jobs, costs))
        return 0
    failures = run(jobs, options.jobs, options.minutes, costs)
    records.pack(options.folder)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def breakdown(jobs: Iterable[Job], costs: Costs) -> str:
    """Estimated minutes per dataset and per method."""
    datasets, methods = Counter[str](), Counter[str]()
    for job in jobs:
        datasets[job.dataset] += costs.job(job) / 60
        methods["g"] += costs.g(job.dataset) / 60
        for name in job.methods:
            methods[name] += costs.method(name, job.dataset) / 60
    return "\n".join(
        f"{minutes:8.1f} min  {name}"
        for counter in (datasets, methods)
        for name, minutes in counter.most_common()
    )


if __name__ == "__main__":
    sys.exit(main())
