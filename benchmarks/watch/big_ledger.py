"""How long the reads of a status take on a ledger of many million decisions, after an increment.

Run ``make watch-big-ledger BENCH="--millions 50"``; filling takes most of the time. The old rows
are made by SQL inside the database, with the sums they would have; the increment comes in by the
ledger itself. The record is appended to ``big_ledger.jsonl``.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import text

from benchmarks.pages import write_section
from locuscore.watch._ledger import Deployment, Ledger
from postgres_for_tests import server

PAGE = Path(__file__).with_name("RESULTS.md")
RECORD = Path(__file__).with_name("big_ledger.jsonl")
DAY = 86_400_000_000
FIRST_DAY, DAYS = 19_600, 365
START = FIRST_DAY * DAY
PORTION = 1_000_000
AGE = 7  # days until a row matures
COUNTS = ("rows in it", "rows for drift", "daily rows")
SERIES = {
    "sqlite": "WITH RECURSIVE s(i) AS (SELECT :low UNION ALL SELECT i + 1 FROM s WHERE i < :high)",
    "postgresql": "WITH s AS (SELECT generate_series(CAST(:low AS bigint), :high) AS i)",
}
BYTES = {"sqlite": f"x'{np.ones(3).tobytes().hex()}'",
         "postgresql": f"decode('{np.ones(3).tobytes().hex()}', 'hex')"}  # fmt: skip
MARK = {"sqlite": "CAST(printf('%016d', i) AS BLOB)",
        "postgresql": "decode(lpad(i::text, 16, '0'), 'escape')"}  # fmt: skip
NAME = {"sqlite": "printf('%012d', i)", "postgresql": "lpad(i::text, 12, '0')"}
# One row in 50 is drawn, one in 5 flagged; there are 12 groups.
DECIDED = """INSERT INTO locuscore_decisions (seq, id, deployment, time, written_at,
  prediction, bounds, score, probability, flagged, group_name, cluster, chance, drawn, signals)
{series} SELECT i, {name}, 1, {time}, {time}, '1.5', {bytes},
  (i % 997) / 997.0, (i % 991) / 991.0, i % 5 = 0, 'group ' || (i % 12), NULL, 0.02,
  i % 50 = 7, NULL FROM s"""
LABELLED = """INSERT INTO locuscore_labels (number, id, time, written_at, y, loss, source, seq,
  current, fingerprint)
{series} SELECT i / 50 + 1, {name}, {time} + {day}, {time} + {day}, NULL, (i % 101) / 50.0,
  'label', i, {true}, {mark} FROM s WHERE i % 50 = 7"""
SUMMED = """INSERT INTO locuscore_daily (deployment, day, group_name, accepted, drawn, measure,
  total, weighted)
SELECT d.deployment, d.time / {day}, d.group_name, d.flagged = {false}, d.drawn, {measure},
  sum({value}),
  sum(CASE WHEN d.drawn THEN 50.0 * {value} ELSE 0.0 END)
