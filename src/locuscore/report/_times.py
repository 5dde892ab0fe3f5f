"""Days of rows, and the periods that a report shows of them."""

import datetime
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from locuscore._shared.checks import is_missing
from locuscore._shared.frames import as_array
from locuscore._shared.readable import day_text

MOST_PERIODS = 16
EXPECTED = "time must be dates, such as 2026-03-31"


def as_days(values: Any, n: int) -> list[datetime.date | None]:
    """The day of each row, None where it is missing; dates, times or text in ISO format."""
    found = as_array(values)
    if found.ndim != 1 or len(found) != n:
        raise ValueError(f"time must have one entry per row; X has {n}, time {found.shape}.")
    if np.issubdtype(found.dtype, np.datetime64):
        found = found.astype("datetime64[D]").astype(object)
    known: dict[Any, datetime.date | None] = {}
    days = []
    for value in found.tolist():
        if not isinstance(value, Hashable):
            raise TypeError(f"{EXPECTED}; got {value!r:.80}, a {type(value).__name__}.")
        if value not in known:
            known[value] = _day(value)
        days.append(known[value])
    return days


def _day(value: Any) -> datetime.date | None:
    if is_missing(value):
        return None
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{EXPECTED}; got {value!r}, a {type(value).__name__}.")
    try:
        return datetime.datetime.fromisoformat(value.strip()).date()
    except ValueError:
        raise ValueError(f"{EXPECTED}; got {value!r}.") from None


def _week(day: datetime.date) -> tuple[datetime.date, str]:
    start = day - datetime.timedelta(days=day.weekday())
    return start, f"week of {day_text(start)}"


def _quarter(day: datetime.date) -> tuple[datetime.date, str]:
    first = 3 * ((day.month - 1) // 3) + 1
    return day.replace(month=first, day=1), f"Q{first // 3 + 1} {day.year}"


# From fine to coarse: the start of a day's period, and what it is called.
PERIODS: dict[str, Callable[[datetime.date], tuple[datetime.date, str]]] = {
    "day": lambda day: (day, day_text(day)),
    "week": _week,
    "month": lambda day: (day.replace(day=1), f"{day:%B} {day.year}"),
    "quarter": _quarter,
    "year": lambda day: (day.replace(month=1, day=1), str(day.year)),
}


def periods(days: Sequence[datetime.date]) -> tuple[str, list[tuple[datetime.date, str]]]:
    """The finest period of which there are at most 16, and that of each day."""
    tried = {name: [of(day) for day in days] for name, of in PERIODS.items()}
    fits = [name for name, found in tried.items() if len(set(found)) <= MOST_PERIODS]
    name = (fits or ["year"])[0]
    return name, tried[name]
