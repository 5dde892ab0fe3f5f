"""The same function on several things, in threads where several are allowed."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from joblib import Parallel, delayed

Item = TypeVar("Item")
Result = TypeVar("Result")


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