FROM locuscore_decisions d {join}
WHERE d.seq BETWEEN :low AND :high GROUP BY 1, 2, 3, 4, 5
ON CONFLICT (deployment, day, group_name, accepted, drawn, measure) DO UPDATE SET
  total = locuscore_daily.total + excluded.total,
  weighted = locuscore_daily.weighted + excluded.weighted"""
JOIN = "JOIN locuscore_labels l ON l.seq = d.seq"


def fill(ledger: Ledger, n: int, seconds: float) -> int:
    """Make up to n old decisions, labels of the drawn ones, and their sums; how many in time."""
    until, done = time.monotonic() + seconds, 0
    while done < n and time.monotonic() < until:
        low, high = done + 1, min(done + PORTION, n)
        with ledger._database.writing() as connection:
            kind = connection.dialect.name
            given = {"low": low, "high": high}
            words = {
                "series": SERIES[kind], "bytes": BYTES[kind], "mark": MARK[kind], "day": DAY,
                "name": NAME[kind], "time": f"({START} + i * {DAYS * DAY // n})",
                "true": "true" if kind == "postgresql" else "1",
                "false": "false" if kind == "postgresql" else "0",
            }  # fmt: skip
            connection.execute(text(DECIDED.format(**words)), given)
            connection.execute(text(LABELLED.format(**words)), given)
            sums = {"rows": ("1.0", ""), "labelled": ("1.0", JOIN), "loss": ("l.loss", JOIN)}
            for measure, (value, join) in sums.items():
                sql = SUMMED.format(measure=f"'{measure}'", value=value, join=join, **words)
                connection.execute(text(sql), given)
            last = START + high * (DAYS * DAY // n)
            connection.execute(
                text("UPDATE locuscore_ledger SET last_seq = :s, last_label = :l, "
                     "last_written_at = :t"),
                {"s": high, "l": high // 50 + 1, "t": last},
            )  # fmt: skip
            connection.execute(text("UPDATE locuscore_deployments SET last_seq = :s"), {"s": high})
        done = high
        print(f"{done / 1e6:.0f} million, {until - time.monotonic():.0f} s left", flush=True)
    return done


class Clock:
    """A clock that is set."""

    now = START

    def __call__(self) -> int:
        return self.now


@contextmanager
def store(kind: str, folder: str | None) -> Iterator[str]:
    if kind == "postgresql":
        with server(options=["shared_buffers=1GB", "max_wal_size=8GB"]) as started:
            yield started.url()
        return
    with tempfile.TemporaryDirectory(dir=folder) as found:
        yield f"sqlite:///{found}/x.db"


def timed(times: dict[str, float], what: str, work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    found = work()
    times[what] = round(time.perf_counter() - start, 4)
    return found


def increment(ledger: Ledger, done: int, step: int) -> None:
    """Ten thousand decisions and a thousand labels of rows of the last months."""
    rng, n = np.random.default_rng(step), 10_000
    now = ledger._database.now(None)  # type: ignore[arg-type]
    given = {
        "id": [f"new-{step}-{k}" for k in range(n)], "time": np.full(n, now),
        "bounds": np.ones((n, 3)), "score": rng.uniform(size=n), "flagged": np.zeros(n, bool),
        "probability": rng.uniform(size=n), "group_name": [f"group {k % 12}" for k in range(n)],
        "chance": np.full(n, 0.02), "drawn": rng.uniform(size=n) < 0.02,
    }  # fmt: skip
    ledger.append_decisions("x", given)
    late = done - rng.integers(1, done // 4, size=1000)
    ledger.append_labels([f"{k:012d}" for k in late], losses=rng.exponential(size=1000))


def reads(ledger: Ledger, cursor: int, before: int) -> dict[str, float]:
    """Everything that a status asks for."""
    times: dict[str, float] = {}
    timed(times, "evidence", lambda: ledger.evidence("x"))
    page = timed(
        times,
        "matured, drawn rows",
        lambda: ledger.matured("x", after_seq=cursor, written_before=before, only_drawn=True),
    )
    times["rows in it"] = len(page["seq"])
    recent = ("seq", "score", "probability", "group_name")
    rows = timed(
        times,
        "10,000 rows for drift",
        lambda: ledger.matured("x", after_seq=cursor, written_before=before, limit=10_000,
                               columns=recent),
    )  # fmt: skip
    times["rows for drift"] = len(rows["seq"])
    daily = timed(times, "daily sums", lambda: ledger.daily("x"))
    times["daily rows"] = len(daily["day"])
    timed(times, "totals", lambda: ledger.totals("x"))
    timed(times, "waiting and unpriced", lambda: (ledger.waiting_labels(), ledger.unpriced("x")))
    timed(times, "events", lambda: ledger.events("x"))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop filling after these")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--folder", help="where the SQLite file goes")
    options = parser.parse_args()
    with store(options.store, options.folder) as url:
        clock = Clock()
        ledger = Ledger(url, clock=clock)
        ledger.deploy(Deployment("x", (0.5, 0.2, 0.1), tau=1.0))
        began, n = time.perf_counter(), int(options.millions * 1e6)
        done = fill(ledger, n, options.seconds)
        filled = time.perf_counter() - began
        apart = DAYS * DAY // n
        end = START + done * apart
        # The evidence is a day behind: what it reads next is a day of rows that are old enough.
        cursor = done - (AGE + 1) * DAY // apart
        ledger.save_evidence("x", {"c": {}}, cursor=cursor, expected_version=0)
        runs = []
        for step in range(3):
            clock.now = end + step * 3600 * 10**6
            written: dict[str, float] = {}
            timed(written, "increment written", lambda step=step: increment(ledger, done, step))
            found = reads(ledger, cursor, clock.now - AGE * DAY)
            assert found["rows in it"] > 0, "nothing was old enough: no read was timed"
            assert found["rows for drift"] == 10_000, "too few rows a day: fill more millions"
            runs.append(written | found)
        ledger.close()
    report(options.store, done, (end - START) // DAY, filled, runs)


def report(kind: str, done: int, days: int, filled: float, runs: list[dict[str, float]]) -> None:
    worst = {what: max(run[what] for run in runs) for what in runs[0]}
    times = [w for w in worst if w not in COUNTS and w != "increment written"]
    total = max(sum(run[what] for what in times) for run in runs)
    load = round(os.getloadavg()[0], 1)
    kept = {"store": kind, "decisions": done, "days": days, "filled_seconds": round(filled)}
    kept |= {"status_seconds": round(total, 3), "load": load, "runs": runs}
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(kept) + "\n")
    lines = [f"## Reads of a status, {kind}", ""]
    lines += [
        f"`make watch-big-ledger`: {done:,} decisions of {days} days, filled in {filled:.0f} s; "
        f"{os.cpu_count()} cores, load {load}. Worst of three increments of 10,000 decisions and "
        f"1,000 late labels. All reads: {total:.2f} s.",
        "",
    ]
    lines += ["| | |", "|---|---:|"]
    lines += [f"| {what} | {worst[what]:,} s |" for what in times]
    lines += [f"| {what} | {worst[what]:,} |" for what in COUNTS]
    write_section(PAGE, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
