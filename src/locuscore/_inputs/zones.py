"""Times with a zone: which zone a column is in, and moving it to the one of `fit`."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta, tzinfo
from functools import partial
from typing import Any, TypeVar

import narwhals as nw

Result = TypeVar("Result")
FIXED_OFFSET = re.compile(r"pytz\.FixedOffset\((-?\d+)\)")


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


def zone_of(type_name: str) -> str | None:
    """Return the time zone in the name of a type, as `Schema` keeps it; None if there is none."""
    found = re.search(r"^Datetime\(.*time_zone='([^']*)'", type_name)
    if found is None:
        return None
    fixed = FIXED_OFFSET.fullmatch(found[1])
    return found[1] if fixed is None else _offset_name(timedelta(minutes=int(fixed[1])))


def in_zones(rows: Any, types: Sequence[str]) -> Any:
    """Return a frame with its times in the zones of these types: the same instants, told so."""
    zones = {j: zone for j, kind in enumerate(types) if (zone := zone_of(kind)) is not None}
    if not zones:
        return rows
    frame = nw.from_native(rows, eager_only=True)
    columns = [(frame[:, j], zone) for j, zone in zones.items()]
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
    return str(zone) if offset is None else _offset_name(offset)


def _offset_name(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}" if minutes else "UTC"
