"""Run ``make certificates``: how much each certificate accepts on risks with known truth.

Records are appended as they come, one for each risk, number of rows and family of methods, so a
run that was stopped goes on where it was. ``--help`` has the options.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

from rich.progress import track

from benchmarks.certificates.methods import METHODS
from benchmarks.certificates.procedures import PROCEDURES
from benchmarks.certificates.report import write_page
from benchmarks.certificates.risks import DRAWS, JUDGED, SIMULATED, Risk, risks

RECORDS = Path(__file__).with_name("records.jsonl")
ROWS = (100, 200, 500, 1_000, 2_000, 5_000)
CERTIFICATES = 300  # of each risk and number of rows, over all draws of D1
FAMILIES = METHODS | PROCEDURES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--draws", type=int, default=DRAWS, help="of D1 for each table")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        done = {tuple(record["key"]) for record in read()}
        tasks = [
            (table, draw, family)
            for family in options.methods
            for draw in range(options.draws)
            for table in (*JUDGED, *SIMULATED)
        ]
        quiet = not os.isatty(2)
        for table, draw, family in track(tasks, "certificates", disable=quiet):
            for risk in risks(table, draw):
                for n in options.rows:
                    measure(risk, n, family, done)
    write_page(read())


def read() -> list[dict]:
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]


def measure(risk: Risk, n: int, family: str, done: set[tuple]) -> None:
    """Append the record of one risk, number of rows and family, unless it is there."""
    key = (risk.table, risk.draw, str(risk.quantile), risk.eta, n, family)
    if key in done or risk.largest_valid <= 0.0:
        return
    method, every = FAMILIES[family]
    samples = list(risk.samples(n, CERTIFICATES // DRAWS))[::every]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MAPIE says where nothing is valid
        found = method(risk, n, samples)
    results = {}
    for name, thresholds in found.items():
        share, broken = risk.outcome(thresholds)
        relative = share / risk.largest_valid
        spread = float(relative.std(ddof=1))
        results[name] = [float(relative.mean()), spread, int(broken.sum()), len(share)]
    record = {"key": key, "largest_valid": risk.largest_valid, "results": results}
    rounded = json.loads(json.dumps(record), parse_float=lambda text: float(f"{float(text):.5g}"))
    with RECORDS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    main()
