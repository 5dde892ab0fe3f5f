"""Ids of rows: by them a label finds its decision."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from locuscore import Schema
from locuscore.service._refusal import RefusalError

ID, OTHER_ID = "id", "row_id"
AUDIT = "audit"  # the column that says whether a label is asked for
LONGEST_ID = 200
LARGEST = 2**63


def id_column(schema: Schema) -> str:
    """Return the column of ids: ``id``, or ``row_id`` if the model has a feature called ``id``."""
    return OTHER_ID if ID in map(str, schema.names) else ID


def checked_ids(values: Sequence[Any], n: int) -> list[str]:
    """Return ids as texts: one for each row, all different."""
    if len(values) != n:
        raise RefusalError(422, f"there are {len(values)} ids for {n} rows; give one for each.")
    found = [_text(value) for value in values]
    if len(set(found)) < n:
        raise RefusalError(422, "two rows have the same id; an id is one decision.")
    return found


def _text(value: Any) -> str:
    if type(value) is int and -LARGEST <= value < LARGEST:
        return str(value)
    if type(value) is not str or not 0 < len(value) <= LONGEST_ID or "\0" in value:
        raise RefusalError(
            422,
            f"an id is a text of 1 to {LONGEST_ID} characters or a whole number; got "
            f"{value!r:.40}.",
        )
    return value


def as_column(ids: Sequence[str]) -> np.ndarray:
    """Return ids as a column of an answer."""
    column = np.empty(len(ids), dtype=object)
    column[:] = ids
    return column
