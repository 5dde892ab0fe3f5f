"""Scores: the numbers that rules threshold, each a small class that evaluates itself on laws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from locuscore._laws.distribution import LossDistribution
from locuscore._laws.loss_model import LossModel
from locuscore._protocols import Calibration, FloatArray
from locuscore._shared.checks import one_alpha, one_tau
from locuscore._shared.readable import as_typed

ScoreKind = Literal["bound", "exceedance", "tail", "other"]
PARTS = ("kind", "alpha", "tau", "name")


class _MakesScores(type):
    """Lets ``Score(kind, alpha, tau, name)`` make a score of its class."""

    def __call__(cls, *given: Any, **named: Any) -> Any:
        if cls is not Score:
            return super().__call__(*given, **named)
        return Score.from_dict(dict(zip(PARTS, given, strict=False)) | named)


class Score(metaclass=_MakesScores):
    """The number a rule thresholds, with the alpha or tau it was computed at.

    `Score.bound(alpha)` is `Locus.loss_bound`, `Score.exceedance(tau)` is `Locus.exceedance`,
    `Score.tail(tau)` is the uncalibrated ``loss_dist(X).sf(tau)``, and `Score.other(name)` is any
    other score, such as an outlier score. In all of them small values are safe.
    """

    kind: ClassVar[ScoreKind]
    is_in_loss_units: ClassVar[bool] = False  # and infinite where there is no bound
    is_calibrated: ClassVar[bool] = False  # so that the calibration must know the rows

    alpha: float | None = None
    tau: float | None = None
    name: str = ""

    @staticmethod
    def bound(alpha: float) -> "Score":
        """The calibrated loss bound at alpha."""
        return BoundScore(alpha)

    @staticmethod
    def exceedance(tau: float) -> "Score":
        """The calibrated exceedance at tau."""
        return ExceedanceScore(tau)

    @staticmethod
    def tail(tau: float) -> "Score":
        """The loss model's own probability of a loss above tau, a function of D1 alone."""
        return TailScore(tau)

    @staticmethod
    def other(name: str) -> "Score":
        """A score that does not come from a `Locus`."""
        return OtherScore(name)

    @classmethod
    def columns(cls, at: FloatArray, laws: "RowLaws") -> FloatArray:
        """Scores of this class at m values of alpha or tau, (n, m), in one pass over the laws."""
        raise TypeError(f"{cls.__name__} has no values of its own.")

    def value(self) -> float:
        """The alpha or tau of a score that a `Locus` can compute."""
        at = self.tau if self.alpha is None else self.alpha
        if at is None:
            raise ValueError(f"a Locus cannot compute {self}; pass its values to rule.accepts.")
        return at

    def before_calibration(self, model: LossModel, S: FloatArray) -> FloatArray:
        """Scores at rows given by their signals, for those that are functions of D1 alone."""
        raise ValueError(
            f"the {self} takes its level from the calibration rows, so they cannot certify it; "
            "leave `of` out to certify the raw tail probability, or pass fresh X and y."
        )

    def rule_alpha(self, threshold: float) -> float | None:
        """The alpha of a rule with this score and this threshold, if it has one."""
        return self.alpha

    def to_dict(self) -> dict[str, Any]:
        """The score in the types JSON has."""
        return {"kind": self.kind, "alpha": self.alpha, "tau": self.tau, "name": self.name}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Score":
        """The score that `to_dict` described."""
        values: dict[str, Any] = dict(zip(PARTS, (None, None, None, ""), strict=True))
        if set(data) - set(values):
            raise TypeError(f"a score has {', '.join(values)}; got {', '.join(map(str, data))}.")
        values |= data
        kind = values.pop("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ValueError(f"a score is one of {tuple(_KINDS)}; got {kind!r}.")
        made, belongs = _KINDS[kind]
        given = {key for key, value in values.items() if value is not None and value != ""}
        if given - {belongs} or (belongs != "name" and not given):
            raise ValueError(f"a score of kind {kind!r} has {belongs} and nothing else.")
        return made(values[belongs])


@dataclass(frozen=True)
class BoundScore(Score):
    """The loss bound at alpha: ``sup{z : P(Z > z | x) >= level(alpha)}``."""

    alpha: float
    kind = "bound"
    is_in_loss_units = True
    is_calibrated = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", one_alpha(self.alpha))

    @classmethod
    def columns(cls, at: FloatArray, laws: "RowLaws") -> FloatArray:
        """Bounds at m alphas; all levels of a row are inverted together."""
        return laws.law.isf(np.atleast_2d(laws.calibration.level(at, laws.entries)))

    def __str__(self) -> str:
        return f"loss bound at alpha = {self.alpha:g}"


@dataclass(frozen=True)
class _AtTau(Score):
    """Scores that belong to a tolerance tau."""

    tau: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", one_tau(self.tau))


@dataclass(frozen=True)
class ExceedanceScore(_AtTau):
    """Smallest alpha whose bound is at most tau."""

    kind = "exceedance"
    is_calibrated = True

    @classmethod
    def columns(cls, at: FloatArray, laws: "RowLaws") -> FloatArray:
        """Exceedances at m taus."""
        values = laws.calibration.smallest_alpha(laws.law.sf(at[None, :]), laws.entries)
        # No loss exceeds the top of its support, however few rows there are.
        return np.where(at >= laws.law.support.high, 0.0, values)

    def rule_alpha(self, threshold: float) -> float | None:
        """The threshold itself: ``exceedance <= alpha`` means that the bound is at most tau."""
        return threshold if 0 < threshold < 1 else None

    def __str__(self) -> str:
        return f"exceedance at tau = {as_typed(self.tau)}"


@dataclass(frozen=True)
class TailScore(_AtTau):
    """``P(Z > tau | x)`` before calibration, envelope included: a function of D1 alone."""

    kind = "tail"

    @classmethod
    def columns(cls, at: FloatArray, laws: "RowLaws") -> FloatArray:
        """Tail probabilities at m taus."""
        return laws.law.sf(at[None, :])

    def before_calibration(self, model: LossModel, S: FloatArray) -> FloatArray:
        """The same, which needs no calibration."""
        return model.survival(S, self.tau)

    def __str__(self) -> str:
        return f"tail probability at tau = {as_typed(self.tau)}"


@dataclass(frozen=True)
class ProbabilityScore(_AtTau):
    """Estimate of ``P(Z > tau | x)``: the average of the draws, even with gamma; not for rules."""

    @classmethod
    def columns(cls, at: FloatArray, laws: "RowLaws") -> FloatArray:
        """Probabilities at m taus."""
        return laws.law.estimate().sf(at[None, :])


@dataclass(frozen=True)
class OtherScore(Score):
    """A score that does not come from a `Locus`."""

    name: str
    kind = "other"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a score is text; got {self.name!r}.")

    def before_calibration(self, model: LossModel, S: FloatArray) -> FloatArray:
        """A `Locus` cannot compute it."""
        raise ValueError(
            f"a Locus cannot compute {self}; pass its values to certify_threshold, with the "
            "losses of rows that had no part in it."
        )

    def __str__(self) -> str:
        return self.name or "your own score"


UNNAMED = Score.other("")
_KINDS: dict[str, tuple[type[Any], str]] = {
    "bound": (BoundScore, "alpha"),
    "exceedance": (ExceedanceScore, "tau"),
    "tail": (TailScore, "tau"),
    "other": (OtherScore, "name"),
}


def check_score(of: Any) -> Score:
    """Return a score; a name is refused, because it does not say at which alpha or tau."""
    if not isinstance(of, Score):
        raise TypeError(f"of must be a Score, such as Score.tail(tau); got {of!r}.")
    return of


@dataclass(frozen=True, eq=False, repr=False)
class RowLaws:
    """The laws of some rows with their calibration: all that a score is evaluated on.

    `law` is what `Locus.loss_dist` gives, before calibration. `entries` is what the calibration
    reads about each row; None if it treats all rows alike. `rows` is their position in a
    `RowBlock`.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.engines import Scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X, y)
    >>> (block,) = locus.blocks(X[:5])
    >>> [laws.law.sf(np.ones(5)).shape for laws in block.laws()]
    [(5,)]
    """

    rows: slice
    law: LossDistribution
    calibration: Calibration
    entries: np.ndarray | None

    def __repr__(self) -> str:
        return f"RowLaws({len(self.law):,} rows, {self.calibration!r})"

    def scores(self, scores: Sequence[Score]) -> FloatArray:
        """Several scores of n rows, one column each; those of one class are evaluated together."""
        by_class: dict[type[Score], list[int]] = {}
        for j, score in enumerate(scores):
            by_class.setdefault(type(score), []).append(j)
        out = np.empty((len(self.law), len(scores)))
        for kind, places in by_class.items():
            columns = kind.columns(np.array([scores[j].value() for j in places]), self)
            if len(by_class) == 1:
                return columns  # all in their order: there is nothing to copy
            out[:, places] = columns
        return out
