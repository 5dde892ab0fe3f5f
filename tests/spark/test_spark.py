"""Spark with two executor processes: the scores of memory, also when an executor is killed."""

import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import locuscore
from archives_for_tests import LOSS_MODELS, two_outputs
from helpers import LONGEST_WAIT, raises, shown_block
from locuscore import Locus, Scorer
from locuscore.engines import Forest
from predictors_for_tests import given_to_load, given_to_save, rows_of, scorer_of
from service_for_tests import frame, frame_scorer

pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("default"),  # Spark's own, of which there are many
]
SOURCES = Path(locuscore.__file__).parents[1]


@pytest.fixture(scope="module")
def spark():
    import pyspark
    from pyspark.sql import SparkSession

    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17")
    changed = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "FATAL")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.PYTHONPATH", str(SOURCES))
        .config("spark.executorEnv.OMP_NUM_THREADS", "1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
        .getOrCreate()
    )
    yield session
    name = session.sparkContext.applicationId
    session.stop()
    # The executors of a local cluster leave their logs beside Spark itself.
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / name, ignore_errors=True)
    for variable, value in before.items():
        os.environ.pop(variable) if value is None else os.environ.update({variable: value})


def keyed(n=300):
    X, _ = frame(n, seed=5)
    return X, X.astype({"state": str}).assign(key=np.arange(n), note="x")


def by_key(df):
    return df.toPandas().sort_values("key").reset_index(drop=True)


def assert_same(got, expected):
    assert list(got.columns) == ["key", *expected.columns]
    for name in expected.columns:
        if name == "flag":
            assert (got[name] == expected[name]).all()
        else:
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-9, atol=0)


@pytest.mark.parametrize("model", ["Forest", "Auto with gamma"])
def test_the_same_scores_as_in_memory(spark, model):
    from locuscore.spark import score_frame

    X, given = keyed()
    df = (
        spark.createDataFrame(given)
        .repartition(4)
        .select("note", "state", *given.columns[:3], "key")
    )
    scorer = frame_scorer(model=model)
    assert_same(by_key(score_frame(scorer, df, keep=["key"])), scorer(X))


@pytest.mark.parametrize("name", ["xgboost in a pipeline", "onnx"])
def test_predictors_of_other_libraries_score_as_in_memory(spark, name, tmp_path):
    from locuscore.spark import score_frame

    scorer, (X, _) = scorer_of(name), rows_of(name, 60, 1)
    scorer.save(tmp_path / "x.locus", **given_to_save(name))
    loaded = Scorer.load(tmp_path / "x.locus", **given_to_load(name))
    text = {"state": str} if "state" in X else {}
    df = spark.createDataFrame(X.astype(text).assign(key=np.arange(60))).repartition(2)
    assert_same(by_key(score_frame(loaded, df, keep=["key"])), scorer(X))


EXECUTOR = """
import pickle, sys
import pyarrow as pa

functions, batches = pickle.load(open(sys.argv[1], "rb"))
for model, score in functions.items():
    table = pa.Table.from_batches(score(iter(batches)))
    table.to_pandas().to_pickle(sys.argv[2] + model)
"""


def test_every_loss_model_scores_in_a_process_of_its_own(tmp_path):
    """What Spark sends, opened and run as by an executor: the rest is the same for all models."""
    import pandas as pd
    import pyarrow as pa
    from pyspark import cloudpickle

    from locuscore.spark import Parcel, _scoring, _sent

    X, given = keyed()
    names = list(X.columns)
    batches = pa.Table.from_pandas(given[[*names, "key"]]).to_batches(max_chunksize=50)
    scorers = {model: frame_scorer(model=model) for model in LOSS_MODELS}
    functions = {}
    for model, scorer in scorers.items():
        parcel = Parcel.of(scorer.without_rows())
        opened = _sent(SimpleNamespace(sparkSession=None), parcel)
        functions[model] = _scoring(opened, [*names, "key"], names, ["key"])
    source, result = tmp_path / "sent", tmp_path / "got "
    source.write_bytes(cloudpickle.dumps((functions, batches)))
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EXECUTOR, source, result],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        check=True,
        cwd=tmp_path,
        timeout=LONGEST_WAIT,
    )
    for model, scorer in scorers.items():
        assert_same(pd.read_pickle(f"{result}{model}"), scorer(X))


