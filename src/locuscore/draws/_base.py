"""The base of all families: what follows from `shape`, `sf` and `isf` alone."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from locuscore._protocols import FloatArray, IntArray, LossDraws
from locuscore.draws._inversion import invert, kth_largest, raise_until_below

USUAL_FLOATS = 10  # numbers per law of a family that does not say how many it has


class Draws(ABC):
    """A stack of laws of the loss: one row per input, one column per draw.

    A family has `shape`, `sf` and the upper inverse `isf`, which broadcast their argument against
    (n, S). Everything else follows from these, and is overridden where a family knows better:
    `average`, `estimate` and `envelope`, which give one law per row, `joint_isf` and `knots`, which
    such a stack of one answers at several levels, and `floats_per_row`.

    Several levels are an array (m,), shared by all rows, or (n, m), each row its own.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import Draws
    >>> class Exponential(Draws):
    ...     def __init__(self, mean):
    ...         self.mean = mean
    ...     @property
    ...     def shape(self):
    ...         return self.mean.shape
    ...     def sf(self, z):
    ...         return np.exp(-np.maximum(z, 0) / self.mean)
    ...     def isf(self, level):
    ...         return -self.mean * np.log(level)
    ...
    >>> Exponential(np.array([[1.0, 2.0]])).average().shape
    (1, 1)
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of draws."""

    @abstractmethod
    def sf(self, z: FloatArray) -> FloatArray:
        """``P(Z > z)`` under each draw."""

    @abstractmethod
    def isf(self, level: FloatArray) -> FloatArray:
        """``sup{z : P(Z > z) >= level}`` under each draw: the right end where a law is flat."""

    def __repr__(self) -> str:
        rows, draws = self.shape
        return f"{type(self).__name__}(rows={rows:,}, draws={draws:,})"

    @property
    def floats_per_row(self) -> int:
        """How many numbers describe the laws of one row; bounds the rows handled at a time."""
        return USUAL_FLOATS * self.shape[1]

    def average(self) -> "Draws":
        """The mean of the draws' laws, a stack of one."""
        return AverageDraws(self)

    def estimate(self) -> "Draws":
        """The mean as an estimate: without mass kept on a tail for caution, where there is any."""
        return average(self)

    def envelope(self, rank: IntArray) -> "Draws":
        """The `rank`-th largest survival of each row (rank is (n,)), a stack of one."""
        return RankedDraws(self, rank)

    @property
    def inverts_jointly(self) -> bool:
        """Whether `joint_isf` finds several levels together, faster than one after the other."""
        return False

    def joint_isf(self, level: FloatArray) -> FloatArray:
        """Inverses at m levels of a stack of one, (n, m): survival there is below the level.

        One level after the other, each raised by the ulps that rounding cost.
        """
        full = np.broadcast_to(level, (self.shape[0], level.shape[-1]))
        out = np.empty(full.shape)
        for j in range(full.shape[1]):
            column = full[:, [j]]  # one per row even if shared: all that the protocol promises
            out[:, [j]] = raise_until_below(self.sf, column, self.isf(column))
        return out

    def knots(self, level: FloatArray) -> FloatArray:
        """Places between which survival falls by no more than between the levels, (n, k).

        In no order; of a stack of one.
        """
        return self.joint_isf(level)


class ArrayDraws(Draws):
    """Laws kept in arrays; `arrays` names those with an entry per row, one of (n, S, ...) first."""

    arrays: ClassVar[tuple[str, ...]]

    @property
    def shape(self) -> tuple[int, int]:
        n, n_draws = getattr(self, self.arrays[0]).shape[:2]
        return (n, n_draws)

    @property
    def floats_per_row(self) -> int:
        return sum(math.prod(getattr(self, name).shape[1:]) for name in self.arrays)


@dataclass(frozen=True, repr=False)
class _ReducedDraws(Draws):
    """A stack of laws reduced to one per row."""

    draws: LossDraws

    @property
    def shape(self) -> tuple[int, int]:
        return (self.draws.shape[0], 1)

    @property
    def floats_per_row(self) -> int:
        return floats_per_row(self.draws)


