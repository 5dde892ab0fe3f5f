"""Calibrations: from the tails of D2 to a level per row. The only place a rank is computed.

Throughout, ``tail = P(Z >= z | x)`` is the survival function just below the realised loss; it
equals ``1 - W`` of the paper where the law is continuous and counts the atom where it jumps.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp
from scipy.stats import betabinom

from locuscore._protocols import CertifiesBy, FloatArray, IntArray, Part, Rows, RowWeights
from locuscore._shared.kept import Kept, kept_of

FAR = 15.0  # standard deviations


@lru_cache(maxsize=1_000)  # exact fractions are slow, and every block of rows asks again
def conformal_rank(n: int, alpha: float) -> int:
    """Rank ``k = ceil((1 - alpha) * (n + 1))`` of the calibrating order statistic among n values.

    It is exact for the decimal `alpha` as written: floating point is one too high for some pairs,
    such as n = 9 and alpha = 0.7. A quotient, such as 1 / 3 or a value of `smallest_alpha`, is read
    as the fraction that it rounds, so that bound and exceedance agree at every alpha.

    Examples
    --------
    >>> from locuscore import conformal_rank
    >>> conformal_rank(99, 0.1)
    90
    >>> conformal_rank(5, 0.1)  # more than 5: no finite bound
    6
    """
    k = math.ceil((1 - Fraction(str(float(alpha)))) * (n + 1))
    return k - 1 if (n + 2 - k) / (n + 1) <= alpha else k


@dataclass(frozen=True)
class CoverageLaw:
    """Law of the number of new rows within their bound: ``P(count <= counts) = cumulative``."""

    counts: IntArray
    cumulative: FloatArray

    def ppf(self, share: float) -> int:
        """Smallest count with at least this probability up to it."""
        place = int(np.searchsorted(self.cumulative, share))
        return int(self.counts[min(place, len(self.counts) - 1)])

    def p_value(self, count: int) -> float:
        """Twice the probability of a count as far out on its side, at most 1."""
        place = int(np.clip(count - self.counts[0], -1, len(self.counts) - 1))
        up_to = float(self.cumulative[place]) if place >= 0 else 0.0
        from_there = 1.0 - float(self.cumulative[place - 1]) if place >= 1 else 1.0
        return min(1.0, 2.0 * min(up_to, from_there))


def coverage_law(n: int, alpha: float, n_new: int) -> CoverageLaw | None:
    """Law of the number of `n_new` rows within their bound, given n calibration rows.

    Over the draw of all of them it is beta-binomial with parameters k and ``n + 1 - k``, as long as
    tails do not tie; ties can only cover more. None where n is too small for `alpha`: the bound is
    then the top of the support, and all rows are covered.
    """
    k = conformal_rank(n, alpha)
    if k > n:
        return None
    law = betabinom(n_new, k, n + 1 - k)
    # SciPy's own cdf sums from zero at every call; beyond this range the probability is nil.
    middle, reach = law.mean(), FAR * law.std() + 1.0
    counts = np.arange(max(int(middle - reach), 0), min(int(middle + reach), n_new) + 1)
    return CoverageLaw(counts, np.cumsum(law.pmf(counts)))


def coverage_p_value(n: int, alpha: float, n_new: int, covered: int) -> float:
    """Probability that at most `covered` of `n_new` rows are within their bound.

    It is exact where tails do not tie, and too large otherwise, so it is a valid p-value of "the
    rows are exchangeable with the n calibration rows" (Theorem 1). Computed in logarithms, it keeps
    its precision far out. `n` must be enough for `alpha`.
    """
    k = conformal_rank(n, alpha)
    law = betabinom(n_new, k, n + 1 - k)
    # The distribution is log-concave, so terms farther below are negligible.
    lowest = max(int(min(covered, law.mean()) - FAR * law.std() - 1.0), 0)
    return min(1.0, float(np.exp(logsumexp(law.logpmf(np.arange(lowest, covered + 1))))))


def coverage_urn(n: int, alpha: float) -> tuple[int, int]:
    """Misses and hits of the Polya urn of new rows above their bound: ``n + 1 - k`` and k.

    The next row falls into each of the n + 1 gaps between n calibration tails with the same
    chance, and leaves one gap more. Ties can only cover more.
    """
    k = conformal_rank(n, alpha)
    return n + 1 - k, k


def smallest_n(alpha: float) -> int:
    """Smallest number of calibration rows that gives a finite bound at `alpha`."""
    n = math.ceil(1 / Fraction(str(float(alpha)))) - 1
    return n - 1 if 1 / n <= alpha else n


def bound_words(top: float | None) -> str:
    """What a bound is where there is none; `top` is that of the support, where known."""
    if top is None:
        return "infinite, or the top of the loss's support where it has one"
    return "infinite" if math.isinf(top) else f"the top of the support, {top:g}"


def too_few_rows(
    n: int, alpha: float, top: float | None = None, unit: str = "rows", needed: int | None = None
) -> str:
    """Say that n rows give no bound at `alpha`; `top` is that of the support, where known.

    `unit` is what is counted, and `needed` how many would do, unless that is `smallest_n`.
    """
    return (
        f"{n} calibration {unit} are too few for alpha = {alpha:g}: the bound is "
        f"{bound_words(top)}. At least {smallest_n(alpha) if needed is None else needed} are "
        "needed."
    )


def _hashed(parts: Sequence[bytes]) -> str:
    sizes = b",".join(str(len(part)).encode() for part in parts)
    return blake2b(b"".join([sizes, *parts]), digest_size=8).hexdigest()


def _bytes_of(value: Any) -> bytes:
    """What tells a value of a calibration from others, the same before and after an archive."""
    if isinstance(value, np.ndarray):
        return value.astype(np.int64 if value.dtype.kind in "biu" else np.float64).tobytes()
    if isinstance(value, list | tuple):
        # With type and length of each, so that no text reads like two, nor like a number.
        plain = [one.item() if isinstance(one, np.generic) else one for one in value]
        parts = [(type(one).__name__.encode(), _bytes_of(one)) for one in plain]
        return b"".join(b"%b:%d:%b" % (kind, len(part), part) for kind, part in parts)
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return str(value).encode()
    return type(value).__name__.encode()  # a model, whose answers are among the arrays


class BaseCalibration:
    """What most kinds of calibration have in common; `Calibration` says what the rest must do."""

    tails: FloatArray
    holds_rows_out: ClassVar[bool] = True
    has_law: ClassVar[bool] = False  # of the number of new rows within their bound
    row_weights: RowWeights | None = None  # all rows count alike

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.tails)

    def __repr__(self) -> str:
        clusters = "" if self.n_clusters is None else f", n_clusters={self.n_clusters}"
        return f"{type(self).__name__}(n={self.n}{clusters})"

    def promised(self, alpha: float) -> float:
        """Largest probability of a loss above its bound, but for what `plus` says."""
        return alpha

    @property
    def plus(self) -> str:
        """What adds to `promised` without being known; empty if nothing does."""
        return ""

    @property
    def digest(self) -> str:
        """Tells this calibration from all others: rules on its levels are void there.

        It is made of the kind and of all that an archive keeps, so it stays when that is loaded.
        """
        kept = kept_of(type(self))
        if kept is None:
            return _hashed([type(self).__name__.encode(), self.tails.tobytes()])
        parts = self.to_parts() if hasattr(self, "to_parts") else None
        values = parts or {name: getattr(self, name) for name in kept.names}
        return _hashed([kept.kind.encode(), *(_bytes_of(values[name]) for name in sorted(values))])

    @property
    def n_clusters(self) -> int | None:
        """Rows come one by one."""
        return None

    @property
    def certifies_by(self) -> CertifiesBy:
        """Whole clusters certify where there are any, and otherwise each row."""
        return "rows" if self.n_clusters is None else "clusters"

    @property
    def reads(self) -> Callable[[Rows], np.ndarray] | None:
        """All rows are treated alike."""
        return None

    @property
    def asks(self) -> str | None:
        """Nothing has to be passed with new rows."""
        return None

    def entries(self, given: Any, n: int) -> np.ndarray:
        """Nothing can be passed with new rows."""
        raise TypeError(f"{type(self).__name__} takes nothing beside the rows; got {given!r}.")

    @property
    def n_entries(self) -> int | None:
        """How many different entries rows can have, if each has a promise of its own."""
        return None

    @property
    def entry_labels(self) -> Sequence[Any] | None:
        """The label behind each entry, None for labels without a group; None where rows have none.

        Entries are then places in this sequence.
        """
        return None

    def too_large(self, sizes: IntArray) -> str | None:
        """Clusters may have any number of rows."""
        return None

    def n_unknown(self, entries: np.ndarray) -> int:
        """Number of rows that no calibration row is like, so that they have no finite bound."""
        return 0

    @property
    def lacks(self) -> str | None:
        """What a function must give that an archive could not hold: ``groups``, ``weights``."""
        return None

    def with_function(self, function: Callable[[Rows], Any]) -> Self:
        """The same calibration with the function that it `lacks`."""
        raise TypeError(f"{type(self).__name__} has no use for a function of the rows.")

    @property
    def knows_weights(self) -> bool:
        """No row has a weight."""
        return False

    @property
    def no_certificate(self) -> str | None:
        """Why the rows of D2 cannot certify a rule; None if they can."""
        return None

    def coverage_law(self, alpha: float, n_new: int) -> CoverageLaw | None:
        """Not known: it depends on more than the number of new rows."""
        return None

    def urns(self, alpha: float) -> Mapping[Any, tuple[int, int]] | None:
        """Not known either."""
        return None

    def coverage_p_value(self, alpha: float, n_new: int, covered: int) -> float | None:
        """Not known either."""
        return None

    def sentence(self, alphas: Sequence[float]) -> str:
        """What is promised of the bounds at these alphas."""
        raise NotImplementedError  # each kind has its own

    def rule_facts(self, alpha: float) -> dict[str, Any]:
        """The promise of the bound, which `tau_rule` passes on."""
        return {"promise": self.sentence([alpha])}


def check_tails(tails: Any) -> FloatArray:
    """Return tails from an archive, which must be ascending probabilities, and some."""
    # Texts of an array would be read as numbers, and those of a list could be of any size.
    is_array = isinstance(tails, np.ndarray) and tails.dtype.kind == "f" and tails.ndim == 1
    if not is_array or not tails.size:
        raise ValueError("it holds no calibration tails")
    if not np.all((tails >= 0) & (tails <= 1)) or np.any(np.diff(tails) < 0):
        raise ValueError("the calibration tails are no ascending probabilities")
    return np.asarray(tails, dtype=np.float64)


def sorted_tails(cal: Part) -> FloatArray:
    """Tails of the calibration rows, ascending."""
    if cal.tails is None:
        raise ValueError("rows without tails cannot calibrate.")
    return np.sort(cal.tails)


@dataclass(frozen=True, eq=False, repr=False)
class MarginalCalibration(BaseCalibration):
    """All rows are exchangeable, so every row has the same level (Theorem 1).

    `tails` are ``P(Z >= z | x)`` of the rows of D2, ascending.
    """

    ARCHIVE = Kept("Marginal", numbers=("tails",))
    has_law = True

    tails: FloatArray

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the calibration that an archive holds, if its tails are what it searches."""
        return cls(check_tails(parts["tails"]))

    def again(self, cal: Part) -> "MarginalCalibration":
        """Marginal calibration on other rows."""
        return MarginalCalibration(sorted_tails(cal))

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None = None) -> FloatArray:
        """The k-th largest tail with ``k = conformal_rank(n, alpha)``, or 0 where ``k > n``."""
        # Ranks count from the top and tails ascend; a rank beyond all tails is the level 0.
        places = [self.n - conformal_rank(self.n, float(share)) for share in np.ravel(alpha)]
        levels = [0.0 if place < 0 else self.tails[place] for place in places]
        return np.array(levels).reshape(np.shape(alpha))

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None = None) -> FloatArray:
        """``(1 + #{i : tail_i <= survival}) / (n + 1)``; ``<= alpha`` exactly when the bound fits.

        The sorted tails are searched, so memory does not grow with their number.
        """
        below = np.searchsorted(self.tails, survival, side="right")
        return np.asarray((1.0 + below) / (self.n + 1.0), dtype=np.float64)

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that D2 is too small for a finite bound at `alpha`; None if it is not."""
        if conformal_rank(self.n, alpha) <= self.n:
            return None
        return f"{too_few_rows(self.n, alpha, top)} CrossFit lets all rows of fit calibrate."

    def coverage_law(self, alpha: float, n_new: int) -> CoverageLaw | None:
        """Law of the number of `n_new` rows within their bound."""
        return coverage_law(self.n, alpha, n_new)

    def urns(self, alpha: float) -> Mapping[Any, tuple[int, int]] | None:
        """One urn for all rows."""
        return {None: coverage_urn(self.n, alpha)}

    def coverage_p_value(self, alpha: float, n_new: int, covered: int) -> float | None:
        """Probability of so few covered rows; None where D2 is too small, and all are covered."""
        if conformal_rank(self.n, alpha) > self.n:
            return None
        return coverage_p_value(self.n, alpha, n_new, covered)

    def rule_facts(self, alpha: float) -> dict[str, Any]:
        """Number of rows and level, from which `tau_rule` derives the rank and its beta law."""
        return {"n_calibration": self.n, "level": float(self.level(alpha))}

    def sentence(self, alphas: Sequence[float]) -> str:
        """Theorem 1 for these alphas."""
        shares = ", ".join(f"{alpha:g}" for alpha in alphas)
        return (
            f"Over new rows exchangeable with the {self.n} calibration rows, the loss exceeds its "
            f"bound for at most the share alpha = {shares}, on average over the draw of these rows "
            "(Theorem 1)."
        )


def calibrated_level(tail: FloatArray, alpha: float) -> float:
    """Level of marginal calibration from tails in any order, see `MarginalCalibration.level`."""
    return float(MarginalCalibration(np.sort(tail)).level(alpha))


def smallest_alpha(tail: FloatArray, survival: FloatArray) -> FloatArray:
    """Smallest alpha whose bound is at most tau, see `MarginalCalibration.smallest_alpha`."""
    return MarginalCalibration(np.sort(tail)).smallest_alpha(survival)
