"""FlagRule: which score is thresholded, where, and what that guarantees; and the paper's rules.

Rules are chosen by functions of arrays (a score, the losses). They know no estimator, so an outlier
score or a variance estimate goes through the same functions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._validation import check_alpha, check_tau

ScoreKind = Literal["bound", "exceedance", "tail", "other"]
Standing = Literal["theorem", "certificate", "heuristic"]


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

    @classmethod
    def bound(cls, alpha: float) -> Self:
        """The calibrated loss bound at alpha."""
        return cls("bound", alpha=float(check_alpha(alpha)))

    @classmethod
    def exceedance(cls, tau: float) -> Self:
        """The calibrated exceedance at tau."""
        return cls("exceedance", tau=float(check_tau(tau)))

    @classmethod
    def tail(cls, tau: float) -> Self:
        """The predictive law's own probability of a loss above tau, a function of D1 alone."""
        return cls("tail", tau=float(check_tau(tau)))

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
                return self.name or "a score of your own"


@dataclass(frozen=True)
class FlagRule:
    """Accept a row when its score is at most the threshold, flag it otherwise.

    A threshold of -inf accepts nothing; a score of +inf is never accepted. `standing` says whether
    `guarantee` is a theorem for a rule fixed in advance, a certificate from data, or a heuristic.
    `evidence` holds the plain numbers behind it, `table` one entry per threshold that was tried.
    """

    score: Score
    threshold: float
    standing: Standing
    guarantee: str
    assumptions: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def accepts(self, values: ArrayLike, of: Score) -> np.ndarray:
        """Whether each row is accepted; `of` says which score the values are, and must agree."""
        if of != self.score:
            raise ValueError(f"this rule thresholds the {self.score}; got the {of}.")
        scores = np.asarray(values, dtype=np.float64)
        if np.isnan(scores).any():
            raise ValueError(f"{int(np.isnan(scores).sum())} scores are missing (NaN).")
        return (scores <= self.threshold) & (scores < np.inf)
