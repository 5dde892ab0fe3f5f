import sys

import numpy as np
import pytest

from helpers import raises
from locuscore.datasets import load_diamonds

FEATURES = ["carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z"]


def test_arrays_hold_plain_numbers():
    X, y = load_diamonds(as_frame=False)
    assert X.shape == (53_940, 9)
    assert y.shape == (53_940,)
    assert X.dtype == y.dtype == np.float64
    assert np.isfinite(X).all()
    # The first row of the published table: 0.23 carat, Ideal (4), E (5), SI2 (1).
    np.testing.assert_array_equal(X[0], [0.23, 4, 5, 1, 61.5, 55.0, 3.95, 3.98, 2.43])
    assert y[0] == 326.0
    assert y.sum() == 212_135_217.0


def test_codes_count_up_from_zero():
    X, _ = load_diamonds(as_frame=False)
    for column, n_levels in [(1, 5), (2, 7), (3, 8)]:
        np.testing.assert_array_equal(np.unique(X[:, column]), np.arange(n_levels))


def test_two_calls_do_not_share_memory():
    X, _ = load_diamonds(as_frame=False)
    X[:] = 0.0
    assert load_diamonds(as_frame=False)[0].any()


@pytest.mark.extra
def test_frame_and_arrays_agree():
    X, y = load_diamonds()
    values, prices = load_diamonds(as_frame=False)
    assert list(X.columns) == FEATURES
    assert y.name == "price"
    np.testing.assert_array_equal(y.to_numpy(), prices)
    for j, name in enumerate(FEATURES):
        column = X[name]
        codes = column.cat.codes if name in ("cut", "color", "clarity") else column
        np.testing.assert_array_equal(codes.to_numpy(dtype=np.float64), values[:, j])


@pytest.mark.extra
def test_categories_are_ordered_from_worst_to_best():
    X, _ = load_diamonds()
    assert X["cut"].cat.ordered
    assert list(X["cut"].cat.categories) == ["Fair", "Good", "Very Good", "Premium", "Ideal"]
    assert list(X["color"].cat.categories) == list("JIHGFED")
    clarity = ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"]
    assert list(X["clarity"].cat.categories) == clarity


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with raises(ModuleNotFoundError, "pip install 'locuscore[demo]'"):
        load_diamonds()


@pytest.mark.extra
def test_answers_are_graded_for_both_models():
    from locuscore.datasets import load_answers

    table = load_answers()
    assert len(table) == 4_000
    assert not table.isna().any().any()
    for name in ("small", "large"):
        assert set(table[f"{name}_loss"]) == {0.0, 0.5, 1.0}
        assert table[f"{name}_judge"].between(0, 1).all()
        assert table[f"{name}_agreement"].between(0, 1).all()
    assert table["large_loss"].mean() < table["small_loss"].mean()
