"""Labels of groups of rows."""

from typing import Any

import numpy as np

from locuscore._shared.checks import is_missing


def row_labels(groups: Any, n_rows: int) -> np.ndarray:
    """Return one label per row, some possibly missing; tuples and other objects stay whole."""
    labels = groups
    if not isinstance(groups, np.ndarray):
        try:
            values = groups.tolist() if hasattr(groups, "tolist") else groups
            labels = np.fromiter(values, dtype=object)
        except TypeError:  # one label
            labels = np.array(groups)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"groups must hold one label per row, {n_rows} in all; got shape {labels.shape}."
        )
    return labels


def check_labels(groups: Any, n_rows: int) -> np.ndarray:
    """As `row_labels`; missing ones are refused."""
    labels = row_labels(groups, n_rows)
    is_object = labels.dtype.kind == "O"
    missing = sum(map(is_missing, labels)) if is_object else int(np.sum(labels != labels))
    if missing:
        raise ValueError(
            f"groups has missing labels, {missing} of {n_rows}; remove those rows, or name them."
        )
    return labels