@dataclass(frozen=True, repr=False)
class AverageDraws(_ReducedDraws):
    """The mean of a stack of laws, inverted between the smallest and the largest draw's inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import AverageDraws, NormalDraws
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> law = AverageDraws(draws)
    >>> law.shape, law.sf(np.array([[1.0]])).round(3)
    ((1, 1), array([[0.5]]))
    """

    def sf(self, z: FloatArray) -> FloatArray:
        return self.draws.sf(z).mean(axis=1, keepdims=True)

    def isf(self, level: FloatArray) -> FloatArray:
        # Below the smallest inverse every draw has the level, above the largest none has.
        ends = self.draws.isf(level)
        low, high = (end(axis=1, keepdims=True) for end in (ends.min, ends.max))
        return invert(self.sf, np.broadcast_to(level, self.shape), low, high, self._next_jump)

    def _next_jump(self, z: FloatArray) -> FloatArray:
        """Where the first draw's survival changes after z."""
        # The upper inverse of the survival at z is the right end of the flat that z lies on.
        ends = self.draws.isf(self.draws.sf(z))
        return np.where(ends > z, ends, np.inf).min(axis=1, keepdims=True)


@dataclass(frozen=True, repr=False)
class RankedDraws(_ReducedDraws):
    """The `rank`-th largest survival of each row of a stack of laws; `rank` is (n,).

    Its inverse is the rank-th largest inverse, so it is as simple as those of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, RankedDraws
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> RankedDraws(draws, np.array([1])).sf(np.array([[1.0]])).round(3)  # the largest
    array([[0.841]])
    """

    rank: IntArray

    def sf(self, z: FloatArray) -> FloatArray:
        return kth_largest(self.draws.sf(z), self.rank)

    def isf(self, level: FloatArray) -> FloatArray:
        return kth_largest(self.draws.isf(level), self.rank)


@dataclass(frozen=True, repr=False)
class ForeignDraws(Draws):
    """Laws of an object that has `shape`, `sf` and `isf` and does not derive from `Draws`."""

    draws: LossDraws

    @property
    def shape(self) -> tuple[int, int]:
        return self.draws.shape

    def sf(self, z: FloatArray) -> FloatArray:
        return self.draws.sf(z)

    def isf(self, level: FloatArray) -> FloatArray:
        return self.draws.isf(level)


def as_draws(draws: LossDraws) -> Draws:
    """Return the draws themselves, or what stands for those that have the bare protocol only."""
    return draws if isinstance(draws, Draws) else ForeignDraws(draws)


def average(draws: LossDraws) -> Draws:
    """Return the mean of the draws' laws, a stack of one.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, average
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> average(draws).sf(np.array([[1.0]])).round(3)
    array([[0.5]])
    """
    laws = as_draws(draws)
    # One draw is its own mean, and its inverse may be simpler than that of a mean.
    return laws if laws.shape[1] == 1 else laws.average()


def estimate(draws: LossDraws) -> Draws:
    """Return the mean of the draws' laws as an estimate: without mass kept on a tail for caution.

    The same as `average` for families that keep none.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, estimate
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> estimate(draws).sf(np.array([[1.0]])).round(3)
    array([[0.5]])
    """
    return as_draws(draws).estimate()


def envelope(draws: LossDraws, rank: IntArray) -> Draws:
    """Return each row's `rank`-th largest survival as a law of its own, a stack of one.

    The inverse of that law is the rank-th largest inverse, which is simple where inverses are.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, envelope
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> envelope(draws, np.array([1])).sf(np.array([[1.0]])).round(3)  # the most cautious draw
    array([[0.841]])
    """
    return as_draws(draws).envelope(rank)


def joint_isf(draws: LossDraws, level: FloatArray) -> FloatArray | None:
    """Return the inverses at m levels, (n, m), where the family finds them together, or None.

    `level` is (m,), shared by all rows, or (n, m).

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, average, joint_isf
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> found = joint_isf(average(draws), np.array([0.5, 0.1]))
    >>> found.round(3)
    array([[1.   , 2.676]])
    """
    laws = as_draws(draws)
    return laws.joint_isf(level) if laws.inverts_jointly and laws.shape[1] == 1 else None


def floats_per_row(draws: LossDraws) -> int:
    """Count the numbers that describe the laws of a single row.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.draws import NormalDraws, floats_per_row
    >>> draws = NormalDraws(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))  # one row, three draws
    >>> floats_per_row(draws)
    6
    """
    return as_draws(draws).floats_per_row
