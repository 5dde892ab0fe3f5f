"""Rows per second into and out of a ledger, on SQLite and PostgreSQL.

Run ``make watch-ledger-speed``; a minute on two quiet cores. Commits wait for the disk in both
databases, as they do in use. CPU is that of this process; a server has its own.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import write_section
from locuscore.watch._ledger import Deployment, Ledger
from postgres_for_tests import server

PAGE = Path(__file__).with_name("RESULTS.md")
START = 1_700_000_000_000_000
DURABLE = ["shared_buffers=256MB", "max_wal_size=4GB"]


def columns(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Decisions with random ids, three bounds and twelve groups, 2 % of them audited."""
    raw = rng.bytes(16 * n).hex()
    return {
        "id": [raw[32 * k : 32 * k + 32] for k in range(n)],
        "time": START + rng.integers(0, 7 * 86_400 * 10**6, size=n),
        "prediction": rng.normal(size=n),
        "bounds": rng.exponential(size=(n, 3)),
        "score": rng.normal(size=n),
        "probability": rng.uniform(size=n),
        "flagged": rng.uniform(size=n) < 0.2,
        "group_name": [f"group {k}" for k in rng.integers(12, size=n)],
        "chance": np.full(n, 0.02),
        "drawn": rng.uniform(size=n) < 0.02,
    }


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """Addresses of one empty ledger of each kind."""
    with tempfile.TemporaryDirectory() as folder, server(options=DURABLE) as started:
        yield {"SQLite": f"sqlite:///{folder}/x.db", "PostgreSQL": started.url()}


def rate(n: int, work: Callable[[], object]) -> tuple[float, float]:
    """Rows per second, and per second of this process's CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return n / (time.perf_counter() - wall), n / (time.process_time() - cpu)


def measured(url: str, n: int) -> dict[str, tuple[float, float]]:
    rng, ledger = np.random.default_rng(0), Ledger(url)
    ledger.deploy(Deployment("x", (0.5, 0.2, 0.1), tau=1.0))
    ledger.append_decisions("x", columns(rng, 1000))
    many, ones = columns(rng, n), columns(rng, 200)
    few = n // 5
    labels = {"losses": rng.exponential(size=few), "times": many["time"][:few] + 10}
    found = {"decisions, at once": rate(n, lambda: ledger.append_decisions("x", many))}
    parts = [columns(rng, 500) for _ in range(20)]
    found["decisions, 500 at a time"] = rate(
        10_000, lambda: [ledger.append_decisions("x", part) for part in parts]
    )
    single = [{name: values[k : k + 1] for name, values in ones.items()} for k in range(200)]
    found["decisions, one by one"] = rate(
        200, lambda: [ledger.append_decisions("x", one) for one in single]
    )
    found["the same decisions again"] = rate(n, lambda: ledger.append_decisions("x", many))
    ids = many["id"][:few]
    found["labels"] = rate(few, lambda: ledger.append_labels(ids, **labels))
    labels = {"losses": rng.exponential(size=few), "times": many["time"][:few] + 20}
    found["corrected labels"] = rate(few, lambda: ledger.append_labels(ids, **labels))
    found["rows read with their labels"] = rate(
        n, lambda: ledger.matured("x", after_seq=0, written_before=2**60, limit=n)
    )
    ledger.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    n = parser.parse_args().rows
    with stores() as urls:
        results = {name: measured(url, n) for name, url in urls.items()}
    load = os.getloadavg()[0]
    lines = ["## Rows per second of a ledger", ""]
    lines += [f"`make watch-ledger-speed`, {n:,} rows with three bounds and random ids; "
              f"{os.cpu_count()} cores, load {load:.1f}. In brackets: per second of the client's "
              "own CPU.", ""]  # fmt: skip
    lines += ["| | " + " | ".join(results) + " |", "|---|" + "---:|" * len(results)]
    for what in next(iter(results.values())):
        cells = [f"{one[what][0]:,.0f} ({one[what][1]:,.0f})" for one in results.values()]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    write_section(PAGE, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
