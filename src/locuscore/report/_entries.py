"""Claims of a calibration by group, tested in every group."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from locuscore import FlagRule, JointClaim, Scorer
from locuscore._protocols import IntArray
from locuscore.report._claims import Claim
from locuscore.report._laws import Block


@dataclass
class EntryCounts:
    """Rows of each group, those within their bound at each alpha, those accepted and bad."""

    scorer: Scorer
    tau: float

    def __post_init__(self) -> None:
        calibration: Any = self.scorer.locus.calibration_
        size = calibration.n_entries
        self.n: IntArray = np.zeros(size, dtype=np.int64)
        self.covered: IntArray = np.zeros((size, len(self.scorer.alphas)), dtype=np.int64)
        self.bad: IntArray = np.zeros(size, dtype=np.int64)

    def add(self, block: Block) -> None:
        """See the rows of a block."""
        codes = block.source.entries
        assert codes is not None
        self.n += np.bincount(codes, minlength=len(self.n))
        np.add.at(self.covered, codes, block.losses[:, None] <= block.bounds)
        if block.accepted is not None:
            bad = block.accepted & (block.losses > self.tau)
            self.bad += np.bincount(codes[bad], minlength=len(self.n))

    def retested(self, claim: Claim) -> Claim:
        """A claim of coverage, tested in every group."""
        assert claim.alpha is not None
        place = list(self.scorer.alphas).index(claim.alpha)
        return self._tested(claim, claim.alpha, self.n - self.covered[:, place])

    def of_rule(self, claim: Claim | None, rule: FlagRule | None) -> Claim | None:
        """The claim of a rule, tested in every group if it passes on that of the bound."""
        if claim is None or rule is None or not isinstance(rule.certificate, JointClaim):
            return claim
        return self._tested(claim, rule.certificate.alpha, self.bad)

    def _tested(self, claim: Claim, alpha: float, above: IntArray) -> Claim:
        calibration: Any = self.scorer.locus.calibration_
        p_value, n_groups = calibration.group_p_value(alpha, self.n, self.n - above)
        if not n_groups:
            return claim
        twice = np.minimum(np.ceil(2 * alpha * self.n).astype(np.int64), self.n)
        doubled, _ = calibration.group_p_value(alpha, self.n, self.n - twice)
        more = f"Tested in each of {n_groups} groups, by exact tests that share the level."
        return replace(claim, p_value=p_value, p_doubled=doubled, is_testable=True, more=more)
