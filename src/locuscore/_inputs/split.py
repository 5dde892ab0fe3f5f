"""Which labelled rows model the loss (D1) and which calibrate it (D2)."""

import reprlib
from typing import Any

import numpy as np

from locuscore._protocols import IntArray

# The coverage given D2 has a standard deviation of about sqrt(alpha * (1 - alpha) / n): 0.03 for
# alpha = 0.1 and n = 100, 0.013 for n = 500. D2 gets a smaller share once it has so many rows.
FEWEST_TO_ROUND = 20
SHARES = ((1 / 2, 100), (1 / 4, 500), (1 / 8, np.inf))


def split_rows(
    n: int, size: Any, seed: int, clusters: IntArray | None = None
) -> tuple[IntArray, IntArray]:
    """Positions of D1 and D2 among n rows; `size` is a share, a number or the positions of D2.

    None gives half of the rows up to 100 of them, or a quarter up to 500, or an eighth: the most of
    these. With `clusters`, codes from 0, whole clusters are drawn, and all this is counted in
    clusters: what is promised depends on how many of them calibrate.
    """
    if np.ndim(size) > 0:
        cal = _check_positions(size, n)
        if clusters is not None:
            _check_uncut(cal, clusters)
    elif clusters is not None:
        m = int(clusters.max()) + 1
        drawn = np.random.default_rng(seed).permutation(m)[: _check_number(size, m)]
        cal = np.flatnonzero(np.isin(clusters, drawn))
    else:
        cal = np.sort(np.random.default_rng(seed).permutation(n)[: _check_number(size, n)])
    fit = np.setdiff1d(np.arange(n), cal)
    if clusters is not None and not clusters.any():
        raise ValueError(
            "clusters has only one label, so no cluster is left to calibrate with; pass at least 2 "
            "clusters, or none if rows are independent."
        )
    if len(fit) < 2:
        raise ValueError(
            f"fit needs at least 2 rows to model the loss and 1 to calibrate it; got "
            f"n_samples = {n} with calibration_size = {reprlib.repr(size)}. Pass more labelled "
            "rows, or a smaller calibration_size."
        )
    return fit, cal.astype(np.int64)


def some_rows(n: int, most: int, seed: int) -> IntArray:
    """Positions of at most `most` of n rows, drawn at random, ascending."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def _check_positions(size: Any, n: int) -> IntArray:
    given = np.asarray(size)
    cal = np.unique(given)
    is_valid = cal.dtype.kind in "iu" and len(cal) > 0 and cal[0] >= 0 and cal[-1] < n
    if not is_valid:
        raise ValueError(
            f"calibration_size as positions must hold whole numbers in [0, {n}); got "
            f"{given.dtype} {reprlib.repr(given.tolist())}. Positions of a mask are "
            "np.flatnonzero(mask)."
        )
    return cal


def _check_uncut(cal: IntArray, clusters: IntArray) -> None:
    """Raise if positions of D2 hold some rows of a cluster and not the others."""
    inside, all_rows = (
        np.bincount(c, minlength=clusters.max() + 1) for c in (clusters[cal], clusters)
    )
    n_cut = int(np.count_nonzero((inside > 0) & (inside < all_rows)))
    if n_cut:
        raise ValueError(
            f"calibration_size cuts through {n_cut} of {len(all_rows)} clusters: rows of one "
            "cluster must be all in D2 or all outside; choose the positions by whole clusters."
        )


def _check_number(size: Any, n: int) -> int:
    """Return the number of rows in D2; a share gives at least 1, and leaves 2 for D1 if it can."""
    if size is None:
        return max(1, min(_default_size(n), n - 2))
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 1:
        return int(size)
    if isinstance(size, float | np.floating) and 0 < size < 1:
        return max(1, min(round(float(size) * n), n - 2))
    raise ValueError(
        "calibration_size must be a share strictly between 0 and 1, a number of rows, or the "
        f"positions of rows; got {reprlib.repr(size)}."
    )


def _default_size(n: int) -> int:
    size = max(min(share * n, most) for share, most in SHARES)
    # With 10 k - 1 rows the rank is whole for alpha = 0.1 and 0.2, and no coverage is given away.
    return 10 * round(size / 10) - 1 if size >= FEWEST_TO_ROUND else round(size)
