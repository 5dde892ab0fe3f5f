"""Rows that come in clusters: what is promised of new clusters, not of rows one by one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from locuscore._laws.calibration import BaseCalibration, check_tails, conformal_rank, too_few_rows
from locuscore._protocols import BoolArray, FloatArray, IntArray, Part, Rows
from locuscore._shared.checks import check_count
from locuscore._shared.cluster_coverage import cluster_p_values
from locuscore._shared.kept import Kept
from locuscore.calibration._choice import Choice

UNIT_BITS = 128
MOST_LARGEST = 2**50  # whole numbers of this size are exact as floats


class ClusteredTails(BaseCalibration):
    """Tails of whole clusters: `smallest_alpha` is a step function of the survival.

    A kind has its `shares`, the values of the steps, each rounded correctly. So comparing them with
    a decimal alpha is exact, and the level is the inverse of `smallest_alpha` at every alpha.
    """

    BY_ROWS: ClassVar[bool]
    COUNTED: ClassVar[str]

    tails: FloatArray
    clusters: IntArray

    @property
    def n_clusters(self) -> int:
        """Number of clusters in D2."""
        return len(self.sizes)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of rows in each cluster of D2."""
        return np.bincount(self.clusters)

    @property
    def shares(self) -> FloatArray:
        """Smallest alpha where 0, 1, ..., n of the tails are at most the survival, ascending."""
        raise NotImplementedError  # each kind has its own

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None = None) -> FloatArray:
        """The smallest tail at which `smallest_alpha` exceeds alpha, or 0 if it always does."""
        n_up_to = np.searchsorted(self.shares, alpha, side="right")
        return np.where(n_up_to > 0, self.tails[np.maximum(n_up_to, 1) - 1], 0.0)

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None = None) -> FloatArray:
        """Value of the step; ``<= alpha`` exactly when the bound fits."""
        return self.shares[np.searchsorted(self.tails, survival, side="right")]

    def judge_clusters(
        self,
        alpha: float,
        tails: FloatArray,
        clusters: IntArray,
        counted: BoolArray | None = None,
    ) -> tuple[float, float, float]:
        """Share of new clusters above their bound, its p-value, and that of twice the promise.

        `tails` and `clusters`, codes from 0, are of the new rows; only those `counted` may be above
        their bound. See `cluster_p_values`.
        """
        is_above = tails < self.level(alpha)
        is_above = is_above if counted is None else is_above & counted
        above, size = np.bincount(clusters, is_above), np.bincount(clusters)
        share = above.sum() / size.sum() if self.BY_ROWS else np.mean(above / size)
        both = (self.tails, tails), (self.clusters, clusters)
        p_values = cluster_p_values(*both, alpha, by_rows=self.BY_ROWS, counted=counted)
        return float(share), *p_values


