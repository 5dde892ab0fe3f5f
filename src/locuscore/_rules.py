"""FlagRule: which score is thresholded, where, and what that guarantees; and the paper's rules.

Rules are chosen by functions of arrays (a score, the losses). They know no estimator, so an outlier
score or a variance estimate goes through the same functions.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from locuscore._calibration import conformal_rank
from locuscore._card import card
from locuscore._optional import require
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._validation import (
    check_alpha,
    check_between,
    check_losses,
    check_numbers,
    check_same_length,
    check_share,
    check_tau,
)

MOST_ON_RECORD = 500

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
                return self.name or "your own score"


UNNAMED = Score.other("")


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
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    table: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)

    def accepts(self, values: ArrayLike, of: Score) -> np.ndarray:
        """Whether each row is accepted; `of` says which score the values are, and must agree."""
        if of != self.score:
            raise ValueError(f"this rule thresholds the {self.score}; got the {of}.")
        scores = np.asarray(values, dtype=np.float64)
        if np.isnan(scores).any():
            raise ValueError(f"{int(np.isnan(scores).sum())} scores are missing (NaN).")
        return (scores <= self.threshold) & (scores < np.inf) & (self.threshold > -np.inf)

    def __str__(self) -> str:
        return card(
            score=str(self.score),
            threshold=self.threshold,
            standing=self.standing,
            guarantee=self.guarantee,
            assumptions=self.assumptions,
            evidence=self.evidence,
            table=self.table,
        )

    def to_frame(self) -> Any:
        """The thresholds that were tried, one row each, as a pandas frame."""
        return require("pandas", extra="demo").DataFrame(
            {k: list(v) for k, v in self.table.items()}
        )

    def to_dict(self) -> dict[str, Any]:
        """The rule in the types JSON has; infinite numbers are the strings "inf" and "-inf"."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The rule that `to_dict` described."""
        values = {key: _restored(value) for key, value in data.items()}
        return cls(**values | {"score": Score(**data["score"])})


def tau_rule(
    tau: float, alpha: float, *, n_calibration: int | None = None, level: float | None = None
) -> FlagRule:
    """Accept when the loss bound at alpha is at most tau, the paper's ``lambda = tau``.

    ``P(Z > tau and accepted) <= alpha`` (Theorem 3). With the number of calibration rows the card
    also has the rank k and the law of the realised coverage; `Locus.tau_rule` fills them in.
    """
    score, tau = Score.bound(alpha), _number(check_tau(tau), "tau")
    evidence: dict[str, Any] = {"tau": tau, "alpha": score.alpha}
    if n_calibration is not None:
        k = conformal_rank(n_calibration, float(alpha))
        evidence |= {"n": int(n_calibration), "k": k}
        evidence |= {} if level is None else {"level": float(level)}
        evidence |= {"coverage_beta": (float(k), float(n_calibration + 1 - k))}
    return FlagRule(
        score,
        tau,
        "theorem",
        f"P(loss > {tau:g} and accepted) <= {alpha:g} (Theorem 3), over the calibration rows and "
        "one new row together. It bounds the share of all rows that are accepted and bad, not the "
        "share of bad rows among the accepted.",
        (
            "new rows exchangeable with the calibration rows, given the fitted loss model",
            "tau and alpha chosen without the calibration losses",
        ),
        evidence,
    )


def tune_threshold(
    score: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    *,
    of: Score = UNNAMED,
    grid: ArrayLike | None = None,
    min_acceptance: float = 0.0,
) -> FlagRule:
    """Threshold whose exceedance among the accepted is closest to eta; a heuristic (LOCUS-Tuned).

    ``argmin |q(threshold) - eta|`` with ``q = #{score <= threshold, loss > tau} / max(n, 1)`` and n
    the accepted rows, over the thresholds that accept at least the share `min_acceptance`. Of
    equally close ones the one that accepts most rows, and of those the smallest. Without a grid
    every achievable threshold is tried: each distinct finite score, and accepting nothing, for
    which the formula gives ``q = 0``.
    """
    s, bad = checked_rows(score, losses, tau)
    target = check_between(eta, "eta")
    least = check_share(min_acceptance, "min_acceptance")
    if grid is None:
        tried, n, k = _achievable(s, bad)
    else:
        tried = check_grid(grid)
        n, k = counts_up_to(s, bad, tried)
    share = k / np.maximum(n, 1)
    usable = n / len(s) >= least
    evidence: dict[str, Any] = {"n_rows": len(s), "tau": float(tau), "eta": target}
    assumptions = ("rows like the new ones, not used to build the score",)
    if not usable.any():
        guarantee = (
            f"None, and no threshold accepts the wanted share {least:g} of rows, so nothing is "
            "accepted."
        )
        return FlagRule(of, -np.inf, "heuristic", guarantee, assumptions, evidence)
    distance = np.where(usable, np.abs(share - target), np.inf)
    # Thresholds ascend: the first of those that accept most is the smallest.
    best = int(np.argmax(np.where(distance == distance.min(), n, -1)))
    evidence |= {
        "n_accepted": int(n[best]),
        "n_bad": int(k[best]),
        "acceptance": float(n[best] / len(s)),
        "exceedance": float(share[best]),
    }
    return FlagRule(
        of,
        float(tried[best]),
        "heuristic",
        f"None: a heuristic. The threshold was chosen so that the share of losses above {tau:g} "
        f"among the accepted of these {len(s)} rows, {share[best]:.4g}, is closest to {target:g}; "
        "on new rows it can be above. certify_threshold gives a guarantee.",
        assumptions,
        evidence,
        record(tried, n, k, keep=best),
    )


