"""Whether labelled rows keep what the scorer claims: one exact test per claim, judged together.

Each claim says that a share, or a mean loss, is at most a promised value. Its p-value is the
probability of what was seen, or worse, if the claim is true; a claim is contradicted when
Bonferroni-Holm rejects it among all claims of the scorer. So rows for which every claim holds turn
the verdict in at most one case in twenty, however many claims there are.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
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
from locuscore._protocols import BoolArray, Calibration, FloatArray
from locuscore._shared.multiple_tests import holm
from locuscore.report._words import exact_percent, p_text, percent, smallest_p

BY_CLUSTERS = "Pass clusters= or --clusters COLUMN to test this by whole clusters"
ERROR = 0.05  # probability of contradicting any claim of a scorer whose claims all hold
MOST_TOLD = 4  # claims in the line over the page
KEPT, CONTRADICTED, TOO_FEW = "kept", "contradicted", "too few rows to tell"
UNTESTED = "not tested"
UNLIKE = {
    "theorem": "These rows are probably unlike the calibration rows.",
    "certificate": (
        "These rows are probably unlike the certifying ones, or the certificate is one of the few "
        "that fail."
    ),
    "heuristic": "The rule was tuned for this share, which was never promised.",
}


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

    def told(self, verdict: str) -> dict[str, Any]:
        """The claim as the summary has it."""
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
    rule: FlagRule | None, accepted: Accepted | None, calibration: Calibration
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
            return _joint(rule, accepted, calibration, claim)
        case GroupCertificate(group=group, within=within):
            return _of_one_group(rule, group, within.eta)
        case ClusterCertificate(tau=tau, eta=eta):
            about = f"share of the accepted rows of a cluster with a loss above {tau:g}"
            return Claim("conditional", about, rule.standing, eta, None, accepted.n, BY_CLUSTERS)
        case (
            ExceedanceCertificate(tau=tau, eta=eta)
            | WeightedCertificate(tau=tau, eta=eta)  # a report's rows are of the new mix
            | TunedExceedance(tau=tau, eta=eta)
        ):
            return conditional_claim(rule, accepted, tau, eta)
        case MeanLossCertificate() as certificate:
            return _mean_loss(rule, accepted, certificate)
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


def judge(claims: Sequence[Claim], notes: Sequence[str] = ()) -> dict[str, Any]:
    """The verdict on each claim, and the one line over the page; `notes` say more of a good one."""
    tested = [i for i, claim in enumerate(claims) if claim.p_value is not None]
    p_values = np.array([claims[i].p_value for i in tested], dtype=np.float64)
    is_rejected = np.zeros(len(claims), dtype=bool)
    is_rejected[tested] = holm(p_values, ERROR) if tested else False
    level = ERROR / max(len(tested), 1)
    found = [
        (claim, claim.verdict(bool(is_out), level))
        for claim, is_out in zip(claims, is_rejected, strict=True)
    ]
    kind, sentence = _banner(found, notes)
    return {
        "kind": kind,
        "sentence": sentence,
        "broken": kind == "bad",
        "error": ERROR,
        "claims": [claim.told(verdict) for claim, verdict in found],
    }


def verdict_lines(verdict: Mapping[str, Any]) -> list[str]:
    """The verdict as lines of text."""
    claims = (f"{claim['verdict']}: {claim['sentence']}" for claim in verdict["claims"])
    return [verdict["sentence"], *claims]


def contradicted_thresholds(
    accepted: np.ndarray, bad: np.ndarray, passed: BoolArray, eta: float, is_broken: bool
) -> BoolArray:
    """Certified thresholds that the rows contradict, by exact tests that share the level equally.

    All of them if the certificate's own claim is contradicted: they stand or fall together.
    """
    if is_broken:
        return passed
    level = ERROR / max(int(passed.sum()), 1)
    return passed & (too_many_p_value(bad, accepted, eta) <= level)


def _banner(found: list[tuple[Claim, str]], notes: Sequence[str]) -> tuple[str, str]:
    def those(verdict: str) -> list[Claim]:
        return [claim for claim, got in found if got == verdict]

    wrong, few, untested = those(CONTRADICTED), those(TOO_FEW), those(UNTESTED)
    broken = [claim for claim in wrong if claim.standing != "heuristic"]
    if wrong:
        shown = broken or wrong
        what = f"contradict {len(broken)} of {len(found)} claims" if broken else "miss the aim"
        causes = dict.fromkeys(UNLIKE[claim.standing] for claim in shown)
        text = _told(claim.seen for claim in shown)
        return "bad" if broken else "warn", f"These rows {what}: {text}. {' '.join(causes)}"
    if few:
        names = _told(claim.about for claim in few)
        some = f"{len(few)} of {len(found)} claims"
        return "plain", f"These rows contradict no claim, but are too few to test {some}: {names}."
    if untested:
        return "plain", _without_test(untested, len(found))
    # The deployed rule, if it claims something, and the smallest alpha.
    claims = [claim for claim, _ in found]
    smallest = min((c for c in claims if c.alpha is not None), key=lambda c: c.alpha or 0.0)
    shown = [claim for claim in claims if claim.kind != "coverage"] + [smallest]
    text = _told(claim.seen for claim in shown)
    if notes:
        return "warn", f"These rows contradict no claim: {text}. {' '.join(notes)}"
    return "good", f"These rows agree with every claim: {text}."


def _without_test(untested: Sequence[Claim], n_claims: int) -> str:
    """What is said if nothing is wrong but some claims, or all of them, were not tested."""
    lack_clusters = all(claim.lacks_clusters for claim in untested)
    if len(untested) == n_claims:
        if lack_clusters:
            why = "the clusters of the rows are needed; pass clusters= or --clusters COLUMN"
        else:
            names = _told(f"the {claim.about}" for claim in untested)
            why = f"there is no exact test of {names}"
        return f"No claim could be tested: {why}."
    verb = "has" if len(untested) == 1 else "have"
    what = "cannot be tested without clusters" if lack_clusters else f"{verb} no exact test"
    names = _told(claim.about for claim in untested)
    some = f"{len(untested)} of {n_claims} claims"
    return f"These rows contradict no claim, but {some} {what}: {names}."


def _told(texts: Iterable[str]) -> str:
    """Several findings in one line; a rule by group may have many."""
    first = list(texts)
    more = len(first) - MOST_TOLD
    return "; ".join(
        [*first[:MOST_TOLD], *([f"and {more} more, listed below"] if more > 0 else [])]
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
    rule: FlagRule, accepted: Accepted, calibration: Calibration, claim: JointClaim
) -> Claim:
    """Theorem 3: accepted and bad rows are above their bound, whose number is beta-binomial."""
    tau, alpha = claim.tau, claim.alpha
    promised = calibration.promised(alpha)
    n, bad = accepted.n_rows, accepted.bad
    seen = (
        f"{bad:,} of {n:,} rows ({exact_percent(bad / n)}) are accepted and have a loss above "
        f"{tau:g}, where {_aim(calibration, promised)}"
    )
    about = f"share of all rows that are accepted and have a loss above {tau:g}"
    p_values = _calibrated(calibration, alpha, n, bad)
    has_too_few = calibration.too_few(alpha) is not None
    return Claim(
        "joint", about, rule.standing, promised, bad / n, n, seen, *p_values,
        more="" if has_too_few else _by_clusters(calibration),
        is_testable=calibration.has_law,
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
    rule: FlagRule, accepted: Accepted, tau: float, eta: float, where: str = ""
) -> Claim:
    """Bad rows among the accepted: binomial, given the threshold and the number accepted.

    `where` names the group that all of the rows belong to.
    """
    n, bad = accepted.n, accepted.bad
    of = f" of {where}" if where else ""
    about = f"share of the accepted rows{of} with a loss above {tau:g}"
    if not n:
        return Claim("conditional", about, rule.standing, eta, None, 0, f"No row{of} is accepted")
    aim = "promised" if rule.standing == "certificate" else "aimed at"
    seen = (
        f"{bad:,} of {n:,} accepted rows{of} ({exact_percent(bad / n)}) have a loss above {tau:g}, "
        f"where at most {percent(eta)} is {aim}"
    )
    p_value = float(too_many_p_value(bad, n, eta))
    doubled = float(too_many_p_value(min(math.ceil(2 * eta * n), n), n, eta))
    return Claim("conditional", about, rule.standing, eta, bad / n, n, seen, p_value, doubled)


def _mean_loss(rule: FlagRule, accepted: Accepted, certificate: MeanLossCertificate) -> Claim:
    """The mean loss of the accepted: the exact test of the mean, of the losses upside down."""
    eta, low, high = certificate.eta, certificate.low, certificate.high
    about = "mean loss of the accepted rows"
    if not accepted.n:
        return _nothing("mean loss", about, rule, eta)
    mean, z = accepted.loss_sum / accepted.n, accepted.losses
    seen = (
        f"The mean loss of {accepted.n:,} accepted rows is {mean:.4g}, where at most {eta:g} is "
        "promised"
    )
    outside = int(np.sum((z < low) | (z > high)))
    more = f"{outside:,} losses are outside [{low:g}, {high:g}], the support it was certified for."
    share = min(2 * (eta - low) / (high - low), 1.0)
    doubled = np.where(np.arange(len(z)) < math.ceil(share * len(z)), high, low)

    def p_value(losses: FloatArray) -> float:
        return mean_loss_p_value(low + high - losses, low + high - eta, low, high)

    return Claim(
        "mean loss", about, rule.standing, eta, mean, accepted.n, seen,
        0.0 if outside else p_value(z), p_value(doubled), more=more if outside else "",
    )  # fmt: skip


def _of_one_group(rule: FlagRule, where: str, eta: float) -> Claim:
    """A report does not know which rows are of the group that a certificate is about."""
    about = f"share of bad rows among the accepted in {where}"
    seen = f"The rule is certified for {where} alone, and a report does not know whose rows it sees"
    return Claim("conditional", about, rule.standing, eta, None, 0, seen)


def _nothing(kind: str, about: str, rule: FlagRule, eta: float) -> Claim:
    return Claim(kind, about, rule.standing, eta, None, 0, "No row is accepted")
