"""The float matrix an engine sees: encoded x, g(x), the spread of g's members."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from locuscore._frames import Encoder, n_rows
from locuscore._predictor import own_signals
from locuscore._protocols import FloatArray, Rows

SignalChoice = Literal["all", "x"] | Callable[[Rows], Any]


@dataclass(frozen=True)
class Signals:
    """A fitted map from rows to floats; without `predictor`, g's own signals are left out."""

    embed: Callable[[Rows], Any]
    predictor: Any = None

    def __call__(self, X: Rows) -> FloatArray:
        values = np.asarray(self.embed(X), dtype=np.float64)
        if values.ndim != 2 or len(values) != n_rows(X):
            raise ValueError(
                f"signals must give one row of numbers per row of X, shape ({n_rows(X)}, d); "
                f"got {values.shape}."
            )
        if self.predictor is None:
            return values
        return np.hstack([values, own_signals(self.predictor, X)])


def fit_signals(choice: SignalChoice, predictor: Any, X: Rows) -> Signals:
    """Learn the encoding of X on D1.

    ``"all"``: encoded x and what g says of itself; ``"x"``: encoded x alone, as in the paper; a
    function of X: its output alone, for instance the last hidden layer of a network.
    """
    if callable(choice):
        return Signals(choice)
    if choice not in ("all", "x"):
        raise ValueError(f"signals must be 'all', 'x' or a function of X; got {choice!r}.")
    return Signals(Encoder().fit(X).transform, predictor if choice == "all" else None)
