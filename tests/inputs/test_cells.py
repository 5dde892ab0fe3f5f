"""The same rows have the same digests, whatever library or file they come from."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from frames_for_tests import frame_of_all_kinds, to_arrow, to_polars
from locuscore._inputs.cells import cells, row_digests
from locuscore._inputs.schema import Schema

SALT = b"0123456789abcdef"
pytestmark = pytest.mark.extra


LABELS = np.array([1.0, 2.0, 3.0, 4.0])


def digests(X, schema, labels=LABELS):
    inputs, labelled = row_digests(schema.conform(X), labels, (*schema.types, "float64"), SALT)
    return inputs.tolist(), labelled.tolist()


@pytest.fixture(scope="module")
def frame():
    return frame_of_all_kinds()


@pytest.fixture(scope="module")
def expected(frame):
    return digests(frame, Schema.of(frame))


def to_nullable(frame, _):
    return frame.convert_dtypes(convert_string=True)


def through_parquet(frame, folder):
    import pyarrow.parquet as pq

    frame.to_parquet(folder / "rows.parquet")
    return pq.read_table(folder / "rows.parquet")


@pytest.mark.parametrize("other", [to_polars, to_arrow, to_nullable, through_parquet])
def test_every_kind_of_frame_gives_the_same_digests(frame, expected, other, tmp_path):
    assert digests(other(frame, tmp_path), Schema.of(frame)) == expected


@pytest.mark.parametrize("fitted", [to_polars, to_arrow])
def test_it_does_not_matter_which_kind_fit_has_seen(frame, expected, fitted, tmp_path):
    schema = Schema.of(fitted(frame, tmp_path))
    assert digests(frame, schema) == expected


def test_an_array_of_objects_gives_the_same_digests(frame, expected):
    schema = Schema.of(frame)
    array = frame.astype(object).to_numpy()
    inputs, labelled = row_digests(array, LABELS, (*schema.types, "float64"), SALT)
    assert (inputs.tolist(), labelled.tolist()) == expected


def test_a_csv_file_gives_the_same_digests(frame, tmp_path):
    import pyarrow as pa

    from archives_for_tests import small_scorer
    from locuscore.cli._datasets import open_table
    from locuscore.cli._stream import csv_types

    rows = frame.drop(columns="zoned")  # a CSV file has no zones
    rows = rows.loc[rows.index.repeat(10)].reset_index(drop=True)
    scorer = small_scorer(lambda X: np.zeros(len(X)), rows, np.tile([1.0, 2.0], 20))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    source = open_table(tmp_path / "rows.csv", csv_types(scorer))
    table = pa.Table.from_batches(list(source.batches(list(rows.columns))))
    labels = np.arange(40.0)
    found, wanted = (digests(part, scorer.schema, labels) for part in (table, rows))
    assert found == wanted


def test_a_file_that_pandas_reads_gives_the_same_digests(rng, tmp_path):
    import pandas as pd

    rows = pd.DataFrame(rng.normal(size=(500, 20)) * 10.0 ** rng.integers(-9, 18, size=20))
    rows.columns = [f"x{j}" for j in rows]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    back = pd.read_csv(tmp_path / "rows.csv")
    assert (back != rows).any(axis=1).mean() > 0.9  # off by a bit, in most rows
    schema, labels = Schema.of(rows), np.zeros(500)
    found, wanted = (np.array(digests(part, schema, labels)) for part in (back, rows))
    assert (found == wanted).mean() > 0.95  # the others lie where the rounding turns


def test_numbers_count_to_11_digits():
    ends = [2.0**36, 2.0**36 + 1, np.inf, -np.inf, np.nan]
    values = np.array([0.1, 0.1 * (1 + 1e-15), 0.1 * (1 + 1e-10), *ends])[:, None]
    found = cells(values, ["float64"]).ravel().tolist()
    assert found[0] == found[1]
    assert len(set(found)) == len(found) - 1
    assert cells(values.astype(object), ["object"]).ravel().tolist() == found


@pytest.mark.parametrize(
    "values",
    [
        [1, 1.0, True, np.int8(1), Decimal(1), "1", "1.0", "true", np.float32(1)],
        ["", None, np.nan, "NA", np.datetime64("NaT"), Decimal("nan")],
        [
            datetime.datetime(2024, 1, 31),
            datetime.date(2024, 1, 31),
            np.datetime64("2024-01-31", "ns"),
            datetime.datetime(
                2024, 1, 31, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))
            ),
            datetime.datetime(2024, 1, 31, tzinfo=datetime.UTC).timestamp(),
        ],
        [datetime.timedelta(seconds=1.5), np.timedelta64(1500, "ms"), 1.5],
    ],
    ids=["one", "missing", "a day", "a length"],
)
def test_values_that_mean_the_same_are_one_cell(values):
    array = np.empty((len(values), 1), dtype=object)
    array[:, 0] = values
    assert len(set(cells(array, ["object"]).ravel().tolist())) == 1


def test_values_that_differ_differ():
    values = ["north", "North", "north ", 1, 2, None, 0, b"north", 1e-300, "1 2", ("a", [1]), [1]]
    array = np.empty((len(values), 1), dtype=object)
    array[:, 0] = values
    assert len(set(cells(array, ["object"]).ravel().tolist())) == len(values) - 1  # b"north"


def test_a_row_is_more_than_its_cells():
    one, other = (np.array(values, dtype=float) for values in ([[1, 2, 3]], [[2, 1, 3]]))
    types = ("float64",) * 3
    assert row_digests(one, None, types, SALT)[0] != row_digests(other, None, types, SALT)[0]
    assert row_digests(one, None, types, SALT)[0] != row_digests(one, None, types, SALT[::-1])[0]
    assert not len(row_digests(one, None, types, SALT)[1])


def test_sparse_rows_are_rows(rng):
    from scipy import sparse

    X = rng.integers(0, 2, size=(20, 5)).astype(float)
    types = ("float64",) * 6
    dense = row_digests(X, X[:, 0], types, SALT)
    thin = row_digests(sparse.csr_array(X), X[:, 0], types, SALT)
    assert all((a == b).all() for a, b in zip(dense, thin, strict=True))
