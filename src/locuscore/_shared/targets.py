"""Targets and answers of any kind: numbers, labels, masks, texts, lists of tokens, sets."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray
from locuscore._shared.frames import as_array

PARTS = (list, tuple, set, frozenset, np.ndarray)


def as_targets(y: ArrayLike) -> np.ndarray:
    """Return one target per row: as an array if they make one, else as an array of objects.

    Lists of tokens and masks of several sizes make no array.
    """
    try:
        return as_array(y)
    except ValueError:
        if not holds_parts(y):
            raise
    return as_objects(y)


def holds_parts(values: Any) -> bool:
    """Whether these are values for each row that are lists, sets or arrays themselves."""
    if not isinstance(values, list | tuple) or not values:
        return False
    return all(isinstance(value, PARTS) for value in values)


def as_objects(values: Any) -> np.ndarray:
    """Return an array of objects with one entry for each value."""
    out = np.empty(len(values), dtype=object)
    out[:] = [np.asarray(value) if hasattr(value, "detach") else value for value in values]
    return out


def shown_as_columns(answers: np.ndarray) -> np.ndarray:
    """What is known of answers of any kind, as columns.

    An image gives the mean and the standard deviation of its values, a list or set its length;
    anything else the answers themselves.
    """
    if answers.ndim > 2:
        flat: FloatArray = answers.reshape(len(answers), -1).astype(np.float64)
        return np.column_stack([flat.mean(axis=1), flat.std(axis=1)])
    if answers.ndim == 1 and answers.dtype == object and holds_parts(answers.tolist()):
        sizes = [v.size if isinstance(v, np.ndarray) else len(v) for v in answers]
        return np.array(sizes, dtype=np.float64)[:, None]
    return answers.reshape(len(answers), -1)
