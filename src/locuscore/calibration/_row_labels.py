"""Labels of rows, and the codes of the groups that they name.

A label is text, a whole number, a float, or true or false. Dates and times count as their text, so
that an archive can hold every label, and labels match whichever library the rows come from.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from functools import cached_property
from numbers import Integral
from typing import Any, Self

import numpy as np

from locuscore._protocols import IntArray, Rows
from locuscore._shared.checks import is_missing
from locuscore._shared.frames import as_array, column, n_rows
from locuscore._shared.labels import read_labels

Label = str | bool | int | float
PLAIN_LABELS = (str, bool, int, float)
Told = str | int | Callable[[Rows], Any] | None
MOST_COLUMNS = 6  # so that sets of their labels can be numbered
MOST_ROWS = 2**53  # that an archive can speak of


@dataclass(frozen=True, eq=False)
class RowLabels:
    """How the labels of a row are told: each by a column or by a function of X.

    There is none where the caller passes labels with the rows. None stands for a function that an
    archive could not hold.
    """

    told: tuple[Told, ...]

    @property
    def lacks(self) -> bool:
        """Whether a function is missing."""
        return any(one is None for one in self.told)

    def read(self, X: Rows) -> list[list[Any]]:
        """Labels of the rows of X, as Python values: one list for each column or function."""
        return [self._labels(one, X) for one in self.told]

    def _labels(self, one: Told, X: Rows) -> list[Any]:
        if one is None:
            raise ValueError("the function that tells groups is missing; pass it to Scorer.load.")
        values = one(X) if callable(one) else column(X, one)
        return as_labels(values, n_rows(X), "the function that tells groups")

    def name(self, place: int) -> str:
        """What one of the labels is called in a sentence."""
        one = self.told[place] if self.told else "groups"
        return f"function {place + 1}" if callable(one) or one is None else repr(one)

    def with_functions(self, given: Any) -> "RowLabels":
        """The same with the functions that are missing, one or a list in their order."""
        functions = list(given) if isinstance(given, list | tuple) else [given]
        missing = sum(one is None for one in self.told)
        if len(functions) != missing or not all(map(callable, functions)):
            raise TypeError(
                f"groups are told by {missing} functions of X, in the order given to ByGroup; got "
                f"{given!r}."
            )
        following = iter(functions)
        return RowLabels(tuple(next(following) if one is None else one for one in self.told))

    def to_part(self) -> list[str | int | None]:
        """Columns by their name or position, and None for a function."""
        return [None if callable(one) else one for one in self.told]

    @classmethod
    def from_part(cls, part: Any) -> Self:
        """Read what `to_part` gave, from an archive."""
        if not isinstance(part, list) or len(part) > MOST_COLUMNS:
            raise ValueError("its groups are told by no list of columns")
        if not all(one is None or type(one) in (str, int) for one in part):
            raise ValueError("its groups are told by something else than columns")
        return cls(tuple(part))


def as_labels(values: Any, n: int, name: str) -> list[Any]:
    """Return one label per row as Python values; some may be missing."""
    # numpy would turn a list of numbers and texts into texts.
    return read_labels(values if isinstance(values, list | tuple) else as_array(values), n, name)


def plain_label(value: Any) -> Label | None:
    """Return a label in the one form in which it is compared and kept; None if it is missing."""
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]")
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)  # of a column of whole numbers that has missing ones
    if isinstance(value, PLAIN_LABELS):
        return value
    if isinstance(value, datetime) and (value.time() != time() or value.tzinfo is not None):
        return value.isoformat(" ")
    if isinstance(value, date):  # a time at midnight is one
        return value.isoformat()[:10]
    raise TypeError(
        "the label of a group is text, a number, true or false, or a date; got the "
        f"{type(value).__name__} {value!r}. Turn it into text first."
    )


def count_labels(values: Sequence[Any], name: str) -> Counter[Label]:
    """Count the rows of each label, in order of appearance; missing labels are refused."""
    try:
        found = Counter(values)
    except TypeError:
        for value in values:
            plain_label(value)
        raise
    counts: Counter[Label] = Counter()
    missing = 0
    for value, n in found.items():
        label = plain_label(value)
        if label is None:
            missing += n
        else:
            counts[label] += n
    if missing:
        raise ValueError(
            f"{name} has missing labels, {missing} of {len(values)}; remove those rows, or name "
            "them."
        )
    return counts


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups that one kind of label makes: one for each name, and one for all other labels.

    The code of a group is the place of its name, that of the others comes last. With `pool_below`,
    the others are the pool: `n_pooled` labels with fewer rows in D1, and those that D1 lacks. Which
    they are depends on D1 alone, so rows of the pool are exchangeable given D1.
    """

    names: tuple[Label, ...]
    pool_below: int | None = None
    n_pooled: int = 0

    @classmethod
    def of(cls, fit: Counter[Label], cal: Counter[Label], pool_below: int | None) -> Self:
        """Groups of rows whose labels in D1 and D2 were counted."""
        if pool_below is None:
            return cls(tuple(fit | cal))
        names = tuple(label for label, n in fit.items() if n >= pool_below)
        return cls(names, pool_below, len(fit) - len(names))

    def with_names(self, cal: Counter[Label]) -> "Groups":
        """The groups for other calibration rows: what D1 decided stays, other labels are added."""
        if self.pool_below is not None:
            return self
        return replace(self, names=tuple(dict.fromkeys((*self.names, *cal))))

    def __len__(self) -> int:
        return len(self.names) + 1

    @property
    def others(self) -> int:
        """Code of the labels that have no group of their own."""
        return len(self.names)

    def codes(self, labels: Sequence[Any]) -> IntArray:
        """Code of each label; a missing one is among the others."""
        # Looked up in C; only values that are new to the table are brought into their one form.
        table = _Codes(self._table)
        try:
            return np.fromiter(map(table.__getitem__, labels), dtype=np.int64, count=len(labels))
        except TypeError:
            for label in labels:
                plain_label(label)  # names what cannot be a label
            raise

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {name: code for code, name in enumerate(self.names)}

    def shown(self, code: int) -> str:
        """A group in a sentence."""
        return repr(self.names[code]) if code < self.others else "the pool"

    def to_parts(self) -> dict[str, Any]:
        """What an archive keeps."""
        return {"names": list(self.names), "n_pooled": self.n_pooled}

    @classmethod
    def from_parts(cls, names: Any, pool_below: Any, n_pooled: Any) -> Self:
        """Read what an archive holds."""
        is_list = isinstance(names, list) and all(type(name) in PLAIN_LABELS for name in names)
        if not is_list or len(set(names)) < len(names) or any(map(is_missing, names)):
            raise ValueError("the names of its groups are no distinct labels")
        if type(n_pooled) is not int or type(pool_below) not in (int, type(None)):
            raise ValueError("the numbers of its pool are no whole numbers")
        # Without a pool no label is in it, and one row alone makes no group small.
        is_pool = pool_below is not None and 2 <= pool_below <= MOST_ROWS
        if not (0 <= n_pooled <= MOST_ROWS if is_pool else n_pooled == 0 and pool_below is None):
            raise ValueError("the numbers of its pool are impossible")
        return cls(tuple(names), pool_below, n_pooled)


