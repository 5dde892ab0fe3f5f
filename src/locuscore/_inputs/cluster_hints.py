"""Columns by which rows seem to come in clusters, where `fit` was told of none."""

import warnings
from collections.abc import Iterator

import narwhals as nw
import numpy as np
from scipy.special import fdtrc
from scipy.stats import rankdata

from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.checks import LocusWarning
from locuscore._shared.frames import as_frame
from locuscore._shared.id_names import ID_NAME

FEWEST_CLUSTERS = 10
FEWEST_REPEATS = 20  # rows of D2 beyond the first of each cluster
CHANCE = 1e-6
MS_PER_DAY = 86_400_000
LARGEST_EFFECT = 2.0  # how much larger the variance of a mean over new rows may be, unwarned


def warn_of_clusters(X: Rows, rows: IntArray, tails: FloatArray) -> None:
    """Warn if tails of D2, at these `rows` of X, are alike within the values of a column.

    Only columns named like ids, and days of columns that hold times, are looked at. The name alone
    is no reason: what counts is the intraclass correlation of the tails' ranks, and how much it
    widens the spread of the coverage over new clusters.
    """
    for name, what, codes in _candidates(X):
        size = np.bincount(codes)
        found = intraclass_correlation(rankdata(tails), codes[rows])
        if found is None:
            continue
        correlation, p_value = found
        effect = 1.0 + (float(np.sum(size.astype(np.float64) ** 2)) / len(codes) - 1) * correlation
        if p_value <= CHANCE and effect >= LARGEST_EFFECT:
            warnings.warn(
                f"rows with the same {what} {name!r} have losses that are alike (correlation "
                f"{correlation:.2f}, {len(size):,} values), so coverage over new values varies "
                f"more than over independent rows: its variance is about {effect:.0f} times as "
                "large. If new rows come with new values, pass fit(X, y, clusters=...).",
                LocusWarning,
                stacklevel=4,
            )


def _candidates(X: Rows) -> Iterator[tuple[str, str, IntArray]]:
    """Columns that may tell clusters: the name, what it holds, and the codes of all rows."""
    frame = as_frame(X)
    if frame is None:
        return
    for name, dtype in frame.schema.items():
        if isinstance(dtype, nw.Datetime | nw.Date):
            moments = frame.get_column(name).dt.timestamp("ms").to_numpy().astype(np.float64)
            values, what = moments // MS_PER_DAY, "day of column"
        elif isinstance(name, str) and ID_NAME.fullmatch(name) and not dtype.is_float():
            values, what = frame.get_column(name).to_numpy(), "value of column"
        else:
            continue
        if values.dtype.kind == "O":
            values = np.array([str(value) for value in values])
        yield str(name), what, np.unique(values, return_inverse=True)[1]


def intraclass_correlation(values: FloatArray, codes: IntArray) -> tuple[float, float] | None:
    """Correlation of two values of one cluster, and the p-value of "none" by the F test.

    None where there are too few clusters, or too few rows beyond the first of each.
    """
    _, code, size = np.unique(codes, return_inverse=True, return_counts=True)
    n, m = len(values), len(size)
    if m < FEWEST_CLUSTERS or n - m < FEWEST_REPEATS:
        return None
    sums = np.bincount(code, weights=values)
    between = float(np.sum(sums**2 / size) - values.sum() ** 2 / n) / (m - 1)
    within = float(np.sum(values**2) - np.sum(sums**2 / size)) / (n - m)
    if within <= 0.0:
        return None if between <= 0.0 else (1.0, 0.0)
    typical = (n - float(np.sum(size.astype(np.float64) ** 2)) / n) / (m - 1)
    correlation = (between - within) / (between + (typical - 1) * within)
    return correlation, float(fdtrc(m - 1, n - m, max(between / within, 0.0)))