def tune_alpha(
    exceedance: ArrayLike,
    losses: ArrayLike,
    tau: float,
    eta: float,
    *,
    min_acceptance: float = 0.0,
) -> FlagRule:
    """Alpha whose rule "bound at most tau" comes closest to eta; a heuristic (LOCUS-alpha).

    ``U_alpha(x) <= tau`` exactly when ``exceedance(x, tau) <= alpha``, so every achievable alpha is
    tried by thresholding the column `exceedance`, and no bound is computed again. The rule
    thresholds `Score.exceedance(tau)` at the chosen alpha. Ties as in `tune_threshold`.
    """
    of = Score.exceedance(tau)
    if np.any((np.asarray(exceedance) < 0) | (np.asarray(exceedance) > 1)):
        raise ValueError("exceedance must hold values of Locus.exceedance, from 0 to 1.")
    return tune_threshold(exceedance, losses, tau, eta, of=of, min_acceptance=min_acceptance)


def match_acceptance(score: ArrayLike, rate: float, *, of: Score = UNNAMED) -> FlagRule:
    """Smallest threshold that accepts at least the share `rate` of these rows; a heuristic.

    The ``ceil(rate * n)``-th smallest score, as in the paper's tables at matched acceptance. Tied
    scores can make it accept more; infinite scores, which are never accepted, fewer.
    """
    (s,) = check_same_length(score=score)
    wanted = check_share(rate, "rate")
    place = math.ceil(Fraction(str(wanted)) * len(s))
    finite = np.sort(s[s < np.inf])
    place = min(place, len(finite))
    threshold = float(finite[place - 1]) if place else -np.inf
    accepted = int(np.sum(finite <= threshold)) if place else 0
    return FlagRule(
        of,
        threshold,
        "heuristic",
        f"None: a heuristic. The threshold accepts {accepted} of {len(s)} rows, wanted was the "
        f"share {wanted:g}; it says nothing about losses.",
        ("new scores distributed like these",),
        {"n_rows": len(s), "n_accepted": accepted, "acceptance": accepted / len(s)},
    )


def checked_rows(score: ArrayLike, losses: ArrayLike, tau: float) -> tuple[FloatArray, BoolArray]:
    """Return the scores, and whether each loss is above tau."""
    s, z = check_same_length(score=score, losses=losses)
    return s, check_losses(z, len(z), "losses") > _number(check_tau(tau), "tau")


def check_grid(grid: ArrayLike) -> FloatArray:
    """Return thresholds in ascending order, without repetition."""
    values = check_numbers(np.atleast_1d(np.asarray(grid)), "grid")
    if np.isnan(values).any():
        raise ValueError("grid has missing values.")
    return np.unique(values)


def counts_up_to(
    score: FloatArray, bad: BoolArray, thresholds: FloatArray
) -> tuple[IntArray, IntArray]:
    """Count the rows with a finite score up to each threshold, and the bad ones among them."""
    usable = score < np.inf
    n = np.searchsorted(np.sort(score[usable]), thresholds, side="right")
    k = np.searchsorted(np.sort(score[usable & bad]), thresholds, side="right")
    # A threshold of -inf accepts nothing, not even a score of -inf.
    return np.where(thresholds > -np.inf, n, 0), np.where(thresholds > -np.inf, k, 0)


def record(
    threshold: FloatArray, n: IntArray, bad: IntArray, keep: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Return the table of a rule: at most about `MOST_ON_RECORD` thresholds, `keep` among them."""
    kept = np.linspace(0, len(threshold) - 1, MOST_ON_RECORD).round().astype(np.int64)
    kept = np.unique(np.append(kept, [] if keep is None else [keep]).astype(np.int64))
    columns = {"threshold": threshold, "n_accepted": n, "n_bad": bad}
    return {name: tuple(column[kept].tolist()) for name, column in columns.items()}


def _achievable(score: FloatArray, bad: BoolArray) -> tuple[FloatArray, IntArray, IntArray]:
    """All thresholds that differ: nothing, and each distinct finite score, with their counts."""
    ranked = np.sort(score[score < np.inf])
    last = np.flatnonzero(np.append(ranked[1:] > ranked[:-1], True)[: len(ranked)])
    k = np.searchsorted(np.sort(score[bad]), ranked[last], side="right")
    thresholds = np.append(-np.inf, ranked[last])
    if len(ranked) and ranked[0] == -np.inf:
        raise ValueError("score has values of -inf; no threshold can tell them from nothing.")
    return thresholds, np.append(0, last + 1), np.append(0, k)


def _number(value: FloatArray, name: str) -> float:
    if value.ndim:
        raise ValueError(f"{name} must be one number here; got {value!r}.")
    return float(value)


def _plain(value: Any) -> Any:
    """Return a value made of what JSON has: no numpy, no tuple, no infinity."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _restored(value: Any) -> Any:
    """Undo `_plain`; sequences come back as tuples."""
    if isinstance(value, Mapping):
        return {key: _restored(part) for key, part in value.items()}
    if isinstance(value, list):
        return tuple(_restored(part) for part in value)
    return float(value) if value in ("inf", "-inf", "nan") else value
