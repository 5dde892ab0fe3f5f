"""Count values that `fit` has not seen while rows are scored: new categories, other kinds."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.schema import ColumnKind, Schema, column_kinds, kind_of
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.checks import LocusWarning, is_missing
from locuscore._shared.frames import as_array, as_frame, column_names, n_rows, table_of

LARGEST_SHARE = 0.1  # of the rows of a call, in one column


@dataclass
class Unseen:
    """How many values of each column were not seen in `fit`; missing values do not count."""

    rows: int = 0
    counts: Counter[Any] = field(default_factory=Counter)
    changes: dict[Any, str] = field(default_factory=dict)  # by column, in words; mostly empty

    def add(self, name: Any, count: int, change: str = "") -> None:
        """Count values of one column; `change` says if they are of another kind than in fit."""
        if count:
            self.counts[name] += count
            self.changes.setdefault(name, change)

    def merge(self, other: "Unseen") -> None:
        """Add what was counted on other rows."""
        self.rows += other.rows
        for name, count in other.counts.items():
            self.add(name, count, other.changes[name])

    @property
    def warning(self) -> str | None:
        """One sentence on the columns with many such values; None where there are none."""
        many = {name: n for name, n in self.counts.items() if n > LARGEST_SHARE * self.rows}
        if not many:
            return None
        parts = [
            f"{name!r} {n:,}" + (f" ({self.changes[name]})" if self.changes[name] else "")
            for name, n in many.items()
        ]
        return (
            f"of {self.rows:,} rows, many have values that fit has not seen, by column: "
            f"{', '.join(parts)}. The engine cannot use them, so the bounds are less sharp, and "
            "valid only if the rows are still like those of fit. Check that each column means what "
            "it did there."
        )


_COLLECTED: ContextVar[Unseen | None] = ContextVar("unseen values", default=None)


@contextmanager
def collected_unseen() -> Iterator[Unseen]:
    """Count the values that `fit` has not seen while rows are scored inside; no call then warns.

    Yields an object with ``rows``, the rows scored; ``counts``, the unseen values by column; and
    ``warning``, one sentence on the columns with many of them, or None.

    Examples
    --------
    >>> from locuscore import collected_unseen
    >>> with collected_unseen() as unseen:
    ...     pass  # score any number of batches
    >>> unseen.rows, dict(unseen.counts), unseen.warning
    (0, {}, None)
    """
    found = Unseen()
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


@contextmanager
def unseen_said_once(schema: Schema, X: Rows) -> Iterator[None]:
    """Warn once of the unseen values of the rows scored inside, unless a caller collects them."""
    outer = _COLLECTED.get()
    with collected_unseen() as found:
        found.rows = n_rows(X)
        _count_kinds(schema, X, found)
        yield
    if outer is not None:
        outer.merge(found)
    elif found.warning is not None:
        warnings.warn(found.warning, LocusWarning, stacklevel=5)


def count_categories(encoder: Encoder | None, X: Rows, S: FloatArray) -> None:
    """Count the categories of X that got no code in the signals S."""
    found = _COLLECTED.get()
    if found is None or encoder is None:
        return
    for j, codes in encoder.codes_.items():
        rows = np.flatnonzero(np.isnan(S[:, j]))
        if len(rows):
            frame = as_frame(X)
            values = as_array((table_of(X) if frame is None else frame)[:, j])[rows].tolist()
            new = [value for value in values if not is_missing(value)]
            found.add(column_names(X)[j], len(new), _change_of_type(new, codes))


def _change_of_type(new: Iterable[Any], known: Iterable[Any]) -> str:
    """Say which type the new values have, if no known value has it."""
    types = {type(value).__name__ for value in new}
    seen = {type(value).__name__ for value in known}
    if types & seen or not seen:
        return ""
    return f"of type {'/'.join(sorted(types))}, in fit {'/'.join(sorted(seen))}"


def _count_kinds(schema: Schema, X: Rows, found: Unseen) -> None:
    """Count the columns that held numbers, times or durations in fit, and now hold another."""
    known = [j for j, kind in enumerate(schema.kinds) if _measure(kind)]
    frame = as_frame(X)
    # The types of text columns are left alone: some libraries look at values to find them.
    if frame is None:
        found_now = [kind_of(str(X.dtype))] * len(known) if known else []
    else:
        found_now = column_kinds(frame, known)
    for j, now in zip(known, found_now, strict=True):
        before, after = _measure(schema.kinds[j]), _measure(now)
        if after and before != after:
            values = as_array((X if frame is None else frame)[:, j])
            present = n_rows(X) - sum(map(is_missing, values.tolist()))
            found.add(schema.names[j], present, f"a {after}, in fit a {before}")


def _measure(kind: ColumnKind) -> str:
    """Name what the encoder's floats mean for this kind; empty where it has codes for levels.

    The encoder turns all three into floats, so it would not notice if one replaced another.
    """
    match kind:
        case ColumnKind.DATE | ColumnKind.TIME | ColumnKind.ZONED_TIME:
            return "time"
        case ColumnKind.DURATION:
            return "duration"
        case ColumnKind.FLOAT | ColumnKind.INTEGER | ColumnKind.DECIMAL | ColumnKind.TRUTH:
            return "number"
    return ""
