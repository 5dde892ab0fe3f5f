"""Speed and memory of ``locuscore score`` on Parquet against the in-memory call; linear g.

Speed: rows per second of `scorer(frame)` on a pandas frame that is in memory already, before and
after each run of the command, and of the command from start to exit, by the clock and by the time
of the processor, which other work on the machine disturbs less. Memory: the peak of the command's
process for a small and a ten times larger file.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LinearRegression

from locuscore import Locus, Scorer

N_FEATURES = 8
IN_MEMORY_ROWS = 500_000
MEGABYTE = 2**20


def rows(n: int, seed: int) -> pd.DataFrame:
    """Draw features and a price whose noise depends on one of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.uniform(size=(n, N_FEATURES)), columns=list("abcdefgh"))
    noise = rng.normal(size=n)
    return frame.assign(price=frame.sum(axis=1) + frame["a"] * noise, id=np.arange(n))


def write_parquet(path: Path, n: int, group: int = 100_000) -> None:
    """Write n rows, never holding more than one row group."""
    first = pa.Table.from_pandas(rows(1, 0), preserve_index=False)
    with pq.ParquetWriter(path, first.schema) as writer:
        for start in range(0, n, group):
            part = rows(min(group, n - start), seed=start)
            writer.write_table(pa.Table.from_pandas(part, preserve_index=False))


class Clock:
    """Seconds by the clock and of the processor since it was made."""

    def __init__(self) -> None:
        self.start = np.array([time.perf_counter(), time.process_time()])

    def __call__(self) -> np.ndarray:
        return np.array([time.perf_counter(), time.process_time()]) - self.start


def in_memory(scorer: Scorer, frame: pd.DataFrame) -> np.ndarray:
    """Rows per second by the clock, and by the processor."""
    clock = Clock()
    scorer(frame)
    return len(frame) / clock()


def run(archive: Path, data: Path, output: Path) -> tuple[np.ndarray, float]:
    """Score a file with the command; return both times and the peak memory in megabytes."""
    command = [sys.executable, "-m", "locuscore", "score", str(archive), str(data)]
    clock = Clock()
    child = subprocess.Popen([*command, "--keep", "id", "-o", str(output), "--quiet"])
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"the command failed with status {status}")
    child.returncode = 0
    seconds = np.array([clock()[0], usage.ru_utime + usage.ru_stime])
    return seconds, usage.ru_maxrss * 1024 / MEGABYTE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=1_000_000, help="rows of the small file")
    parser.add_argument("--factor", type=int, default=10, help="how many times larger the other is")
    options = parser.parse_args()
    train, calibration = rows(5000, seed=1), rows(5000, seed=2)
    names = list("abcdefgh")
    g = LinearRegression().fit(train[names], train["price"])
    locus = Locus(g, random_state=0).fit(calibration[names], calibration["price"])
    scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1), alphas=(0.1, 0.05))
    frame = rows(IN_MEMORY_ROWS, seed=3)[names]
    scorer(frame[:100_000])  # warm
    peaks = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scorer.save(folder / "guard.locus")
        for n in (options.small, options.small * options.factor):
            write_parquet(folder / "rows.parquet", n)
            before = in_memory(scorer, frame)
            seconds, peak = run(folder / "guard.locus", folder / "rows.parquet", folder / "o.pq")
            speed = (before + in_memory(scorer, frame)) / 2
            peaks.append(peak)
            for how, there, here in zip(("clock", "processor"), n / seconds, speed, strict=True):
                print(
                    f"{n:,} rows, {how}: command {there:,.0f} rows/s, in memory {here:,.0f}, "
                    f"ratio {there / here:.2f}; peak {peak:,.0f} MB",
                    flush=True,
                )
    print(f"peak memory of the larger file: {peaks[1] / peaks[0]:.3f}x that of the smaller")


if __name__ == "__main__":
    main()
