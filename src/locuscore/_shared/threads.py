"""Threads: the same function on several things where several are allowed, and few for few rows."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_ROWS_OF_ONE_THREAD = 30_000


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None
) -> list[Result]:
    """Results in the order of the items; `n_jobs` is that of joblib, and None is one thread."""
    parts = list(items)
    n_threads = 1 if n_jobs is None else min(effective_n_jobs(n_jobs), len(parts))
    if n_threads <= 1:
        return [function(part) for part in parts]
    found: dict[int, Result] = {}
    waiting = iter(range(len(parts)))
    lock = Lock()

    def work() -> None:
        while True:
            with lock:
                place = next(waiting, None)
            if place is None:
                return
            found[place] = function(parts[place])

    # Each thread takes part after part: to be handed one at a time, it would wait for a third.
    with ThreadPoolExecutor(n_threads) as pool:
        for done in [pool.submit(work) for _ in range(n_threads)]:
            done.result()
    return [found[place] for place in range(len(parts))]


def few_threads(n_rows: int) -> Any:
    """Context in which boosted trees of scikit-learn use one thread, if the rows are few.

    Up to about 30,000 rows, more threads gain nothing. On busy cores they wait for each other, and
    a fit of a second can take a minute.
    """
    return threadpool_limits(1 if n_rows <= MOST_ROWS_OF_ONE_THREAD else None, user_api="openmp")
