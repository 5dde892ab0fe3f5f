"""Rows that cannot be scored: an error with their numbers, or a flag and an infinite bound."""

import functools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from helpers import raises
from locuscore import Locus, Scorer, _row_columns, prediction_column
from locuscore._shared.checks import BadRowsError
from locuscore.engines import Scale

BAD = [1, 4, 7]


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, X[:, 0] + rng.normal(size=n)


def spoiled(n=10):
    """An infinite input, a missing and an infinite prediction; a missing input is no trouble."""
    X = rows(n, seed=1)[0]
    X[1, 2], X[4, 0], X[7, 0], X[8, 2] = np.inf, np.nan, -np.inf, np.nan
    return X


@pytest.fixture(scope="module")
def scorer():
    locus = Locus(prediction_column(0), engine=Scale(), random_state=0).fit(*rows())
    return Scorer(locus, locus.tau_rule(tau=1.5, alpha=0.1), alphas=(0.1, 0.3))


def test_the_error_has_the_rows_and_names_the_remedy(scorer):
    X = rows(30, seed=1)[0]
    X[3:29:2, 0] = np.nan
    with raises(BadRowsError, "13 rows", "30", "row 3, 5,", "3 more") as info:
        scorer(X)
    assert info.value.rows.tolist() == list(range(3, 29, 2))
    assert "Scorer.tolerate" in info.value.__notes__[0]


def test_rows_are_counted_over_all_blocks(scorer, monkeypatch):
    monkeypatch.setattr("locuscore._inputs.signals.MOST_ROWS_AT_ONCE", 3)
    with raises(BadRowsError, "row 7,"):
        scorer([*rows(7)[0], [np.inf, 0, 0]])


@pytest.mark.parametrize("most", [3, 65_536])
def test_bad_rows_are_flagged_and_the_others_as_ever(most, scorer, monkeypatch):
    monkeypatch.setattr(_row_columns, "MOST_ROWS_AT_ONCE", most)
    out, is_bad = scorer.tolerate(spoiled())
    assert list(out) == scorer.column_names
    assert np.flatnonzero(is_bad).tolist() == BAD
    alone = scorer(spoiled()[~is_bad])
    for name in out:
        np.testing.assert_allclose(out[name][~is_bad], alone[name], rtol=1e-9)
    assert np.isnan(out["prediction"][BAD]).all()
    for name in ("bound_0.1", "bound_0.3", "score"):
        assert (out[name][BAD] == np.inf).all()
    assert out["flag"].dtype == bool
    assert out["flag"][BAD].all()


def test_without_bad_rows_nothing_differs(scorer):
    X = rows(20, seed=2)[0]
    out, is_bad = scorer.tolerate(X)
    assert not is_bad.any()
    for name, values in scorer(X).items():
        np.testing.assert_array_equal(out[name], values)
    out, is_bad = scorer.tolerate(X[:0])
    assert len(is_bad) == 0
    assert {name: v.dtype for name, v in out.items()} == {
        name: v.dtype for name, v in scorer(X[:0]).items()
    }


def test_all_rows_may_be_bad(scorer):
    out, is_bad = scorer.tolerate(np.full((4, 3), np.nan))
    assert is_bad.all()
    assert (out["bound_0.1"] == np.inf).all()
    assert out["flag"].all()


def test_what_is_no_matter_of_rows_is_still_an_error(scorer):
    with raises(ValueError, "3 columns"):
        scorer.tolerate(np.zeros((2, 2)))


@functools.cache
def classes_of(*labels):
    """A scorer of a classifier with two labels."""
    X, y = rows()
    y = np.array(labels)[(y > 0.5).astype(int)]
    g = LogisticRegression().fit(X, y)
    return Scorer(Locus(g, loss="zero_one", engine=Scale(), random_state=0).fit(X, y))


@pytest.mark.extra
@pytest.mark.parametrize("labels", [["low", "high"], [0, 1]], ids=["text", "numbers"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "batch"])
def test_frames_of_classes(kind, labels):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    scorer = classes_of(*labels)
    new = pd.DataFrame(rows()[0][:6], columns=["a", "b", "c"])
    new.loc[2, "b"] = np.inf
    given = {
        "pandas": lambda: new.set_index(np.arange(10, 16)),
        "polars": lambda: pl.DataFrame(new),
        "pyarrow": lambda: pa.Table.from_pandas(new),
        "batch": lambda: pa.RecordBatch.from_pandas(new),
    }[kind]()
    out, is_bad = scorer.tolerate(given)
    assert type(out) is type(given)
    assert np.flatnonzero(is_bad).tolist() == [2]
    column = out["prediction"]
    listed = column.to_pylist() if kind in ("pyarrow", "batch") else column.to_list()
    good = [value for i, value in enumerate(listed) if i != 2]
    assert good == scorer.locus.predict(rows()[0][[0, 1, 3, 4, 5]]).tolist()
    assert listed[2] is None or listed[2] != listed[2]
