"""The alarm and the detector that belong to a claim."""

from locuscore.watch._claims import Claim
from locuscore.watch._evidence.alarm import Bets, BetsAlarm
from locuscore.watch._evidence.betting import MeanBets
from locuscore.watch._evidence.detector import Detector
from locuscore.watch._evidence.martingale import RankBets
from locuscore.watch._evidence.ranks import RankAlarm
from locuscore.watch._evidence.urn import UrnAlarm


def alarm_of(claim: Claim, delta: float) -> UrnAlarm | BetsAlarm | RankAlarm:
    """The alarm of a claim that is tested; `delta` is that of the whole watch.

    Its rows are those that `Claim.values` gives, one by one; for the unit "cluster" one value of
    `cluster_values` for each cluster.
    """
    if claim.urn is not None and claim.is_tested:
        return UrnAlarm(*claim.urn, delta * claim.share)
    if claim.kind == "exchangeable" and claim.is_tested:
        return RankAlarm(claim.counts, claim.alphas, delta * claim.share)
    return BetsAlarm(_bets_of(claim), delta * claim.share)


def detector_of(claim: Claim, run_length: float) -> Detector:
    """The detector of a claim: on average, so many rows or more pass before a false call."""
    if claim.urn is not None and claim.is_tested:
        return Detector.of_urn(*claim.urn, run_length)
    return Detector(_bets_of(claim), run_length)


def _bets_of(claim: Claim) -> Bets:
    if not claim.is_tested:
        raise ValueError(f"the claim on the {claim.name} is not tested: {claim.why_not}.")
    if claim.kind == "exchangeable":
        return RankBets(claim.counts, claim.alphas)
    if claim.promised is None:
        raise ValueError(f"the claim on the {claim.name} lacks what is promised.")
    if claim.kind == "mean loss" and claim.low is not None and claim.high is not None:
        return MeanBets(claim.promised, low=claim.low, high=claim.high, are_shares=False)
    return MeanBets(claim.promised, are_shares=claim.unit == "row")
