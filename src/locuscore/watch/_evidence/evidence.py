"""What every kind of alarm has: rows counted once, in order, and a state of a few numbers."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.checks import check_between
from locuscore.watch._evidence.starts import FIRST


def checked_rows(values: ArrayLike, labelled: ArrayLike | None) -> tuple[FloatArray, BoolArray]:
    """Values of some rows and whether they are known; every one that is must be a number."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(f"values must be one number per row; got the shape {numbers.shape}.")
    known = np.ones(len(numbers), bool) if labelled is None else np.asarray(labelled, dtype=bool)
    if known.shape != numbers.shape:
        raise ValueError(
            f"labelled must say of each of the {len(numbers)} rows whether it has a label; got the "
            f"shape {known.shape}."
        )
    wrong = int(np.sum(~np.isfinite(numbers) & known))
    if wrong:
        raise ValueError(
            f"values of {wrong} labelled rows are not finite; pass labelled=False for rows whose "
            "value is not known."
        )
    return numbers, known


def read_state(state: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """The numbers of a state by name, checked: counts, finite numbers, or lists of numbers."""
    found = {}
    for name, kind in kinds.items():
        value = state.get(name)
        each: list[Any] = value if isinstance(value, list) else [value]
        is_list = isinstance(value, list) == (kind is list)
        are_numbers = all(
            type(one) in (int, float) and math.isfinite(one) and (kind is not int or one >= 0)
            for one in each
        )
        if not is_list or not are_numbers or (kind is int and type(value) is not int):
            raise ValueError(
                f"the state of an alarm must have {name!r}, {_WORDS[kind]}; got {value!r:.80}. Use "
                "a state that to_state gave."
            )
        found[name] = value
    return found


_WORDS = {int: "a count", float: "a finite number", list: "a list of numbers"}


class Evidence:
    """Evidence that a promise is broken; while it is kept, an alarm ever has a chance of `delta`.

    `n` rows were seen, of which `missing` had no label. ``exp(log_value)`` is the evidence now, and
    `largest` the logarithm of the most there ever was. `alarmed_at` is the number of rows after
    which that first reached ``1 / delta``, or None.
    """

    def __init__(self, delta: float) -> None:
        self.delta = check_between(delta, "delta")
        self.n = 0
        self.missing = 0
        self.log_value = self.largest = math.log(FIRST)
        self.alarmed_at: int | None = None

    @property
    def alarm(self) -> bool:
        """Whether there ever was an alarm; it is never taken back."""
        return self.alarmed_at is not None

    @property
    def limit(self) -> float:
        """The logarithm at which an alarm is raised."""
        return -math.log(self.delta)

    def _see(self, rows: IntArray, log_values: FloatArray) -> None:
        """Take note of the evidence after these rows, by their numbers from 1."""
        if not len(rows):
            return
        self.largest = max(self.largest, float(log_values.max()))
        if self.alarmed_at is None and self.largest >= self.limit:
            self.alarmed_at = int(rows[np.argmax(log_values >= self.limit)])

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        names = ("n", "missing", "log_value", "largest", "alarmed_at")
        return {name: getattr(self, name) for name in names}

    def _read(self, state: Mapping[str, Any]) -> None:
        found = read_state(state, n=int, missing=int, log_value=float, largest=float)
        for name, value in found.items():
            setattr(self, name, value)
        if state.get("alarmed_at") is not None:
            self.alarmed_at = read_state(state, alarmed_at=int)["alarmed_at"]
