"""Runs a grid of tasks in parallel processes; resumable, since records are appended as they come.

A task is a dataset, a seed and the methods that lack a record. The function that does the work
returns the records of a task, one per method; all processes use one thread.
"""

import argparse
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from rich.progress import Progress, TimeElapsedColumn

from benchmarks.paper import records

Work = Callable[["Task"], list[records.Record]]


@dataclass(frozen=True)
class Task:
    """One dataset and seed, with the methods that lack a record."""

    dataset: str
    seed: int
    methods: tuple[str, ...]


def missing_tasks(
    datasets: Iterable[str], seeds: Callable[[str], int], methods: Iterable[str], folder: Path
) -> list[Task]:
    """The tasks with a record missing; seeds outermost, so that a stopped run is balanced."""
    names, wanted = list(datasets), list(methods)
    done = {records.key(record) for record in records.read(folder)}
    tasks = []
    for seed in range(max(seeds(name) for name in names)):
        for name in (name for name in names if seed < seeds(name)):
            lacking = tuple(method for method in wanted if (name, seed, method) not in done)
            if lacking:
                tasks.append(Task(name, seed, lacking))
    return tasks


def run(
    tasks: list[Task],
    work: Work,
    folder: Path,
    *,
    n_jobs: int = 2,
    minutes: float = float("inf"),
) -> list[str]:
    """Do the tasks and keep their records; returns what failed. Starts nothing after `minutes`."""
    for library in ("OMP", "OPENBLAS", "MKL"):  # read by the processes when they start
        os.environ[f"{library}_NUM_THREADS"] = "1"
    stop_at = time.monotonic() + 60 * minutes
    failures: list[str] = []
    waiting, running = list(tasks), set()
    bar = Progress(*Progress.get_default_columns(), TimeElapsedColumn(), transient=True)
    with bar, ProcessPoolExecutor(n_jobs, get_context("spawn"), max_tasks_per_child=20) as pool:
        shown = bar.add_task(folder.parent.name, total=len(tasks))
        while running or (waiting and time.monotonic() < stop_at):
            while waiting and len(running) < n_jobs and time.monotonic() < stop_at:
                running.add(pool.submit(_attempt, work, waiting.pop(0)))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                found, failed = future.result()
                for record in found:
                    records.append(record, folder)
                failures += failed
                bar.advance(shown)
    records.pack(folder)
    return failures


def _attempt(work: Work, task: Task) -> tuple[list[records.Record], list[str]]:
    warnings.simplefilter("ignore")  # convergence and ties: the records say what they did
    try:
        return work(task), []
    except Exception:  # one task must not stop the others
        return [], [f"{task.dataset}, seed {task.seed}: {traceback.format_exc(limit=-2)}"]


def options(
    description: str, datasets: Iterable[str], methods: Iterable[str]
) -> argparse.Namespace:
    """The options that all grids share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--datasets", nargs="+", choices=list(datasets), default=list(datasets))
    parser.add_argument("--methods", nargs="+", choices=list(methods), default=list(methods))
    parser.add_argument("--seeds", type=int, help="repetitions, at most those of the grid")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one thread")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no task after")
    parser.add_argument("--report", action="store_true", help="only write the page from records")
    return parser.parse_args()
