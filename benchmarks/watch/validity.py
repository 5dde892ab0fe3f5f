"""How often do alarms ring while every promise is kept? ``make watch-validity``.

Each setting of `healthy` is simulated 2,000 times, with D2 redrawn in each. A run may be killed at
any moment: the next one makes the batches that are missing. ``--report`` only writes the page.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks.pages import write_section
from benchmarks.watch.healthy import DELTA, RUN_LENGTH, SETTINGS, TWINS, Stream, run_length

PAGE, RECORDS = (Path(__file__).with_name(name) for name in ("RESULTS.md", "validity.jsonl"))
STREAMS, ROWS, BATCH = 2_000, 3_000, 100
RUNS = 2_000
ALL: dict[str, Stream] = {**SETTINGS, **TWINS}
DETECTORS = ("run length, certificate", "run length, coverage")


def records() -> list[dict]:
    """The batches there are."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [json.loads(line) for line in lines]


def keep(record: dict) -> None:
    """Add a batch to the file."""
    with RECORDS.open("a") as file:
        file.write(json.dumps(record) + "\n")


def run() -> None:
    """Make the batches that are missing; settings take turns, so that a stopped run is balanced."""
    done = {(record["setting"], record["first"]) for record in records()}
    for first in range(0, STREAMS, BATCH):
        for i, (name, stream) in enumerate(ALL.items()):
            if (name, first) not in done:
                seeds = range(first, first + BATCH)
                alarms = sum(stream(np.random.default_rng([i, seed]), ROWS) for seed in seeds)
                keep({"setting": name, "first": first, "streams": BATCH, "alarms": int(alarms)})
        for i, name in enumerate(DETECTORS):
            if (name, first) not in done:
                seeds = range(first, first + BATCH)
                runs = [run_length(np.random.default_rng([50 + i, s]), i == 1) for s in seeds]
                keep({"setting": name, "first": first, "streams": BATCH, "rows": int(sum(runs))})


def page() -> None:
    """Write the section of the page."""
    streams, alarms, rows = Counter(), Counter(), Counter()
    for record in records():
        streams[record["setting"]] += record["streams"]
        alarms[record["setting"]] += record.get("alarms", 0)
        rows[record["setting"]] += record.get("rows", 0)
    lines = [
        "## Validity",
        "",
        f"`make watch-validity`: streams of {ROWS:,} rows that keep their promise, D2 redrawn in "
        f"each. An alarm may ever be raised in at most {DELTA:.0%} of them. The p-value is that of "
        f'"at most {DELTA:.0%}", exact. The last {len(TWINS)} are wrong on purpose and must be '
        "caught. Most settings keep their promise with nothing to spare; alarms are rarer than "
        f"{DELTA:.0%} because a stream ends, and start times that are still to come have a part of "
        "the error.",
        "",
        "| setting | streams | alarms | share | p-value |",
        "|---|---|---|---|---|",
    ]
    for name, stream in ALL.items():
        if n := streams[name]:
            p = binomtest(alarms[name], n, DELTA, "greater").pvalue
            wrong = "wrong on purpose: " if name in TWINS else ""
            text = (stream.__doc__ or name).strip().rstrip(".")
            lines.append(
                f"| {wrong}{text} | {n:,} | {alarms[name]:,} | {alarms[name] / n:.2%} | {p:.2g} |"
            )
    means = "; ".join(
        f"{name.split(', ')[1]} {rows[name] / streams[name]:,.0f}"
        for name in DETECTORS
        if streams[name]
    )
    lines += [
        "",
        f"Detectors that promise {RUN_LENGTH} rows on average before a false call needed, on "
        f"average over {streams[DETECTORS[0]]:,} runs: {means} (runs were cut at "
        f"{50 * RUN_LENGTH:,} rows).",
    ]
    write_section(PAGE, lines)


if __name__ == "__main__":
    if "--report" not in sys.argv:
        run()
    page()
