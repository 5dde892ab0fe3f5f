"""The service beside the same scorer in memory, as ratios of one run.

Run ``make costs-service``; about five minutes on two cores, with the client on the same machine.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
from sklearn.ensemble import RandomForestRegressor

from benchmarks.pages import write_section
from locuscore import Locus, Scorer
from locuscore.datasets import load_diamonds

PAGE = Path(__file__).with_name("RESULTS.md")
CLIENT = Path(__file__).with_name("load.py")
ARROW = "application/vnd.apache.arrow.stream"
CONNECTIONS = 100
ALONE = "Settings(max_batch_rows=1, gather_seconds=0)"
START = """
import sys
from locuscore.service import Settings, serve
serve(sys.argv[1], port=0, settings={})
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def fitted() -> tuple[Scorer, np.ndarray]:
    """A forest of 300 trees on diamonds with its bound, and rows neither has seen."""
    X, y = load_diamonds(as_frame=False)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    g = RandomForestRegressor(300, random_state=0, n_jobs=2).fit(X[:5000], y[:5000])
    g.n_jobs = None
    locus = Locus(g, random_state=0).fit(X[5000:9000], y[5000:9000])
    return Scorer(locus, locus.tau_rule(tau=1000, alpha=0.1)), X[9000:]


@contextmanager
def service(path: Path, settings: str = "Settings()") -> Iterator[int]:
    """The port of a service in a process of its own."""
    command = [sys.executable, "-c", START.format(settings), str(path)]
    child = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD
    )
    assert child.stderr is not None
    found = None
    for line in child.stderr:
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found:
            break
    threading.Thread(target=child.stderr.read, daemon=True).start()
    try:
        assert found is not None, "the service did not start"
        yield int(found[1])
    finally:
        child.terminate()
        child.wait()


def load(port: int, cases: Path, seconds: float, rate: float = 0) -> dict[str, Any]:
    """What a client saw: answers by status, and how long they took."""
    given = [port, cases, seconds, CONNECTIONS, rate]
    command = [sys.executable, str(CLIENT), *map(str, given)]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, check=True).stdout
    )
    found["rate"] = found["statuses"].get("200", 0) / found["took"]
    assert not found["statuses"].get("wrong"), "an answer was wrong"
    return found


def batching(path: Path, cases: Path, seconds: float, rounds: int) -> list[str]:
    """Requests per second with and without micro-batches, taken in turns."""
    together, alone = [], []
    with service(path) as many, service(path, ALONE) as one:
        for port in (many, one):
            load(port, cases, 1)
        for _ in range(rounds):
            together.append(load(many, cases, seconds)["rate"])
            alone.append(load(one, cases, seconds)["rate"])
    ratios = [a / b for a, b in zip(together, alone, strict=True)]
    return [
        f"| single rows gathered, of each alone ({median(together):.0f} and {median(alone):.0f} "
        f"requests/s, {CONNECTIONS} clients) | {spread(ratios)} | at least 5 |"
    ]


def overload(path: Path, cases: Path, seconds: float) -> list[str]:
    """Twice the load that can be carried, whatever comes back; nothing may be wrong or lost."""
    with service(path) as port:
        load(port, cases, 1)
        # The best of three, so that it is twice the load also on a machine with others on it.
        capacity = max(load(port, cases, 5)["rate"] for _ in range(3))
        found = load(port, cases, seconds, 2 * capacity)
        again = load(port, cases, 5)["rate"]
    statuses, times = found["statuses"], found["seconds"]
    answered, shed = statuses.get("200", 0), statuses.get("503", 0)
    wrong = statuses.get("wrong", 0)
    lost = statuses.get("lost", 0)
    other = statuses["sent"] - answered - shed - wrong - lost
    assert not lost + other, f"{lost} requests were lost and {other} answered otherwise"

    def milliseconds(status: str) -> str:
        values = np.array(times[status] or [np.nan]) * 1000
        return f"{np.median(values):.0f} | {np.quantile(values, 0.99):.0f}"

    return [
        "## Service at twice the load it can carry",
        "",
        f"{2 * capacity:.0f} requests/s offered for {seconds:g} s, each a row whose bound is "
        "known; every answer is compared with it. Made by `make costs-service`, client and service "
        f"on the same machine. Carried before: {capacity:.0f} requests/s, afterwards {again:.0f}; "
        f"at the end {os.getloadavg()[0]:.0f} processes shared {os.cpu_count()} cores.",
        "",
        "| answer | requests | per second | median, ms | 99 %, ms |",
        "|---|---|---|---|---|",
        f"| 200, and right | {answered} | {answered / found['took']:.0f} | {milliseconds('200')} |",
        f"| 503, shed | {shed} | {shed / found['took']:.0f} | {milliseconds('503')} |",
        f"| wrong | {wrong} | | | |",
        f"| lost | {lost} | | | |",
        f"| another status | {other} | | | |",
    ]


def arrow(path: Path, scorer: Scorer, X: np.ndarray, rounds: int) -> list[str]:
    """Rows per second of Arrow batches through the service, of the same call in memory."""
    table = pa.table({f"x{j}": X[:10_000, j] for j in range(X.shape[1])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body, ratios, rates = sink.getvalue().to_pybytes(), [], []
    with service(path) as port, httpx.Client(timeout=60) as client:

        def ask() -> None:
            headers = {"content-type": ARROW}
            answer = client.post(f"http://127.0.0.1:{port}/score", content=body, headers=headers)
            got = pa.ipc.open_stream(answer.content).read_all()
            assert got.num_rows == table.num_rows

        for _ in range(rounds + 1):
            own = timed(lambda: scorer(table))
            served = timed(ask)
            ratios.append(own / served)
            rates.append(table.num_rows / served)
    return [
        f"| Arrow batches of 10,000 rows, rows/s of the call in memory ({median(rates[1:]):.0f} "
        f"rows/s) | {spread(ratios[1:])} | at least 0.6 |"
    ]


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def spread(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of overload")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("ratios", "overload"), help="one of the two sections")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    scorer, X = fitted()
    with tempfile.TemporaryDirectory() as folder:
        path, cases = Path(folder) / "diamonds.locus", Path(folder) / "cases.json"
        scorer.save(path)
        bounds = scorer(X[:2000])["bound_0.1"].tolist()
        known = zip(X[:2000].tolist(), bounds, strict=True)
        cases.write_text(json.dumps([{"row": row, "bound": bound} for row, bound in known]))
        if options.only != "overload":
            show(ratios(path, cases, scorer, X, options.rounds))
        if options.only != "ratios":
            show(overload(path, cases, options.seconds))


def ratios(path: Path, cases: Path, scorer: Scorer, X: np.ndarray, rounds: int) -> list[str]:
    """What gathering and the way over HTTP cost."""
    return [
        "## Service under load",
        "",
        "Made by `make costs-service` on two cores, client and service on the same machine, g a "
        "forest of 300 trees on diamonds; ratios are taken side by side in one run.",
        "",
        "| what | ratio (median, range) | target |",
        "|---|---|---|",
        *batching(path, cases, 5, rounds),
        *arrow(path, scorer, X, rounds),
    ]


def show(lines: list[str]) -> None:
    write_section(PAGE, lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
