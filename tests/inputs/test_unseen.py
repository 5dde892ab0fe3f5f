"""Values that fit has not seen: counted by column, said once where they are many."""

import warnings

import numpy as np
import pytest

from engines_for_tests import ConstantNormal
from helpers import assert_close, warns
from locuscore import Locus, LocusWarning, Score, Scorer
from locuscore._inputs.unseen import collected_unseen
from locuscore.engines import Forest

TOWNS = ["north", "south", "west"]


def frame(n=60):
    import pandas as pd

    return pd.DataFrame(
        {
            "size": np.linspace(0.0, 1.0, n),
            "town": np.resize(TOWNS, n),
            "state": pd.Categorical(np.resize(["new", "old"], n)),
            "sold": pd.date_range("2026-01-01", periods=n),
        }
    )


def target(X):
    return np.linspace(-1.0, 1.0, len(X))


def rows(n=60):
    values = np.empty((n, 2), dtype=object)
    values[:, 0], values[:, 1] = np.linspace(0.0, 1.0, n), np.resize(TOWNS, n)
    return values


def fitted(X, engine=None):
    settings = {"engine": engine or ConstantNormal(), "random_state": 0}
    return Locus(lambda X: np.zeros(len(X)), **settings).fit(X, target(X))


def test_an_array_without_names_is_counted_by_position():
    X = rows()
    locus = fitted(X)
    new = X.copy()
    new[:7, 1] = "elsewhere"
    with warns(LocusWarning, "of 60 rows", ": 1 7."):
        locus.loss_bound(new)


def test_one_warning_for_each_call():
    X = rows()
    locus = fitted(X)
    new = X.copy()
    new[:, 1] = 5
    calls = {
        "loss_bound": lambda: locus.loss_bound(new),
        "exceedance": lambda: locus.exceedance(new, 1.0),
        "scores": lambda: locus.scores(new, Score.tail(1.0)),
        "loss_dist": lambda: locus.loss_dist(new),
        "accepts": lambda: locus.accepts(new, locus.tau_rule(1.0, 0.2)),
        "certify": lambda: locus.certify(1.0, 0.5, 0.1, new, target(new)),
        "Scorer": lambda: Scorer(locus)(new),
    }
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        said = [str(w.message) for w in caught if issubclass(w.category, LocusWarning)]
        assert len(said) == 1, name
        assert "1 60 (of type int, in fit str)" in said[0]


def test_a_tenth_and_missing_values_are_not_many():
    X = rows()
    locus = fitted(X)
    new = X.copy()
    new[:6, 1] = "elsewhere"
    new[6:50, 1] = None
    new[50:55, 1] = np.nan
    locus.loss_bound(new)  # a warning is an error here
    with collected_unseen() as found:
        locus.loss_bound(new)
    assert (found.rows, found.counts, found.warning) == (60, {1: 6}, None)


def test_blocks_are_counted_together_and_once(monkeypatch):
    X = rows()
    locus = fitted(X)
    new = np.vstack([X, X])
    new[:20, 1] = "elsewhere"
    monkeypatch.setattr("locuscore._inputs.signals.MOST_ROWS_AT_ONCE", 7)
    with warns(LocusWarning, "of 120 rows", ": 1 20") as caught:
        locus.loss_bound(new)
    assert len(caught) == 1


def test_what_somebody_collects_is_not_said():
    X = rows()
    scorer = Scorer(fitted(X))
    new = X.copy()
    new[:30, 1] = "elsewhere"
    with collected_unseen() as found:
        scorer(new)
        scorer(X)
    assert (found.rows, found.counts) == (120, {1: 30})
    assert "1 30" in found.warning


def test_a_column_that_was_empty_in_fit():
    X = rows()
    X[:, 1] = None
    locus = fitted(X)
    with pytest.warns(LocusWarning, match=r": 1 60\."):
        locus.loss_bound(rows())


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_are_counted_by_name(kind):
    import narwhals as nw

    X = frame()
    scorer = Scorer(fitted(X, Forest(n_trees=3)))
    new = X.assign(town=np.arange(60), state=np.where(X.index < 9, "built", X["state"]))
    table = nw.from_native(new)
    given = {"pandas": table.to_native, "polars": table.to_polars, "pyarrow": table.to_arrow}[kind]
    with warns(LocusWarning, "'town' 60", "int", "in fit str", "'state' 9."):
        scorer(given())


@pytest.mark.extra
def test_numbers_where_fit_saw_times():
    import pandas as pd

    X = frame()
    locus = fitted(X)
    seconds = X["sold"].astype("int64") // 10**9
    with warns(LocusWarning, "'sold' 60", "in fit a time"):
        locus.loss_bound(X.assign(sold=seconds))
    with warns(LocusWarning, "'size' 59", "duration", "in fit a number"):
        locus.loss_bound(X.assign(size=pd.to_timedelta(X["size"].where(X.index > 0), "s")))
    # What encodes to the same numbers is no other kind.
    other = X.assign(size=(X["size"] > 0.5), sold=X["sold"].astype("datetime64[s]"))
    assert np.isfinite(locus.loss_bound(other)).all()


def test_numbers_are_not_looked_at():
    X = np.random.default_rng(0).normal(size=(60, 3))
    locus = fitted(X)
    with collected_unseen() as found:
        assert_close(locus.loss_bound(X + 1e6), locus.loss_bound(X))
    assert not found.counts
