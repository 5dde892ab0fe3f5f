"""Single rows over HTTP, beside the service of an earlier commit and beside the call in memory."""

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.speed.figures import Figure, ratios
from benchmarks.speed.startup import SOURCE, serving
from benchmarks.speed.subjects import diamonds, fitted
from locuscore import Scorer

TITLE = "Service"
BEFORE = "9b537e2"
ABOUT = (
    "One row in a request, linear g, the client a process of raw sockets on the same two cores. "
    f"Rates are beside the service of commit {BEFORE}, in turns; latency is beside the same "
    "`Scorer` called on one row in this process, both by the clock."
)
CLIENT = Path(__file__).with_name("light_client.py")
ROUNDS, SECONDS, CLIENTS = 5, 4, 16


def earlier(folder: str) -> Path:
    """The source of the earlier commit."""
    packed = subprocess.run(["git", "archive", BEFORE, "src"], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
    return Path(folder) / "src"


def ask(port: int, bodies: Path, clients: int) -> dict[str, Any]:
    command = [sys.executable, str(CLIENT), *map(str, (port, bodies, clients, SECONDS))]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, check=True).stdout
    )
    assert not found["failed"], "an answer was no score"
    return found


def rate(port: int, bodies: Path, clients: int) -> float:
    found = ask(port, bodies, clients)
    return found["answers"] / found["took"]


def in_memory(scorer: Scorer, calls: int = 300) -> float:
    """Median seconds of a call on one row."""
    rows, times = diamonds().new[:calls], []
    for i in range(calls):
        start = perf_counter()
        scorer(rows[i : i + 1])
        times.append(perf_counter() - start)
    return median(times)


def figures() -> Iterator[Figure]:
    locus = fitted()
    scorer = Scorer(locus, locus.tau_rule(tau=1000, alpha=0.1))
    with tempfile.TemporaryDirectory() as folder:
        path, bodies = Path(folder) / "linear.locus", Path(folder) / "bodies.jsonl"
        scorer.save(path)
        lines = [json.dumps({"rows": [row]}) for row in diamonds().new[:2000].tolist()]
        bodies.write_text("\n".join(lines))
        now: list[float] = []
        before: list[float] = []
        waited: list[float] = []
        called: list[float] = []
        with serving(path, SOURCE) as (_, new), serving(path, earlier(folder)) as (_, old):
            for number in range(ROUNDS + 1):
                found = [rate(new, bodies, CLIENTS), rate(old, bodies, CLIENTS)]
                alone = [median(ask(new, bodies, 1)["seconds"]), in_memory(scorer)]
                if number:
                    for kept, value in zip((now, before), found, strict=True):
                        kept.append(value)
                    for kept, value in zip((waited, called), alone, strict=True):
                        kept.append(value)
    yield ratios(f"rows per second, {CLIENTS} clients", now, before, f"commit {BEFORE}", least=3)
    yield Figure(f"rows per second, {CLIENTS} clients", tuple(now), unit="/s")
    yield ratios("latency, one client", waited, called, "`Scorer` in memory", most=2.5)