class _Codes(dict[Any, int]):
    """Codes by label, which learns other values that mean the same, such as dates."""

    def __init__(self, table: dict[Any, int]) -> None:
        super().__init__(table)
        self.others = len(table)

    def __missing__(self, value: Any) -> int:
        label = plain_label(value)
        if label is None:  # each NaN is another key
            return self.others
        code = self.get(label, self.others)
        self[value] = code
        return code


def told_by(by: Any) -> RowLabels:
    """Read what a user passes as `by`, unless it is an array of labels."""
    several = by if isinstance(by, list | tuple) else [by]
    if not several:
        raise ValueError("by names no column; pass one, or a list of several.")
    told: list[Told] = []
    for one in several:
        is_place = isinstance(one, Integral) and not isinstance(one, bool)
        if not (isinstance(one, str) or is_place or callable(one)):
            raise TypeError(
                "by is the name or position of a column, a function of X, an array of labels, or a "
                f"list of columns and functions; got {one!r:.100}."
            )
        told.append(int(one) if is_place else one)
    if len(told) > MOST_COLUMNS or len(set(told)) < len(told):
        raise ValueError(
            f"by names {len(told)} columns; expected at most {MOST_COLUMNS}, each once. Labels of "
            "rows are passed as an array, not as a list."
        )
    return RowLabels(tuple(told))
