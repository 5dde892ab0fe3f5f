"""Tables with classes, none of which needs the network, and what a wrong class costs in each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.datasets import FOLDER, load
from locuscore.datasets import load_diamonds

MOST_ROWS = 10_000  # of a table; every seed draws its own from a larger one
FEWEST_IN_CLASS = 30  # fewer rows could leave a class out of the rows of g
DEAREST = 10  # of the costs that are drawn at random
RARE_COST = 5  # of an overlooked row of the rarer class, where there are two
FREQUENT_VISITS = 10  # of a year, the usual limit for this survey


@dataclass(frozen=True)
class Table:
    """Features, classes as codes 0, 1, ..., and whether these have an order."""

    X: np.ndarray
    y: np.ndarray
    is_ordered: bool = False

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1


def merged(y: np.ndarray, fewest: int = FEWEST_IN_CLASS) -> np.ndarray:
    """Codes of ordered classes; a class with too few rows joins its neighbour, rarest first.

    An end of the scale has one neighbour; any other class joins the rarer of its two.
    """
    codes = np.unique(y, return_inverse=True)[1]
    counts = np.bincount(codes)
    while len(counts) > 2 and counts.min() < fewest:
        rarest = int(counts.argmin())
        beside = [j for j in (rarest - 1, rarest + 1) if 0 <= j < len(counts)]
        lower = min(rarest, min(beside, key=lambda j: counts[j]))
        codes = codes - (codes > lower)
        counts = np.bincount(codes)
    return codes


def _digits() -> Table:
    return Table(*load_digits(return_X_y=True))


def _cancer() -> Table:
    return Table(*load_breast_cancer(return_X_y=True))


def _electric() -> Table:
    X, _ = load("electric")  # the twelve features, verified
    stable = pd.read_csv(FOLDER / "electric.csv.gz", usecols=["stabf"])["stabf"] == "stable"
    return Table(X, stable.to_numpy().astype(np.int64))


def _wine(name: str) -> Table:
    X, quality = load(name)
    return Table(X, merged(quality), is_ordered=True)


def _diamonds() -> Table:
    X, price = load_diamonds(as_frame=False)
    cut = 1
    features = np.column_stack([np.delete(X, cut, axis=1), price])
    return Table(features, merged(X[:, cut]), is_ordered=True)


def _parts(name: str, n_parts: int) -> Table:
    """Equal parts of a numeric target."""
    X, y = load(name)
    limits = np.quantile(y, np.arange(1, n_parts) / n_parts)
    return Table(X, np.searchsorted(limits, y), is_ordered=n_parts > 2)


def _meps() -> Table:
    X, visits = load("meps21")
    return Table(X, (visits >= FREQUENT_VISITS).astype(np.int64))


_LOADERS: dict[str, Callable[[], Table]] = {
    "cancer": _cancer,
    "digits": _digits,
    "winered": lambda: _wine("winered"),
    "winewhite": lambda: _wine("winewhite"),
    "electric": _electric,
    "bike": lambda: _parts("bike", 2),
    "diamonds": _diamonds,
    "homes": lambda: _parts("homes", 4),
    "meps21": _meps,
}
TABLES = list(_LOADERS)
CLASSES = {
    "cancer": "malignant or benign",
    "digits": "ten digits",
    "winered": "quality",
    "winewhite": "quality",
    "electric": "stable or not",
    "bike": "above the median or not",
    "diamonds": "cut",
    "homes": "quarter of the price",
    "meps21": f"{FREQUENT_VISITS} visits or more, or fewer",
}


@cache
def load_table(name: str) -> Table:
    return _LOADERS[name]()


def cost_matrix(table: Table) -> np.ndarray:
    """Cost of each true class (row) under each predicted one (column); the dearest costs 1.

    Ordered classes: the distance, twice that where the predicted class is too high. Two classes:
    an overlooked row of the rarer one costs five times the other error. Others: whole numbers from
    1 to 10, drawn once and for all.
    """
    k = table.n_classes
    true, predicted = np.indices((k, k))
    if table.is_ordered:
        costs = np.abs(true - predicted) * np.where(predicted > true, 2.0, 1.0)
    elif k == 2:
        rarer = int(np.sum(table.y == 1) <= np.sum(table.y == 0))
        costs = np.where(true == rarer, float(RARE_COST), 1.0)
    else:
        costs = np.random.default_rng(0).integers(1, DEAREST + 1, (k, k)).astype(np.float64)
    np.fill_diagonal(costs, 0.0)
    return costs / costs.max()
