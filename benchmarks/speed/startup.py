"""How long it takes until something happens: the command line, an import, a first score."""

import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import locuscore
from benchmarks.speed.figures import Figure, ratios
from benchmarks.speed.subjects import diamonds, fitted
from locuscore import Locus, Scorer

TITLE = "Start-up"
ABOUT = (
    "New processes, in processor time but for the service, which is timed by the clock until it "
    "answers `/readyz`. `score` and the service load an archive with all its checks."
)
ROUNDS = 7
SOURCE = Path(locuscore.__file__).parents[1]
SERVE = "import sys; from locuscore.service import serve; serve(sys.argv[1], port=0)"


def processor_seconds(*words: str) -> float:
    """Time of a new Python, its start and end included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment(SOURCE))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment(source: Path) -> dict[str, str]:
    """Return the environment of a process that imports the package from a folder, on one thread."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return os.environ | threads | {"PYTHONPATH": str(source)}


@contextmanager
def serving(path: Path, source: Path = SOURCE) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A service in a process of its own, when it is ready, and its port."""
    command = [sys.executable, "-c", SERVE, str(path)]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(source))
    assert child.stderr is not None
    try:
        found = next(filter(None, (re.search(r"127\.0\.0\.1:(\d+)", x) for x in child.stderr)))
        threading.Thread(target=child.stderr.read, daemon=True).start()
        yield child, int(found[1])
    finally:
        child.terminate()
        child.wait()


def ready_seconds(path: Path) -> float:
    start = time.perf_counter()
    with serving(path):
        return time.perf_counter() - start


def figures() -> Iterator[Figure]:
    new = diamonds().new[:1000]
    locus = fitted()
    with tempfile.TemporaryDirectory() as folder:
        archive, large = Path(folder) / "linear.locus", Path(folder) / "forest.locus"
        rows, out = Path(folder) / "rows.parquet", Path(folder) / "out.parquet"
        Scorer(locus, locus.tau_rule(tau=1000, alpha=0.1)).save(archive)
        names = [str(name) for name in locus.schema_.names]
        pd.DataFrame(new, columns=names).to_parquet(rows)
        forest = RandomForestRegressor(300, random_state=0).fit(*diamonds().train)
        Scorer(Locus(forest, random_state=0).fit(*diamonds().labelled)).save(large)
        words = {
            "version": ("-m", "locuscore", "--version"),
            "help": ("-m", "locuscore", "--help"),
            "Locus": ("-c", "from locuscore import Locus"),
            "sklearn": ("-c", "import sklearn.ensemble"),
            "score": ("-m", "locuscore", "score", str(archive), str(rows), "-o", str(out)),
        }
        times: dict[str, list[float]] = {name: [] for name in words}
        for number in range(ROUNDS + 1):
            for name, command in words.items():
                out.unlink(missing_ok=True)
                found = processor_seconds(*command)
                if number:
                    times[name].append(found)
        ready = tuple(ready_seconds(large) for _ in range(3))
    for name in ("version", "help"):
        yield Figure(f"`locuscore --{name}`", tuple(times[name]), most=0.4, unit="s")
    yield ratios(
        "`from locuscore import Locus`",
        times["Locus"],
        times["sklearn"],
        "`import sklearn.ensemble`",
        most=1.1,
    )
    yield Figure("`locuscore score` of 1,000 rows", tuple(times["score"]), most=2.5, unit="s")
    yield Figure("service ready, g a forest of 300 trees", ready, most=3.0, unit="s")
