"""Spark on two executors beside one process, on the same rows."""

import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from sklearn.ensemble import RandomForestRegressor

import locuscore
from benchmarks.speed.figures import Figure, in_turns, ratios, seconds, two_processes
from benchmarks.speed.subjects import diamonds
from locuscore import Locus, Scorer
from locuscore.spark import score_frame

TITLE = "Spark"
ABOUT = (
    "A local cluster of two executors with one core each, 200,000 rows of diamonds, g a forest of "
    "300 trees on one thread. Times are those of the clock on the wall, for which the machine must "
    "have nothing else to do; processor time is that of the JVM and all Python processes, so with "
    "no other cost than scoring it would be 1, and the speed-up on two cores 2 over it. The first "
    "run starts the Python processes and sends the scorer; what of it Spark and scikit-learn take "
    "for any function is measured in a second cluster."
)
ROUNDS, N_ROWS = 3, 200_000
WALL = time.perf_counter


def scorer() -> Scorer:
    (X, y), labelled = diamonds().train, diamonds().labelled
    g = RandomForestRegressor(300, random_state=0, n_jobs=2).fit(X[:5000], y[:5000])
    g.n_jobs = None
    locus = Locus(g, random_state=0).fit(labelled[0][:4000], labelled[1][:4000])
    return Scorer(locus, locus.tau_rule(tau=1000, alpha=0.1))


@contextmanager
def session() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    found = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "FATAL")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.PYTHONPATH", str(Path(locuscore.__file__).parents[1]))
        .config("spark.executorEnv.OMP_NUM_THREADS", "1")
        # Else a task waits up to three seconds for the core beside its cached rows, though the
        # other one has nothing to do.
        .config("spark.locality.wait", "0s")
        .getOrCreate()
    )
    name = found.sparkContext.applicationId
    try:
        yield found
    finally:
        found.stop()
        # The executors of a local cluster leave their logs beside Spark itself.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / name, ignore_errors=True)


def processor_seconds() -> float:
    """Time that this process and all that it has started have had, as /proc tells it."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        pid = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    found, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        found += ticks.get(pid, 0)
        waiting += children.get(pid, [])
    return found / os.sysconf("SC_CLK_TCK")


def same_rows(batches: Iterable[Any]) -> Iterator[Any]:
    """Return what comes: what any function of Arrow batches costs."""
    yield from batches


def same_rows_with_imports(batches: Iterable[Any]) -> Iterator[Any]:
    """Do so after importing what the scorer needs."""
    importlib.import_module("locuscore.spark")
    importlib.import_module("sklearn.ensemble")
    yield from batches


def starts(table: pa.Table, first: float, later: Sequence[float]) -> Iterator[Figure]:
    """What of the first run is Spark's own start and that of Python's packages."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        path = str(Path(folder) / "rows.parquet")
        pq.write_table(table, path)
        rows = spark.read.parquet(path).repartition(4).cache()
        rows.count()

        def extra(function: Callable[..., Any]) -> float:
            """What the first run takes beyond the second."""
            made = rows.mapInArrow(function, rows.schema)
            took = [seconds(made.write.format("noop").mode("overwrite").save, WALL) for _ in "12"]
            return took[0] - took[1]

        spark_starts, packages = extra(same_rows), extra(same_rows_with_imports)
    for what, found in (
        ("of that, the start of Spark's own processes", spark_starts),
        ("of that, imports of scikit-learn and its kind", packages),
        ("of that, to receive and open the scorer", None),
    ):
        times = [first - one - spark_starts - packages if found is None else found for one in later]
        yield ratios(what, times, list(later), "later runs")


def figures() -> Iterator[Figure]:
    own, new = scorer(), diamonds().new
    rows = np.tile(new, (-(-N_ROWS // len(new)), 1))[:N_ROWS]
    table = pa.table({f"x{j}": rows[:, j] for j in range(rows.shape[1])})
    halves = table.slice(0, N_ROWS // 2), table.slice(N_ROWS // 2)
    with two_processes(own, halves) as both:
        calls = {"one": lambda: own(table), "two": both}
        bare = in_turns(calls, ROUNDS, clock=WALL)
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        path = str(Path(folder) / "rows.parquet")
        pq.write_table(table, path)
        file = spark.read.parquet(path)
        given = file.rdd.getNumPartitions()
        spread = spark.read.parquet(path).repartition(4).cache()
        spread.count()

        def run(df: Any) -> Callable[[], None]:
            scored = score_frame(own, df)
            return lambda: scored.write.format("noop").mode("overwrite").save()

        from_four, from_file = run(spread), run(file)
        first = seconds(from_four, WALL)
        alone, later, files, used, used_alone = [], [], [], [], []
        for _ in range(ROUNDS):
            before = processor_seconds()
            alone.append(seconds(lambda: own(table), WALL))
            middle = processor_seconds()
            later.append(seconds(from_four, WALL))
            used.append(processor_seconds() - middle)
            used_alone.append(middle - before)
            files.append(seconds(from_file, WALL))
    yield ratios("rows a second on two executors", alone, later, "one process", least=1.6)
    yield ratios(
        f"the same from one file, read as {given} partition", alone, files, "one process", least=1.6
    )
    what = "rows a second in two processes that share nothing, without Spark"
    yield ratios(what, bare["one"], bare["two"], "one process")
    yield ratios("first run", [first] * ROUNDS, later, "later runs", most=1.5)
    yield from starts(table, first, later)
    yield ratios("processor time of a run", used, used_alone, "one process", most=1.25)
    yield Figure("one process", tuple(1e6 * t / N_ROWS for t in alone), unit="us a row")
