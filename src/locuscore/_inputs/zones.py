"""Times with a zone: which zone a column is in, and moving it to the zone of `fit`."""

from collections.abc import Callable, Sequence
from datetime import timedelta, tzinfo
from functools import partial
from typing import Any, TypeVar

import narwhals as nw

Result = TypeVar("Result")


def dtype_of(series: nw.Series[Any]) -> Any:
    """Return the type of a column, with its time zone.

    narwhals parses the zone from the name of a pandas type and expects only letters. So a column in
    America/New_York has an unknown type there, as if it held no times.
    """
    zone = _native_zone(series)
    if zone is None:
        return series.dtype
    return nw.Datetime(series.to_native().dtype.unit, _name_of_zone(zone))


def _native_zone(series: nw.Series[Any]) -> Any:
    """The time zone of a column of pandas, as its type has it; None without one."""
    return getattr(getattr(series.to_native(), "dtype", None), "tz", None)


def without_zone_names(series: nw.Series[Any]) -> nw.Series[Any]:
    """Return times in a zone that narwhals cannot parse in UTC, any other column unchanged."""
    if _native_zone(series) is not None and series.dtype == nw.Unknown:
        return _in_zone(series, "UTC")
    return series


def in_zones(rows: Any, zones: Sequence[str | None]) -> Any:
    """Return a frame with the times of each column moved to its zone: the same instants."""
    if not any(zones):
        return rows
    frame = nw.from_native(rows, eager_only=True)
    columns = [(frame[:, j], zone) for j, zone in enumerate(zones) if zone is not None]
    moved = [
        _in_zone(series, zone) for series, zone in columns if _zone_of(series) not in (None, zone)
    ]
    return frame.with_columns(moved).to_native() if moved else rows


def convert(frame: nw.DataFrame[Any], into: Callable[[nw.DataFrame[Any]], Any]) -> Any:
    """Turn a frame into another library's; an error names the column whose zone it lacks."""
    try:
        return into(frame)
    except Exception:
        # The error of the whole frame does not name a column: convert those with zones one by one.
        for j, name in enumerate(frame.columns):
            zone = _zone_of(frame[:, j])
            if zone is not None:
                _or_unknown_zone(partial(into, frame[:, [j]]), name, zone)
        raise


def _zone_of(series: nw.Series[Any]) -> str | None:
    zone: str | None = getattr(dtype_of(series), "time_zone", None)
    return zone


def _in_zone(series: nw.Series[Any], zone: str) -> nw.Series[Any]:
    def moved() -> nw.Series[Any]:
        if series.dtype != nw.Unknown:
            return series.dt.convert_time_zone(zone)
        return nw.from_native(series.to_native().dt.tz_convert(zone), series_only=True)

    return _or_unknown_zone(moved, series.name, zone)


def _or_unknown_zone(work: Callable[[], Result], name: str, zone: str) -> Result:
    try:
        return work()
    except Exception:  # each library has its own for a zone it does not know
        raise ValueError(
            f"the time zone {zone!r} of column {name!r} is not known here; use UTC, or a name of "
            "the time zone database."
        ) from None


def _name_of_zone(zone: tzinfo) -> str:
    """Return a region's name, or an offset in the notation that every library reads."""
    offset = zone.utcoffset(None)
    return str(zone) if offset is None else offset_name(offset)


def offset_name(offset: timedelta) -> str:
    """Return an offset from UTC as every library reads it, such as +05:30."""
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}" if minutes else "UTC"
