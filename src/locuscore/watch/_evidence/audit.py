"""Which rows are labelled: draws with a known chance, and estimates that weigh by it.

A draw is a number in [0, 1) made of the row's id by a keyed hash. The key is a secret of the
ledger, so nobody can choose an id that is, or is not, drawn; and the same id is always drawn alike.
Draws are taken as random and independent of the rows.

**Thinning.** Where rows were drawn with different chances q, a second draw keeps each with chance
``least / q``. Every row is then kept with the same chance `least`, whatever it is like, so the rows
that are kept are a simple random sample: exchangeable, and with the same conditional chance of
being bad, as all rows. Tests see no others.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import BoolArray, FloatArray
from locuscore._shared.checks import check_between

AUDIT, THIN = b"audit", b"thin"
LEAST_KEY = 16  # bytes


def draws(ids: Iterable[str], key: bytes, purpose: bytes = AUDIT) -> FloatArray:
    """A number in [0, 1) for each id; `purpose` makes independent ones of the same id."""
    if not isinstance(key, bytes) or not LEAST_KEY <= len(key) <= blake2b.MAX_KEY_SIZE:
        raise ValueError(
            f"the key of the draws must be {LEAST_KEY} to {blake2b.MAX_KEY_SIZE} bytes, such as "
            "secrets.token_bytes(32)."
        )
    # The state after the key is copied for each id.
    keyed = blake2b(key=key, person=purpose, digest_size=8)
    found = bytearray()
    for one in ids:
        state = keyed.copy()
        state.update(one.encode("utf-8", "surrogatepass"))
        found += state.digest()
    # 53 bits, so that no draw is rounded up to 1.
    whole = np.frombuffer(bytes(found), dtype="<u8") >> np.uint64(11)
    return np.asarray(whole / 2.0**53, dtype=np.float64)


def drawn(ids: Iterable[str], chance: ArrayLike, key: bytes) -> BoolArray:
    """Whether each row is drawn for its label; `chance` is one for all, or one for each."""
    return np.asarray(draws(ids, key) < np.asarray(chance, dtype=np.float64))


def thinned(ids: Iterable[str], chance: ArrayLike, least: float, key: bytes) -> BoolArray:
    """Which of the rows that were drawn a test may see, so that all had the chance `least`.

    It must be fixed beforehand and be no larger than any chance.
    """
    check_between(least, "least", high=math.inf)
    q = np.asarray(chance, dtype=np.float64)
    if np.any(~(q >= least) | (q > 1)):
        raise ValueError(
            f"the chance of every row must be from {least:g}, the least that was fixed beforehand, "
            f"to 1; got {np.min(q):g} to {np.max(q):g}."
        )
    return np.asarray(draws(ids, key, THIN) * q < least)


@dataclass(frozen=True)
class WeightedSums:
    """Sums over labelled rows, each weighing one over its chance; those of two parts add up.

    `rows` counts them. With weights v and values x: `weight` and `total` estimate the number of all
    rows and the sum of their values without bias (Horvitz and Thompson). The other three are for
    the standard error.
    """

    rows: int = 0
    weight: float = 0.0
    total: float = 0.0
    weight_2: float = 0.0
    total_2: float = 0.0
    both_2: float = 0.0

    @classmethod
    def of(cls, values: ArrayLike, chance: ArrayLike) -> "WeightedSums":
        """Sums of some labelled rows, which were drawn with these chances."""
        x = np.asarray(values, dtype=np.float64)
        v = 1.0 / np.broadcast_to(np.asarray(chance, dtype=np.float64), x.shape)
        parts: list[Any] = [v, v * x, v * v, (v * x) ** 2, v * v * x]
        return cls(len(x), *(float(np.sum(part)) for part in parts))

    def __add__(self, other: "WeightedSums") -> "WeightedSums":
        pairs = zip(self._values, other._values, strict=True)
        return WeightedSums(*(a + b for a, b in pairs))

    @property
    def _values(self) -> tuple[Any, ...]:
        names = ("rows", "weight", "total", "weight_2", "total_2", "both_2")
        return tuple(getattr(self, name) for name in names)

    @property
    def mean(self) -> float | None:
        """Estimate of the mean value of all rows (Hajek): ``sum v x / sum v``; None without any."""
        return self.total / self.weight if self.rows else None

    @property
    def standard_error(self) -> float | None:
        """Of the mean, ``sqrt(sum v^2 (x - mean)^2) / sum v``; None with fewer than two rows."""
        if self.rows < 2:
            return None
        mean = self.total / self.weight
        spread = self.total_2 - 2 * mean * self.both_2 + mean * mean * self.weight_2
        return math.sqrt(max(spread, 0.0)) / self.weight