@dataclass(frozen=True, eq=False, repr=False)
class ClusterCalibration(ClusteredTails):
    """Clusters are exchangeable, and each counts once (hierarchical conformal prediction).

    Each row weighs one over the size of its cluster. With m clusters in D2, ::

        smallest_alpha(s) = (1 + sum over clusters of the share of its tails <= s) / (m + 1)

    and the level is its inverse. The loss of a random row of a random new cluster exceeds its bound
    with probability at most alpha: given the m + 1 clusters, the new one is any of them, and at
    most the share alpha of their weight lies that low (Lee, Barber and Willett 2023). Clusters of
    one row each give marginal calibration. `clusters` are codes from 0, in the order of the tails.
    """

    ARCHIVE = Kept("Clusters", numbers=("tails", "clusters"))
    BY_ROWS = False
    COUNTED = "each cluster counting once"

    tails: FloatArray
    clusters: IntArray

    @classmethod
    def of(cls, cal: Part) -> Self:
        """Keep the tails of D2, in order, and the cluster of each."""
        return cls(*tails_and_clusters(cal))

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if each tail has its cluster."""
        return cls(*check_clustered_tails(parts["tails"], parts["clusters"]))

    def again(self, cal: Part) -> "ClusterCalibration":
        """The same on other clusters."""
        return ClusterCalibration.of(cal)

    @cached_property
    def shares(self) -> FloatArray:
        """One over m + 1, and the running sum of the rows' weights; each is rounded once."""
        # In whole numbers of the largest unit that all sizes share. With many sizes that has
        # thousands of digits; then a sum is too low by n / 2^UNIT_BITS at most, far from a float.
        unit = min(math.lcm(*np.unique(self.sizes).tolist()), 2**UNIT_BITS)
        weight = [unit // size for size in self.sizes.tolist()]
        total = (self.n_clusters + 1) * unit
        sums = accumulate(map(weight.__getitem__, self.clusters.tolist()), initial=unit)
        return np.array([so_far / total for so_far in sums])

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that D2 has too few clusters for a finite bound at `alpha`; None if it has enough."""
        m = self.n_clusters
        is_enough = conformal_rank(m, alpha) <= m
        return None if is_enough else too_few_rows(m, alpha, top, "clusters")

    def sentence(self, alphas: Sequence[float]) -> str:
        """The promise for a random row of a random new cluster."""
        return (
            f"The loss of a random row of a random new cluster, exchangeable with the "
            f"{self.n_clusters} calibration clusters ({self.n} rows), exceeds its bound with "
            f"probability at most alpha = {_listed(alphas)}, on average over the draw of these "
            "clusters. Each cluster counts once, however many rows it has, so of all rows more may "
            "exceed it (hierarchical conformal prediction)."
        )


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRowsCalibration(ClusteredTails):
    """Clusters are exchangeable, and each counts by its rows (conformal risk control).

    No cluster has more than `largest` rows, B. The level is the largest s at which ::

        sum over all n rows of (1{tail < s} - alpha) + B (1 - alpha) <= 0,

    the last term for the new cluster at its worst; in other words
    ``smallest_alpha(s) = (B + #{tail <= s}) / (B + n)``. A new cluster then has
    ``E[rows above their bound] <= alpha E[rows]``, by conformal risk control (Angelopoulos et al.
    2024) on the cluster's sum of ``1{above} - alpha``. With B = 1 it is marginal calibration.
    """

    ARCHIVE = Kept("ClusterRows", numbers=("tails", "clusters"), single=("largest",))
    BY_ROWS = True
    COUNTED = "each cluster counting by its rows"

    tails: FloatArray
    clusters: IntArray
    largest: int

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if no cluster is larger than declared."""
        found = cls(*check_clustered_tails(parts["tails"], parts["clusters"]), parts["largest"])
        if type(found.largest) is not int or not found.sizes.max() <= found.largest <= MOST_LARGEST:
            raise ValueError("a calibration cluster is larger than the largest")
        return found

    def again(self, cal: Part) -> "ClusterRowsCalibration":
        """The same on other clusters, which must not be larger either."""
        tails, clusters = tails_and_clusters(cal)
        check_largest(clusters, self.largest)
        return ClusterRowsCalibration(tails, clusters, self.largest)

    @cached_property
    def shares(self) -> FloatArray:
        """``(B + j) / (B + n)``."""
        return np.asarray((self.largest + np.arange(self.n + 1.0)) / (self.largest + self.n))

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that D2 has too few rows for its largest cluster; None if it has enough."""
        if self.shares[0] <= alpha:
            return None
        share = Fraction(str(float(alpha)))
        rows = math.ceil(self.largest * (1 - share) / share)
        needed = max(math.ceil(rows * self.n_clusters / self.n), self.n_clusters + 1)
        text = too_few_rows(self.n_clusters, alpha, top, "clusters", needed)
        return f"{text[:-1]}, with {rows} rows in all: a cluster may have {self.largest}."

    def too_large(self, sizes: IntArray) -> str | None:
        """Say that new clusters have more rows than declared; None if none has."""
        large = int(np.sum(sizes > self.largest))
        if not large:
            return None
        return (
            f"{large:,} of {len(sizes):,} clusters have more rows than the declared largest, "
            f"{self.largest} (up to {int(sizes.max()):,}): the bound promises nothing of such "
            "clusters. Fit again with ClusterRows of a larger number."
        )

    def sentence(self, alphas: Sequence[float]) -> str:
        """The promise for all rows of new clusters."""
        return (
            f"Of all rows of new clusters, exchangeable with the {self.n_clusters} calibration "
            f"clusters ({self.n} rows) and of at most {self.largest} rows each, at most the share "
            f"alpha = {_listed(alphas)} is expected to have a loss above its bound: the expected "
            "number of such rows in a new cluster is at most alpha times the expected number of "
            "its rows, on average over the draw of these clusters (conformal risk control)."
        )


@dataclass(frozen=True, repr=False)
class ClusterRows(Choice):
    """The promise for all rows of new clusters, so that a large cluster counts for more.

    With ``fit(X, y, clusters=labels)``, the default calibration promises that a random row of a
    random new cluster is within its bound, each cluster counting once. Where large clusters are
    worse than small ones, that says little about all rows. This choice bounds the expected share of
    all rows instead; see `ClusterRowsCalibration`.

    Parameters
    ----------
    largest
        The most rows that any cluster can have, known beforehand. Bounds get wider as it grows: it
        counts like so many more rows above their bound, so D2 should have far more rows.

    Examples
    --------
    >>> from locuscore import Locus
    >>> from locuscore.calibration import ClusterRows
    >>> locus = Locus(lambda X: X[:, 0], calibration=ClusterRows(largest=200))
    """

    largest: int

    def check(self, X: Rows, clusters: IntArray | None, target: Rows | None) -> None:
        """Clusters must be given, and none may be larger than declared."""
        if not check_count(self.largest, "largest") <= MOST_LARGEST:
            raise ValueError(f"largest must be at most {MOST_LARGEST}; got {self.largest}.")
        if target is not None:
            raise ValueError(
                "fit was given a target sample, which calibration by clusters has no use for; pass "
                "calibration=Shifted() to calibrate for its mix of rows."
            )
        if clusters is None:
            raise ValueError(
                "calibration=ClusterRows(...) needs to know the clusters; pass fit(X, y, "
                "clusters=...), one label per row."
            )
        check_largest(clusters, self.largest)

    def calibrate(
        self, fit: Part, cal: Part, target: Rows | None, seed: int
    ) -> ClusterRowsCalibration:
        """Keep the tails of D2, in order, and the cluster of each."""
        return ClusterRowsCalibration(*tails_and_clusters(cal), int(self.largest))


def tails_and_clusters(cal: Part) -> tuple[FloatArray, IntArray]:
    """Ascending tails of D2, and codes from 0 of their clusters."""
    if cal.tails is None:
        raise ValueError("rows without tails cannot calibrate.")
    if cal.clusters is None:
        raise ValueError(
            "this Locus is calibrated by clusters, so new calibration rows need theirs; pass "
            "clusters= or --clusters COLUMN, one label per row."
        )
    order = np.argsort(cal.tails, kind="stable")
    codes = np.unique(cal.clusters, return_inverse=True)[1]
    return cal.tails[order], codes[order].astype(np.int32)


def check_clustered_tails(tails: Any, clusters: Any) -> tuple[FloatArray, IntArray]:
    """Return tails and clusters from an archive, if every code from 0 up has a tail."""
    values, codes = check_tails(tails), np.asarray(clusters)
    are_codes = codes.shape == values.shape and codes.dtype.kind in "iu" and len(codes) > 0
    if not are_codes or codes.min() < 0 or codes.max() >= len(codes):
        raise ValueError("the calibration clusters are no codes of the tails")
    if np.bincount(codes.astype(np.int64)).min() == 0:
        raise ValueError("a calibration cluster has no rows")
    return values, codes.astype(np.int32)


def check_largest(clusters: IntArray, largest: int) -> None:
    """Raise if a cluster has more rows than declared."""
    size = int(np.bincount(clusters).max())
    if size > largest:
        raise ValueError(
            f"a cluster has {size} rows, more than the declared largest, {largest}; declare the "
            "most that any cluster can have."
        )


def _listed(alphas: Sequence[float]) -> str:
    return ", ".join(f"{alpha:g}" for alpha in alphas)
