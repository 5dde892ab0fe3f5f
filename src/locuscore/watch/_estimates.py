"""Estimates from the sums of a ledger: with the labels known now, weighed by their chances."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from locuscore._protocols import BoolArray
from locuscore.watch._claims import Claim
from locuscore.watch._ledger.sums import miss, parts_of
from locuscore.watch._settings import WatchSettings

EPOCH = np.datetime64("1970-01-01", "D")


def day_text(day: float) -> str:
    """A day since 1970 as text."""
    return str(EPOCH + int(day))


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of a deployment by day, group, accepted, drawn and measure."""

    columns: Mapping[str, np.ndarray]
    settings: WatchSettings

    @property
    def _is_asked(self) -> BoolArray:
        """Cells of rows whose label was asked for."""
        drawn, accepted = self.columns["drawn"], self.columns["accepted"]
        return np.asarray(drawn & (accepted | (self.settings.audit_flagged is not None)))

    def total(self, measure: str, where: BoolArray | None = None, weighted: bool = False) -> float:
        """Sum of a measure over some cells."""
        sums, found = self.columns["weighted" if weighted else "total"], 0.0
        for name, factor in parts_of(measure, self._names).items():
            at = self.columns["measure"] == name
            found += factor * float(sums[at if where is None else at & where].sum())
        return found

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.columns["measure"].tolist())

    def counts(self) -> dict[str, int]:
        """How many decisions and labels there are, of which kind."""
        accepted, asked = self.columns["accepted"], self._is_asked
        found = {
            "decisions": self.total("rows"),
            "accepted": self.total("rows", accepted),
            "flagged": self.total("rows", ~accepted),
            "drawn": self.total("rows", asked),
            "labelled": self.total("labelled", asked),
            "complaints": self.total("labelled", ~asked & accepted),
            "reviewed": self.total("labelled", ~asked & ~accepted),
        }
        counts = {name: round(value) for name, value in found.items()}
        return counts | {"awaited": counts["drawn"] - counts["labelled"]}

    def estimate(self, claim: Claim) -> float | None:
        """What a claim bounds, estimated from all labels known now; None without any.

        None also if it is about all rows and the labels of flagged ones are no random sample.
        """
        if claim.labels == "all" and self.settings.audit_flagged is None:
            return None
        cells = self.columns
        groups = [name or None for name in cells["group_name"].tolist()]
        mine = claim.holds_group(groups) & self._is_asked
        measure = {"coverage": miss(claim.alpha or 0.0), "mean loss": "loss"}.get(claim.kind, "bad")
        if claim.kind in ("joint", "accepted", "mean loss"):
            mine &= cells["accepted"]
        labelled = self.total("labelled", mine, weighted=True)
        if claim.kind == "exchangeable" or not labelled:
            return None
        share = self.total(measure, mine, weighted=True) / labelled
        if claim.kind != "joint":
            return share
        rows = claim.holds_group(groups)
        return share * self.total("rows", rows & cells["accepted"]) / self.total("rows", rows)

    def days(self) -> list[dict[str, Any]]:
        """Decisions and labels of each day."""
        cells, asked, found = self.columns, self._is_asked, []
        for day in np.unique(cells["day"]):
            on = cells["day"] == day
            drawn, labelled = (self.total(m, on & asked) for m in ("rows", "labelled"))
            found.append(
                {
                    "day": day_text(day),
                    "decisions": round(self.total("rows", on)),
                    "accepted": round(self.total("rows", on & cells["accepted"])),
                    "drawn": round(drawn),
                    "labelled": round(labelled),
                    "awaited": round(drawn - labelled),
                    "group": None,
                }
            )
        return found

    def groups(self) -> list[dict[str, Any]]:
        """Share of each group in the first and in the last quarter of the days, and its rows."""
        cells = self.columns
        names = sorted({name for name in cells["group_name"].tolist() if name})
        days = np.unique(cells["day"])
        quarter = max(1, len(days) // 4)
        first, last = (np.isin(cells["day"], part) for part in (days[:quarter], days[-quarter:]))
        found = []
        for name in names:
            mine = cells["group_name"] == name
            shares = [
                self.total("rows", mine & part) / max(self.total("rows", part), 1.0)
                for part in (first, last)
            ]
            entry = {"group": name, "share_first": shares[0], "share_now": shares[1]}
            found.append(entry | {"n": round(self.total("rows", mine))})
        return found

    @property
    def label_lag(self) -> float | None:
        """Mean days from decision to label; None without labels."""
        labelled = self.total("labelled")
        return self.total("lag") / labelled / 86_400 if labelled else None