def test_several_outputs_and_a_classic_session(spark):
    from pyspark.sql.classic.dataframe import DataFrame

    from locuscore.spark import score_frame

    X, y = frame(200)
    numbers = X[["size", "rooms"]]
    scorer = two_outputs(numbers, y)
    df = spark.createDataFrame(numbers.assign(key=np.arange(200)))
    assert isinstance(df, DataFrame)  # not of Spark Connect
    out = score_frame(scorer, df, keep=["key"])
    assert out.columns[:3] == ["key", "prediction_0", "prediction_1"]
    assert_same(by_key(out), scorer(numbers))


def test_arrays_labels_and_columns(spark):
    from sklearn.linear_model import LogisticRegression

    from locuscore.spark import score_frame

    X = np.random.default_rng(0).uniform(size=(120, 2))
    labels = np.where(X[:, 0] > 0.5, "high", "low")
    g = LogisticRegression().fit(X, labels)
    locus = Locus(g, loss="zero_one", engine=Forest(n_trees=2), random_state=0).fit(X, labels)
    scorer = Scorer(locus)
    df = spark.createDataFrame(
        [(i, *map(float, x)) for i, x in enumerate(X)], ["key", "a.b", "c`d"]
    )
    out = by_key(score_frame(scorer, df, keep=["key"]))
    assert list(out["prediction"]) == list(scorer(X)["prediction"])
    with raises(ValueError, "2 columns", "['key', 'a.b', 'c`d']"):
        score_frame(scorer, df)
    with raises(ValueError, "['nothing']", "['key', 'a.b', 'c`d']"):
        score_frame(scorer, df, keep=["nothing"])
    with raises(ValueError, "rename", "['prediction']"):
        score_frame(scorer, df.withColumnRenamed("key", "prediction"), keep=["prediction"])
    with raises(ValueError, "missing", "['size', 'rooms'"):
        score_frame(frame_scorer(), df)


class Counted:
    """A predictor that leaves a file wherever it is opened, and where garbage is looked for."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, X):
        if gc.get_freeze_count() == 0:
            (Path(self.folder) / "slow-task").touch()
        return X[:, 0]

    def __setstate__(self, state):
        vars(self).update(state)
        (Path(self.folder) / f"{os.getpid()}-{time.time_ns()}").touch()


def test_a_process_opens_the_scorer_once(spark, tmp_path):
    from pyspark import cloudpickle

    from locuscore.spark import score_frame

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors have no tests
    X = np.random.default_rng(0).uniform(size=(400, 2))
    locus = Locus(Counted(str(tmp_path)), engine=Forest(n_trees=2), random_state=0)
    scorer = Scorer(locus.fit(X, X[:, 1]))
    (tmp_path / "slow-task").unlink()  # of this process
    given = [(i, *map(float, x)) for i, x in enumerate(X)]
    df = spark.createDataFrame(given, ["key", "a", "b"]).repartition(8)
    try:
        out = by_key(score_frame(scorer, df, keep=["key"]))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    np.testing.assert_allclose(out["prediction"], X[:, 0], rtol=1e-9, atol=0)
    # Spark collects garbage after each task, which would look through the whole scorer.
    assert not (tmp_path / "slow-task").exists()
    opened = [path.name.split("-")[0] for path in tmp_path.iterdir()]
    assert len(set(opened)) == len(opened) < 8  # less often than there are tasks


@pytest.mark.parametrize(
    ("sizes", "enough_bytes", "joined"),
    [
        ([3, 4, 5, 1], 2**25, [7, 5, 1]),  # of at least five rows, but for the last
        ([9, 1], 2**25, [9, 1]),
        ([1, 0, 2], 2**25, [3]),
        ([2, 2, 2], 1, [2, 2, 2]),
        ([], 2**25, []),
    ],
)
def test_batches_are_joined_until_they_are_enough(sizes, enough_bytes, joined, monkeypatch):
    import pyarrow as pa

    from locuscore import spark

    monkeypatch.setattr(spark, "ENOUGH_ROWS", 5)
    monkeypatch.setattr(spark, "ENOUGH_BYTES", enough_bytes)
    values = np.split(np.arange(float(sum(sizes))), np.cumsum(sizes)[:-1]) if sizes else []
    batches = [
        pa.record_batch({"x": part, "t": pa.array([str(x) for x in part], pa.string())})
        for part in values
    ]
    found = list(spark._gathered(iter(batches)))
    assert [batch.num_rows for batch in found] == joined
    assert [x for batch in found for x in batch["x"].to_pylist()] == list(range(sum(sizes)))


def test_a_file_is_spread_over_all_cores(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from locuscore.spark import score_frame

    X = np.random.default_rng(0).uniform(size=(60_000, 2))
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=2), random_state=0)
    scorer = Scorer(locus.fit(X[:200], X[:200, 1]))
    many, few = tmp_path / "many.parquet", tmp_path / "few.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), many)
    pq.write_table(pa.table({"a": X[:100, 0], "b": X[:100, 1]}), few)
    file = spark.read.parquet(str(many))
    assert file.rdd.getNumPartitions() == 1

    def partitions(df):
        return score_frame(scorer, df).rdd.getNumPartitions()

    assert partitions(file) == spark.sparkContext.defaultParallelism == 2
    assert partitions(file.filter("a < 0.9")) == 2
    # Few rows, and partitions that somebody chose, stay together.
    assert partitions(spark.read.parquet(str(few))) == 1
    assert partitions(file.coalesce(1)) == partitions(file.repartition(1)) == 1
    assert partitions(spark.sparkContext.parallelize([(0.5, 0.5)] * 9, 1).toDF(["a", "b"])) == 1


CONNECT = """
import pickle, sys
from pyspark.sql import SparkSession
from locuscore.spark import score_frame

