"""FlagRule: which score is thresholded, where, and what that guarantees; and the paper's rules.

Rules are chosen by functions of arrays (a score, the losses). They know no estimator, so an outlier
score or a variance estimate goes through the same functions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.calibration import conformal_rank, too_few_rows
from locuscore._laws.scores import UNNAMED, Score
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._rules.card import card
from locuscore._rules.threshold_counts import (
    check_grid,
    checked_rows,
    count_sorted,
    counts_up_to,
    record,
    sorted_bad,
    sorted_finite,
)
from locuscore._shared.checks import (
    as_floats,
    check_between,
    check_count,
    check_numbers,
    check_scores,
    check_share,
    never_accepted,
    one_alpha,
    one_tau,
)
from locuscore._shared.json_values import frozen, plain, restored
from locuscore._shared.optional import require

Standing = Literal["theorem", "certificate", "heuristic"]


@dataclass(frozen=True, eq=False)
class FlagRule:
    """Accept a row when its score is at most the threshold, flag it otherwise.

    A threshold of -inf accepts nothing; an infinite score, of either sign, is never accepted.
    `standing` says whether `guarantee` is a theorem for a rule fixed in advance, a certificate from
    data, or a heuristic. `evidence` holds the plain numbers behind it, `table` one entry per
    threshold that was tried; both are read-only.
    """

    score: Score
    threshold: float
    standing: Standing
    guarantee: str
    assumptions: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score):
            raise TypeError(f"score must be a Score; got {self.score!r}.")
        threshold = check_numbers(self.threshold, "threshold")
        if threshold.ndim or np.isnan(threshold):
            raise ValueError(f"threshold must be one number, not NaN; got {self.threshold!r}.")
        if self.standing not in get_args(Standing):
            raise ValueError(f"standing is one of {get_args(Standing)}; got {self.standing!r}.")
        if not isinstance(self.guarantee, str):
            raise TypeError(f"guarantee must be text; got {self.guarantee!r}.")
        object.__setattr__(self, "threshold", float(threshold))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        for name in ("evidence", "table"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(f"{name} must be a mapping; got {getattr(self, name)!r}.")
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        # In plain types, where a missing number equals itself.
        return isinstance(other, FlagRule) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.score, self.threshold, self.standing, self.guarantee, self.assumptions))

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings can be neither pickled nor copied.
        return _from_plain, (type(self), self.to_dict())

    def accepts(self, values: ArrayLike, of: Score | None = None) -> np.ndarray:
        """Whether each row is accepted; `of` says which score the values are, and must agree.

        It may be left out where the rule's own score has no name.
        """
        if (of if of is not None else UNNAMED) != self.score:
            got = "values of no named score" if of in (None, UNNAMED) else f"the {of}"
            raise ValueError(f"this rule thresholds the {self.score}; got {got}.")
        scores = as_floats(values, "values")
        if scores.ndim > 1:
            raise ValueError(f"values must be one score per row; got shape {scores.shape}.")
        missing = int(np.isnan(scores).sum())
        if missing:
            raise ValueError(f"{missing} scores are missing (NaN).")
        scores = never_accepted(scores) if scores.size else scores
        return (scores <= self.threshold) & (scores < np.inf)

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
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        described: dict[str, Any] = plain(values | {"score": self.score.to_dict()})
        return described

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The rule that `to_dict` described."""
        names = {part.name for part in fields(cls)}
        if not isinstance(data, Mapping) or set(data) - names or "score" not in data:
            raise ValueError(f"a rule is described by {sorted(names)}; got {data!r:.200}.")
        if not isinstance(data["score"], Mapping):
            raise TypeError(f"score must be a mapping; got {data['score']!r}.")
        values = {key: restored(value) for key, value in data.items()}
        try:
            return cls(**values | {"score": Score.from_dict(data["score"])})
        except TypeError as error:
            raise TypeError(f"this describes no rule: {error}") from error


def check_rule(rule: Any) -> FlagRule:
    """Return a rule; a threshold alone does not say which score it belongs to."""
    if not isinstance(rule, FlagRule):
        raise TypeError(
            "rule must be a FlagRule, such as locus.certify(tau, eta, delta) or "
            f"locus.tau_rule(tau, alpha) returns; got {type(rule).__name__}."
        )
    return rule


def tau_rule(
    tau: float, alpha: float, *, n_calibration: int | None = None, level: float | None = None
) -> FlagRule:
    """Accept when the loss bound at alpha is at most tau, the paper's ``lambda = tau``.

    ``P(Z > tau and accepted) <= alpha`` (Theorem 3). With the number of calibration rows the card
    also has the rank k and the law of the realised coverage; `Locus.tau_rule` fills them in.
    """
    score, tau = Score.bound(alpha), one_tau(tau)
    share = one_alpha(alpha)
    evidence: dict[str, Any] = {"tau": tau, "alpha": share}
    guarantee = (
        f"P(loss > {tau:g} and accepted) <= {share:g} (Theorem 3), over the calibration rows and "
        "one new row together. It bounds the share of all rows that are accepted and bad, not the "
        "share of bad rows among the accepted."
    )
    if n_calibration is not None:
        n = check_count(n_calibration, "n_calibration")
        k = conformal_rank(n, share)
        evidence |= {"n": n, "k": k}
        evidence |= {} if level is None else {"level": check_share(level, "level")}
        if k <= n:
            evidence |= {"coverage_beta": (float(k), float(n + 1 - k))}
        else:
            guarantee += " But " + too_few_rows(n, share)
    return FlagRule(
        score,
        tau,
        "theorem",
        guarantee,
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
    values = as_floats(exceedance, "exceedance")
    if np.any((values < 0) | (values > 1)):
        raise ValueError("exceedance must hold values of Locus.exceedance, from 0 to 1.")
    return tune_threshold(values, losses, tau, eta, of=of, min_acceptance=min_acceptance)


def match_acceptance(score: ArrayLike, rate: float, *, of: Score = UNNAMED) -> FlagRule:
    """Smallest threshold that accepts at least the share `rate` of these rows; a heuristic.

    The ``ceil(rate * n)``-th smallest score, as in the paper's tables at matched acceptance. Tied
    scores can make it accept more (`Score.tail` ties less than `Score.exceedance`, in the same
    order); infinite scores, which are never accepted, fewer.
    """
    (s,) = check_scores(score=score)
    wanted = check_share(rate, "rate")
    place = math.ceil(Fraction(str(wanted)) * len(s))
    finite = sorted_finite(s)
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


def _achievable(score: FloatArray, bad: BoolArray) -> tuple[FloatArray, IntArray, IntArray]:
    """All thresholds that differ: nothing, and each distinct finite score, with their counts."""
    ranked = sorted_finite(score)
    last = np.flatnonzero(np.append(ranked[1:] > ranked[:-1], True)[: len(ranked)])
    k = count_sorted(sorted_bad(score, bad), ranked[last])
    return np.append(-np.inf, ranked[last]), np.append(0, last + 1), np.append(0, k)


def _from_plain(kind: type[FlagRule], data: Mapping[str, Any]) -> FlagRule:
    return kind.from_dict(data)
