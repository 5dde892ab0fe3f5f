"""Times with a zone: which zone a column is in, and moving it to the one of `fit`."""

from collections.abc import Callable, Sequence
from datetime import timedelta, tzinfo
from functools import partial
from typing import Any, TypeVar

import narwhals as nw

Result = TypeVar("Result")


def dtype_of(series: nw.Series[Any]) -> Any:
    """Return the type of a column.

    narwhals reads the zone off the text of a pandas type, and knows letters only: a zone such as
    America/New_York it takes for no time at all.
    """
    native: Any = getattr(series.to_native(), "dtype", None)
    zone = getattr(native, "tz", None)
    return series.dtype if zone is None else nw.Datetime(native.unit, _zone_name(zone))


def without_zone_names(series: nw.Series[Any]) -> nw.Series[Any]:
    """Return a column of times that narwhals does not know as one in UTC, others as they are."""
    if series.dtype == nw.Unknown and isinstance(dtype_of(series), nw.Datetime):
        return _moved(series, "UTC")
    return series


def in_zones(rows: Any, zones: Sequence[str | None]) -> Any:
    """Return a frame with the times of each column moved to its zone: the same instants."""
    if not any(zones):
        return rows
    frame = nw.from_native(rows, eager_only=True)
    columns = [(frame[:, j], zone) for j, zone in enumerate(zones) if zone is not None]
    moved = [_moved(series, zone) for series, zone in columns if _zone(series) not in (None, zone)]
    return frame.with_columns(moved).to_native() if moved else rows


def convert(frame: nw.DataFrame[Any], into: Callable[[nw.DataFrame[Any]], Any]) -> Any:
    """Turn a frame into another library's, which may not know the zones of its columns."""
    try:
        return into(frame)
    except Exception:
        for j, name in enumerate(frame.columns):
            zone = _zone(frame[:, j])
            if zone is not None:
                _or_unknown(partial(into, frame[:, [j]]), name, zone)
        raise


def _zone(series: nw.Series[Any]) -> str | None:
    zone: str | None = getattr(dtype_of(series), "time_zone", None)
    return zone


def _moved(series: nw.Series[Any], zone: str) -> nw.Series[Any]:
    def moved() -> nw.Series[Any]:
        if series.dtype != nw.Unknown:
            return series.dt.convert_time_zone(zone)
        return nw.from_native(series.to_native().dt.tz_convert(zone), series_only=True)

    return _or_unknown(moved, series.name, zone)


def _or_unknown(work: Callable[[], Result], name: str, zone: str) -> Result:
    try:
        return work()
    except Exception:  # each library has its own for a zone it does not know
        raise ValueError(
            f"the time zone {zone!r} of column {name!r} is not known here; use UTC, or a name of "
            "the time zone database."
        ) from None


def _zone_name(zone: tzinfo) -> str:
    """Return a region's name, or an offset in the notation that every library reads."""
    offset = zone.utcoffset(None)
    return str(zone) if offset is None else offset_name(offset)


def offset_name(offset: timedelta) -> str:
    """Return an offset from UTC as every library reads it, such as +05:30."""
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}" if minutes else "UTC"
