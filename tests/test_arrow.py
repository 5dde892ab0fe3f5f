"""`score_stream`: any Arrow stream in, the scores of memory out, with constant memory."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from archives_for_tests import two_outputs
from helpers import raises
from locuscore import Locus, Scorer
from locuscore._shared.checks import BadRowsError
from locuscore.engines import Forest
from predictors_for_tests import rows_of, scorer_of
from service_for_tests import frame, frame_scorer

pytestmark = pytest.mark.extra


def given(n=250, seed=5):
    """Rows with an id, their columns in another order than in fit."""
    X, _ = frame(n, seed)
    return X, X.assign(id=np.arange(n))[["id", "town", "state", "rooms", "size"]]


def assert_same(table, expected):
    got = table.to_pandas()
    assert (got.pop("id") == np.arange(len(expected))).all()
    assert list(got) == list(expected)
    for name in expected:
        if expected[name].dtype.kind == "f":
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-9, atol=0)
        else:
            assert (got[name] == expected[name]).all()


def table_of(rows, _):
    import pyarrow as pa

    return pa.Table.from_pandas(rows)


def reader_of(rows, _):
    return table_of(rows, _).to_reader(max_chunksize=37)


def batch_of(rows, _):
    import pyarrow as pa

    return pa.RecordBatch.from_pandas(rows)


def dataset_of(rows, folder):
    import pyarrow.dataset as ds

    rows.to_parquet(folder / "rows.parquet", row_group_size=60)
    return ds.dataset(folder / "rows.parquet")


def polars_of(rows, _):
    import polars as pl

    return pl.from_pandas(rows)


def lazy_of(rows, folder):
    import polars as pl

    polars_of(rows, folder).write_parquet(folder / "rows.parquet")
    return pl.scan_parquet(folder / "rows.parquet").filter(pl.col("id") >= 0)


def duckdb_of(rows, folder):
    import duckdb

    rows.to_parquet(folder / "rows.parquet")
    return duckdb.connect().sql(f"select * from '{folder / 'rows.parquet'}' where id >= 0")


KINDS = [table_of, reader_of, batch_of, dataset_of, polars_of, lazy_of, duckdb_of]


@pytest.mark.parametrize("model", ["Forest", "Auto with gamma"])
@pytest.mark.parametrize("kind", [*KINDS, lambda rows, _: rows])
def test_every_source_gives_the_scores_of_memory(kind, model, tmp_path):
    import pyarrow as pa

    from locuscore.arrow import score_stream

    scorer, (X, rows) = frame_scorer(model=model), given()
    scored = score_stream(scorer, kind(rows, tmp_path), keep=["id"], block_rows=60)
    batches = list(scored)
    assert [batch.num_rows for batch in batches] == [60, 60, 60, 60, 10]
    assert_same(pa.Table.from_batches(batches, schema=scored.schema), scorer(X))


def test_polars_and_duckdb_take_the_result(tmp_path):
    import duckdb
    import polars as pl

    from locuscore.arrow import score_stream

    scorer, (X, rows) = frame_scorer(), given()
    expected = scorer(X)
    found = pl.DataFrame(score_stream(scorer, lazy_of(rows, tmp_path), keep=["id"]))
    assert_same(found, expected)
    connection = duckdb.connect()
    scored = score_stream(scorer, duckdb_of(rows, tmp_path), keep=["id"])
    assert scored is not None
    query = 'select sum("bound_0.1"), count(*) from scored where flag'
    (told,) = connection.sql(query).fetchall()
    flagged = expected[expected["flag"]]
    assert told[1] == len(flagged)
    np.testing.assert_allclose(told[0], flagged["bound_0.1"].sum(), rtol=1e-9)


@pytest.mark.parametrize("kind", ["scikit-learn", "xgboost"])
def test_dask_gives_the_scores_of_memory(kind):
    import dask.dataframe as dd

    scorer, (X, _) = scorer_of(kind), rows_of(kind, 250, 5)
    lazy = dd.from_pandas(X, npartitions=4)
    scored = lazy.map_partitions(scorer, meta=scorer(lazy.head(0)))
    expected = scorer(X)
    got = scored.compute()
    assert (got.index == X.index).all()
    assert (got["flag"] == expected["flag"]).all()
    for name in expected.columns[:-1]:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-9, atol=0)


def test_labels_several_outputs_arrays_and_no_rows():
    import pyarrow as pa

    from locuscore.arrow import score_stream

    X = np.random.default_rng(0).uniform(size=(120, 2))
    labels = np.where(X[:, 0] > 0.5, "high", "low")
    g = LogisticRegression().fit(X, labels)
    locus = Locus(g, loss="zero_one", engine=Forest(n_trees=2), random_state=0).fit(X, labels)
    scorer = Scorer(locus)
    rows = pa.table({"a": X[:, 0], "id": np.arange(120), "b": X[:, 1]})
    got = score_stream(scorer, rows, keep=["id"], block_rows=50).read_all()
    assert got["prediction"].to_pylist() == list(scorer(X)["prediction"])
    nothing = score_stream(scorer, rows[:0], keep=["id"])
    assert nothing.schema == got.schema
    assert nothing.read_all().num_rows == 0
    with raises(ValueError, "2 columns", "['a', 'id', 'b']"):
        score_stream(scorer, rows)
    numbers, y = frame(200)
    two = two_outputs(numbers[["size", "rooms"]], y)
    found = score_stream(two, pa.Table.from_pandas(numbers), block_rows=64, prefix="new_")
    assert found.schema.names[:2] == ["new_prediction_0", "new_prediction_1"]


def test_bad_rows_fail_with_their_number_or_are_flagged():
    from locuscore.arrow import score_stream

    scorer, (X, rows) = frame_scorer(), given()
    rows.loc[170, "size"] = np.inf
    with pytest.raises(BadRowsError, match="row 170,"):
        score_stream(scorer, rows, block_rows=60).read_all()
    got = score_stream(scorer, rows, block_rows=60, bad_rows="flag").read_all().to_pandas()
    assert np.isinf(got.loc[170, "bound_0.1"])
    assert got.loc[170, "flag"]
    expected = scorer(X)
    np.testing.assert_allclose(got["score"].drop(170), expected["score"].drop(170), rtol=1e-9)


def test_wrong_use_is_said():
    from locuscore.arrow import score_stream

    scorer, (_, rows) = frame_scorer(), given()
    with raises(ValueError, "['colour']", "'size'"):
        score_stream(scorer, rows, keep=["colour"])
    with raises(ValueError, "missing", "['town']"):
        score_stream(scorer, rows.drop(columns="town"))
    with raises(ValueError, "kept column flag", "prefix"):
        score_stream(scorer, rows.rename(columns={"id": "flag"}), keep=["flag"])
    with raises(ValueError, "'fail' or 'flag'", "'drop'"):
        score_stream(scorer, rows, bad_rows="drop")
    with raises(TypeError, "__arrow_c_stream__", "ndarray"):
        score_stream(scorer, np.zeros((3, 4)))


def test_rows_are_read_when_they_are_needed_and_memory_does_not_grow():
    import pandas as pd
    import pyarrow as pa

    from locuscore.arrow import score_stream

    X = pd.DataFrame(np.random.default_rng(0).uniform(size=(200, 2)), columns=["a", "b"])
    g = LinearRegression().fit(X, X["b"])
    scorer = Scorer(Locus(g, engine=Forest(n_trees=2), random_state=0).fit(X, X["b"]))
    schema, read = pa.schema([("a", pa.float64()), ("b", pa.float64())]), []

    def source(n):
        for number in range(n):
            read.append(number)
            numbers = pa.array(np.linspace(number, number + 1, 2_000) / n)
            yield pa.RecordBatch.from_arrays([numbers, numbers], schema=schema)

    def peak(n):
        read.clear()
        rows = pa.RecordBatchReader.from_batches(schema, source(n))
        scored = score_stream(scorer, rows, block_rows=1_000)
        assert not read
        before, most = pa.total_allocated_bytes(), 0
        for number, batch in enumerate(scored):
            assert batch.num_rows == 1_000
            assert len(read) == number // 2 + 1
            most = max(most, pa.total_allocated_bytes() - before)
        assert number == 2 * n - 1
        return most

    few = peak(3)
    assert peak(30) <= 1.5 * few  # of a tenth of the rows
