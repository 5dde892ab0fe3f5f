"""Latency of the service with a ledger, beside one without, at 500 rows per second.

Run ``make watch-service-latency``; about a minute on two cores, with client, services and
databases on the same machine. All services are asked at the same time, each at the full rate and
in turn, so that a machine that is busy with other things slows all of them alike.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.costs.service import ONE_THREAD, service
from benchmarks.pages import write_section
from locuscore import Locus, Scorer
from locuscore.datasets import load_diamonds
from postgres_for_tests import server

PAGE = Path(__file__).with_name("RESULTS.md")
RECORD = Path(__file__).with_name("service_latency.json")
RATE = 500.0  # rows per second
CONNECTIONS = 4
JSON = {"Content-Type": "application/json"}
Turns = dict[str, list[dict[str, float]]]
DURABLE = ["shared_buffers=256MB"]  # commits wait for the disk, as in use
LEDGER = "Settings(ledger=__import__('locuscore.service').service.LedgerSettings({!r}, {!r}))"


def fitted() -> tuple[Scorer, np.ndarray]:
    """Boosted trees on diamonds with their bound and a rule, and rows neither has seen."""
    X, y = load_diamonds(as_frame=False)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    g = HistGradientBoostingRegressor(random_state=0).fit(X[:5000], y[:5000])
    locus = Locus(g, random_state=0).fit(X[5000:9000], y[5000:9000])
    return Scorer(locus, locus.tau_rule(tau=1000, alpha=0.1)), X[9000:]


class Client:
    """Asks for some rows at a steady rate, on a few connections, whatever the answers do."""

    def __init__(self, X: np.ndarray, rows: int) -> None:
        parts = [X[k : k + rows].tolist() for k in range(0, 2000, rows)]
        self.bodies = [json.dumps({"rows": part}).encode() for part in parts]
        self.rows = rows

    def turn(self, port: int, start: float, seconds: float) -> dict[str, float]:
        """Median and 95 % of the latency in milliseconds, from a time on."""
        n = int(seconds * RATE / self.rows)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            parts = [range(k, n, CONNECTIONS) for k in range(CONNECTIONS)]
            found = list(pool.map(lambda part: self._ask(port, start, part), parts))
        times = np.concatenate(found) * 1000
        return {"median": float(np.median(times)), "high": float(np.quantile(times, 0.95))}

    def turns(self, ports: Mapping[str, int], seconds: float) -> dict[str, dict[str, float]]:
        """Ask all services at once, one after the other in each interval."""
        now, step = time.perf_counter() + 0.2, self.rows / RATE / len(ports)
        with ThreadPoolExecutor(len(ports)) as pool:
            asked = {
                name: pool.submit(self.turn, port, now + k * step, seconds)
                for k, (name, port) in enumerate(ports.items())
            }
        return {name: future.result() for name, future in asked.items()}

    def _ask(self, port: int, start: float, numbers: range) -> list[float]:
        connection = HTTPConnection("127.0.0.1", port)
        times = []
        for k in numbers:
            time.sleep(max(0.0, start + k * self.rows / RATE - time.perf_counter()))
            sent = time.perf_counter()
            connection.request("POST", "/score", self.bodies[k % len(self.bodies)], JSON)
            answer = connection.getresponse()
            content = answer.read()
            times.append(time.perf_counter() - sent)
            assert answer.status == 200, content
        connection.close()
        return times


def measured(folder: Path, seconds: float, rounds: int, rows: int) -> Turns:
    """Latencies of each service in each round."""
    scorer, X = fitted()
    path, client = folder / "diamonds.locus", Client(X, rows)
    scorer.save(path)
    with ExitStack() as stack:
        postgres = stack.enter_context(server(options=DURABLE)).url()
        stores = {"SQLite": f"sqlite:///{folder}/decisions.db", "PostgreSQL": postgres}
        settings = {"without": "Settings()"}
        settings |= {
            name: LEDGER.format(url, str(folder / f"spool {name}")) for name, url in stores.items()
        }
        ports = {name: stack.enter_context(service(path, s)) for name, s in settings.items()}
        found: Turns = {name: [] for name in ports}
        names = list(ports)
        for k in range(rounds + 1):
            order = names[k % len(names) :] + names[: k % len(names)]  # nobody is always first
            turns = client.turns({name: ports[name] for name in order}, seconds)
            for name in ports if k else ():  # the first round warms them up
                found[name].append(turns[name])
    return found


def lines(found: Turns, seconds: float, rows: int) -> list[str]:
    rounds = len(found["without"])
    table = [
        "## Service with a ledger",
        "",
        f"`make watch-service-latency`: {RATE:g} rows per second, {rows} in a request, in {rounds} "
        f"rounds of {seconds:g} s, for all services at the same time, on the same two cores with "
        "the client and the databases; g are boosted trees on diamonds. Ratios are of medians of "
        f"the same round; the load average was {os.getloadavg()[0]:.0f} on two cores.",
        "",
        "| ledger | median, ms | 95 %, ms | median, of the service without (range) | target |",
        "|---|---|---|---|---|",
    ]
    for name, turns in found.items():
        pairs = zip(turns, found["without"], strict=True)
        ratios = [one["median"] / other["median"] for one, other in pairs]
        told = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | at most 1.1"
        middle, high = (median(one[part] for one in turns) for part in ("median", "high"))
        compared = "1 | " if name == "without" else told
        table.append(f"| {name} | {middle:.2f} | {high:.1f} | {compared} |")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", type=int, default=10, help="in one request")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), options.seconds, options.rounds, options.rows)
    record: dict[str, Any] = {"rate": RATE, "rows": options.rows, "seconds": options.seconds}
    record |= {"load_average": os.getloadavg()[0], "turns": found}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    page = lines(found, options.seconds, options.rows)
    write_section(PAGE, page)
    print("\n".join(page))


if __name__ == "__main__":
    main()
