"""The benchmark's raw records survive kills: nothing lost, nothing twice."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from helpers import LONGEST_WAIT

pytestmark = pytest.mark.extra
ROOT = Path(__file__).parents[2]
METHODS = ["spread of g", "IFlag", "forest mean loss", "Locus"]
SEEDS = 2


def a_record(seed, method="Locus", **more):
    return {"dataset": "toy", "seed": seed, "method": method, **more}


def test_a_record_is_written_once(tmp_path):
    from benchmarks.paper import records

    assert records.append(a_record(0, value=1.0), tmp_path)
    assert not records.append(a_record(0, value=2.0), tmp_path)
    assert records.append(a_record(1, value=float("nan")), tmp_path)
    first, second = records.read(tmp_path)
    assert first["value"] == 1.0
    assert second["value"] is None


def test_a_torn_line_is_dropped_and_the_file_stays_whole(tmp_path):
    from benchmarks.paper import records

    records.append(a_record(0), tmp_path)
    path = tmp_path / "toy.jsonl"
    with path.open("ab") as file:
        file.write(b'{"dataset": "toy", "seed": 1, "meth')
    assert [record["seed"] for record in records.read(tmp_path)] == [0]
    records.append(a_record(1), tmp_path)
    assert [json.loads(line)["seed"] for line in path.read_text().splitlines()] == [0, 1]


def test_packing_keeps_every_record_and_none_twice(tmp_path):
    from benchmarks.paper import records

    records.append(a_record(0), tmp_path)
    records.append(a_record(1), tmp_path)
    with (tmp_path / "toy.jsonl").open("ab") as file:
        file.write(b'{"dataset": "toy", "seed": 2, "meth')
    before = (tmp_path / "toy.jsonl").read_bytes()
    records.pack(tmp_path)
    assert os.listdir(tmp_path) == ["toy.jsonl.xz"]
    packed = (tmp_path / "toy.jsonl.xz").read_bytes()
    assert not records.append(a_record(0, value=2.0), tmp_path)
    (tmp_path / "toy.jsonl").write_bytes(before)  # as if killed before the plain file was removed
    assert records.append(a_record(2), tmp_path)
    assert [record["seed"] for record in records.read(tmp_path)] == [0, 1, 2]
    (tmp_path / "toy.jsonl").write_bytes(before)
    records.pack(tmp_path)
    assert (tmp_path / "toy.jsonl.xz").read_bytes() == packed, "the same records, other bytes"


SMALL = ["--jobs", "1", "--most-rows", "300", "--trees", "5", "--methods", *METHODS]


def arguments(folder):
    return ["--datasets", "concrete", "--seeds", str(SEEDS), "--folder", str(folder), *SMALL]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Records of what ``make bench-smoke`` does, with few rows, trees and methods."""
    from benchmarks import datasets
    from benchmarks.paper.run import main

    if not (datasets.FOLDER / "concrete.csv.gz").exists():
        pytest.skip("the benchmark's data is not here")
    folder = tmp_path_factory.mktemp("smoke") / "records"
    assert main(["--smoke", "--folder", str(folder), *SMALL]) == 0
    return folder


def lines(folder):
    """Whole records so far; while it runs, they are plain lines."""
    path = folder / "concrete.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def comparable(folder):
    from benchmarks.paper import records

    timed = ("seconds", "versions")
    return {
        records.key(record): {k: v for k, v in record.items() if not k.endswith(timed)}
        for record in records.read(folder)
    }


def test_a_killed_run_goes_on_where_it_stopped(smoke, tmp_path, capsys):
    from benchmarks.paper import records
    from benchmarks.paper.run import main

    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "benchmarks.paper.run", *arguments(killed)]
    quiet = {"stdout": subprocess.DEVNULL, "start_new_session": True}
    process = subprocess.Popen(command, cwd=ROOT, **quiet)
    deadline = time.monotonic() + LONGEST_WAIT
    while len(lines(killed)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(ProcessLookupError):  # what it started; an idle one would wait for ever
        os.killpg(process.pid, signal.SIGKILL)
    assert len(lines(killed)) < SEEDS * len(METHODS), "the run ended before it was killed"
    with (killed / "concrete.jsonl").open("ab") as file:
        file.write(b'{"dataset": "conc')  # as if the kill had hit a write
    assert main(arguments(killed)) == 0
    assert os.listdir(killed) == ["concrete.jsonl.xz"]
    assert len(records.read(killed)) == len(comparable(killed)) == SEEDS * len(METHODS)
    # The smoke run has the same tasks, made in one go.
    whole = {key: record for key, record in comparable(smoke).items() if key[0] == "concrete"}
    assert comparable(killed) == whole
    capsys.readouterr()
    assert main(arguments(killed)) == 0
    assert "0 tasks, 0 records to make" in capsys.readouterr().out


def test_the_smoke_run_and_its_report(smoke, tmp_path, monkeypatch):
    from benchmarks.paper import report

    pairs = {(dataset, seed) for dataset, seed, _ in comparable(smoke)}
    assert pairs == {(dataset, seed) for dataset in ("airfoil", "concrete") for seed in (0, 1)}
    assert len(comparable(smoke)) == 4 * len(METHODS)
    out = tmp_path / "RESULTS.md"
    monkeypatch.setattr(sys, "argv", ["report", "--folder", str(smoke), "--out", str(out)])
    report.main()
    assert "## Comparison with other methods" in out.read_text()
    assert (tmp_path / "figures" / "overview.png").exists()
