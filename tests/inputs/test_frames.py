import datetime as dt
from decimal import Decimal
from importlib import import_module

import narwhals as nw
import numpy as np
import pytest
from scipy import sparse

from engines_for_tests import ConstantNormal, FirstSignalNormal
from helpers import assert_close, raises
from locuscore import Locus, prediction_column
from locuscore._inputs.encoder import Encoder
from locuscore._shared import frames
from locuscore._shared.frames import (
    as_array,
    as_frame,
    as_rows,
    column,
    columns_like,
    frames_seen_once,
    like_rows,
    numbered,
    take_rows,
)

NAN = np.nan
DAY = 86_400.0
SEP_2001 = 1_000_000_000.0  # seconds since 1970 of 2001-09-09 01:46:40 UTC
ONE_DATE = dt.datetime(2001, 9, 9, 1, 46, 40)


def encode(X, new=None):
    encoder = Encoder().fit(X)
    return encoder.transform(X if new is None else new)


def make(library, columns):
    """Build a frame of any library from lists."""
    build = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
    return getattr(import_module(library), build[library])(columns)


@pytest.fixture
def pd():
    return import_module("pandas")


@pytest.fixture
def pl():
    return import_module("polars")


libraries = pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])


# Arrays


def test_numbers_stay_as_they_are():
    X = np.array([[1.5, NAN], [-2.0, 3.0]])
    assert_close(encode(X), X)
    assert encode(X.astype(np.float32)).dtype == np.float64
    assert_close(encode(np.array([[1], [2]], dtype=np.int8)), [[1.0], [2.0]])
    assert_close(encode(np.array([[True], [False]])), [[1.0], [0.0]])
    assert_close(encode(sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])), [[0.0, 2.0], [1.0, 0.0]])


def test_object_arrays_mix_numbers_and_text():
    X = np.array([[1, "b", None], [2.5, "a", Decimal(2)], [None, None, True]], dtype=object)
    assert_close(encode(X), [[1.0, 1.0, NAN], [2.5, 0.0, 2.0], [NAN, NAN, 1.0]])


def test_text_arrays_get_their_numbers_back():
    X = np.array([["10", "b"], ["9", "a"]])
    assert_close(encode(X), [[10.0, 1.0], [9.0, 0.0]])


def test_text_of_digits_among_objects_is_text():
    X = np.array([["10"], ["9"]], dtype=object)
    assert_close(encode(X, np.array([["9"], ["x"]], dtype=object)), [[1.0], [NAN]])


def test_unseen_levels_are_missing():
    X = np.array([["a"], ["c"]], dtype=object)
    assert_close(encode(X, np.array([["b"], ["c"], [None]], dtype=object)), [[NAN], [1.0], [NAN]])


def test_dates_in_arrays_are_seconds():
    X = np.array([["1970-01-02"], ["NaT"]], dtype="M8[D]")
    assert_close(encode(X), [[DAY], [NAN]])
    assert_close(encode(np.array([[1500], ["NaT"]], dtype="m8[ms]")), [[1.5], [NAN]])


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], dt.date(2020, 1, 1)])
def test_other_objects_cannot_be_encoded(value):
    X = np.empty((2, 2), dtype=object)
    X[:, 0] = 1.0
    X[0, 1] = value
    with raises(TypeError, "column 1 of X", type(value).__name__):
        encode(X)


def test_text_in_a_column_of_numbers():
    X = np.array([[1.0], [2.0]])
    with raises(ValueError, "must hold numbers", "in fit"):
        encode(X, np.array([["a"]], dtype=object))


