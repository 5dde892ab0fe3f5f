"""Rows to learn from and rows left out, again and again; whole clusters where there are some."""

import numpy as np

from locuscore._protocols import IntArray

Folds = list[tuple[IntArray, IntArray]]


def make_folds(n: int, n_folds: int, seed: int, clusters: IntArray | None = None) -> Folds:
    """Rows to learn from and rows left out, so many times; every row is left out once.

    Whole clusters are left out, where there are several: a model that has seen other rows of a
    row's own cluster flatters it, as it does the rows it has seen.
    """
    from sklearn.model_selection import GroupKFold, KFold  # noqa: PLC0415 - when first used

    codes = None if clusters is None else np.unique(clusters, return_inverse=True)[1]
    if codes is not None and codes.max() > 0:
        # The largest go first to the fold with the fewest rows; of equal ones, chance decides.
        n_clusters = int(codes.max()) + 1
        shuffled = np.random.default_rng(seed).permutation(n_clusters)[codes]
        parts = GroupKFold(min(n_folds, n_clusters)).split(np.empty((n, 0)), groups=shuffled)
        return list(parts)
    return list(KFold(min(n_folds, n), shuffle=True, random_state=seed).split(np.empty((n, 0))))
