"""Columns that a loss model should not learn from: ids and times."""

import math
import shlex
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from locuscore import LocusWarning

FEWEST_ROWS = 20
CHANCE = 1e-6  # of numbers without a tie, if they were drawn at random


def warn_of_suspects(table: Any, names: Sequence[str]) -> None:
    """Warn of each of these columns that is an id or a time, and say how to leave it out."""
    for name in names:
        what = _suspicion(table.column(name))
        if what:
            text = f"column {name} {what} Leave it out with --drop {shlex.quote(name)}."
            warnings.warn(text, LocusWarning, stacklevel=2)


def _suspicion(column: Any) -> str | None:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return "holds times: new rows mostly come later than all that the loss model has seen."
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values = column.drop_null()
    if len(values) < FEWEST_ROWS or pc.count_distinct(values).as_py() < len(values):
        return None
    if is_text or _counts_rows(values.to_numpy()):
        return "has another value in every row, as an id has: it says nothing about new rows."
    return None


def _counts_rows(values: np.ndarray) -> bool:
    """Whether distinct numbers are whole, and either in order or distinct beyond chance.

    Numbers drawn from R values, in whatever proportions, are all distinct with a probability of at
    most ``exp(-n (n - 1) / (2 R))``.
    """
    if not np.all(np.isfinite(values)) or np.any(values != np.round(values)):
        return False
    steps = np.sign(np.diff(values.astype(np.float64)))
    n, possible = len(values), float(values.max()) - float(values.min()) + 1.0
    return bool(abs(steps.sum()) == n - 1 or n * (n - 1) / (2 * possible) > -math.log(CHANCE))
