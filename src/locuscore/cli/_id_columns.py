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
from locuscore._shared.id_names import ID_NAME

FEWEST_ROWS = 20
CHANCE = 1e-6  # probability that random numbers have no tie, below which they count as ids
ID_SHARE = 0.9  # share of distinct values from which a column named like an id counts as one
# Such as 2024-05-31, 20240531T000000, 31.5.2024 12:00 or 5/31/24, kept as text.
DATE = r"^\s*(\d{4}([-/.]\d{1,2}[-/.]|\d{2})\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ,].*)?$"
TIMES = "holds times: new rows mostly come later than all that the loss model has seen."
AN_ID = "has a different value in every row, like an id: it says nothing about new rows."
NAMED_AN_ID = (
    "is named like an id and has a different value in most rows: it says little about new rows."
)


def warn_of_ids_and_times(table: Any, names: Sequence[str]) -> None:
    """Warn of each of these columns that is an id or a time, and say how to leave it out."""
    for name in names:
        what = _suspicion(name, table.column(name))
        if what:
            text = f"column {name} {what} Leave it out with --drop {shlex.quote(name)}."
            warnings.warn(text, LocusWarning, stacklevel=2)


def _suspicion(name: str, column: Any) -> str | None:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return TIMES
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values = column.drop_null()
    if len(values) < FEWEST_ROWS:
        return None
    if is_text and pc.all(pc.match_substring_regex(values, DATE)).as_py():
        return TIMES
    n_distinct = pc.count_distinct(values).as_py()
    if n_distinct == len(values) and (is_text or _counts_rows(values.to_numpy())):
        return AN_ID
    return NAMED_AN_ID if n_distinct > ID_SHARE * len(values) and ID_NAME.fullmatch(name) else None


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
