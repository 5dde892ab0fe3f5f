"""The things a newcomer plugs in, as types. Read this file first.

An engine models the loss on D1 and returns, for rows of signals, a stack of laws (`LossDraws`).
A law is the distribution of the loss at one row. Everything after the engine (averaging, envelope,
calibration, rules) sees only the laws. A calibration turns the tails of D2 into the level at which
the law of each row is inverted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
CertifiesBy = Literal["rows", "clusters", "weights"]


@runtime_checkable
class LossDraws(Protocol):
    """A stack of laws of the loss: one row per input, one column per draw.

    `sf` and `isf` broadcast their argument against ``(n_rows, n_draws)`` and return that shape.
    ``isf(level) = sup{z : sf(z) >= level}`` is the *upper* inverse, the right end where a law is
    flat.

    These three are enough. A family that knows a faster way to the average or the envelope of its
    draws, or to inverses at several levels, derives from `locuscore.draws.Draws` and overrides it.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of draws."""

    def sf(self, z: FloatArray) -> FloatArray:
        """``P(Z > z)`` under each draw."""

    def isf(self, level: FloatArray) -> FloatArray:
        """Largest loss that each draw exceeds with probability at least `level`."""


class FittedEngine(Protocol):
    """What is needed of a model of the loss once it is fitted."""

    def predict_draws(self, S: FloatArray) -> LossDraws:
        """Laws of the loss at the rows of `S`."""


class LossEngine(FittedEngine, Protocol):
    """Any model of the loss given the signals.

    A `fit` with a further parameter `errors` is given the signed errors of D1 where there are any,
    one with `class_law` what a second opinion on the class says of the loss: see `fit_engine` in
    `_laws/signed_errors.py`.
    """

    def fit(self, S: FloatArray, z: FloatArray) -> Self:
        """Learn the law of the losses `z` given the rows of `S`."""


class GammaModel(Protocol):
    """How cautious the envelope is at each row: the smaller, the higher the bound."""

    def fit(self, S: FloatArray) -> Self:
        """Learn what a well supported row looks like."""

    def predict(self, S: FloatArray) -> FloatArray:
        """Trimming level in (0, 1) for each row."""


class Calibration(Protocol):
    """What was learned from D2: the level at which the law of each row is inverted.

    `rows` has one entry per row, such as the code of its group. It is computed once, by `reads`
    from the rows X or by `entries` from what the caller passes with them; None where all rows are
    treated alike. Levels shared by all rows have the shape of `alpha`; levels per row have one axis
    more, in front. `locuscore._laws.calibration.BaseCalibration` supplies what few kinds change.
    """

    @property
    def n(self) -> int:
        """Number of calibration rows."""

    @property
    def n_clusters(self) -> int | None:
        """Number of calibration clusters; None where rows come one by one."""

    @property
    def tails(self) -> FloatArray:
        """``P(Z >= z | x)`` of the calibration rows, ascending."""

    @property
    def digest(self) -> str:
        """Tells this calibration from others; rules on the bound and the exceedance keep it."""

    @property
    def reads(self) -> "Callable[[Rows], np.ndarray] | None":
        """Turns rows into their entries; None where all rows are treated alike."""

    @property
    def asks(self) -> str | None:
        """Keyword that the caller must pass with new rows, ``groups`` or ``weights``, or None."""

    def entries(self, given: Any, n: int) -> np.ndarray:
        """Entries of n rows, from what the caller passes under the keyword that it `asks` for."""

    @property
    def no_certificate(self) -> str | None:
        """Why the rows of D2 cannot certify a rule; None if they can."""

    @property
    def certifies_by(self) -> CertifiesBy:
        """How the rows of D2 certify: each as one draw, whole clusters, or by their weights."""

    @property
    def knows_weights(self) -> bool:
        """Whether entries are known weights, by which new rows are compared with D2."""

    @property
    def row_weights(self) -> "RowWeights | None":
        """By which weights the rows of D2 certify; None where all count alike."""

    @property
    def n_entries(self) -> int | None:
        """How many different entries rows can have, if each has a promise of its own, or None."""

    @property
    def entry_labels(self) -> Sequence[Any] | None:
        """The label of the group behind each entry, or None where entries are no groups."""

    def n_unknown(self, entries: np.ndarray) -> int:
        """Number of rows that no calibration row is like, so that they have no finite bound."""

    def too_large(self, sizes: IntArray) -> str | None:
        """Say that new clusters of these sizes have more rows than the promise allows, or None."""

    def level(self, alpha: FloatArray | float, rows: np.ndarray | None) -> FloatArray:
        """Survival level whose upper inverse is the bound at `alpha`."""

    def smallest_alpha(self, survival: FloatArray, rows: np.ndarray | None) -> FloatArray:
        """Smallest alpha whose bound is at most tau, from ``P(Z > tau | x)``, shape (n, m)."""

    @property
    def holds_rows_out(self) -> bool:
        """Whether the calibration rows had no part in the loss model, so that they can certify."""

    @property
    def has_law(self) -> bool:
        """Whether the law of the number of new rows within their bound is known."""

    @property
    def plus(self) -> str:
        """What adds to what is `promised` without being known; empty if nothing does."""

    def promised(self, alpha: float) -> float:
        """Largest probability of a loss above its bound at `alpha`; 1 where there is no promise."""

    def too_few(self, alpha: float, top: float | None = None) -> str | None:
        """Say that bounds at `alpha` are infinite, and how many rows are needed; None if none is.

        `top` is that of the support, where it is known.
        """

    def coverage_law(self, alpha: float, n_new: int) -> Any:
        """Law of the number of `n_new` rows within their bound; None where it is not known."""

    def urns(self, alpha: float) -> Mapping[Any, tuple[int, int]] | None:
        """Misses and hits of the Polya urn that new rows above their bound are drawn from.

        One for each label of a group; None is the key of all rows that have no urn of their own. An
        urn without misses has no finite bound. None where the law is not known.
        """

    def coverage_p_value(self, alpha: float, n_new: int, covered: int) -> float | None:
        """p-value of "the promise holds" when so many are covered; None without a law."""

    def rule_facts(self, alpha: float) -> dict[str, Any]:
        """Keywords for `tau_rule`: the number of rows and the level, or else the promise."""

    def sentence(self, alphas: Sequence[float]) -> str:
        """What is promised of the bounds at these alphas."""

    def again(self, cal: "Part") -> "Calibration":
        """The same kind of calibration, with all that D1 decided, on other calibration rows."""


# Frames, arrays, sparse matrices, texts, images: whatever the predictor accepts.
Rows = Any


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of D1 or D2 as a choice of calibration sees them.

    `rows` are the rows `X`, or a function that takes them: images are copied only for those who
    look at them. `positions` are those among the rows given to `fit`. `tails` are
    ``P(Z >= z | x)``, in the order of the rows; None for D1, whose own are flattered. `clusters`
    are codes of the clusters that rows belong to, and `given` is what the caller passed with the
    rows, if anything.
    """

    rows: Rows | Callable[[], Rows]
    positions: IntArray
    signals: FloatArray
    tails: FloatArray | None = None
    clusters: IntArray | None = None
    given: Any = None

    @property
    def X(self) -> Rows:  # noqa: N802 - as everywhere
        """The rows themselves."""
        return self.rows() if callable(self.rows) else self.rows


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of the rows of D2 in their order, of D1's, and the largest that is possible."""

    weights: FloatArray
    of_fit: FloatArray | None
    largest: float


class CalibrationChoice(Protocol):
    """Which calibration a `Locus` makes of D2, and what it must know of D1 for that."""

    def check(self, X: Rows, clusters: IntArray | None, target: Rows | None) -> None:
        """Raise if `fit` was given rows, clusters or a target that do not go with this choice."""

    def calibrate(self, fit: Part, cal: Part, target: Rows | None, seed: int) -> Calibration:
        """Learn from the tails of D2; D1 decides whatever else there is to decide."""
