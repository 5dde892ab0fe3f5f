"""What a scorer claims of labelled rows, what they show of it, and the exact test of each claim.

Each claim says that a share, or a mean loss, is at most a promised value. Its p-value is the
probability of what was seen, or worse, if the claim is true.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import betainc

from locuscore import (
    ClusterCertificate,
    ExceedanceCertificate,
    FlagRule,
    GroupCertificate,
    JointClaim,
    MeanLossCertificate,
    TunedExceedance,
    WeightedCertificate,
    mean_loss_p_value,
)
from locuscore._protocols import Calibration, FloatArray
from locuscore._shared.readable import amount, as_typed
from locuscore.report._plain import CONTRADICTED, KEPT, TOO_FEW, UNTESTED, Wording, claim_sentence
from locuscore.report._words import exact_percent, p_text, percent, smallest_p

BY_CLUSTERS = "Pass clusters= or --clusters COLUMN to test this by whole clusters"


@dataclass(frozen=True)
class Claim:
    """A share or mean that is to be at most `promised`, what was seen of it, and its exact test.

    `p_value` is None where nothing can be tested. `p_doubled` is the p-value if the rows showed
    twice the promised value: where even that would not be rejected, they are too few to tell.
    `is_testable` is false where no exact test is known, however many rows there are.
    """

    kind: str
    about: str
    standing: str
    promised: float
    observed: float | None
    n: int
    seen: str
    p_value: float | None = None
    p_doubled: float = 1.0
    alpha: float | None = None
    more: str = ""
    is_testable: bool = True
    tau: float | None = None
    where: str = ""
    unit: str = ""

    @property
    def lacks_clusters(self) -> bool:
        """Whether it can be tested by whole clusters only, which the report was not told."""
        return BY_CLUSTERS in (self.seen, self.more.rstrip("."))

    def verdict(self, is_rejected: bool, level: float) -> str:
        """Kept, contradicted, too few rows to tell at this level, or not tested at all."""
        if is_rejected:
            return CONTRADICTED
        if not self.is_testable or self.lacks_clusters:
            return UNTESTED
        return TOO_FEW if self.p_value is None or self.p_doubled > level else KEPT

    def told(self, verdict: str, wording: Wording) -> dict[str, Any]:
        """The claim as the summary has it: for people, `plain`; with its test, `sentence`."""
        p_value = None if self.p_value is None else smallest_p(self.p_value)
        test = "" if p_value is None else f" ({p_text(p_value)})"
        return {
            "kind": self.kind,
            "claim": self.about,
            "standing": self.standing,
            "alpha": self.alpha,
            "promised": self.promised,
            "observed": self.observed,
            "n": self.n,
            "p_value": p_value,
            "verdict": verdict,
            "tau": self.tau,
            "where": self.where,
            "plain": claim_sentence(self, verdict, wording),
            "sentence": " ".join(filter(None, [f"{self.seen}{test}.", self.more])),
        }


@dataclass(frozen=True)
class Accepted:
    """What the rows that a rule accepts showed; `losses` are a uniform sample of theirs."""

    n_rows: int
    n: int
    bad: int
    loss_sum: float = 0.0
    losses: FloatArray = field(default_factory=lambda: np.empty(0))


def too_many_p_value(bad: Any, n: Any, eta: float) -> FloatArray:
    """``P(Binomial(n, eta) >= bad)``: the exact p-value of "a share of at most eta is bad"."""
    k, m = np.broadcast_arrays(np.asarray(bad, np.float64), np.asarray(n, np.float64))
    return np.where(k > 0, betainc(np.maximum(k, 1.0), m - k + 1.0, eta), 1.0)


def coverage_claim(calibration: Calibration, alpha: float, n: int, covered: int) -> Claim:
    """At most alpha of the losses exceed their bound; the count is beta-binomial (Theorem 1).

    Over the draw of the calibration rows and of these; ties can only make it smaller.
    """
    above, promised = n - covered, calibration.promised(alpha)
    aim = _aim(calibration, promised)
    seen = (
        f"{above:,} of {n:,} losses ({exact_percent(above / n)}) exceed their bound at alpha = "
        f"{alpha:g}, where {aim}"
    )
    about = f"share of losses above their bound at alpha = {alpha:g}"
    p_values = _calibrated(calibration, alpha, n, above)
    trouble = calibration.too_few(alpha)
    is_testable = calibration.has_law
    more = trouble or _by_clusters(calibration) or _untested(calibration)
    standing = "theorem" if promised < 1 else "heuristic"
    return Claim(
        "coverage", about, standing, promised, above / n, n, seen, *p_values, alpha, more,
        is_testable,
    )  # fmt: skip


def rule_claim(  # noqa: PLR0911 - one for each kind of claim
    rule: FlagRule | None, accepted: Accepted | None, calibration: Calibration, unit: str = ""
) -> Claim | None:
    """What a rule claims of the rows it accepts; None of a rule that aims at no share or mean."""
    # A rule made by hand may have a standing that does not go with its numbers.
    is_odd = rule is not None and (
        (rule.standing == "theorem") != isinstance(rule.certificate, JointClaim)
    )
    if rule is None or accepted is None or is_odd:
        return None
    match rule.certificate:
        case JointClaim() as claim:
            return _joint(rule, accepted, calibration, claim, unit)
        case GroupCertificate(group=group, within=within):
            return _of_one_group(rule, group, within.eta)
        case ClusterCertificate(tau=tau, eta=eta):
            above = as_typed(tau, unit)
            about = f"share of the accepted rows of a cluster with a loss above {above}"
            return Claim(
                "conditional", about, rule.standing, eta, None, accepted.n, BY_CLUSTERS,
                tau=tau, unit=unit,
            )  # fmt: skip
        case (
            ExceedanceCertificate(tau=tau, eta=eta)
            | WeightedCertificate(tau=tau, eta=eta)  # a report's rows are of the new mix
            | TunedExceedance(tau=tau, eta=eta)
        ):
            return conditional_claim(rule, accepted, tau, eta, unit=unit)
        case MeanLossCertificate() as certificate:
            return _mean_loss(rule, accepted, certificate, unit)
    return None


def untested_in_clusters(claim: Claim | None) -> Claim | None:
    """A claim that was tested as if rows were independent, where they come in clusters."""
    if claim is None or claim.p_value is None:
        return claim
    return replace(
        claim,
        p_value=None,
        p_doubled=1.0,
        is_testable=False,
        more="Rows come in clusters and the rule takes them as independent, so it has no test.",
    )


def _calibrated(
    calibration: Calibration, alpha: float, n: int, above: int
) -> tuple[float | None, float]:
    """P-values of so many rows above their bound, and of twice what is promised."""
    p_value = calibration.coverage_p_value(alpha, n, n - above)
    twice = min(math.ceil(2 * alpha * n), n)
    doubled = calibration.coverage_p_value(alpha, n, n - twice)
    return p_value, 1.0 if doubled is None else doubled


def _joint(
    rule: FlagRule, accepted: Accepted, calibration: Calibration, claim: JointClaim, unit: str
) -> Claim:
    """Theorem 3: accepted and bad rows are above their bound, whose number is beta-binomial."""
    tau, alpha, above = claim.tau, claim.alpha, as_typed(claim.tau, unit)
    promised = calibration.promised(alpha)
    n, bad = accepted.n_rows, accepted.bad
    seen = (
        f"{bad:,} of {n:,} rows ({exact_percent(bad / n)}) are accepted and have a loss above "
        f"{above}, where {_aim(calibration, promised)}"
    )
    about = f"share of all rows that are accepted and have a loss above {above}"
    p_values = _calibrated(calibration, alpha, n, bad)
    has_too_few = calibration.too_few(alpha) is not None
    return Claim(
        "joint", about, rule.standing, promised, bad / n, n, seen, *p_values,
        more="" if has_too_few else _by_clusters(calibration),
        is_testable=calibration.has_law, tau=tau, unit=unit,
    )  # fmt: skip


def _aim(calibration: Calibration, promised: float) -> str:
    """What is promised, in words; some calibrations promise a share and something unknown."""
    if promised >= 1:
        return "no share is promised"
    more = f", and {calibration.plus}," if calibration.plus else ""
    return f"at most {percent(promised)}{more} is promised"


def _untested(calibration: Calibration) -> str:
    """That the number of rows above their bound has no exact test, and why if that is known."""
    why = f", because {calibration.plus} is not known" if calibration.plus else ""
    return "" if calibration.has_law else f"There is no exact test of this number{why}."


def _by_clusters(calibration: Calibration) -> str:
    """What a report lacks that is not told the clusters of a scorer that has some."""
    return "" if calibration.n_clusters is None else f"{BY_CLUSTERS}."


def conditional_claim(
    rule: FlagRule,
    accepted: Accepted,
    tau: float,
    eta: float,
    where: str = "",
    unit: str = "",
) -> Claim:
    """Bad rows among the accepted: binomial, given the threshold and the number accepted.

    `where` names the group that all of the rows belong to.
    """
    n, bad = accepted.n, accepted.bad
    of, above = f" of {where}" if where else "", as_typed(tau, unit)
    about = f"share of the accepted rows{of} with a loss above {above}"
    if not n:
        seen = f"No row{of} is accepted"
        return Claim(
            "conditional", about, rule.standing, eta, None, 0, seen, tau=tau, where=where, unit=unit
        )
    aim = "promised" if rule.standing == "certificate" else "aimed at"
    seen = (
        f"{bad:,} of {n:,} accepted rows{of} ({exact_percent(bad / n)}) have a loss above {above}, "
        f"where at most {percent(eta)} is {aim}"
    )
    p_value = float(too_many_p_value(bad, n, eta))
    doubled = float(too_many_p_value(min(math.ceil(2 * eta * n), n), n, eta))
    return Claim(
        "conditional", about, rule.standing, eta, bad / n, n, seen, p_value, doubled,
        tau=tau, where=where, unit=unit,
    )  # fmt: skip


def _mean_loss(
    rule: FlagRule, accepted: Accepted, certificate: MeanLossCertificate, unit: str
) -> Claim:
    """The mean loss of the accepted: the exact test of the mean, of the losses upside down."""
    eta, low, high = certificate.eta, certificate.low, certificate.high
    about = "mean loss of the accepted rows"
    if not accepted.n:
        return _nothing("mean loss", about, rule, eta)
    mean, z = accepted.loss_sum / accepted.n, accepted.losses
    seen = (
        f"The mean loss of {accepted.n:,} accepted rows is {amount(mean, unit)}, where at most "
        f"{as_typed(eta, unit)} is promised"
    )
    outside = int(np.sum((z < low) | (z > high)))
    more = (
        f"{outside:,} losses are outside [{as_typed(low)}, {as_typed(high)}], the support it was "
        "certified for."
    )
    share = min(2 * (eta - low) / (high - low), 1.0)
    doubled = np.where(np.arange(len(z)) < math.ceil(share * len(z)), high, low)

    def p_value(losses: FloatArray) -> float:
        return mean_loss_p_value(low + high - losses, low + high - eta, low, high)

    return Claim(
        "mean loss", about, rule.standing, eta, mean, accepted.n, seen,
        0.0 if outside else p_value(z), p_value(doubled), more=more if outside else "", unit=unit,
    )  # fmt: skip


def _of_one_group(rule: FlagRule, where: str, eta: float) -> Claim:
    """A report does not know which rows are of the group that a certificate is about."""
    about = f"share of bad rows among the accepted in {where}"
    seen = f"The rule is certified for {where} alone, and a report does not know whose rows it sees"
    return Claim("conditional", about, rule.standing, eta, None, 0, seen)


def _nothing(kind: str, about: str, rule: FlagRule, eta: float) -> Claim:
    return Claim(kind, about, rule.standing, eta, None, 0, "No row is accepted")