@pytest.mark.parametrize("make_rows", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_rows_of_arrays(make_rows):
    X = make_rows(np.arange(12.0).reshape(6, 2))
    picked = take_rows(X, np.array([4, 0]))
    assert type(picked) is type(X)
    assert_close(np.asarray(picked.sum(axis=1)).ravel(), [17.0, 1.0])
    assert_close(np.asarray(take_rows(X, slice(1, 3)).sum(axis=1)).ravel(), [5.0, 9.0])


def test_columns_of_arrays():
    X = np.arange(6.0).reshape(3, 2)
    assert_close(column(X, 1), [1.0, 3.0, 5.0])
    assert_close(column(X, np.int64(-1)), [1.0, 3.0, 5.0])
    assert_close(column(sparse.csr_array(X), 1), [1.0, 3.0, 5.0])
    with raises(ValueError, "column 2", "has 2"):
        column(X, 2)
    with raises(TypeError, "'yhat'", "array"):
        column(X, "yhat")


def test_arrays_come_back_as_arrays():
    values = np.arange(3.0)
    assert like_rows(np.zeros((3, 1)), values, ["a"]) is values


def test_names_tell_numbers_apart():
    assert numbered("bound", np.array([0.5, 0.1, 1e-5])) == [
        "bound_0.5",
        "bound_0.1",
        "bound_0.00001",
    ]
    assert numbered("exceedance", np.array(70_000.0)) == ["exceedance_70000"]
    close = np.array([0.1, np.nextafter(0.1, 1)])
    assert len(set(numbered("bound", close))) == 2


# Frames of all libraries


@pytest.mark.extra
@libraries
def test_frames_are_encoded_alike(library):
    columns = {
        "whole": [3, 1, None],
        "real": [1.5, None, 2.0],
        "yes": [True, False, None],
        "text": ["b", "a", None],
        "date": [dt.date(1970, 1, 2), None, dt.date(1970, 1, 3)],
        "time": [ONE_DATE, None, dt.datetime(1970, 1, 1)],
        "wait": [dt.timedelta(hours=1), None, dt.timedelta(microseconds=1)],
    }
    if library == "pandas":  # which has no dates or missing truth values of its own
        pd = import_module("pandas")
        columns["date"] = pd.to_datetime(pd.Series(columns["date"]))
        columns["yes"] = pd.array(columns["yes"], dtype="boolean")
        columns["whole"] = pd.array(columns["whole"], dtype="Int64")
    expected = [
        [3.0, 1.5, 1.0, 1.0, DAY, SEP_2001, 3600.0],
        [1.0, NAN, 0.0, 0.0, NAN, NAN, NAN],
        [NAN, 2.0, NAN, NAN, 2 * DAY, 0.0, 1e-6],
    ]
    assert_close(encode(make(library, columns)), expected)


@pytest.mark.extra
@libraries
def test_unseen_and_missing_levels_of_frames(library):
    seen, new = make(library, {"a": ["y", "x", "x"]}), make(library, {"a": ["z", None, "y"]})
    assert_close(encode(seen, new), [[NAN], [NAN], [1.0]])


@pytest.mark.extra
@libraries
def test_clock_times_are_refused(library):
    with pytest.raises(TypeError, match="column 't' of X"):
        encode(make(library, {"t": [dt.time(1), dt.time(2)]}))


@pytest.mark.extra
@libraries
def test_lists_in_cells_are_refused(library):
    with raises(TypeError, "column 'cells' of X", "list"):
        encode(make(library, {"cells": [[1.0, 2.0], [3.0, 4.0]]}))


@pytest.mark.extra
@libraries
def test_text_where_fit_saw_numbers(library):
    with raises(ValueError, "column 'a' of X", "numbers"):
        encode(make(library, {"a": [1.0, 2.0]}), make(library, {"a": ["u", "v"]}))


@pytest.mark.extra
@libraries
def test_a_row_that_misses_a_number(library):
    seen, new = make(library, {"a": [1.0, 2.0]}), make(library, {"a": [None]})
    assert_close(encode(seen, new), [[NAN]])


@pytest.mark.extra
@libraries
def test_rows_of_frames(library):
    X = make(library, {"a": [1, 2, 3, 4], "b": ["p", "q", "r", "s"]})
    for rows in (np.array([3, 0]), slice(1, 3)):
        picked = take_rows(X, rows)
        assert type(picked) is type(X)
        assert_close(column(picked, "a"), np.array([1, 2, 3, 4])[rows])
        assert column(picked, "b").tolist() == list(np.array(list("pqrs"))[rows])
    with raises(ValueError, "'c'", "['a', 'b']"):
        column(X, "c")


@pytest.mark.extra
@libraries
def test_results_have_the_kind_of_the_rows(library):
    X = make(library, {"a": [1.0, 2.0]})
    series = like_rows(X, np.array([3.0, 4.0]), ["bound_0.1"])
    assert_close(as_array(series), [3.0, 4.0])
    assert type(series).__module__.split(".")[0] == library
    assert not hasattr(series, "columns")
    frame = like_rows(X, np.array([[3.0, 5.0], [4.0, 6.0]]), ["p", "q"])
    assert type(frame) is type(X)
    assert_close(column(frame, "q"), [5.0, 6.0])
    with raises(ValueError, "distinct names", "['p', 'p']"):
        like_rows(X, np.zeros((2, 2)), ["p", "p"])


@pytest.mark.extra
@libraries
def test_no_rows_give_results_of_the_same_kind(library):
    X = take_rows(make(library, {"a": [1.0, 2.0]}), slice(0, 0))
    assert len(like_rows(X, np.empty(0), ["bound_0.1"])) == 0
    assert like_rows(X, np.empty((0, 2)), ["p", "q"]).shape == (0, 2)


@pytest.mark.extra
@libraries
def test_columns_made_directly_are_those_of_narwhals(library, monkeypatch):
    X = make(library, {"a": [1.0, 2.0]})
    columns = {
        "number": np.array([1.5, np.inf]),
        "class": np.array(["yes", "no"]),
        "object": np.array(["yes", None], dtype=object),
        "flag": np.array([True, False]),
        "outputs": np.ones((2, 3)),
    }
    direct = columns_like(X, columns)
    monkeypatch.setattr(frames, "_MAKERS", {})
    by_narwhals = columns_like(X, columns)
    assert type(direct) is type(by_narwhals) is type(X)
    assert schema(direct) == schema(by_narwhals)
    assert direct.equals(by_narwhals)


@pytest.mark.extra
@libraries
def test_a_frame_is_looked_at_once(library, monkeypatch):
    X, other = make(library, {"a": [1.0]}), make(library, {"b": [1.0]})
    looked = []
    look = nw.from_native
    monkeypatch.setattr(
        nw, "from_native", lambda X, **options: looked.append(X) or look(X, **options)
    )
    with frames_seen_once():
        assert [as_frame(X).columns for _ in range(3)] == [["a"]] * 3
        with frames_seen_once():
            assert as_frame(X).columns == ["a"]
        assert len(looked) == 1
        assert as_frame(other).columns == ["b"]
    assert as_frame(X).columns == ["a"]
    assert len(looked) == 3  # outside nothing is kept, which would keep the rows in memory


class Recorder:
    """A predictor that keeps what it is given."""

    def __init__(self):
        self.seen = []

    def predict(self, X):
        self.seen.append(X)
        return np.zeros(X.shape[0])


def some_rows(library, n=40):
    columns = {
        "size": np.linspace(0, 1, n).astype(np.float32),
        "town": ["Rome", "Oslo", None, "Bonn"] * (n // 4),
        "day": [dt.datetime(2020, 1, 1) + dt.timedelta(days=i) for i in range(n)],
    }
    if library == "pandas":
        pd = import_module("pandas")
        columns["town"] = pd.Categorical(columns["town"])
        return pd.DataFrame(columns)
    return make(library, columns)


def schema(X):
    return dict(nw.from_native(X, eager_only=True).schema)


@pytest.mark.extra
@libraries
def test_frames_reach_the_predictor_untouched(library, rng):
    X = some_rows(library)
    g = Recorder()
    locus = Locus(g, engine=ConstantNormal(), random_state=0).fit(X, rng.normal(size=40))
    locus.loss_bound(X)
    locus.exceedance(X, 0.5)
    locus.predict(X)
    assert len(g.seen) == 4  # once in each
    for seen in g.seen:
        assert type(seen) is type(X)
        assert schema(seen) == schema(X)


@pytest.mark.extra
@libraries
def test_bounds_come_as_series_and_frames(library, rng):
    X = some_rows(library)
    locus = Locus(Recorder(), engine=FirstSignalNormal(), random_state=0)
    locus.fit(X, rng.normal(size=40))
    one, several = locus.loss_bound(X, alpha=0.1), locus.loss_bound(X, alpha=[0.5, 0.1])
    assert list(schema(several)) == ["bound_0.5", "bound_0.1"]
    assert type(several) is type(X)
    assert_close(as_array(one), column(several, "bound_0.1"))
    assert list(schema(locus.exceedance(X, [1, 2.5]))) == ["exceedance_1", "exceedance_2.5"]
    assert_close(as_array(locus.losses(X, np.ones(40))), np.ones(40))


@pytest.mark.extra
@libraries
def test_columns_are_checked_by_name_and_order(library, rng):
    X = make(library, {"a": rng.normal(size=40), "b": rng.normal(size=40)})
    locus = Locus(Recorder(), engine=ConstantNormal(), random_state=0)
    locus.fit(X, rng.normal(size=40))
    assert list(locus.feature_names_in_) == ["a", "b"]
    with raises(ValueError, "unseen", "- c"):
        locus.loss_bound(make(library, {"a": [1.0], "c": [2.0]}))
    with raises(ValueError, "missing", "- b"):
        locus.loss_bound(make(library, {"a": [1.0]}))
    with raises(ValueError, "same order", "fit"):
        locus.loss_bound(make(library, {"b": [1.0], "a": [2.0]}))


@pytest.mark.extra
@libraries
def test_targets_may_be_series_and_the_prediction_a_column(library, rng):
    values = rng.normal(size=40)
    X = make(library, {"x": rng.normal(size=40), "yhat": values / 2})
    locus = Locus(prediction_column("yhat"), engine=ConstantNormal(), random_state=0)
    y = like_rows(X, values, ["y"])
    assert_close(as_array(locus.fit(X, y).losses(X, y)), np.abs(values / 2))
    again = Locus(None, engine=ConstantNormal(), random_state=0)
    z = locus.losses(X, y)
    assert_close(as_array(again.fit_losses(X, z).loss_bound(X)), as_array(locus.loss_bound(X)))


# What is special to one library


@pytest.mark.extra
def test_pandas_categories(pd):
    sizes = pd.Categorical(["L", "S", None], categories=["S", "M", "L"], ordered=True)
    X = pd.DataFrame(
        {
            "ordered": sizes,
            "numbers": pd.Categorical([3, 1, 3], categories=[3, 2, 1], ordered=True),
            "cut": pd.cut(pd.Series([5.0, 1.0, None]), [0, 2, 6]),
            "unordered": pd.Categorical(["b", None, "a"], categories=["b", "a"]),
            "dates": pd.Categorical(pd.to_datetime(["2020-02-01", None, "2020-01-01"])),
        }
    )
    expected = [
        [2.0, 0.0, 1.0, 1.0, 1.0],
        [0.0, 2.0, 0.0, NAN, NAN],
        [NAN, 0.0, NAN, 0.0, 0.0],
    ]
    assert_close(encode(X), expected)


@pytest.mark.extra
def test_a_declared_level_need_not_be_seen(pd, pl):
    levels = ["S", "M", "L"]
    ordered = pd.CategoricalDtype(levels, ordered=True)
    seen, new = pd.Series(["L", "S"], dtype=ordered), pd.Series(["M"], dtype=ordered)
    assert_close(encode(pd.DataFrame({"a": seen}), pd.DataFrame({"a": new})), [[1.0]])
    seen, new = pl.Series(["L", "S"], dtype=pl.Enum(levels)), pl.Series(["M", "L"])
    assert_close(encode(pl.DataFrame({"a": seen}), pl.DataFrame({"a": new})), [[1.0], [2.0]])


@pytest.mark.extra
def test_other_pandas_columns(pd):
    X = pd.DataFrame(
        {
            "objects": pd.Series([1, 2.5, pd.NA], dtype=object),
            "string": pd.array(["b", pd.NA, "a"], dtype="string"),
            "mixed": pd.Series(["b", 3, None], dtype=object),
            "sparse": pd.arrays.SparseArray([0.0, 1.0, 0.0]),
            "arrow": pd.array([1, None, 2], dtype="int64[pyarrow]"),
        }
    )
    expected = [
        [1.0, 1.0, 1.0, 0.0, 1.0],
        [2.5, NAN, 0.0, 1.0, NAN],
        [NAN, 0.0, NAN, 0.0, 2.0],
    ]
    assert_close(encode(X), expected)


@pytest.mark.extra
def test_time_zones_count_from_the_same_instant(pd, pl):
    moments = pd.Series([ONE_DATE]).dt.tz_localize("UTC")
    for zone in ("UTC", "Asia/Tokyo", "America/Lima"):
        for unit in ("s", "ms", "us", "ns"):
            local = moments.dt.tz_convert(zone).astype(f"datetime64[{unit}, {zone}]")
            assert_close(encode(pd.DataFrame({"t": local})), [[SEP_2001]])
    there = pl.Series([ONE_DATE]).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    assert_close(encode(pl.DataFrame({"t": there})), [[SEP_2001]])


@pytest.mark.extra
@pytest.mark.parametrize("index", [["u", "v", "v"], [(1, "a"), (1, "b"), (2, "a")], [9, 3, 7]])
def test_pandas_results_keep_their_index(index, rng, pd):
    rows = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    rows.index = pd.MultiIndex.from_tuples(index) if isinstance(index[0], tuple) else index
    X = pd.DataFrame({"a": rng.normal(size=40)})
    locus = Locus(Recorder(), engine=FirstSignalNormal(), random_state=0)
    locus.fit(X, rng.normal(size=40))
    bound, bounds = locus.loss_bound(rows, 0.1), locus.loss_bound(rows, [0.5, 0.1])
    assert isinstance(bound, pd.Series)
    assert bound.name == "bound_0.1"
    assert isinstance(bounds, pd.DataFrame)
    assert list(bounds.columns) == ["bound_0.5", "bound_0.1"]
    for result in (bound, bounds, locus.exceedance(rows, 1.0), locus.losses(rows, [1.0] * 3)):
        assert result.index.equals(rows.index)
    assert_close(bound.to_numpy(), locus.loss_bound(rows.reset_index(drop=True), 0.1).to_numpy())


@pytest.mark.extra
def test_pandas_targets_are_taken_by_position(rng, pd):
    X = pd.DataFrame({"a": rng.normal(size=40)})
    y = pd.Series(rng.normal(size=40), index=np.arange(40)[::-1] + 7)
    locus = Locus(Recorder(), engine=ConstantNormal(), random_state=0).fit(X, y)
    assert_close(locus.losses(X, y).to_numpy(), np.abs(y.to_numpy()))


@pytest.mark.extra
def test_pandas_columns_named_by_numbers(rng, pd):
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=[5, 3])
    locus = Locus(prediction_column(3), engine=ConstantNormal(), random_state=0)
    y = rng.normal(size=40)
    assert_close(locus.fit(X, y).losses(X, y).to_numpy(), np.abs(y - X[3].to_numpy()))


@pytest.mark.extra
def test_lazy_frames_must_be_collected(pl):
    with raises(TypeError, "lazy frame", "X.collect()"):
        as_rows(pl.LazyFrame({"a": [1.0]}))
