"""The page of the alarms' power, from the records."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import write_section

PAGE = Path(__file__).with_name("POWER.md")
Record = dict[str, Any]
ON_RANKS = ("ours, ranks", "MAPIE jumper", "MAPIE plug-in", "crepes")  # not on the promise
TITLES = {"tuned": "at equal false-alarm rate", "nominal": "at its own level"}


def median_delay(record: Record, key: str) -> tuple[float, float, float]:
    """Median delay, share of streams noticed, and share with an alarm before the change.

    Streams with an early alarm count for the last only. The median is infinite if fewer than half
    of the others are noticed within the horizon.
    """
    at = np.array([np.inf if row is None else row for row in record[key]])
    is_early = at <= record["change"]
    delays = at[~is_early] - record["change"]
    if not len(delays):
        return np.inf, 0.0, 1.0
    noticed = float(np.isfinite(delays).mean())
    median = float(np.sort(delays)[(len(delays) - 1) // 2])
    return median, noticed, float(is_early.mean())


def is_about_better_rows(stream: str, record: Record) -> bool:
    """Whether most alarms, of a method on ranks, came while the rate was within the promise."""
    if not record["method"].startswith(ON_RANKS):
        return False
    promised = 0.1 if stream.startswith("coverage") else 0.2
    rates = [rate for rate in record.get("rates", ()) if rate is not None]
    return bool(rates) and np.median(rates) <= promised


def cell(record: Record | None, key: str) -> str:
    if record is None:
        return ""
    median, noticed, _ = median_delay(record, key)
    mark = "*" if is_about_better_rows(record["stream"], record) else ""
    return f"{median:,.0f}{mark}" if np.isfinite(median) else f"({noticed:.0%}){mark}"


def is_ours(method: str) -> bool:
    return method.startswith("ours")


def ratio(found: dict[str, Record], ours: Iterable[str]) -> str:
    """Smallest median delay of some methods of ours, in units of the best rival's; its name."""
    medians = {
        name: median_delay(record, "tuned")[0]
        for name, record in found.items()
        if not is_about_better_rows(record["stream"], record)
    }
    rivals = {name: median for name, median in medians.items() if not is_ours(name)}
    own = [medians[name] for name in ours if name in medians]
    if not own or not rivals:
        return ""
    best = min(rivals, key=lambda name: rivals[name])
    if not np.isfinite(rivals[best]):
        return "" if not np.isfinite(min(own)) else "below all"
    return f"{min(own) / rivals[best]:.2f} ({best})" if np.isfinite(min(own)) else f"- ({best})"


class Page:
    """Records by stream and method."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.watched: dict[str, dict[str, Record]] = {}
        self.tuned: dict[tuple[str, str], Record] = {}
        for record in records:
            if record["role"] == "tune":
                self.tuned[record["stream"], record["method"]] = record
            else:
                self.watched.setdefault(record["stream"], {})[record["method"]] = record
        names = dict.fromkeys(name for found in self.watched.values() for name in found)
        self.methods = sorted(names, key=lambda name: not is_ours(name))

    def is_null(self, stream: str) -> bool:
        return (stream, self.methods[0]) in self.tuned or any(
            (stream, name) in self.tuned for name in self.watched[stream]
        )

    def is_real(self, stream: str) -> bool:
        return stream.endswith(("flights", "bike"))

    def false_alarms(self) -> list[str]:
        nulls = [one for one in self.watched if self.is_null(one) and not self.is_real(one)]
        lines = ["| method | " + " | ".join(nulls) + " |", "|---" * (len(nulls) + 1) + "|"]
        for name in self.methods:
            cells = []
            for stream in nulls:
                record = self.watched[stream].get(name)
                shares = [
                    np.mean([row is not None for row in record[key]]) if record else np.nan
                    for key in ("nominal", "tuned")
                ]
                cells.append(f"{shares[0]:.1%}, {shares[1]:.1%}" if record else "")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        return lines

    def delays(self, claim: str, key: str, *, real: bool) -> list[str]:
        streams = [
            one
            for one in self.watched
            if one.startswith(claim)
            and self.is_real(one) == real
            and (real or not self.is_null(one))
        ]
        streams.sort(key=lambda one: (*one.split(", ")[:-1], float(one.rpartition("x")[2] or 0))
                     if not real else (one,))  # fmt: skip
        names = [name for name in self.methods if any(name in self.watched[one] for one in streams)]
        last = ["ours, best / best rival"] if key == "tuned" else []
        lines = ["| stream | " + " | ".join(names + last) + " |"]
        lines.append("|---" * (len(names) + 1 + len(last)) + "|")
        for stream in streams:
            found = self.watched[stream]
            cells = [cell(found.get(name), key) for name in names]
            if last:
                cells.append(ratio(found, [name for name in names if is_ours(name)]))
            lines.append(f"| {stream.partition(', ')[2]} | " + " | ".join(cells) + " |")
        return lines


def write(records: list[Record]) -> None:
    """Write the sections of the page; the introduction is by hand."""
    page = Page(records)
    if not page.watched:
        print("no records yet")
        return
    text = "Share of 500 streams that keep the promise and yet alarm within 10,000 rows"
    text += " (slow methods: fewer): at the method's own level, and tuned on other seeds."
    write_section(PAGE, ["## False alarms", "", text, "", *page.false_alarms()])
    for claim, title in (("coverage", "Coverage"), ("accepted", "Bad among the accepted")):
        for key, how in TITLES.items():
            for real, where in ((False, "simulated"), (True, "flights and bike")):
                lines = page.delays(claim, key, real=real)
                if len(lines) > 2:
                    write_section(PAGE, [f"## {title}, {where}, {how}", "", *lines])
