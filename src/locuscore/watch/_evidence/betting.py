"""Bets against a claim given its rows: a share, or a mean loss, of at most eta.

A certificate says that the chance of a bad row among the accepted is at most eta, and one of the
mean loss that ``E[Z | accepted] <= eta`` for losses from `low` on. If it holds, the conditional
mean of each value z is at most eta, given all before it. So for a fixed lambda in (0, 1) the factor
::

    1 + lambda (z - eta) / (eta - low)

is positive, has a conditional mean of at most 1, and rises with z. Products of such factors are
supermartingales, also where the mean moves below eta. A row without a label may count as `low`.
For bad rows, z is 1 or 0, and ``lambda = (theta - eta) / (1 - eta)`` makes the factor the
likelihood ratio of the rates theta and eta.

**Clusters.** Where rows come in clusters, a whole cluster is one value, see `cluster_values`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.checks import check_numbers

ODDS = (1.2, 1.5, 2.0, 4.0)  # as in `urn`
LARGE = (0.5, 0.9)  # bets for values that vary little


class MeanBets:
    """Bets that the mean of values is above eta; see the module.

    `high` is the largest value that is expected. It decides about bets and intervals, and no
    guarantee needs it. `are_shares` is false where values may be anything between `low` and `high`,
    and vary less than zeros and ones.
    """

    def __init__(
        self, eta: float, *, low: float = 0.0, high: float = 1.0, are_shares: bool = True
    ) -> None:
        numbers = check_numbers([low, eta, high], "low, eta and high")
        if not np.all(np.isfinite(numbers)) or not low < eta < high:
            raise ValueError(
                f"eta must be between low and high; got low = {low:g}, eta = {eta:g} and high = "
                f"{high:g}."
            )
        self.eta, self.low, self.high = float(eta), float(low), float(high)
        share = (self.eta - self.low) / (self.high - self.low)
        odds = np.array(ODDS)
        sizes = share * (odds - 1.0) / (1.0 - share + odds * share)
        self.sizes = sizes if are_shares else np.append(sizes, LARGE)

    @property
    def n_bets(self) -> int:
        """Number of bets that are mixed."""
        return len(self.sizes)

    def log_factors(self, values: FloatArray, labelled: BoolArray) -> FloatArray:
        """Logarithms of the factors, (rows, bets).

        A value below `low` counts as `low`, since the claim is about losses from there on.
        """
        z = np.where(labelled, np.maximum(values, self.low), self.low)
        return np.log1p(np.outer((z - self.eta) / (self.eta - self.low), self.sizes))

    def shares(self, values: FloatArray) -> FloatArray:
        """The values as shares of the way from `low` to `high`."""
        return np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)

    def to_state(self) -> dict[str, Any]:
        """Nothing: all bets are fixed beforehand."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing is kept."""


def cluster_values(clusters: ArrayLike, bad: ArrayLike, eta: float, sizes: ArrayLike) -> FloatArray:
    """One value for each cluster: ``eta + sum of (bad - eta) / size`` over its rows that are used.

    `clusters` has a code from 0 of each accepted row that was drawn for its label, and `bad` is 1
    or 0 (0 without a label). `sizes` has one number for each cluster. With the number of all of its
    rows, flagged ones too, the mean of the value is at most eta exactly if ``P(Z > tau | accepted)
    <= eta`` for a random row of a random cluster, each counting once. With the same number for all,
    the most rows a cluster can have, it is so if the claim is about all rows alike. Rows drawn with
    one chance q move the mean towards eta, by the factor q, and never past it.
    """
    size = np.asarray(sizes, dtype=np.float64)
    code: IntArray = np.asarray(clusters, dtype=np.int64)
    used = np.bincount(code, minlength=len(size))
    if len(used) > len(size) or np.any(used > size) or np.any(size < 1):
        raise ValueError(
            "sizes must have the number of rows of each cluster, or the most that any can have; "
            f"the largest cluster has {int(used.max(initial=0))} rows that are used."
        )
    found = np.bincount(code, weights=np.asarray(bad, np.float64) - eta, minlength=len(size))
    # Between 0 and 1 but for rounding.
    return np.clip(eta + found / size, 0.0, 1.0)
