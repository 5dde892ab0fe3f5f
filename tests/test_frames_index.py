import numpy as np
import pytest

from locuscore._frames import like_rows

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
