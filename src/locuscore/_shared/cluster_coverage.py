"""Whether new clusters are missed more often than those that calibrated: whole ones change places.

If all clusters are exchangeable, each choice of as many of them as are new was as likely to be the
new ones. So the share of choices that are missed at least as much is a p-value, whatever the rows
of one cluster have in common.
"""

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray

MOST_CHOICES, FEWEST_CHOICES = 9_999, 999
MOST_DRAWN = 20_000_000  # random numbers in all, before choices get fewer
AT_ONCE = 1_000_000
ROUNDING = 1e-9


def cluster_p_values(
    tails: tuple[FloatArray, FloatArray],
    clusters: tuple[IntArray, IntArray],
    alpha: float,
    *,
    by_rows: bool = False,
    counted: BoolArray | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """P-value of "no more is missed among the new", and what it would be at twice alpha.

    `tails` and `clusters` are those of the calibration rows and of the new ones; codes begin at 0
    in each. A row is missed if its tail is below a level that is the same function of all clusters
    together: where the share alpha of their weight lies below. Each cluster counts once, or by its
    rows. Of the new rows, only those `counted` may be missed; to leave out some can only raise the
    p-value, since it takes more from the new clusters than from any choice among all.
    """
    first = int(clusters[0].max()) + 1
    tail, code = np.concatenate(tails), np.concatenate([clusters[0], first + clusters[1]])
    size = np.bincount(code).astype(np.float64)
    level = pooled_level(tail, np.ones(len(code)) if by_rows else 1.0 / size[code], alpha)
    # Rows of laws with atoms tie, and rounding must not decide which side of a tie is missed.
    is_missed = tail < level * (1.0 - ROUNDING)
    if counted is not None:
        is_missed[len(tails[0]) :] &= counted
    missed = np.bincount(code, weights=is_missed)
    values = missed - alpha * size if by_rows else missed / size
    # As if the new clusters were missed twice as often as promised, with the spread they have.
    aim = alpha * size[first:].mean() if by_rows else 2.0 * alpha
    doubled = values[first:] + aim - values[first:].mean()
    return (
        permutation_p_value(values[:first], values[first:], seed),
        permutation_p_value(values[:first], doubled, seed),
    )


def permutation_p_value(others: FloatArray, new: FloatArray, seed: int) -> float:
    """``(1 + choices with at least the sum of the new) / (1 + choices)``."""
    values = np.concatenate([others, new])
    n, m = len(values), len(new)
    choices = int(np.clip(MOST_DRAWN // n, FEWEST_CHOICES, MOST_CHOICES))
    rng, found, left = np.random.default_rng(seed), 0, choices
    least = new.sum() - ROUNDING * max(np.abs(values).sum(), 1e-300)
    while left:
        rows = min(left, max(AT_ONCE // n, 1))
        drawn = np.argpartition(rng.random((rows, n)), m - 1, axis=1)[:, :m]
        found += int(np.count_nonzero(values[drawn].sum(axis=1) >= least))
        left -= rows
    return (1 + found) / (1 + choices)


def pooled_level(tail: FloatArray, weight: FloatArray, alpha: float) -> float:
    """The largest tail below which at most the share alpha of the weight lies."""
    order = np.argsort(tail, kind="stable")
    below = np.cumsum(weight[order]) - weight[order]
    at = np.searchsorted(below, alpha * weight.sum() * (1 + ROUNDING), side="right") - 1
    return float(tail[order[at]])
