"""Do recent rows look like reference rows? One look at their signals, without labels.

**By a classifier.** One half of both samples teaches a classifier to tell them apart; the other
half is ranked by it. If all rows are exchangeable, so are the held-out ones given the first half,
and each choice of so many of them as "recent" is equally likely. With N such choices drawn at
random, ``(1 + #{choices with at least this AUC}) / (1 + N)`` is a p-value for any number N. It is
that of one look: looking again every day finds a small one some day.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors

from locuscore._protocols import BoolArray, FloatArray, IntArray

CHOICES = 1_999
LEAST_ROWS = 40  # of each sample
FAR = 0.99  # of the reference rows are nearer to another one than what is called far


@dataclass(frozen=True)
class Look:
    """AUC on the held-out half, its p-value, and the distance of each signal's distributions."""

    auc: float
    p_value: float
    shifts: FloatArray


def compare(reference: FloatArray, recent: FloatArray, seed: int) -> Look | None:
    """Compare two samples of signals, (rows, signals); None with fewer than 40 rows in one."""
    if min(len(reference), len(recent)) < LEAST_ROWS:
        return None
    rng = np.random.default_rng(seed)
    S = np.concatenate([reference, recent]).astype(np.float32).astype(np.float64)  # as kept
    is_recent = np.repeat([False, True], [len(reference), len(recent)])
    is_first = np.zeros(len(S), dtype=bool)
    for of in (~is_recent, is_recent):
        rows = rng.permutation(np.flatnonzero(of))
        is_first[rows[: len(rows) // 2]] = True
    classifier = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=3, min_samples_leaf=20, early_stopping=False, random_state=seed
    )
    classifier.fit(S[is_first], is_recent[is_first])
    ranks = rankdata(classifier.predict_proba(S[~is_first])[:, 1])
    auc, p_value = _ranked(ranks, is_recent[~is_first], rng)
    shifts = [ks_distance(column[~is_recent], column[is_recent]) for column in S.T]
    return Look(auc, p_value, np.array(shifts))


def _ranked(
    ranks: FloatArray, is_recent: BoolArray, rng: np.random.Generator
) -> tuple[float, float]:
    """AUC of ranks, and the share of random choices that have as much."""
    k, n = int(is_recent.sum()), len(ranks)
    total = ranks[is_recent].sum()
    order = np.argsort(rng.random((CHOICES, n)), axis=1)[:, :k]
    others = ranks[order].sum(axis=1)
    auc = (total - k * (k + 1) / 2) / (k * (n - k))
    # Sums of ranks are multiples of a half, so they compare exactly.
    return float(auc), float((1 + np.sum(others >= total)) / (1 + CHOICES))


def ks_distance(a: FloatArray, b: FloatArray) -> float:
    """Largest difference of two distribution functions, positive where b is larger than a.

    A missing value counts as larger than all others.
    """
    a, b = (np.sort(np.where(np.isnan(x), np.inf, x)) for x in (a, b))
    at = np.concatenate([a, b])
    shares = [np.searchsorted(x, at, side="right") / len(x) for x in (a, b)]
    difference = shares[0] - shares[1]
    return float(difference[np.argmax(np.abs(difference))])


def share_far(reference: FloatArray, recent: FloatArray) -> float | None:
    """Share of recent rows that lie where no reference row is.

    That is: further from the nearest than 99 % of the reference rows are from theirs. About 0.01
    if nothing has changed. Signals count in their standard deviations.
    """
    if min(len(reference), len(recent)) < LEAST_ROWS:
        return None
    A, B = _scaled(reference, recent)
    near = NearestNeighbors(n_neighbors=1).fit(A)
    limit = np.quantile(near.kneighbors()[0][:, 0], FAR)  # of others than itself
    return float(np.mean(near.kneighbors(B)[0][:, 0] > limit))


def _scaled(reference: FloatArray, recent: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both in standard deviations of the reference; a missing value is a signal of its own."""
    A, B = (np.asarray(x, dtype=np.float32).astype(float) for x in (reference, recent))
    missing: IntArray = np.flatnonzero(np.isnan(A).any(axis=0) | np.isnan(B).any(axis=0))
    there = ~np.isnan(A)
    n = np.maximum(there.sum(axis=0), 1)
    center = np.where(there, A, 0.0).sum(axis=0) / n
    spread = np.sqrt(np.where(there, (A - center) ** 2, 0.0).sum(axis=0) / n)
    scale = np.where(spread > 0, spread, np.maximum(1e-6 * np.abs(center), 1e-6))
    both = []
    for x in (A, B):
        filled = np.where(np.isnan(x), 0.0, (x - center) / scale)
        # So far apart that a missing value is nowhere near a known one.
        both.append(np.column_stack([filled, 3.0 * np.isnan(x[:, missing])]))
    return both[0], both[1]
