import numpy as np
import pytest

from engines_for_tests import quick
from helpers import assert_close, raises
from locuscore import Scorer, certify_groups, certify_threshold
from locuscore._shared.frames import like_rows
from locuscore.metrics import coverage, local_coverage
from locuscore.report import report, report_batches

pytestmark = pytest.mark.extra


@pytest.mark.parametrize("kind", ["shuffled", "named", "text", "multi", "repeated"])
def test_a_pandas_index_comes_back_unchanged(kind):
    import pandas as pd

    index = {
        "shuffled": pd.Index([7, 3, 5]),
        "named": pd.Index([7, 3, 5], name="id"),
        "text": pd.Index(["b", "a", "c"]),
        "multi": pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=["i", "j"]),
        "repeated": pd.Index([1, 1, 2]),
    }[kind]
    X = pd.DataFrame({"u": [1.0, 2.0, 3.0]}, index=index)
    values = np.arange(6.0).reshape(3, 2)
    frame = like_rows(X, values, ["p", "q"])
    pd.testing.assert_frame_equal(frame, pd.DataFrame(values, columns=["p", "q"], index=index))
    series = like_rows(X, values[:, 0], ["p"])
    pd.testing.assert_series_equal(series, pd.Series(values[:, 0], name="p", index=index))


def test_no_rows_give_no_rows():
    import pandas as pd

    X = pd.DataFrame({"u": [1.0]}, index=[4]).iloc[:0]
    assert like_rows(X, np.empty(0), ["p"]).shape == (0,)
    assert like_rows(X, np.empty((0, 2)), ["p", "q"]).shape == (0, 2)


def test_polars_gives_polars():
    import polars as pl

    X = pl.DataFrame({"u": [1.0, 2.0]})
    assert like_rows(X, np.array([3.0, 4.0]), ["p"]).to_list() == [3.0, 4.0]
    assert like_rows(X, np.ones((2, 2)), ["p", "q"]).columns == ["p", "q"]


@pytest.fixture
def labelled(rng):
    """Rows whose index came out of a shuffle, and their targets in the order they had before."""
    import pandas as pd

    X = pd.DataFrame(rng.uniform(size=(60, 2)), columns=["u", "v"])
    y = pd.Series(X["u"] + rng.normal(size=60), name="price")
    return X.sample(frac=1, random_state=0), y


def test_targets_in_another_order_than_their_rows_are_refused(labelled):
    X, y = labelled
    aligned = y.loc[X.index]
    locus = quick().fit(X, aligned)
    z, score = locus.losses(X, aligned), locus.loss_bound(X)
    entries = {
        "fit": lambda: quick().fit(X, y),
        "fit_losses": lambda: quick().fit_losses(X, y.abs()),
        "losses": lambda: locus.losses(X, y),
        "certify": lambda: locus.certify(1.0, 0.5, 0.1, X, y),
        "report": lambda: report(Scorer(locus), X, y),
        "report of losses": lambda: report(Scorer(locus), X, losses=y.abs()),
        "report by group": lambda: report(Scorer(locus), X, aligned, groups=y > 0),
        "report_batches": lambda: report_batches(Scorer(locus), [(X, y)]),
        "certify_threshold": lambda: certify_threshold(score, z.sort_index(), 1.0, 0.5, 0.1),
        "certify_groups": lambda: certify_groups(score, z, y > 0, 1.0, 0.5, 0.1),
        "coverage": lambda: coverage(z, score.sort_index()),
        "local_coverage": lambda: local_coverage(z, score, y > 0),
    }
    for entry in entries.values():
        with raises(ValueError, "another order", ".loc[", ".index]", ".to_numpy()"):
            entry()


def test_a_frame_of_one_target_is_looked_at_too(labelled):
    X, y = labelled
    with pytest.raises(ValueError, match="another order"):
        quick().fit(X, y.to_frame())


def test_targets_whose_index_merely_differs_are_taken_as_they_stand(labelled):
    import pandas as pd

    X, y = labelled
    expected = quick().fit(X, y.to_numpy()).tails_
    for index in (y.index + 1000, pd.Index([f"row {i}" for i in range(60)]), [0] * 60, X.index):
        assert_close(quick().fit(X, y.set_axis(index)).tails_, expected)
    assert_close(quick().fit(X.set_axis([0] * 60), y.set_axis([0] * 60)).tails_, expected)
    assert_close(quick().fit(X.to_numpy(), y).tails_, expected)
    assert_close(quick().fit(X, y.tolist()).tails_, expected)


@pytest.mark.parametrize("kind", ["repeated", "multi", "text", "dates"])
def test_every_kind_of_label_is_compared(kind, labelled):
    import pandas as pd

    X, y = labelled
    index = {
        "repeated": pd.Index([0, 1, 2] * 20),
        "multi": pd.MultiIndex.from_product([range(6), range(10)]),
        "text": pd.Index([f"row {i}" for i in range(60)]),
        "dates": pd.date_range("2026-01-01", periods=60),
    }[kind]
    X, y = X.set_axis(index), y.set_axis(index)
    quick().fit(X, y)
    with pytest.raises(ValueError, match="60 of 60") as error:
        quick().fit(X, y.iloc[np.r_[1:60, 0]])
    assert ("the same sort" in str(error.value)) == (kind == "repeated")
