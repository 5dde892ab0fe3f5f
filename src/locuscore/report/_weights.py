"""Claims of a calibration by known weights, tested against the weighted rows of D2."""

from dataclasses import dataclass, replace
from typing import Any

from locuscore import FlagRule, JointClaim, Scorer
from locuscore._protocols import FloatArray
from locuscore._shared.sampling import column_sample
from locuscore.report._claims import Claim
from locuscore.report._laws import Block

MOST_ROWS = 20_000  # far more than D2 has to compare with


@dataclass
class WeightCounts:
    """Weight, tail and fate of a sample of the rows."""

    scorer: Scorer
    tau: float
    seed: int

    def __post_init__(self) -> None:
        self.sample = column_sample(MOST_ROWS, self.seed)

    def add(self, block: Block) -> None:
        """See the rows of a block."""
        assert block.source.entries is not None
        is_above = (block.losses[:, None] > block.bounds).astype(float)
        is_bad = block.losses > self.tau
        bad = is_bad * 0.0 if block.accepted is None else (is_bad & block.accepted).astype(float)
        row = (block.source.entries, block.at_least, bad, *is_above.T)
        self.sample.add(row, len(block))

    def retested(self, claim: Claim) -> Claim:
        """A claim of coverage, tested by weights."""
        assert claim.alpha is not None
        place = list(self.scorer.alphas).index(claim.alpha)
        return self._tested(claim, claim.alpha, 3 + place)

    def of_rule(self, claim: Claim | None, rule: FlagRule | None) -> Claim | None:
        """The claim of a rule, tested by weights if it passes on that of the bound."""
        if claim is None or rule is None or not isinstance(rule.certificate, JointClaim):
            return claim
        return self._tested(claim, rule.certificate.alpha, 2)

    def _tested(self, claim: Claim, alpha: float, place: int) -> Claim:
        calibration: Any = self.scorer.locus.calibration_
        if calibration.too_few(alpha) is not None:
            return claim
        columns: tuple[FloatArray, ...] = self.sample.rows()
        weights, tails, counted = columns[0], columns[1], columns[place] > 0
        p_value, doubled = calibration.judge_weights(alpha, tails, weights, counted)
        some = f" on a random sample of {len(tails):,} rows" if len(tails) < claim.n else ""
        more = f"Tested exactly against the weighted calibration rows{some}."
        return replace(claim, p_value=p_value, p_doubled=doubled, is_testable=True, more=more)
