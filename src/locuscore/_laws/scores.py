"""Scores as functions of the laws of the loss, given the calibration tails."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from locuscore._laws.calibration import calibrated_level, smallest_alpha
from locuscore._laws.distribution import LossDistribution
from locuscore._protocols import FloatArray
from locuscore._shared.checks import one_alpha, one_tau

LawFunction = Callable[[LossDistribution], FloatArray]  # n laws -> (n, m)

ScoreKind = Literal["bound", "exceedance", "tail", "other"]


@dataclass(frozen=True)
class Score:
    """The number a rule thresholds, with the alpha or tau it was computed at.

    `Score.bound(alpha)` is `Locus.loss_bound`, `Score.exceedance(tau)` is `Locus.exceedance`,
    `Score.tail(tau)` is the uncalibrated ``loss_dist(X).sf(tau)``, and `Score.other(name)` anything
    else, such as an outlier score. Small values are safe in all of them.
    """

    kind: ScoreKind
    alpha: float | None = None
    tau: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ScoreKind):
            raise ValueError(f"a score is one of {get_args(ScoreKind)}; got {self.kind!r}.")
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a score is text; got {self.name!r}.")
        has = {"alpha": self.alpha is not None, "tau": self.tau is not None, "name": self.name > ""}
        belongs = {"bound": "alpha", "exceedance": "tau", "tail": "tau", "other": "name"}[self.kind]
        wrong = [key for key, given in has.items() if given and key != belongs]
        if wrong or not (has[belongs] or belongs == "name"):
            raise ValueError(f"a score of kind {self.kind!r} has {belongs} and nothing else.")
        if self.alpha is not None:
            object.__setattr__(self, "alpha", one_alpha(self.alpha))
        if self.tau is not None:
            object.__setattr__(self, "tau", one_tau(self.tau))

    @classmethod
    def bound(cls, alpha: float) -> Self:
        """The calibrated loss bound at alpha."""
        return cls("bound", alpha=one_alpha(alpha))

    @classmethod
    def exceedance(cls, tau: float) -> Self:
        """The calibrated exceedance at tau."""
        return cls("exceedance", tau=one_tau(tau))

    @classmethod
    def tail(cls, tau: float) -> Self:
        """The predictive law's own probability of a loss above tau, a function of D1 alone."""
        return cls("tail", tau=one_tau(tau))

    @classmethod
    def other(cls, name: str) -> Self:
        """A score that does not come from a `Locus`."""
        return cls("other", name=name)

    def __str__(self) -> str:
        match self.kind:
            case "bound":
                return f"loss bound at alpha = {self.alpha:g}"
            case "exceedance":
                return f"exceedance at tau = {self.tau:g}"
            case "tail":
                return f"tail probability at tau = {self.tau:g}"
            case _:
                return self.name or "your own score"


UNNAMED = Score.other("")


def check_score(of: Any) -> Score:
    """Return a score; its name alone does not say at which alpha or tau."""
    if not isinstance(of, Score):
        raise TypeError(f"of must be a Score, such as Score.tail(tau); got {of!r}.")
    return of


def not_from_calibration(score: Score) -> str:
    """Say why the calibration rows of a Locus cannot certify this score."""
    if score.kind == "other":
        return (
            f"a Locus cannot compute {score}; pass its values to certify_threshold, with the "
            "losses of rows that had no part in it."
        )
    return (
        f"the {score} has its level from the calibration rows, so they cannot certify it; "
        "leave `of` out to certify the raw tail probability, or pass fresh X and y."
    )


def bounds(calibration: FloatArray, alphas: FloatArray) -> LawFunction:
    """``U = sup{z : P(Z > z | x) >= level(alpha)}``, one column per alpha."""
    levels = np.array([[calibrated_level(calibration, alpha) for alpha in alphas]])
    return lambda dist: dist.isf(levels)


def exceedances(calibration: FloatArray, taus: FloatArray, top: float) -> LawFunction:
    """Smallest alpha whose bound is at most tau, one column per tau."""

    def evaluate(dist: LossDistribution) -> FloatArray:
        values = smallest_alpha(calibration, dist.sf(taus[None, :]))
        # No loss exceeds the top of its support, however few rows there are.
        return np.where(taus >= top, 0.0, values)

    return evaluate


def probabilities(taus: FloatArray) -> LawFunction:
    """``P(Z > tau | x)`` as estimated, draws averaged whatever gamma is, one column per tau."""
    return lambda dist: dist.estimate().sf(taus[None, :])


def tails(taus: FloatArray) -> LawFunction:
    """``P(Z > tau | x)`` before calibration, one column per tau."""
    return lambda dist: dist.sf(taus[None, :])


def score_function(scores: Sequence[Score], calibration: FloatArray, top: float) -> LawFunction:
    """Several scores, one column each; those of one kind are evaluated together."""
    kinds: dict[str, Callable[[FloatArray], LawFunction]] = {
        "bound": lambda alphas: bounds(calibration, alphas),
        "exceedance": lambda taus: exceedances(calibration, taus, top),
        "tail": tails,
    }
    by_kind: dict[str, list[int]] = {}
    for j, score in enumerate(scores):
        if score.kind not in kinds:
            raise ValueError(f"a Locus cannot compute {score}; pass its values to rule.accepts.")
        by_kind.setdefault(score.kind, []).append(j)
    parts = []
    for kind, at in by_kind.items():
        values = [scores[j].alpha if kind == "bound" else scores[j].tau for j in at]
        parts.append((at, kinds[kind](np.array(values, dtype=np.float64))))

    def evaluate(dist: LossDistribution) -> FloatArray:
        out = np.empty((len(dist), len(scores)))
        for at, function in parts:
            out[:, at] = function(dist)
        return out

    return evaluate
