"""Rows by group and over time: exact counts, and intervals that hold for all parts at once."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray
from locuscore._shared.checks import is_missing
from locuscore._shared.frames import as_array
from locuscore._shared.labels import read_labels
from locuscore._shared.multiple_tests import shared_level
from locuscore._shared.readable import shortened
from locuscore._shared.share_interval import share_interval
from locuscore.report import _words as words
from locuscore.report._equal_shares import equal_shares_p_value
from locuscore.report._laws import Block
from locuscore.report._times import as_days, periods

MOST_GROUPS = 10_000  # labels that are told apart while counting
SHOWN_GROUPS = 30
MOST_NAMED = 5
OTHERS, MISSING = "(others)", "(missing)"
COLUMNS = ("n", "covered", "bound", "accepted", "bad", "loss", "loss_accepted")


class Measure(NamedTuple):
    """The share that parts are compared by: `what` of `among`, and what is promised of it.

    `name` says whose share it is, in words; a heuristic only aims at what others promise.
    """

    kind: str
    what: str
    among: str
    promised: float | None
    name: str
    word: str = "promised"


@dataclass
class PartCounts:
    """Counts by label; labels beyond the first 10,000 are pooled. Days are labels of time."""

    name: str
    is_time: bool = False
    place: dict[Any, int] = field(default_factory=lambda: {OTHERS: 0})
    table: FloatArray = field(default_factory=lambda: np.zeros((1, len(COLUMNS))))

    def add(self, labels: Sequence[Any], columns: FloatArray) -> None:
        """Count rows, whose columns are `COLUMNS`."""
        codes = np.array([self._code(label) for label in labels], dtype=np.int64)
        size = len(self.place)
        grown = np.zeros((size, len(COLUMNS)))
        grown[: len(self.table)] = self.table
        for j, weights in enumerate(columns.T):
            grown[:, j] += np.bincount(codes, weights=weights, minlength=size)
        self.table = grown

    def _code(self, label: Any) -> int:
        name = MISSING if is_missing(label) else label if self.is_time else str(label)
        if len(self.place) > MOST_GROUPS:
            return self.place.get(name, 0)
        return self.place.setdefault(name, len(self.place))

    @property
    def days(self) -> list[datetime.date]:
        """The days that were seen, if parts are times."""
        return sorted(day for day in self.place if isinstance(day, datetime.date))

    def parts(self) -> tuple[str, list[tuple[str, FloatArray]]]:
        """What the parts are, and the name and the counts of each, in the order of the page."""
        return self._periods() if self.is_time else (self.name, self._groups())

    def _groups(self) -> list[tuple[str, FloatArray]]:
        size = np.append(0, self.table[1:, 0])
        order = np.argsort(-size, kind="stable")
        shown = [int(i) for i in order[:SHOWN_GROUPS] if size[i]]
        names = list(self.place)
        rest = self.table[np.setdiff1d(np.arange(len(names)), shown)].sum(axis=0)
        found = [(shortened(str(names[i])), self.table[i]) for i in shown]
        return found + ([(OTHERS, rest)] if rest[0] else [])

    def _periods(self) -> tuple[str, list[tuple[str, FloatArray]]]:
        days = self.days
        name, found = periods(days)
        sums: dict[tuple[datetime.date, str], FloatArray] = {}
        for day, period in zip(days, found, strict=True):
            sums[period] = sums.get(period, np.zeros(len(COLUMNS))) + self.table[self.place[day]]
        parts = [(period[1], row) for period, row in sorted(sums.items())]
        for label in (MISSING, OTHERS):
            row = self.table[self.place[label]] if label in self.place else None
            if row is not None and row[0]:
                parts.append((label, row))
        return f"{self.name}, by {name}", parts


class Parts:
    """All ways in which a report takes its rows apart: groups, further groups, and time."""

    def __init__(self, group_name: str, time_name: str, tau: float) -> None:
        self._group_name, self._time_name, self._tau = group_name, time_name, tau
        self.counts: list[PartCounts] | None = None

    def labels(
        self,
        groups: ArrayLike | None,
        by: Mapping[str, ArrayLike] | None,
        time: ArrayLike | None,
        n: int,
    ) -> list[Sequence[Any]]:
        """The labels of the rows of a batch in each partition."""
        given: dict[str, Any] = {} if groups is None else {self._group_name: groups}
        given |= dict(by or {})
        found: list[Sequence[Any]] = [
            read_labels(as_array(labels), n, name if name != "group" else "groups")
            for name, labels in given.items()
        ]
        started = [PartCounts(name) for name in given]
        if time is not None:
            found.append(as_days(time, n))
            started.append(PartCounts(self._time_name, is_time=True))
        if self.counts is None:
            self.counts = started
        if [part.name for part in self.counts] != [part.name for part in started]:
            raise ValueError("groups and time must be given for every batch, or for none.")
        return found

    def add(self, block: Block, labels: Sequence[Sequence[Any]]) -> None:
        """Count the rows of a block in every partition."""
        if not labels:
            return
        z, bound = block.losses, block.bounds[:, 0]
        taken = np.ones(len(z)) if block.accepted is None else block.accepted.astype(float)
        bad = taken * (z > self._tau)
        columns = np.column_stack([np.ones(len(z)), z <= bound, bound, taken, bad, z, taken * z])
        for part, names in zip(self.counts or [], labels, strict=True):
            part.add(names, columns)

    @property
    def days(self) -> tuple[datetime.date, datetime.date] | None:
        """The first and the last day of the rows, if they have times."""
        days = [day for part in self.counts or [] if part.is_time for day in part.days]
        return (min(days), max(days)) if days else None

    def told(self, measure: Measure, has_clusters: bool) -> list[dict[str, Any]]:
        """Every partition as the summary has it; the intervals of all hold together."""
        families = self.counts or []
        found = []
        for part in families:
            name, rows = part.parts()
            delta = shared_level(1 - words.LEVEL, len(rows), len(families))
            told = [_row(label, row, measure, delta) for label, row in rows]
            found.append(
                {
                    "name": name,
                    "column": part.name,
                    "is_time": part.is_time,
                    "rows": told,
                    "finding": _finding(told, measure),
                    "trend": _trend(told) if part.is_time and not has_clusters else None,
                    "sentence": words.simultaneous(len(rows), len(families), has_clusters),
                }
            )
        return found


def _finding(rows: Sequence[Mapping[str, Any]], measure: Measure) -> str:
    """Which parts are worse than what is promised of all of them, beyond chance."""
    known = [row for row in rows if row["of"]]
    worse = [row for row in known if row["standing"] == "worse"]
    if measure.promised is None or not known:
        return ""
    if not worse:
        none = {1: "It is not", 2: "Neither is"}.get(len(known), f"None of the {len(known)} is")
        return f"{none} worse than {measure.word}, beyond chance."
    worse.sort(key=lambda row: -row["share"])
    named = ", ".join(f"{row['group']} ({100 * row['share']:.1f} %)" for row in worse[:MOST_NAMED])
    more = f" and {len(worse) - MOST_NAMED} more" if len(worse) > MOST_NAMED else ""
    count = f"{len(worse)} of {len(known)}"
    return f"Worse than {measure.word}, beyond chance: {named}{more}; {count}."


def attention(parts: Sequence[Mapping[str, Any]], what: str) -> list[str]:
    """What stands out in the parts, for the first screen."""
    found = []
    for part in parts:
        if any(row["standing"] == "worse" for row in part["rows"]):
            text = part["finding"]
            found.append(f"By {part['column']}, {text[0].lower()}{text[1:]}")
        trend = part["trend"]
        if trend is not None and trend["differs"]:
            found.append(f"Share of {what}: {trend['sentence']}")
    return found


def _trend(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The later half of the time against the earlier one, by Fisher's exact test.

    The halves have as nearly as many counted rows as periods allow; losses have no part in it.
    """
    known = [row for row in rows if row["of"] and row["group"] not in (MISSING, OTHERS)]
    if len(known) < 2:
        return None
    counts = np.array([[row["k"], row["of"]] for row in known])
    before = np.cumsum(counts[:, 1])[:-1]
    at = int(np.argmin(np.abs(before - counts[:, 1].sum() / 2))) + 1
    (k_1, n_1), (k_2, n_2) = counts[:at].sum(axis=0).tolist(), counts[at:].sum(axis=0).tolist()
    p_value = equal_shares_p_value(k_1, n_1, k_2, n_2)
    differs = p_value <= 1 - words.LEVEL
    shares = [k_1 / n_1, k_2 / n_2]
    change = "a rise" if shares[1] > shares[0] else "a fall"
    how = f"{change} beyond chance" if differs else "no change beyond chance"
    return {
        "since": known[at]["group"],
        "before": {"k": k_1, "n": n_1},
        "after": {"k": k_2, "n": n_2},
        "p_value": words.smallest_p(p_value),
        "differs": differs,
        "sentence": (
            f"{100 * shares[1]:.1f} % since {known[at]['group']}, {100 * shares[0]:.1f} % before: "
            f"{how}."
        ),
    }


def _row(label: str, row: FloatArray, measure: Measure, delta: float) -> dict[str, Any]:
    seen = dict(zip(COLUMNS, row.tolist(), strict=True))
    n, covered = int(seen["n"]), int(seen["covered"])
    ci_low, ci_high = share_interval(covered, n, delta)
    k = n - covered if measure.what == "above" else int(seen[measure.what])
    of = int(seen[measure.among])
    low, high = (float(end) for end in share_interval(k, of, delta))
    promised = measure.promised
    standing = f"as {measure.word}"
    if promised is None or not of:
        standing = ""
    elif low > promised:
        standing = "worse"
    elif high < promised:
        standing = "better"
    return {
        "group": label,
        "n": n,
        "covered": covered,
        "rate": covered / n,
        "ci_low": float(ci_low),
        "ci_high": float(ci_high),
        "mean_bound": seen["bound"] / n,
        "accepted": int(seen["accepted"]),
        "loss": seen["loss"],
        "loss_accepted": seen["loss_accepted"],
        "k": k,
        "of": of,
        "share": k / of if of else None,
        "low": low,
        "high": high,
        "standing": standing,
    }
