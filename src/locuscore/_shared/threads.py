"""Threads: the same function on several things where several are allowed, and few for few rows."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_ROWS_OF_ONE_THREAD = 30_000


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None
) -> list[Result]:
    """Results in the order of the items; `n_jobs` is that of joblib, and None is one thread."""
    if n_jobs in (None, 1):
        return [function(item) for item in items]
    found: list[Result] = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(function)(item) for item in items
    )
    return found


def few_threads(n_rows: int) -> Any:
    """Context in which boosted trees of scikit-learn use one thread, if the rows are few.

    Up to about 30,000 rows, more threads gain nothing. On busy cores they wait for each other, and
    a fit of a second can take a minute.
    """
    return threadpool_limits(1 if n_rows <= MOST_ROWS_OF_ONE_THREAD else None, user_api="openmp")
