"""How soon does each alarm notice that a promise is broken? ``make watch-power``.

Each method sees the same streams. Its threshold is once its own at delta, and once tuned: on
streams that keep the promise, with other seeds, it is reached by five in a hundred within the
horizon. A run may be stopped at any time; the next one makes the records that are missing.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.watch import power_page
from benchmarks.watch.ours import OURS
from benchmarks.watch.rivals import DELTA, RIVALS, Method
from benchmarks.watch.streams import (
    HORIZON,
    WINDOW,
    Setting,
    Streams,
    jumps_and_drifts,
    real,
    simulated,
)

RECORDS = Path(__file__).with_name("power.jsonl")
METHODS = OURS | RIVALS
CHUNK = 250
CHUNKS_TO_TUNE, CHUNKS_TO_CHECK = range(100, 104), range(2)  # seeds
N_TEST, N_SPLITS, FEWEST = 200, 20, 20
REAL = ("flights", "bike")
Record = dict[str, Any]


def read() -> list[Record]:
    if not RECORDS.exists():
        return []
    lines = RECORDS.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def append(records: Iterable[Record]) -> None:
    with RECORDS.open("a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record) + "\n")


def n_streams(method: Method, n: int) -> int:
    return max(min(n, FEWEST), int(n * method.share))


def largest(method: Method, streams: Streams) -> np.ndarray:
    """The largest value of the statistic in each stream; of slow methods in a part of them.

    A threshold needs more streams than a median, and very long ones take too much time.
    """
    n, horizon = streams.bits.shape
    more = 4 if horizon <= HORIZON else 1
    part = streams.part(min(n, more * n_streams(method, n)), horizon)
    return np.asarray(method.path(part).max(axis=1))


def times(method: Method, streams: Streams, thresholds: list[float]) -> list[list[int | None]]:
    """The row at which each threshold is reached first, None if never; the first row is 1."""
    n, horizon = n_streams(method, len(streams.bits)), streams.bits.shape[1]
    for rows in (horizon // 4, horizon):  # most alarms come early
        path = method.path(streams.part(n, rows))
        reached = [path >= threshold for threshold in thresholds]
        if rows == horizon or all(hit.any(axis=1).all() for hit in reached):
            break
    return [
        [
            int(row) + 1 if any_ else None
            for row, any_ in zip(hit.argmax(1), hit.any(1), strict=True)
        ]
        for hit in reached
    ]


def tuned_threshold(values: np.ndarray) -> float:
    """The value that a share closest to delta reaches; counts in windows have few values."""
    ordered = np.unique(values)
    shares = [np.mean(values >= value) for value in ordered]
    return float(ordered[np.argmin(np.abs(np.array(shares) - DELTA))])


def rate_at_alarm(streams: Streams, rows: Iterable[int | None]) -> list[float | None]:
    """Share of misses or bad rows among the last 500 up to each alarm."""
    return [
        None if row is None else float(np.mean(bits[max(0, row - WINDOW) : row]))
        for bits, row in zip(streams.bits, rows, strict=False)
    ]


class Run:
    """What is recorded so far, and what is missing."""

    def __init__(self, methods: list[str]) -> None:
        self.methods, self.found = methods, {}
        for record in read():
            self.found[record["stream"], record["role"], record["method"]] = record

    def missing(self, stream: str, role: str, claim: str) -> list[str]:
        return [
            name
            for name in self.methods
            if claim in METHODS[name].claims and (stream, role, name) not in self.found
        ]

    def keep(self, stream: str, role: str, values: dict[str, dict[str, Any]]) -> None:
        records = [
            {"stream": stream, "role": role, "method": name} | value
            for name, value in values.items()
        ]
        append(records)
        for record in records:
            self.found[stream, role, record["method"]] = record

    def tune(self, null: Setting, chunks: Iterable[int] = CHUNKS_TO_TUNE) -> None:
        """Find the threshold that five in a hundred streams reach although all is well."""
        lacking = self.missing(null.name, "tune", null.claim)
        if not lacking:
            return
        values: dict[str, list[np.ndarray]] = {name: [] for name in lacking}
        for seed in chunks:
            streams = simulated(null, CHUNK, seed)
            for name in lacking:
                values[name].append(largest(METHODS[name], streams))
        together = {name: np.concatenate(parts) for name, parts in values.items()}
        self.keep(null.name, "tune", {
            name: {"n": len(all_), "threshold": tuned_threshold(all_)}
            for name, all_ in together.items()
        })  # fmt: skip

    def watch(self, null: Setting, stream: Setting, makes: Callable[[], Iterator[Streams]]) -> None:
        """Alarm times of all methods that lack a record."""
        lacking = self.missing(stream.name, "watch", stream.claim)
        if not lacking:
            return
        found: dict[str, dict[str, Any]] = {
            name: {"change": stream.change, "nominal": [], "tuned": [], "rates": []}
            for name in lacking
        }
        for streams in makes():
            for name in lacking:
                tuned = self.found[null.name, "tune", name]["threshold"]
                nominal = METHODS[name].nominal(null)
                at = times(METHODS[name], streams, [nominal, tuned])
                for key, rows in zip(("nominal", "tuned"), at, strict=True):
                    found[name][key] += rows
                if not stream.change and stream.factor == 1:
                    found[name]["rates"] += rate_at_alarm(streams, at[1])
        self.keep(stream.name, "watch", found)


def simulations(run: Run, is_late: Callable[[], bool]) -> None:
    settings = list(jumps_and_drifts())
    nulls = list(dict.fromkeys(setting.null for setting in settings))
    for null in nulls:
        run.tune(null)
        run.watch(
            null, null, lambda null=null: (simulated(null, CHUNK, s) for s in CHUNKS_TO_CHECK)
        )
    for i, setting in enumerate(settings):
        if is_late():
            return
        made = (simulated(setting, N_TEST, seed) for seed in [1_000 + i])
        run.watch(setting.null, setting, lambda made=made: made)
        print(setting.name, flush=True)


def real_streams(run: Run, is_late: Callable[[], bool]) -> None:
    """Flights and bike hires; thresholds are tuned on simulated streams of the same length."""
    for name in REAL:
        for claim in ("accepted", "coverage"):
            if is_late():
                return
            stream = real(name, 0)[claim].setting
            run.tune(stream, chunks=CHUNKS_TO_TUNE[:1])
            made = (real(name, seed)[claim] for seed in range(N_SPLITS))
            run.watch(stream, stream, lambda made=made: made)
            print(stream.name, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--only", choices=["simulated", "real"])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after")
    parser.add_argument("--report", action="store_true", help="only write the page")
    asked = parser.parse_args()
    stop_at = time.monotonic() + 60 * asked.minutes
    if not asked.report:
        run = Run(asked.methods)
        if asked.only != "real":
            simulations(run, lambda: time.monotonic() > stop_at)
        if asked.only != "simulated":
            real_streams(run, lambda: time.monotonic() > stop_at)
    power_page.write(read())


if __name__ == "__main__":
    main()
