"""A rule with a threshold for each group, on labelled rows: counts, claims and the table."""

from typing import Any

import numpy as np

from locuscore import ExceedanceCertificate, GroupCertificate, GroupRule, TunedExceedance
from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore._shared.readable import shortened
from locuscore.report._claims import Accepted, Claim, conditional_claim
from locuscore.report._grid import rule_tau

SHOWN_GROUPS = 30


class RuleGroupCounts:
    """Rows, accepted ones and bad ones among these, for each group or pool of a `GroupRule`."""

    def __init__(self, rule: GroupRule) -> None:
        self.rule = rule
        self.units = rule.units
        self.names = [
            shortened(", ".join(str(label) for label in labels)) for labels, _ in self.units
        ]
        taus = [rule_tau(part) for _, part in self.units]
        # Of rows without a rule, and of a rule without a tolerance, no loss is called bad.
        self._tau = np.array([np.inf if tau is None else tau for tau in [*taus, None]])
        self.counts = np.zeros((len(self.units) + 1, 3), dtype=np.int64)

    def add(self, labels: list[Any], accepted: BoolArray, losses: FloatArray) -> None:
        """Count rows, given the labels of their groups."""
        unit: IntArray = self.rule.places(labels, len(losses))
        bad = accepted & (losses > self._tau[unit])
        for j, rows in enumerate((unit, unit[accepted], unit[bad])):
            self.counts[:, j] += np.bincount(rows, minlength=len(self.counts))

    def claims(self, unit: str) -> list[Claim | None]:
        """What is claimed of each group, tested on its own rows; None where nothing is."""
        return [self._claim(i, unit) for i in range(len(self.units))]

    def _claim(self, i: int, unit: str = "") -> Claim | None:
        labels, part = self.units[i]
        found = part.certificate
        within = found.within if isinstance(found, GroupCertificate) else found
        if part.accepts_nothing or not isinstance(within, ExceedanceCertificate | TunedExceedance):
            return None
        n, accepted, bad = self.counts[i].tolist()
        where = f"group {self.names[i]}" if len(labels) == 1 else f"the pool of {self.names[i]}"
        seen = Accepted(n, accepted, bad)
        return conditional_claim(part, seen, within.tau, within.eta, where, unit)

    def table(self, verdicts: list[str | None]) -> dict[str, Any]:
        """The largest groups with their thresholds and what was seen, and the rest together."""
        rows = []
        for i, (labels, part) in enumerate(self.units):
            n, accepted, bad = self.counts[i].tolist()
            claim = self._claim(i)
            rows.append(
                {
                    "group": self.names[i],
                    "pooled": len(labels),
                    "certified": part.standing == "certificate" and not part.accepts_nothing,
                    "accepts_nothing": part.accepts_nothing,
                    "threshold": part.threshold,
                    "n": n,
                    "accepted": accepted,
                    "bad": bad,
                    "promised": None if claim is None else claim.promised,
                    "verdict": verdicts[i],
                }
            )
        rows.sort(key=lambda row: -row["n"])
        others = rows[SHOWN_GROUPS:]
        return {
            "by": "group" if self.rule.by is None else str(self.rule.by),
            "score": str(self.rule.score),
            "rows": rows[:SHOWN_GROUPS],
            "n_groups_not_shown": len(others),
            "rows_not_shown": sum(row["n"] for row in others),
            "rows_of_other_groups": int(self.counts[-1, 0]),
        }
