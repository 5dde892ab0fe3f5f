"""Tables whose groups differ: flights by carrier and month, homes by zip code, bikes by hour."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.datasets import FOLDER, read_flights


@dataclass(frozen=True, eq=False)
class Table:
    """Rows, their target, and the columns whose values are groups."""

    X: pd.DataFrame
    y: np.ndarray
    columns: tuple[str, ...]
    sizes: tuple[int, int, int]  # rows that train g, labelled rows, test rows


def _flights() -> Table:
    frame = read_flights()
    when = pd.to_datetime(frame[["year", "month", "day"]])
    numbers = frame[["month", "day", "hour", "minute", "distance"]].assign(
        weekday=when.dt.dayofweek
    )
    names = {name: frame[name].astype("category") for name in ("carrier", "origin", "dest")}
    X = numbers.assign(**names).reset_index(drop=True)
    return Table(X, frame["arr_delay"].to_numpy(float), ("carrier", "month"), (20_000,) * 3)


def _homes() -> Table:
    frame = pd.read_csv(FOLDER / "homes.csv.gz")
    y = frame["price"].to_numpy(float)
    X = frame.drop(columns=["id", "date", "price"]).assign(
        zipcode=frame["zipcode"].astype(str).astype("category")
    )
    return Table(X, y, ("zipcode", "view"), (7_000, 7_500, 7_000))


def _bike() -> Table:
    frame = pd.read_csv(FOLDER / "bike.csv.gz")
    when = pd.to_datetime(frame["datetime"]).dt
    X = frame.drop(columns=["datetime", "casual", "registered", "count"]).assign(
        hour=when.hour, weekday=when.day_of_week, month=when.month, year=when.year
    )
    return Table(X, frame["count"].to_numpy(float), ("hour", "weather"), (3_600, 3_600, 3_600))


TABLES: dict[str, Callable[[], Table]] = {"flights": _flights, "homes": _homes, "bike": _bike}
