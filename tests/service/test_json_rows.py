"""Rows as JSON: every type of column comes back as what fit has seen."""

import contextlib
import json
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives_for_tests import rows, small_scorer
from helpers import raises
from locuscore import Schema

pytestmark = pytest.mark.extra

COLUMNS = {
    "number": [0.5, 1e300, -3.25],
    "whole": [1, -(2**62), 3],
    "truth": [True, False, True],
    "text": ["a", "ü\u0000", ""],
    "time": [datetime(2024, 1, 31, 12, 30, 0, 125), datetime(1970, 1, 1), datetime(2200, 1, 1)],
    "duration": [timedelta(seconds=1.5), timedelta(days=-3), timedelta(0)],
}
AS_JSON = COLUMNS | {
    "time": ["2024-01-31T12:30:00.000125", "1970-01-01", "2200-01-01T00:00:00"],
    "duration": [1.5, -259200, 0],
}


def make(kind):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind]
    return make(COLUMNS)


def parsed(rows, schema, most=100):
    from locuscore.service._json_rows import as_kind, parse_rows

    columns, *_ = parse_rows(json.dumps({"rows": rows}).encode(), schema, most)
    return as_kind(schema, columns)


def listed(frame):
    return frame.to_pylist() if hasattr(frame, "to_pylist") else frame.to_dicts()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_every_type_survives(kind):
    frame = make(kind)
    schema = Schema.of(frame)
    sent = [dict(zip(AS_JSON, row, strict=True)) for row in zip(*AS_JSON.values(), strict=True)]
    got = parsed(sent, schema)
    assert type(got) is type(frame)
    if kind == "pandas":
        from pandas.testing import assert_frame_equal

        assert_frame_equal(got, frame, check_dtype=False)
        assert [t.kind for t in got.dtypes] == [t.kind for t in frame.dtypes]
    else:
        assert listed(got) == listed(frame)
        assert Schema.of(got).types == schema.types


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_null_is_missing_in_every_column(kind):
    schema = Schema.of(make(kind))
    got = parsed([dict.fromkeys(schema.names)] * 2, schema)
    if kind == "pandas":
        assert got.isna().to_numpy().all()
    else:
        assert all(value is None for row in listed(got) for value in row.values())


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_dates_and_zones(kind):
    import polars as pl

    zone = pl.Datetime("us", "Europe/Berlin")
    frame = pl.DataFrame(
        {"day": [date(2024, 1, 31)], "zoned": [datetime(2024, 1, 31, 11, 0)]},
    ).with_columns(pl.col("zoned").dt.replace_time_zone("UTC").cast(zone))
    frame = frame if kind == "polars" else frame.to_arrow()
    sent = [{"day": "2024-01-31", "zoned": "2024-01-31T13:00:00+02:00"}]
    assert listed(parsed(sent, Schema.of(frame))) == listed(frame)


@pytest.mark.parametrize("values", [[1, 2], [0.5, -1.0], [True, False], ["a", "bc"]])
def test_arrays_keep_their_type(values):
    X = np.array([values, values])
    got = parsed(X.tolist(), Schema.of(X))
    assert got.dtype == X.dtype
    assert (got == X).all()


def test_arrays_of_objects_and_missing_numbers():
    X = np.array([["a", 1.5], [None, 2]], dtype=object)
    assert (parsed(X.tolist(), Schema.of(X)) == X).all()
    gaps = parsed([[1, None]], Schema.of(np.array([[1, 2]])))
    assert gaps.dtype == np.float64
    assert np.isnan(gaps[0, 1])
    assert parsed([], Schema.of(np.ones((1, 3)))).shape == (0, 3)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("number", "1"),
        ("number", True),
        ("number", 10**400),
        ("number", [1]),
        ("whole", 1.5),
        ("whole", 2**63),
        ("whole", True),
        ("truth", 1),
        ("text", 1),
        ("time", "yesterday"),
        ("time", "2024-01-31T12:00:00Z"),
        ("time", 0),
        ("duration", 1e30),
        ("duration", "1"),
    ],
)
def test_another_type_is_refused_with_its_place(column, value):
    from locuscore.service._refusal import RefusalError

    schema = Schema.of(make("pandas"))
    row = dict.fromkeys(schema.names)
    with raises(RefusalError, f"column '{column}'", "row 1") as caught:
        parsed([row, row | {column: value}], schema)
    assert caught.value.status_code == 422
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"rows": [["\\ud800"]]}', 400),  # half of a surrogate pair
        (b'{"rows": ' + b"[" * 50 + b"]" * 50 + b"}", 422),
        (b'{"rows": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", 400),
        ('{"rows": [["a"]]}'.encode("utf-16"), 400),
        (b'{"rows": [[1' + b"0" * 5000 + b"]]}", 400),
    ],
    ids=["no text", "nested", "deeply nested", "another encoding", "a very long number"],
)
def test_json_that_is_no_rows_is_refused(body, status):
    from locuscore.service._json_rows import parse_rows
    from locuscore.service._refusal import RefusalError

    with pytest.raises(RefusalError) as caught:
        parse_rows(body, Schema.of(np.array([["a"]])), 50_000)
    assert caught.value.status_code == status
    caught.value.detail.encode()


def test_a_type_that_json_lacks_points_to_arrow():
    import pyarrow as pa

    from locuscore.service._refusal import RefusalError

    schema = Schema.of(pa.table({"x": [[1, 2]]}))
    with raises(RefusalError, "Arrow stream"):
        parsed([{"x": 1}], schema)


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_rows_or_a_refusal(body):
    from locuscore.service._json_rows import parse_rows
    from locuscore.service._refusal import RefusalError

    with contextlib.suppress(RefusalError):
        parse_rows(body, Schema.of(np.ones((1, 2))), 10)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@settings(max_examples=200)
@given(JSON_VALUES | st.fixed_dictionaries({"rows": st.lists(JSON_VALUES, max_size=3)}))
def test_any_json_is_rows_or_a_refusal(content):
    from locuscore.service._json_rows import as_kind, parse_rows
    from locuscore.service._refusal import RefusalError

    schema = Schema.of(make("pandas"))
    try:
        columns, n, _ = parse_rows(json.dumps(content).encode(), schema, 10)
    except RefusalError:
        return
    assert len(as_kind(schema, columns)) == n


def test_infinity_is_null_with_a_flag_beside_it():
    from locuscore.service._json_rows import scored_rows

    columns = {"prediction": np.array([np.nan]), "bound_0.1": np.array([np.inf])}
    assert scored_rows(columns, ["bound_0.1"]) == [
        {"prediction": None, "bound_0.1": None, "bound_0.1_is_infinite": True}
    ]


def test_a_scorer_of_arrays_scores_lists():
    scorer = small_scorer()
    X, _ = rows(5, seed=3)
    assert (parsed(X.tolist(), scorer.schema) == X).all()
