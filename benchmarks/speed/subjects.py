"""What the figures are taken on: diamonds, a linear g and the default `Locus` around it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from locuscore import Locus
from locuscore._shared import machine_code
from locuscore.datasets import load_diamonds

N_TRAIN, N_LABELLED = 10_000, 10_000
ALPHA = 0.1


@dataclass(frozen=True)
class Diamonds:
    """Shuffled rows: some that g is trained on, some labelled ones for `fit`, and new ones."""

    train: tuple[np.ndarray, np.ndarray]
    labelled: tuple[np.ndarray, np.ndarray]
    new: np.ndarray


@cache
def diamonds() -> Diamonds:
    X, y = load_diamonds(as_frame=False)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    n = N_TRAIN + N_LABELLED
    parts = [(X[a:b], y[a:b]) for a, b in ((0, N_TRAIN), (N_TRAIN, n))]
    return Diamonds(*parts, X[n:])


@cache
def linear() -> Any:
    """Return a linear g."""
    return LinearRegression().fit(*diamonds().train)


@cache
def fitted() -> Locus:
    """Return the default around the linear g, on 10,000 labelled rows."""
    return Locus(linear(), random_state=0).fit(*diamonds().labelled)


def without_numba(call: Callable[..., Any]) -> Callable[..., Any]:
    """Call as where numba is not installed."""
    return lambda *rows: _with_starter(call, rows, None)


def with_numba(call: Callable[..., Any]) -> Callable[..., Any]:
    """Call as after many rows, when the compiled loops have been started."""
    loops = machine_code.loaded()
    if loops is None:
        raise RuntimeError("numba is not installed; run: pip install 'locuscore[fast]'")
    return lambda *rows: _with_starter(call, rows, loops)


def _with_starter(call: Callable[..., Any], rows: tuple[Any, ...], loops: Any) -> Any:
    before, starter = machine_code._starter, machine_code.Starter()
    starter.loops, starter._rows = loops, machine_code.ROWS_BEFORE
    machine_code._starter = starter
    try:
        return call(*rows)
    finally:
        machine_code._starter = before
