"""Makes a fork safe after fitting or scoring in several threads.

GNU's OpenMP, which scikit-learn, LightGBM, XGBoost, stochtree and torch compute with on Linux,
keeps its threads for the next call. A fork copies the record of them and not the threads, and the
first call in the child waits for them for ever. So they are let go just before a fork; parent and
child start their own when they next need some. Runtimes of before GCC 9 cannot do that: their
child uses one thread. Other OpenMP runtimes and OpenBLAS look after forks themselves. The threads
of polars cannot be let go, so its frames are refused in a child rather than waited for.
"""

import os
import sys
from functools import cache, lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

SOFT = 1  # omp_pause_soft: threads go, settings stay


def gnu_openmp() -> tuple[Any, ...]:
    """GNU OpenMP runtimes in this process: each wheel may bring its own."""
    return _found(len(sys.modules))


@lru_cache(maxsize=1)
def _found(n_modules: int) -> tuple[Any, ...]:
    """Look for them; that takes milliseconds, so only if something was imported since."""
    found = ThreadpoolController().lib_controllers
    return tuple(part.dynlib for part in found if part.prefix == "libgomp")


def release_threads() -> None:
    """Let the calling thread's pool of each runtime go."""
    for runtime in gnu_openmp():
        if hasattr(runtime, "omp_pause_resource_all"):
            runtime.omp_pause_resource_all(SOFT)


def use_one_thread() -> None:
    """Keep a child away from a pool that could not be let go."""
    for runtime in gnu_openmp():
        if not hasattr(runtime, "omp_pause_resource_all"):
            runtime.omp_set_num_threads(1)


@cache
def _process_of_polars() -> int:
    """Return the process that first saw a frame of polars."""
    return os.getpid()


def check_polars_process() -> None:
    """Raise in a child of the process that used polars: whose threads it would wait for."""
    if _process_of_polars() != os.getpid():
        raise RuntimeError(
            "this process was forked after its parent had used polars, which then waits for ever "
            "for threads that a fork does not copy; start processes with the method 'spawn' or "
            "'forkserver' of multiprocessing, or fit and score with pandas or Arrow."
        )


def make_forks_safe() -> None:
    """Do both at every fork of this process; once is enough."""
    if hasattr(os, "register_at_fork"):  # POSIX
        os.register_at_fork(before=release_threads, after_in_child=use_one_thread)
