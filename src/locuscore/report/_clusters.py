"""What is counted of whole clusters in a report, and the claims that are tested by them."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from locuscore import ClusterCertificate, FlagRule, JointClaim, Scorer, mean_loss_p_value
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.checks import is_missing
from locuscore._shared.readable import as_typed
from locuscore.report._claims import Claim
from locuscore.report._laws import Block
from locuscore.report._words import exact_percent, percent


@dataclass
class ClusterCounts:
    """Cluster, tail and fate of each row: 14 bytes for each, the only memory that grows."""

    scorer: Scorer
    tau: float
    place: dict[Any, int] = field(default_factory=dict)
    rows: list[tuple[np.ndarray, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.scorer.locus.calibration_.n_clusters is None:
            raise ValueError(
                "clusters were given, but this scorer was calibrated without clusters and promises "
                "nothing about them; fit it with fit(X, y, clusters=...)."
            )

    def add(self, labels: list[Any], block: Block) -> None:
        """See the rows of a block."""
        if any(map(is_missing, labels)):
            raise ValueError("clusters has missing labels; remove those rows, or name them.")
        codes = [self.place.setdefault(label, len(self.place)) for label in labels]
        accepted = (
            block.accepted if block.accepted is not None else np.zeros(len(block), dtype=bool)
        )
        row = np.array(codes, dtype=np.int32), block.at_least, accepted, block.losses > self.tau
        self.rows.append(row)

    @property
    def columns(self) -> list[np.ndarray]:
        """Cluster, tail, whether accepted and whether bad, of all rows."""
        return [np.concatenate(parts) for parts in zip(*self.rows, strict=True)]

    @property
    def too_large(self) -> str:
        """That clusters are larger than the calibration allows; empty if none is."""
        calibration = self.scorer.locus.calibration_
        return calibration.too_large(np.bincount(self.columns[0])) or ""

    def retested(self, claim: Claim) -> Claim:
        """A claim of coverage, tested by clusters."""
        assert claim.alpha is not None
        return self._calibrated(claim, claim.alpha, None, f"alpha = {claim.alpha:g}")

    def of_rule(self, claim: Claim | None, rule: FlagRule | None) -> Claim | None:
        """The claim of a rule, tested by clusters if it is about them."""
        if claim is None or rule is None:
            return claim
        codes, _, accepted, bad = self.columns
        match rule.certificate:
            case JointClaim(alpha=alpha):
                return self._calibrated(claim, alpha, accepted & bad, "accepted and bad")
            case ClusterCertificate(tau=tau, eta=eta):
                return self._conditional(claim, codes, accepted, bad, tau, eta)
        return claim

    def _calibrated(
        self, claim: Claim, alpha: float, counted: BoolArray | None, what: str
    ) -> Claim:
        calibration: Any = self.scorer.locus.calibration_
        if calibration.too_few(alpha) is not None:
            return claim
        codes, tails, *_ = self.columns
        share, p_value, doubled = calibration.judge_clusters(alpha, tails, codes, counted)
        rows = "losses exceed their bound at " if counted is None else "rows are "
        seen = (
            f"{exact_percent(share)} of the {rows}{what}, {calibration.COUNTED} "
            f"({len(self.place):,} clusters, {claim.n:,} rows), where at most {percent(alpha)} is "
            "promised"
        )
        return replace(
            claim,
            seen=seen,
            observed=share,
            p_value=p_value,
            p_doubled=doubled,
            more=self.too_large,
            is_testable=True,
        )

    def _conditional(
        self,
        claim: Claim,
        codes: IntArray,
        accepted: BoolArray,
        bad: BoolArray,
        tau: float,
        eta: float,
    ) -> Claim:
        """The test that certified the rule, upside down."""
        size = np.bincount(codes)
        share, share_bad = (np.bincount(codes, w) / size for w in (accepted, accepted & bad))
        some = share > 0
        if not some.any():
            return replace(claim, seen="No row is accepted", more="")
        observed, above = float(share_bad.sum() / share.sum()), as_typed(tau, claim.unit)
        seen = (
            f"{exact_percent(observed)} of the accepted rows have a loss above {above}, each of "
            f"{len(size):,} clusters counting once, where at most {percent(eta)} is promised"
        )

        def p_value(bad_share: FloatArray) -> float:
            x = np.clip(eta + bad_share - eta * share, 0.0, 1.0)[some]
            return mean_loss_p_value(1.0 - x, 1.0 - eta, 0.0, 1.0)

        return replace(
            claim,
            seen=seen,
            observed=observed,
            n=int(accepted.sum()),
            p_value=p_value(share_bad),
            p_doubled=p_value(np.minimum(2 * eta, 1.0) * share),
            more="",
        )
