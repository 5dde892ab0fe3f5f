"""Fading: recent calibration rows count more, for data that drift."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from locuscore._laws.calibration import BaseCalibration, check_tails, smallest_n
from locuscore._protocols import FloatArray, IntArray, Part
from locuscore._shared.checks import check_numbers
from locuscore._shared.kept import Kept

BITS = 52  # whole numbers of so many bits have exact sums in floats
LONGEST = 2**40  # rows; a longer half-life is none
HOW_LARGE = "sum_i w_i d_TV(rows, rows with row i and the new row exchanged) / (1 + sum_i w_i)"


@dataclass(frozen=True, eq=False, repr=False)
class FadingCalibration(BaseCalibration):
    """A calibration row `age` rows before the new one has the weight ``2 ** (-age / half_life)``.

    The weights w_i are fixed without the data, and the new row has weight 1. The smallest alpha
    whose bound is at most tau is ``(1 + sum{w_i : tail_i <= survival}) / (1 + sum w_i)``, and

    ``P(Z > U) <= alpha + gap`` with ``gap = sum w_i d_TV(R, R^i) / (1 + sum w_i)``.

    R are the tails of all rows in their order, and R^i the same with row i and the new row
    exchanged (Barber, Candes, Ramdas and Tibshirani, 2023); the gap of exchangeable rows is 0.

    The gap is a number only if a drift is declared. Let rows be independent, and the distributions
    of two neighbours differ by at most `drift_per_row` in total variation. Those of row i and of
    the new row then differ by at most ``d_i = min(1, drift_per_row * age_i)``, and ``d_TV(R, R^i)
    <= 1 - (1 - d_i) ** 2``: the pairs agree as long as both rows do. There are rows that reach it.

    `tails` are ascending, and `ages` are those of the same rows, 1 for the newest. Equal weights,
    ``half_life = inf``, give marginal calibration exactly.
    """

    ARCHIVE = Kept("Fading", numbers=("tails", "ages"), single=("half_life", "drift"))

    tails: FloatArray
    ages: IntArray
    half_life: float
    drift_per_row: float | None = None

    @classmethod
    def of(cls, cal: Part, half_life: Any, drift_per_row: Any = None) -> Self:
        """Calibrate on rows in the order of time, the newest last."""
        if cal.tails is None:
            raise ValueError("rows without tails cannot calibrate.")
        order = np.argsort(cal.tails, kind="stable")
        ages = np.arange(len(order), 0, -1)
        settings = check_half_life(half_life), check_drift(drift_per_row)
        return cls(cal.tails[order], ages[order], *settings)

    def to_parts(self) -> dict[str, Any]:
        """What an archive holds."""
        half_life, drift = self.half_life, self.drift_per_row
        return {"tails": self.tails, "ages": self.ages, "half_life": half_life, "drift": drift}

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if its rows each have an age."""
        tails, ages = check_tails(parts["tails"]), np.asarray(parts["ages"])
        if (
            ages.dtype.kind not in "iu"
            or ages.shape != tails.shape
            or np.any(np.sort(ages) != np.arange(1, len(ages) + 1))
        ):
            raise ValueError("the ages of the calibration rows are not 1, 2, 3, ...")
        settings = check_half_life(parts["half_life"]), check_drift(parts["drift"])
        return cls(tails, ages.astype(np.int64), *settings)

    def again(self, cal: Part) -> "FadingCalibration":
        """Fading weights of the same half-life on other rows."""
        return FadingCalibration.of(cal, self.half_life, self.drift_per_row)

    @property
    def plus(self) -> str:
        """The gap, unless weights are equal."""
        return "" if math.isinf(self.half_life) else "the gap of rows that drift"

    @property
    def no_certificate(self) -> str | None:
        """Rows that fade are not taken as drawn alike; None for equal weights."""
        if math.isinf(self.half_life):
            return None
        return (
            "the calibration rows fade because they are not drawn alike, so they cannot certify a "
            "rule; pass fresh labelled rows X and y, or recalibrate without half_life."
        )

    @cached_property
    def weights(self) -> FloatArray:
        """Weights of the rows, in the order of the tails."""
        return fading_weights(self.ages, self.half_life)

    @cached_property
    def _alphas(self) -> FloatArray:
        """Smallest alpha if no tail, the lowest tail, the two lowest, ... are at most survival."""
        # Exact sums, so one rounding each; so bound and exceedance agree at every alpha.
        sums = 1.0 + np.append(0.0, np.cumsum(self.weights))
        return sums / sums[-1]

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None = None) -> FloatArray:
        """The lowest tail that a survival must stay below; 0 where the weights are too small."""
        place = np.searchsorted(self._alphas, np.asarray(alpha, dtype=np.float64), side="right")
        return np.append(0.0, self.tails)[place]

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None = None) -> FloatArray:
        """``(1 + sum{w_i : tail_i <= survival}) / (1 + sum w_i)``."""
        return self._alphas[np.searchsorted(self.tails, survival, side="right")]

    def gap(self, ahead: int = 1) -> float | None:
        """Most that rows drifting as declared add to alpha, for the row so many rows ahead."""
        if self.drift_per_row is None:
            return None
        apart = np.minimum(1.0, self.drift_per_row * (self.ages + (ahead - 1.0)))
        pair = 1.0 - (1.0 - apart) ** 2
        return float(np.sum(self.weights * pair) / (1.0 + np.sum(self.weights)))

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that rows fade too fast for a finite bound at `alpha`, and how fast they may."""
        if self._alphas[0] <= alpha:
            return None
        is_finite = top is not None and math.isfinite(top)
        bound = f"the top of the support, {top:g}" if is_finite else "infinite"
        return (
            f"{self.n} calibration rows with a half-life of {self.half_life:g} rows have the "
            f"weight of {np.sum(self.weights):.3g} rows, too few for alpha = {alpha:g}: the bound "
            f"is {bound}. {_what_would_do(self.n, alpha)}"
        )

    def sentence(self, alphas: Sequence[float]) -> str:
        """The promise for the next row, with its gap."""
        shares = ", ".join(f"{alpha:g}" for alpha in alphas)
        total, gap = np.sum(self.weights), self.gap()
        effective = total**2 / np.sum(self.weights**2)
        text = (
            f"Calibration rows fade with a half-life of {self.half_life:g} rows; {self.n} of them "
            f"count like {effective:.0f}. The loss of a new row exceeds its bound with probability "
            f"at most alpha + gap, where alpha = {shares} and gap = {HOW_LARGE}, which is 0 for "
            "exchangeable rows (Barber, Candes, Ramdas and Tibshirani, 2023)."
        )
        if gap is None:
            return text
        return (
            f"{text} If rows are independent and the distributions of neighbouring rows differ by "
            f"at most {self.drift_per_row:g} in total variation, as declared, the gap of the next "
            f"row is at most {gap:.4g}; it grows with every further row."
        )


def fading_weights(ages: IntArray, half_life: float) -> FloatArray:
    """``2 ** (-age / half_life)``, rounded down so that all sums of them are exact."""
    bits = BITS - math.ceil(math.log2(len(ages) + 2))
    with np.errstate(over="ignore"):  # far below a row, nothing is left
        return np.floor(np.exp2(bits - ages / half_life)) / 2.0**bits


def check_half_life(half_life: Any) -> float:
    """Return a half-life in rows; inf means equal weights."""
    number = check_numbers(half_life, "half_life")
    if number.ndim or not number > 0 or isinstance(half_life, bool | np.bool_):
        raise ValueError(
            f"half_life is a number of rows above 0, or inf for equal weights; got {half_life!r}."
        )
    return float(number)


def check_drift(drift: Any) -> float | None:
    """Return the most that neighbouring rows differ in total variation; None if not declared."""
    if drift is None:
        return None
    number = check_numbers(drift, "drift_per_row")
    if number.ndim or not 0 <= number <= 1 or isinstance(drift, bool | np.bool_):
        raise ValueError(
            "drift_per_row is the total variation between the distributions of two neighbouring "
            f"rows, from 0 to 1; got {drift!r}."
        )
    return float(number)


def _what_would_do(n: int, alpha: float) -> str:
    if n < smallest_n(alpha):
        return f"At least {smallest_n(alpha)} rows are needed."
    ages, low, high = np.arange(1, n + 1), 0, 1
    while 1.0 / (1.0 + fading_weights(ages, high).sum()) > alpha and high < LONGEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = 1.0 / (1.0 + fading_weights(ages, middle).sum()) <= alpha
        low, high = (low, middle) if is_enough else (middle, high)
    # With just enough rows only equal weights do.
    return f"A half-life of {math.inf if high >= LONGEST else high} rows would do."
