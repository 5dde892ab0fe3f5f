"""The grid that a report counts on: tolerances, alphas, and thresholds of the rule's own score."""

from dataclasses import dataclass

import numpy as np

from locuscore import (
    ClusterCertificate,
    ExceedanceCertificate,
    FlagRule,
    GroupCertificate,
    GroupRule,
    JointClaim,
    Scorer,
    TunedExceedance,
    WeightedCertificate,
)
from locuscore._protocols import BoolArray, FloatArray

N_TAUS = 200
N_THRESHOLDS = 200
MOST_PASSED = 100  # certified thresholds on the grid, the rule's own among them
ALPHAS = np.arange(1, 100) / 100


@dataclass(frozen=True)
class Grid:
    """Tolerances and thresholds, ascending, and where the reader starts."""

    taus: FloatArray
    tau_start: int
    alpha_start: int
    thresholds: FloatArray | None = None
    passed: BoolArray | None = None
    threshold_start: int = 0

    @property
    def tau(self) -> float:
        """The tolerance at which the reader starts."""
        return float(self.taus[self.tau_start])


def make_grid(
    scorer: Scorer,
    losses: FloatArray,
    bounds: FloatArray,
    score: FloatArray | None,
    wanted: float | None = None,
) -> Grid:
    """Lay the grid through a sample: losses, bounds at the first alpha, and the rule's score.

    A `wanted` tolerance is on the grid; the reader starts there unless the rule has its own.
    """
    rule = scorer.rule
    own = None if rule is None else rule_tau(rule)
    tau = wanted if own is None else own
    support = scorer.locus.support_
    chosen = [value for value in (own, wanted) if value is not None]
    taus = _taus(losses, bounds[np.isfinite(bounds)], support.points, chosen)
    start = _default_tau(losses, support.high) if tau is None else tau
    tau_start = int(np.argmin(np.abs(taus - start)))
    # There is no threshold to explore where each group has its own.
    one = None if isinstance(rule, GroupRule) else rule
    alpha = None if one is None else one.score.rule_alpha(one.threshold)
    alpha_start = int(np.argmin(np.abs(ALPHAS - (alpha or scorer.alphas[0]))))
    if one is None or score is None:
        return Grid(taus, tau_start, alpha_start)
    passed = passed_thresholds(one)
    thresholds = _thresholds(score, np.append(_thin(passed, MOST_PASSED), one.threshold))
    place = int(np.searchsorted(thresholds, one.threshold))
    return Grid(taus, tau_start, alpha_start, thresholds, np.isin(thresholds, passed), place)


def rule_tau(rule: FlagRule | GroupRule) -> float | None:
    """Tolerance that a rule is about, if it has one; of several, that of the first group."""
    if isinstance(rule, GroupRule):
        return rule_tau(next(iter(rule.values())))
    match rule.certificate:
        case (
            JointClaim(tau=tau)
            | ExceedanceCertificate(tau=tau)
            | ClusterCertificate(tau=tau)
            | TunedExceedance(tau=tau)
            | WeightedCertificate(tau=tau)
            | GroupCertificate(within=ExceedanceCertificate(tau=tau))
        ):
            return tau
    return rule.score.tau


def certified(rule: FlagRule) -> ExceedanceCertificate | None:
    """The certificate of ``P(loss > tau | accepted) <= eta``, if the rule has one that holds.

    That of one group says nothing about the rows of a report, which may be of any group.
    """
    found = rule.certificate
    if rule.standing == "certificate" and isinstance(found, ExceedanceCertificate):
        return found
    return None


def passed_thresholds(rule: FlagRule) -> FloatArray:
    """Thresholds on record that were tested and passed, ascending.

    A sequence that climbs from its start passed everything on the way to the rule's threshold. Of
    other certificates only that threshold itself is known to have passed.
    """
    proven = certified(rule)
    if proven is None or rule.threshold == -np.inf:  # which accepts nothing
        return np.empty(0)
    own = np.array([rule.threshold])
    if proven.start_levels is None:
        return own
    tested = np.array(rule.table.get("threshold", ()), dtype=np.float64)
    return np.union1d(tested[tested <= rule.threshold], own)


def _taus(
    losses: FloatArray, bounds: FloatArray, points: FloatArray | None, own: list[float]
) -> FloatArray:
    if points is not None:
        # Between two attainable losses nothing changes.
        return np.union1d(_thin(points, N_TAUS), own)
    values = np.append(losses, bounds)
    levels = np.linspace(0, 1, N_TAUS - 1)
    spread = np.unique(np.quantile(values, levels, method="nearest"))
    readable = np.unique([float(f"{value:.3g}") for value in spread])
    if len(readable) > 0.6 * len(spread):
        spread = readable
    missing = N_TAUS - len(spread) - len(own)
    if missing > 1 and spread[-1] > spread[0]:  # few rows, or many ties
        spread = np.union1d(spread, np.linspace(spread[0], spread[-1], missing + 2)[1:-1])
    return np.union1d(spread, own)


def _default_tau(losses: FloatArray, top: float) -> float:
    """About the 90 % loss; below the top of the support, where every loss is tolerated."""
    below = losses[losses < top]
    return float(np.quantile(below if len(below) else losses, 0.9, method="lower"))


def _thresholds(score: FloatArray, needed: FloatArray) -> FloatArray:
    finite = score[np.isfinite(score)]
    if not len(finite):
        return np.unique(needed)
    room = max(N_THRESHOLDS - len(needed), 2)
    spread = np.quantile(finite, np.linspace(0, 1, room), method="nearest")
    return np.union1d(spread, needed)


def _thin(values: FloatArray, most: int) -> FloatArray:
    """At most so many of some ascending values, evenly spread, both ends among them."""
    if len(values) <= most:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(np.int64))]
