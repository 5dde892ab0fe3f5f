"""The test of one claim on the rows of a ledger: which rows it uses, and what it has seen."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from locuscore._protocols import BoolArray, FloatArray, IntArray
from locuscore.watch._claims import Claim
from locuscore.watch._clusters import OpenClusters, runs
from locuscore.watch._evidence.audit import thinned
from locuscore.watch._instruments import alarm_of, detector_of
from locuscore.watch._ledger.columns import LATEST
from locuscore.watch._settings import WatchSettings

Columns = Mapping[str, np.ndarray]
US_PER_DAY = 86_400_000_000
MOST_DAYS = 1_000  # of the course over time; older ones are dropped
MOST_CALLS = 100  # of the detector, whose times are kept


class ClaimTest:
    """Alarm, detector and their course over time, for a claim that is tested.

    `see` takes rows in the order of the ledger, each once. `days` has one entry for each day of
    decisions: the day since 1970; units, labelled ones and the sum of their values so far; the ends
    of the anytime interval; and the logarithm of the evidence. Rows of an earlier day than the
    latest one count for the latest.
    """

    def __init__(self, claim: Claim, settings: WatchSettings, secret: bytes) -> None:
        self.claim, self.settings, self.secret = claim, settings, secret
        self.alarm = alarm_of(claim, settings.delta)
        self.detector = detector_of(claim, settings.run_length)
        self.total = 0.0
        self.alarm_time: int | None = None
        self.call_times: list[int] = []
        self.days: list[list[float]] = []
        self.cluster = OpenClusters()

    @property
    def n_labelled(self) -> int:
        """Units that were tested with a label."""
        return self.alarm.n - self.alarm.missing

    def see(self, rows: Columns, alphas: tuple[float, ...]) -> None:
        """Test matured rows; for clusters these are all rows, and otherwise those drawn."""
        used = self._used(rows)
        values, known = self._values(rows, alphas)
        times = rows["time"]
        if self.claim.unit == "cluster":
            eta = self.claim.promised or 0.0
            labels = rows["cluster"].tolist()
            taken = list(self.cluster.take(labels, times, used, values, known, eta))
            values = np.array([value for value, _, _ in taken])
            known = np.array([has_label for _, has_label, _ in taken], dtype=bool)
            times = np.array([time for *_, time in taken], dtype=np.int64)
        else:
            values, known, times = values[used], known[used], times[used]
        for start, stop in runs(self._days_reached(times)):
            self._test(values[start:stop], known[start:stop], times[start:stop])

    def _days_reached(self, times: IntArray) -> IntArray:
        """The latest day so far at each row, so rows out of order begin no day twice."""
        reached = np.maximum.accumulate(times // US_PER_DAY)
        return np.asarray(np.maximum(reached, int(self.days[-1][0])) if self.days else reached)

    def _used(self, rows: Columns) -> BoolArray:
        """Drawn rows that the claim is about, thinned so that all had the same chance."""
        used = rows["drawn"] & self.claim.holds_group(rows["group_name"].tolist())
        if self.claim.among == "accepted":
            return np.asarray(used & ~rows["flagged"])
        if self.settings.audit != self.settings.chance_flagged:
            at = np.flatnonzero(used)
            ids = rows["id"][at].tolist()
            kept = thinned(ids, rows["chance"][at], self.settings.least, self.secret)
            used = np.zeros(len(used), dtype=bool)
            used[at[kept]] = True
        return np.asarray(used)

    def _values(self, rows: Columns, alphas: tuple[float, ...]) -> tuple[FloatArray, BoolArray]:
        loss, accepted = rows["loss"], ~rows["flagged"]
        known = ~np.isnan(loss)
        bounds = {alpha: rows["bounds"][:, j] for j, alpha in enumerate(alphas)}
        values = self.claim.values(np.where(known, loss, 0.0), accepted, bounds)
        if self.claim.labels == "accepted":  # a flagged row is never accepted and bad
            known = known | ~accepted
        return np.where(known, values, 0.0), known

    def _test(self, values: FloatArray, known: BoolArray, times: IntArray) -> None:
        """Test units of one day, in order."""
        before, n_calls = self.alarm.n, self.detector.calls
        self.alarm.update(values, known)
        self.detector.update(values, known)
        self.total += float(values[known].sum())
        if self.alarm.alarmed_at is not None and self.alarm_time is None:
            self.alarm_time = int(times[self.alarm.alarmed_at - before - 1])
        called = [int(times[at - before - 1]) for at in self.detector.called_at if at > before]
        if self.detector.calls > n_calls:
            self.call_times = [*self.call_times, *called][-MOST_CALLS:]
        self._note_day(int(self._days_reached(times)[-1]))

    def _note_day(self, day: int) -> None:
        ends = self.alarm.interval(self.alarm.delta) or (np.nan, np.nan)
        entry = [day, self.alarm.n, self.n_labelled, self.total, *ends, self.alarm.log_value]
        if self.days and self.days[-1][0] == day:
            self.days.pop()
        self.days = [*self.days, entry][-MOST_DAYS:]

    def to_state(self) -> dict[str, Any]:
        """All that later rows need, in the types JSON has."""
        return {
            "alarm": self.alarm.to_state(),
            "detector": self.detector.to_state(),
            "total": self.total,
            "alarm_time": self.alarm_time,
            "call_times": self.call_times,
            "days": [[None if one != one else one for one in day] for day in self.days],
            "cluster": self.cluster.to_state(),
        }

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Continue from a state that `to_state` gave."""
        self.alarm.restore(state["alarm"])
        self.detector.restore(state["detector"])
        self.total, self.alarm_time = float(state["total"]), state["alarm_time"]
        self.call_times = list(state["call_times"])
        self.days = [[np.nan if one is None else one for one in day] for day in state["days"]]
        self.cluster = OpenClusters.of(state["cluster"])
        times = [*self.call_times, *(day[0] * US_PER_DAY for day in self.days)]
        times += [] if self.alarm_time is None else [self.alarm_time]
        if not all(0 <= time < LATEST for time in times) or {*map(len, self.days)} - {7}:
            raise ValueError("the state of a test must have days of 7 numbers, from 1970 to 2255.")
        return self
