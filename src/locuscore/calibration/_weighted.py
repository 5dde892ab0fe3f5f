"""Weighted calibration: new rows from another mix of x than the rows of D2."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from locuscore._laws.calibration import (
    BaseCalibration,
    MarginalCalibration,
    bound_words,
    check_tails,
    sorted_tails,
)
from locuscore._protocols import BoolArray, FloatArray, Part, Rows, RowWeights
from locuscore._shared.frames import n_rows
from locuscore._shared.kept import Kept
from locuscore._shared.weighted_coverage import weighted_p_values
from locuscore.calibration._density_ratio import DensityRatio
from locuscore.calibration._weights import MEANING, WeightColumn, check_weights

BITS = 51  # of the sum of all weights, in their unit: sums of whole numbers of units are exact
LARGEST_UNITS = 2.0**1000

Reader = Callable[[Rows], Any]


@dataclass(frozen=True, eq=False, repr=False)
class WeightedCalibration(BaseCalibration):
    """Each row of D2 counts by its weight, and a new row by its own (Tibshirani et al. 2019).

    ``smallest_alpha = (w + sum of w_i with tail_i <= survival) / (w + sum of w_i)``, where w is the
    weight of the new row and w_i are those of D2. If rows are independent, weights are the ratio of
    the law of new x to that of the x of D2, up to a factor, and losses given x are distributed
    alike, then ``P(Z <= U) >= 1 - alpha`` in finite samples. With other weights v, independent of
    D2, it is at least ``1 - alpha - E|v - w| / 2``, both divided by their mean over the law of D2:
    that is the distance in total variation between new rows and those that v stands for (Lei and
    Candes 2021).

    Attributes
    ----------
    tails, weights
        ``P(Z >= z | x)`` of the rows of D2, ascending, and their weights in the same order.
    reader
        What tells the weights of new rows: a function of X; None if the caller passes them.
    is_given
        Whether the caller passes the weights of new rows.
    largest_weight
        No weight is larger, as the caller declares; None without a declaration.
    row_weights
        For `certify`: the weights in the order of the rows of D2; None without a largest weight,
        and in archives, which have no rows.
    """

    ARCHIVE = Kept(
        "Weighted",
        fields=("reader",),
        numbers=("tails", "weights"),
        single=("is_given", "largest_weight"),
        holds=(DensityRatio, WeightColumn),
    )

    certifies_by = "weights"

    tails: FloatArray
    weights: FloatArray
    reader: Reader | None = None
    is_given: bool = False
    largest_weight: float | None = None
    row_weights: RowWeights | None = None

    @classmethod
    def of(
        cls,
        cal: Part,
        weights: FloatArray,
        reader: Reader | None,
        largest: float | None,
        of_fit: FloatArray | None = None,
    ) -> Self:
        """Calibrate on rows of these weights; `of_fit` are those of D1."""
        if cal.tails is None:
            raise ValueError("rows without tails cannot calibrate.")
        if not np.any(weights):
            raise ValueError(
                f"all {len(weights)} weights of the calibration rows are zero, so none of these "
                f"rows can stand for a new one; {MEANING}."
            )
        order = np.argsort(cal.tails, kind="stable")
        known = None if largest is None else RowWeights(weights, of_fit, largest)
        return cls(cal.tails[order], weights[order], reader, reader is None, largest, known)

    def to_parts(self) -> dict[str, Any]:
        """What an archive holds: a function of the caller's own is not in it."""
        is_kept = isinstance(self.reader, DensityRatio | WeightColumn)
        names = ("tails", "weights", "is_given", "largest_weight")
        return {name: getattr(self, name) for name in names} | {
            "reader": self.reader if is_kept else None
        }

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if its parts fit together."""
        tails, weights = check_tails(parts["tails"]), np.asarray(parts["weights"])
        reader, is_given, largest = parts["reader"], parts["is_given"], parts["largest_weight"]
        if weights.dtype != np.float64 or weights.shape != tails.shape:
            raise ValueError("the calibration has other weights than rows")
        if not np.all(np.isfinite(weights) & (weights >= 0)) or not np.any(weights):
            raise ValueError("the calibration has weights that count no row")
        if not isinstance(reader, DensityRatio | WeightColumn | None):
            raise ValueError("the calibration reads its weights in an unknown way")
        if not isinstance(is_given, bool) or (is_given and reader is not None):
            raise ValueError("the calibration does not say where its weights come from")
        if largest is not None and not (isinstance(largest, float) and 0 < largest < np.inf):
            raise ValueError("the largest weight of the calibration is no positive number")
        if largest is not None and (isinstance(reader, DensityRatio) or weights.max() > largest):
            raise ValueError("the largest weight of the calibration is not that of its weights")
        return cls(tails, weights, reader, is_given, largest)

    @property
    def is_learned(self) -> bool:
        """Whether weights are estimates, so that nothing is certified by them."""
        return isinstance(self.reader, DensityRatio)

    @property
    def knows_weights(self) -> bool:
        """Whether weights are not learned, so that new rows can be compared with D2 exactly."""
        return not self.is_learned

    def judge_weights(
        self, alpha: float, tails: FloatArray, weights: FloatArray, counted: BoolArray
    ) -> tuple[float, float]:
        """P-value of the promise at alpha, and that of twice as many rows above their bound.

        `tails` and `weights` are those of new rows, of which only those `counted` are above. See
        `weighted_p_values`.
        """
        return weighted_p_values((self.tails, tails), (self.weights, weights), alpha, counted)

    @property
    def effective_size(self) -> float:
        """How many rows of equal weight would be worth as much: ``(sum w)^2 / sum w^2``."""
        shares = self.weights / self.weights.max()
        return float(shares.sum() ** 2 / np.sum(shares**2))

    @property
    def reads(self) -> Callable[[Rows], np.ndarray] | None:
        """Turns new rows into their weights; None if the caller passes them."""
        return None if self.is_given else self._weights_of

    @property
    def asks(self) -> str | None:
        """``weights``, if they were given as an array."""
        return "weights" if self.is_given else None

    @property
    def lacks(self) -> str | None:
        """``weights``, where a function of the caller's own told them."""
        return "weights" if self.reader is None and not self.is_given else None

    def with_function(self, function: Callable[[Rows], Any]) -> Self:
        """The same calibration, with the function that tells weights."""
        if not callable(function):
            raise TypeError(f"weights must be a function of X here; got {function!r}.")
        return replace(self, reader=function)

    def entries(self, given: Any, n: int) -> np.ndarray:
        """Weights of n new rows as the caller passes them."""
        return check_weights(given, n, self.largest_weight, of_new_rows=True)

    def _weights_of(self, X: Rows) -> np.ndarray:
        if self.reader is None:
            raise ValueError("the function that tells weights is not in the archive.")
        return check_weights(self.reader(X), n_rows(X), self.largest_weight, of_new_rows=True)

    @cached_property
    def _exponent(self) -> int:
        # The sum of the weights is below 2 to this power, and by less than a factor of four.
        largest = self.weights.max()
        return int(np.frexp(largest)[1] + np.frexp(np.sum(self.weights / largest))[1])

    def _units(self, weights: FloatArray) -> FloatArray:
        """Weights as whole numbers of a unit, rounded up, so that every sum below is exact.

        Two sums that are equal are then equal in floating point, and with equal weights all is as
        in marginal calibration. Rounding adds less than ``n / 2^49`` of their mean to any weight.
        """
        with np.errstate(over="ignore"):
            units = np.ceil(np.ldexp(weights, BITS - self._exponent))
        return np.minimum(units, LARGEST_UNITS)

    @cached_property
    def _steps(self) -> tuple[FloatArray, FloatArray]:
        """Tails of the rows that count, after a 0, and the sum of the weights up to each."""
        counts = self.weights > 0
        sums = np.cumsum(self._units(self.weights[counts]))
        return np.append(0.0, self.tails[counts]), np.append(0.0, sums)

    def _own(self, rows: np.ndarray | None, n_axes: int) -> FloatArray:
        """The new rows' own weights in units, at least one, with so many axes behind."""
        if rows is None:
            raise ValueError("weighted calibration needs the weights of the rows.")
        units = np.maximum(self._units(np.asarray(rows, dtype=np.float64)), 1.0)
        return units.reshape(-1, *[1] * n_axes)

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None = None) -> FloatArray:
        """Smallest tail up to which rows weigh more than alpha of all, the new one included.

        0 where the new row alone weighs more than that: its bound is infinite.
        """
        alphas = np.asarray(alpha, dtype=np.float64)
        own, (tails, sums) = self._own(rows, alphas.ndim), self._steps
        last, total = len(sums) - 1, own + sums[-1]
        place = np.searchsorted(sums, alphas * total - own, side="right")
        place = np.minimum(place, last)
        # The product above is rounded. What counts is the quotient that `smallest_alpha` gives.
        while True:
            too_low = (place < last) & ((own + sums[place]) / total <= alphas)
            too_high = (place > 0) & ((own + sums[np.maximum(place - 1, 0)]) / total > alphas)
            if not (too_low.any() or too_high.any()):
                return tails[place]
            place = place + too_low - too_high

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None = None) -> FloatArray:
        """Weight of the new row and of those with tails up to survival, as a share of all."""
        own, (tails, sums) = self._own(rows, np.ndim(survival) - 1), self._steps
        below = np.searchsorted(tails[1:], survival, side="right")
        return np.asarray((own + sums[below]) / (own + sums[-1]), dtype=np.float64)

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that the rows of D2 that resemble new rows are too few for most of these.

        Half of the new rows weigh at least as much as the weighted median of D2 does. None if such
        a row has a finite bound; rows of a larger weight may have none.
        """
        ascending = np.sort(self.weights)
        sums = np.cumsum(ascending / ascending[-1])
        typical = ascending[np.searchsorted(sums, sums[-1] / 2)]
        if self.smallest_alpha(np.array([[-1.0]]), np.array([typical]))[0, 0] <= alpha:
            return None
        return (
            f"{self.n} calibration rows, worth {self.effective_size:.3g} rows of equal weight, are "
            f"too few for alpha = {alpha:g}: for at least about half of the new rows the bound is "
            f"{bound_words(top)}. It is finite where a row's weight is at most alpha / (1 - alpha) "
            "times the sum of theirs; more rows that resemble the new ones are needed."
        )

    @property
    def plus(self) -> str:
        """The error of learned weights."""
        return "the error of the learned weights" if self.is_learned else ""

    @property
    def no_certificate(self) -> str | None:
        """Why the rows of D2 cannot certify; None if they can."""
        if self.is_learned:
            return (
                "the weights of this Locus are learned, and no certificate follows from weights "
                "that are estimates. Pass labelled rows X and y that are drawn from the target, "
                "which need no weights; labelled rows from elsewhere certify nothing here."
            )
        if self.largest_weight is None:
            return (
                "a certificate from weighted rows needs the largest weight that is possible, and "
                "none was declared; pass it: Shifted(weights, largest_weight=...). Or pass "
                "labelled rows X and y that are drawn from the target, which need no weights."
            )
        return None

    def sentence(self, alphas: Sequence[float]) -> str:
        """Weighted validity for these alphas."""
        shares = ", ".join(f"{alpha:g}" for alpha in alphas)
        worth = (
            f"The {self.n} calibration rows are worth {self.effective_size:.3g} of equal weight, "
            "and a row that alone weighs more than alpha of all has an infinite bound."
        )
        if isinstance(self.reader, DensityRatio):
            return (
                f"Over new rows drawn like the {self.reader.n_target} target rows and independent "
                "of them, whose losses given x are distributed as those of the calibration rows, "
                f"the loss exceeds its bound for at most the share alpha = {shares} plus "
                "E|w_hat - w| / 2, on average over the draw of all these rows. Here w is the true "
                "ratio of the two laws of x and w_hat the learned one, both divided by their mean "
                "over the law of the calibration rows; how far they differ is not known. "
                f"{self.reader.words} {worth}"
            )
        return (
            "Over new rows that come with their weight times the frequency of the calibration "
            "rows, and whose losses given x are distributed alike, the loss exceeds its bound for "
            f"at most the share alpha = {shares}, on average over the draw of the calibration rows "
            f"(weighted form of Theorem 1). {worth}"
        )

    def again(self, cal: Part) -> MarginalCalibration:
        """Other calibration rows are taken to be like new ones, so they need no weights."""
        return MarginalCalibration(sorted_tails(cal))
