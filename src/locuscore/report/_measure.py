"""By which share the parts of a report are compared: what the rule promises, or the coverage."""

from collections.abc import Iterable

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
from locuscore.report._parts import Measure
from locuscore.report._plain import Wording


def measure_of(scorer: Scorer, tau: float, wording: Wording) -> Measure:
    """The share that the rule is about; without one, that of the losses above their bound."""
    rule, calibration = scorer.rule, scorer.locus.calibration_
    certificate = rule.certificate if isinstance(rule, FlagRule) else None
    did, rows = wording.exceeded(tau), wording.noun
    if isinstance(certificate, JointClaim):
        promised = calibration.promised(certificate.alpha)
        name = f"{rows} that were accepted and {did.removeprefix('were ')}"
        return Measure("joint", "bad", "n", promised, name)
    # The rule of one group, alone, is certified for that group and accepts rows of others too.
    of_one_group = isinstance(certificate, GroupCertificate)
    rules = list(rule.values()) if isinstance(rule, GroupRule) else [rule] if rule else []
    eta = None if of_one_group else _eta(rules)
    if eta is not None:
        word = "aimed at" if any(part.standing == "heuristic" for part in rules) else "promised"
        return Measure("conditional", "bad", "accepted", eta, f"accepted {rows} that {did}", word)
    promised = calibration.promised(scorer.alphas[0])
    share = promised if promised < 1 else None
    return Measure("coverage", "above", "n", share, f"{rows} that {wording.above_bound}")


def _eta(rules: Iterable[FlagRule]) -> float | None:
    """The share of bad rows among the accepted that all of the rules are about, if it is one."""
    found = set()
    for rule in rules:
        within = rule.certificate
        if isinstance(within, GroupCertificate):
            within = within.within
        match within:
            case (
                ExceedanceCertificate(eta=eta)
                | TunedExceedance(eta=eta)
                | WeightedCertificate(eta=eta)
                | ClusterCertificate(eta=eta)
            ):
                found.add(eta)
            case _:
                return None
    return found.pop() if len(found) == 1 else None