given, scorer = pickle.load(open(sys.argv[1], "rb"))
session = SparkSession.builder.remote("local[2]").config("spark.log.level", "FATAL").getOrCreate()
df = session.createDataFrame(given).repartition(2)
assert "connect" in type(df).__module__
score_frame(scorer, df, keep=["key"]).toPandas().to_pickle(sys.argv[2])
session.stop()
"""


def test_the_same_scores_with_spark_connect(tmp_path):
    import pandas as pd

    pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17")
    X, given = keyed()
    scorer = frame_scorer()
    source, result = tmp_path / "given", tmp_path / "got"
    source.write_bytes(pickle.dumps((given, scorer)))
    # A process has sessions of one kind only.
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CONNECT, source, result],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        check=True,
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        timeout=LONGEST_WAIT,
    )
    assert_same(pd.read_pickle(result).sort_values("key").reset_index(drop=True), scorer(X))


def executor_of(pid):
    """The executor that started a process, itself or by others."""
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_executor_changes_nothing(spark, tmp_path):
    from locuscore.spark import score_frame

    X = np.random.default_rng(0).uniform(size=(800, 2))
    started, killed, driver = tmp_path / "started", tmp_path / "killed", os.getpid()
    started.mkdir()

    def g(X):
        if os.getpid() != driver:
            (started / f"{time.time_ns()}-{os.getpid()}").touch()
            while len(list(started.iterdir())) >= 4 and not killed.exists():
                time.sleep(0.01)  # in the middle
        return X[:, 0]

    locus = Locus(g, engine=Forest(n_trees=2), random_state=0).fit(X, X[:, 1])
    scorer = Scorer(locus)
    rows = [(i, *map(float, x)) for i, x in enumerate(X)]
    df = spark.createDataFrame(rows, ["key", "a", "b"]).repartition(8)
    with ThreadPoolExecutor() as pool:
        job = pool.submit(lambda: by_key(score_frame(scorer, df, keep=["key"])))
        try:
            while len(list(started.iterdir())) < 4:  # some batches are scored
                assert not job.done(), job.result()
                time.sleep(0.05)
            last = max(path.name for path in started.iterdir())
            os.kill(executor_of(int(last.split("-")[1])), signal.SIGKILL)
        finally:
            killed.touch()
        got = job.result(LONGEST_WAIT)
    expected = scorer(X)
    assert (got["key"] == np.arange(800)).all()
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-9, atol=0)
    assert len(list(started.iterdir())) > 8  # partitions, so something was done twice


def test_the_block_of_the_docs_runs(spark, tmp_path):
    import pandas as pd

    scorer, (X, table) = frame_scorer(), keyed(60)
    df = spark.createDataFrame(table.rename(columns={"key": "id"}))
    target = tmp_path / "scored"  # Spark's own folder is not the test's
    block = shown_block("scoring_jobs.md", "score_frame").replace('"scored"', repr(str(target)))
    exec(block, {"scorer": scorer, "df": df})
    got = pd.read_parquet(target).sort_values("id").reset_index(drop=True)
    assert_same(got.rename(columns={"id": "key"}), scorer(X))
