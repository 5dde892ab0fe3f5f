"""Labels of groups: one per row, of any type that can be hashed."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from locuscore._protocols import IntArray, Rows
from locuscore._shared.checks import is_missing
from locuscore._shared.frames import column


def read_labels(groups: Any, n: int, name: str = "groups") -> list[Any]:
    """Return one label per row as Python values; some may be missing."""
    if isinstance(groups, np.ndarray) and groups.dtype.str[1:] in ("M8[ns]", "m8[ns]"):
        # Python has no such fine times, so numpy would list them as integers.
        groups = groups.astype(groups.dtype.str[1:3] + "[us]")
    try:
        labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
        shape = np.shape(groups) if isinstance(groups, np.ndarray) else (len(labels),)
    except TypeError:  # a single label
        labels, shape = [], ()
    if shape != (n,):
        raise ValueError(f"{name} must hold one label per row, {n} in all; got shape {shape}.")
    return labels


def column_or_labels(X: Rows, labels: Any) -> Any:
    """Return the labels of rows, or the column of X that a text names."""
    return column(X, labels) if isinstance(labels, str) else labels


def label_codes(groups: Any, n: int, name: str = "groups") -> tuple[list[Hashable], IntArray]:
    """Return the distinct labels in order of appearance, and each row's position among them.

    Missing labels are refused, since only the user knows whether those rows form a group.
    """
    labels = read_labels(groups, n, name)
    missing = sum(map(is_missing, labels))
    if missing:
        raise ValueError(
            f"{name} has missing labels, {missing} of {n}; remove those rows, or name them."
        )
    position: dict[Hashable, int] = {}
    try:
        codes = [position.setdefault(label, len(position)) for label in labels]
    except TypeError:
        raise TypeError(
            f"{name} must hold one hashable label per row, such as text, a number or a tuple; "
            f"got {labels[0]!r}."
        ) from None
    return list(position), np.array(codes, dtype=np.int64)
