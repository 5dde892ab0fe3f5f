"""Scores as functions of the laws of the loss, given the calibration tails."""

from collections.abc import Callable, Sequence

import numpy as np

from locuscore._laws.calibration import calibrated_level, smallest_alpha
from locuscore._laws.distribution import LossDistribution
from locuscore._protocols import FloatArray
from locuscore._rules.rule import Score

LawFunction = Callable[[LossDistribution], FloatArray]  # n laws -> (n, m)


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
