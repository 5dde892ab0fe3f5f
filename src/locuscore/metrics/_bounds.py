"""How good a bound is: coverage, of all rows, by group and by cluster, and pinball loss."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.checks import (
    check_between,
    check_same_length,
    check_same_order,
    one_alpha,
)
from locuscore._shared.cluster_coverage import cluster_p_values
from locuscore._shared.labels import label_codes
from locuscore._shared.metric_arrays import check_probabilities, losses_and
from locuscore._shared.share_interval import share_interval
from locuscore._shared.shown import Shown


@dataclass(frozen=True, repr=False)
class LocalCoverage(Shown):
    """Coverage per group, one entry each; ``[low, high]`` is an exact interval for it.

    Examples
    --------
    >>> from locuscore.metrics import local_coverage
    >>> found = local_coverage([1.0, 2.0, 3.0, 9.0], [5.0] * 4, ["a", "a", "b", "b"])
    >>> found.group, found.coverage
    (array(['a', 'b'], dtype='<U1'), array([1. , 0.5]))
    """

    group: np.ndarray
    n_rows: IntArray
    coverage: FloatArray
    low: FloatArray
    high: FloatArray


def coverage(losses: ArrayLike, bound: ArrayLike) -> float:
    """Share of rows with ``loss <= bound``.

    Examples
    --------
    >>> from locuscore.metrics import coverage
    >>> coverage([1.0, 2.0, 9.0, 4.0], [5.0, 5.0, 5.0, 5.0])
    0.75
    """
    z, u = losses_and(losses, bound=bound)
    return float(np.mean(z <= u))


def pinball_loss(losses: ArrayLike, bound: ArrayLike, alpha: float) -> float:
    """Mean pinball loss of the bound as the ``1 - alpha`` quantile of the loss.

    ``max((1 - alpha) * (z - u), alpha * (u - z))``, smallest in expectation at the true quantile;
    inf if a bound is infinite.
    """
    z, u = losses_and(losses, bound=bound)
    return float(np.mean(pinball_by_row(z, u, one_alpha(alpha))))


def pinball_by_row(z: FloatArray, bound: FloatArray, alpha: float) -> FloatArray:
    """Pinball loss of each row; arguments as in `pinball_loss`, trusted."""
    return np.maximum((1.0 - alpha) * (z - bound), alpha * (bound - z))


def local_coverage(
    losses: ArrayLike,
    bound: ArrayLike,
    groups: ArrayLike,
    n_bins: int | None = None,
    delta: float = 0.05,
) -> LocalCoverage:
    """Coverage in each group of rows, with exact (Clopper-Pearson) intervals of level 1 - delta.

    `groups` holds one label per row. With `n_bins` it holds one score per row, and these are cut
    into at most that many bins of about equal size. Equal scores share a bin, and a bin is named
    after its largest score. Each interval is for one group, not for all groups together.

    Examples
    --------
    >>> from locuscore.metrics import local_coverage
    >>> found = local_coverage([1.0, 2.0, 3.0, 9.0], [5.0] * 4, ["a", "a", "b", "b"])
    >>> dict(zip(found.group.tolist(), found.coverage.tolist(), strict=True))
    {'a': 1.0, 'b': 0.5}
    """
    check_same_order(losses=losses, groups=groups)
    z, u = losses_and(losses, bound=bound)
    d = check_between(delta, "delta")
    names, member = _labels(groups, len(z)) if n_bins is None else _bins(groups, len(z), n_bins)
    n = np.bincount(member)
    k = np.bincount(member, weights=z <= u)
    return LocalCoverage(names, n, k / n, *share_interval(k, n, d))


def cluster_coverage_p_value(
    tails_cal: ArrayLike,
    clusters_cal: ArrayLike,
    tails: ArrayLike,
    clusters: ArrayLike,
    alpha: float,
    random_state: int = 0,
) -> float:
    """P-value of "new clusters are missed no more often than those that calibrated".

    Tails ``P(Z >= z | x)`` and one label per row, of the calibration rows and of new rows; they
    share no cluster. Rows are missed whose tail is below a level: the share alpha of all tails is,
    each cluster counting once. Whole clusters then change places between the two at random, 9,999
    times (fewer if there are more than 2,000 clusters), and the p-value is the share of these
    choices, with the one that came, in which the new clusters are missed at least as much. It is
    valid for every number and size of clusters if they are exchangeable, while a test that takes
    their rows for independent may be certain of nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.metrics import cluster_coverage_p_value
    >>> rng = np.random.default_rng(0)
    >>> day = np.repeat(np.arange(100), 20)
    >>> tails = np.repeat(rng.uniform(size=100), 20) * rng.uniform(size=2000)
    >>> cal, new = day < 60, day >= 60
    >>> p = cluster_coverage_p_value(tails[cal], day[cal], tails[new], day[new], alpha=0.1)
    >>> 0.01 < p <= 1
    True
    """
    first, second = (check_same_length(tails=part)[0] for part in (tails_cal, tails))
    names_cal, codes_cal = label_codes(clusters_cal, len(first), "clusters_cal")
    names, codes = label_codes(clusters, len(second), "clusters")
    shared = len(set(names_cal) & set(names))
    if shared:
        raise ValueError(f"{shared} clusters are in clusters_cal and in clusters; none may be.")
    both = (check_probabilities(first), check_probabilities(second)), (codes_cal, codes)
    return cluster_p_values(*both, one_alpha(alpha), seed=random_state)[0]


def _labels(groups: ArrayLike, n: int) -> tuple[np.ndarray, IntArray]:
    """Return the distinct labels, ascending, and each row's position among them."""
    _, codes = label_codes(groups, n)
    labels = np.asarray(groups)
    if labels.ndim > 1:  # tuples, say, which have no order in numpy
        raise ValueError(f"groups must hold one label per row, {n} in all; got {labels.shape}.")
    _, first = np.unique(codes, return_index=True)
    names, place = np.unique(labels[first], return_inverse=True)
    return names, place[codes]


def _bins(score: ArrayLike, n: int, n_bins: int) -> tuple[FloatArray, IntArray]:
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}.")
    s, _ = check_same_length(score=score, losses=np.zeros(n))
    # The middle rank of tied scores decides, so that they stay together.
    position = np.floor(n_bins * (rankdata(s) - 0.5) / n).astype(np.int64)
    _, member = np.unique(position, return_inverse=True)
    largest = np.full(member.max() + 1, -np.inf)
    np.maximum.at(largest, member, s)
    return largest, member
