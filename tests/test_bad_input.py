"""Bad input of every kind gives a clear error, or the answer its documentation states."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from engines_for_tests import ConstantNormal, FirstSignalNormal, quick, zeros
from helpers import assert_close, raises, warns
from locuscore import KNNGamma, Locus, LocusWarning, prediction_column
from locuscore.engines import Bagged, Forest, Gaussian, QuantileGrid, Scale

ENGINES = [Forest(n_trees=10), Gaussian(), Scale(), QuantileGrid((0.5, 0.9))]


@pytest.fixture
def data(rng):
    return rng.normal(size=(60, 3)), rng.normal(size=60)


# Losses and targets


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_not_finite(bad, data):
    X, y = data
    with raises(ValueError, "1 non-finite", "60"):
        quick(loss=lambda y, g: np.where(y == y.max(), bad, 1.0)).fit(X, y)
    with raises(ValueError, "z ", "1 non-finite", "60"):
        quick().fit_losses(X, np.where(y == y.max(), bad, 1.0))


def test_an_infinite_target_or_prediction(data):
    X, y = data
    with pytest.raises(ValueError, match="non-finite"):
        quick().fit(X, np.where(y == y.max(), np.inf, y))
    with pytest.raises(ValueError, match="non-finite"):
        quick(lambda X: np.full(len(X), np.nan)).fit(X, y)


def test_a_negative_loss_where_the_support_forbids_it(data):
    X, y = data
    negative = int(np.sum(y < 0))
    with raises(ValueError, f"{negative} losses", "60", "[0, inf]"):
        quick(loss=lambda y, g: y - g, support=(0, np.inf)).fit(X, y)
    with raises(ValueError, "[0, inf]"):
        quick().fit_losses(X, y)


@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        (lambda y, g: np.mean(y), "()"),
        (lambda y, g: y[:3], "(3,)"),
        (lambda y, g: np.column_stack([y, y]), "(60, 2)"),
        (lambda y, g: np.abs(y[:, None] - g[None, :]), "(60, 60)"),
    ],
)
def test_a_loss_of_the_wrong_shape(loss, shape, data):
    with raises(ValueError, "(60,)", f"got {shape}"):
        quick(loss=loss).fit(*data)


def test_a_column_of_losses_is_taken_as_such(data):
    X, y = data
    bounds = quick(loss=lambda y, g: y[:, None] ** 2).fit(X, y).loss_bound(X)
    assert_close(bounds, quick(loss=lambda y, g: y**2).fit(X, y).loss_bound(X))


def test_a_loss_that_gives_text(data):
    with raises(TypeError, "one number per row", "text"):
        quick(loss=lambda y, g: np.full(len(y), "bad")).fit(*data)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_missing_targets(missing, data):
    X, y = data
    y = y.astype(object)
    y[[3, 5]] = missing
    with raises(ValueError, "y ", "missing", "(2)"):
        quick().fit(X, y)
    labels = np.array(["a", "b"] * 30, dtype=object)
    labels[7] = missing
    with raises(ValueError, "y ", "missing", "(1)"):
        quick(lambda X: np.full(len(X), "a"), loss="zero_one").fit(X, labels)


@pytest.mark.extra
@pytest.mark.parametrize("dtype", ["Float64", "Int64", "string", "object", "datetime64[ns]"])
def test_missing_targets_of_pandas(dtype, data):
    pd = import_module("pandas")
    X, _ = data
    y = pd.Series([None, *[1] * 59], dtype=dtype)
    with raises(ValueError, "y ", "missing", "(1)"):
        quick().fit(X, y)


@pytest.mark.extra
def test_nullable_targets_of_pandas_without_gaps(data):
    pd = import_module("pandas")
    X, _ = data
    whole = np.arange(60)
    locus = quick().fit(X, pd.Series(whole, dtype="Int64"))
    assert_close(locus.losses(X, pd.Series(whole, dtype="Int64")), whole)


def test_targets_of_another_length(data):
    X, y = data
    with raises(ValueError, "X has 60", "(59,)"):
        quick().fit(X, y[:-1])
    with raises(ValueError, "y is None"):
        quick().fit(X, None)
    with pytest.raises(ValueError, match="one number per row"):
        quick().fit_losses(X, np.ones(59))


@pytest.mark.parametrize("y", [["a", "b"], ["1", "2"], np.array(["1", "b"], dtype=object)])
def test_text_targets_with_a_numeric_loss(y, data):
    with raises(ValueError, "y holds text", "zero_one"):
        quick().fit(data[0], np.tile(y, 30))


def test_text_predictions_with_a_numeric_loss(data):
    with raises(ValueError, "numbers", "predictor's output", "text"):
        quick(lambda X: np.full(len(X), "a")).fit(*data)


def test_dates_with_a_numeric_loss(data):
    with raises(ValueError, "numbers", "y holds datetime64"):
        quick().fit(data[0], np.full(60, "2020-01-01", dtype="M8[D]"))


def test_several_targets_need_a_loss_of_their_own(data):
    X, y = data
    both = np.column_stack([y, 2 * y])
    with raises(ValueError, "y has shape (60, 2)", "predictor"):
        quick().fit(X, both)
    with raises(ValueError, "'max'", "lambda y, g: np.abs(y - g).mean(axis=1)"):
        quick(lambda X: np.zeros((len(X), 2))).fit(X, both)
    locus = quick(
        lambda X: np.zeros((len(X), 2)), loss=lambda y, g: np.linalg.norm(y - g, axis=1)
    ).fit(X, both)
    assert_close(locus.losses(X, both), np.sqrt(5) * np.abs(y), rtol=1e-12)


# Rows


def test_other_and_fewer_columns_of_an_array(data):
    X, y = data
    locus = quick().fit(X, y)
    for wrong in (X[:, :2], np.hstack([X, X])):
        for ask in (
            locus.loss_bound,
            locus.predict,
            locus.loss_dist,
            lambda X: locus.exceedance(X, 1.0),
            lambda X: locus.losses(X, np.ones(len(X))),
        ):
            with raises(ValueError, "X has", "features", "expecting 3"):
                ask(wrong)


@pytest.mark.extra
@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        (["a", "b", "d"], ["unseen", "- d"]),
        (["a", "b"], ["missing", "- c"]),
        (["b", "a", "c"], ["order"]),
    ],
)
def test_other_fewer_and_reordered_columns_of_a_frame(columns, facts, data):
    pd = import_module("pandas")
    X, y = data
    locus = quick().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    with raises(ValueError, *facts):
        locus.loss_bound(pd.DataFrame(X[:, : len(columns)], columns=columns))


@pytest.mark.extra
def test_columns_of_the_same_name(data):
    pd = import_module("pandas")
    X, y = data
    with raises(ValueError, "unique"):
        quick().fit(pd.DataFrame(X, columns=["a", "a", "b"]), y)


def test_empty_rows(data):
    X, y = data
    with raises(ValueError, "0 sample(s)", "fit"):
        quick().fit(X[:0], y[:0])
    with raises(ValueError, "0 feature(s)", "(60, 0)", "minimum of 1"):
        quick().fit(X[:, :0], y)
    with raises(TypeError, "fit was given a table", "no rows at all"):
        quick().fit(X, y).loss_bound([])


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_rows_to_split(n, data):
    X, y = data
    with raises(ValueError, "2 rows to model", "1 to calibrate", f"n_samples = {n}"):
        quick().fit(X[:n], y[:n])
    with raises(ValueError, "n_samples = 60", "calibration_size = 59"):
        quick(calibration_size=59).fit(X, y)


@pytest.mark.parametrize("engine", [*ENGINES, None])
def test_the_fewest_rows_that_can_be_split(engine, data):
    X, y = data
    locus = quick(engine=engine).fit(X[:3], y[:3])
    assert np.isfinite(locus.loss_bound(X, 0.5)).all()
    with warns(LocusWarning, "1 calibration rows", "alpha = 0.1"):
        assert np.isinf(locus.loss_bound(X, 0.1)).all()
    assert set(locus.exceedance(X, 1.0)) <= {0.5, 1.0}


def test_one_calibration_row(data):
    X, y = data
    locus = quick(calibration_size=1).fit(X, y)
    with warns(LocusWarning, "9 are needed"):
        assert np.isinf(locus.loss_bound(X)).all()
    assert np.isfinite(locus.loss_bound(X, 0.5)).all()


@pytest.mark.parametrize("x", [np.arange(4.0), [1.0, 2.0], 3.0])
def test_rows_that_are_no_table(x, data):
    X, y = data
    with raises(ValueError, "2D array", "shape", "Reshape"):
        quick().fit(x, y)
    with raises(ValueError, "2D array"):
        quick().fit(X, y).loss_bound(x)


@pytest.mark.extra
def test_a_series_is_no_table(data):
    pd = import_module("pandas")
    X, y = data
    with raises(ValueError, "2D array", "X.to_frame()"):
        quick().fit(pd.Series(X[:, 0]), y)


@pytest.mark.parametrize("X", [{"a": 1.0}, [{"a": 1.0}, {"a": 2.0}], object()])
def test_what_no_array_holds_is_no_table(X, data):
    with raises(ValueError, "2D array", "pandas.DataFrame(rows)"):
        quick().fit(*data).loss_bound(X)


def test_rows_and_targets_of_several_lengths(data):
    X, y = data
    with raises(ValueError, "X is a tuple"):
        quick().fit((X, y), y)
    with raises(ValueError, "y is a list", "absolute", "one value per row"):
        quick().fit(X, [[1.0], [1.0, 2.0]] * 30)


def test_complex_rows(data):
    X, y = data
    with raises(ValueError, "Complex"):
        quick().fit(X + 1j, y)


def test_infinite_rows(data):
    X, y = data
    locus = quick().fit(X, y)
    X[2, 1] = np.inf
    with raises(ValueError, "infinity", "[1]", "NaN"):
        locus.loss_bound(X)
    with raises(ValueError, "infinity", "[1]"):
        quick().fit(X, y)


@pytest.mark.parametrize("engine", [*ENGINES, Bagged(Scale(), n_draws=2), None])
def test_missing_values_in_rows(engine, data):
    X, y = data
    X[::3, 0] = np.nan  # sometimes
    X[:, 1] = np.where(np.arange(60) < 50, np.nan, X[:, 1])  # mostly, in whole folds of D1
    X[:, 2] = np.nan  # always
    locus = quick(engine=engine, calibration_size=np.arange(30, 59)).fit(X, y)
    bounds = locus.loss_bound(X)
    assert np.isfinite(bounds).all()
    X[:, 2] = 7.0
    assert_close(locus.loss_bound(X), bounds)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_matrix])
def test_sparse_rows(kind, data):
    X, y = data
    X = np.where(X > 0, X, 0.0)
    dense = quick(engine=Forest(n_trees=10)).fit(X, y)
    thin = quick(engine=Forest(n_trees=10)).fit(kind(X), y)
    assert_close(thin.loss_bound(kind(X)), dense.loss_bound(X))
    assert_close(thin.exceedance(kind(X), 1.0), dense.exceedance(X, 1.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool])
def test_rows_of_other_numbers(dtype, data):
    X, y = data
    X = (10 + 3 * X).astype(dtype)
    locus = quick(engine=Forest(n_trees=10)).fit(X, y)
    bounds = locus.loss_bound(X)
    assert bounds.dtype == np.float64
    wide = quick(engine=Forest(n_trees=10)).fit(X.astype(float), y)
    assert_close(bounds, wide.loss_bound(X.astype(float)))


def test_rows_and_targets_as_lists(data):
    X, y = data
    locus = quick(lambda X: np.zeros(len(X))).fit(X.tolist(), y.tolist())
    assert_close(locus.loss_bound(X.tolist()), quick().fit(X, y).loss_bound(X))


@pytest.mark.parametrize("engine", [*ENGINES, None])
def test_constant_features(engine, data):
    X, y = data
    locus = quick(engine=engine).fit(np.ones_like(X), y)
    bounds = locus.loss_bound(X)
    assert np.isfinite(bounds).all()
    assert np.ptp(locus.loss_bound(np.ones_like(X))) == 0


def test_constant_features_with_gamma(data):
    X, y = data
    locus = quick(engine=Forest(n_trees=10), gamma=KNNGamma()).fit(np.ones_like(X), y)
    assert np.isfinite(locus.loss_bound(X)).all()


@pytest.mark.parametrize("value", [0.0, 2.5])
@pytest.mark.parametrize("engine", [*ENGINES, None])
def test_equal_losses(engine, value, data):
    X, _ = data
    locus = quick(engine=engine).fit(X, np.full(60, value))
    bounds = locus.loss_bound(X, [0.5, 0.1])
    assert np.all(bounds >= value)
    assert_close(bounds, np.full((60, 2), value), atol=1e-6)


@pytest.mark.parametrize("engine", [Forest(n_trees=10), Scale()])
def test_unseen_categories_are_missing_values(engine, data):
    X, y = data
    rows = np.column_stack([X[:, :1].astype(object), np.array(["a", "b", "c"] * 20)])
    locus = quick(engine=engine).fit(rows, y)
    new = rows[:10].copy()
    new[:, 1] = "never seen"
    missing = new.copy()
    missing[:, 1] = None
    with warns(LocusWarning, "not seen", ": 1 10"):
        bounds = locus.loss_bound(new)
    assert_close(bounds, locus.loss_bound(missing))
    assert np.isfinite(bounds).all()


@pytest.mark.extra
def test_a_lazy_frame(data):
    pl = import_module("polars")
    X, y = data
    with raises(TypeError, "X is a lazy frame", "collect"):
        quick().fit(pl.DataFrame(X).lazy(), y)


# Questions


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, np.nan, [0.1, 1.0], np.inf, None])
def test_alpha_outside_its_range(alpha, data):
    X, y = data
    locus = quick().fit(X, y)
    with raises(ValueError, "alpha", "between 0 and 1"):
        locus.loss_bound(X, alpha)


@pytest.mark.parametrize("tau", [np.nan, np.inf, -np.inf, [1.0, np.nan], None])
def test_tau_that_is_not_finite(tau, data):
    X, y = data
    locus = quick().fit(X, y)
    with raises(ValueError, "tau", "finite"):
        locus.exceedance(X, tau)


@pytest.mark.parametrize("value", ["much", [[0.1], [0.2]], [], {"a": 1}])
def test_alpha_and_tau_that_are_no_numbers(value, data):
    X, y = data
    locus = quick().fit(X, y)
    kind = ValueError if isinstance(value, list) else TypeError
    with raises(kind, "alpha must be"):
        locus.loss_bound(X, value)
    with raises(kind, "tau must be"):
        locus.exceedance(X, value)


def test_tau_below_every_loss(data):
    X, y = data
    assert_close(quick().fit(X, y).exceedance(X, -1.0), np.ones(60))


# Predictors


@pytest.mark.parametrize(
    ("g", "shape"),
    [
        (lambda X: 0.0, "()"),
        (lambda X: np.zeros(3), "(3,)"),
        (lambda X: np.zeros((3, 60)), "(3, 60)"),
    ],
)
def test_a_predictor_that_returns_the_wrong_shape(g, shape, data):
    with raises(ValueError, "one prediction per row", f"shape {shape}"):
        quick(g).fit(*data)


def test_a_predictor_that_returns_images_needs_a_loss_of_them(data):
    with raises(ValueError, "one value with one", "shape (60, 2, 2)"):
        quick(lambda X: np.zeros((60, 2, 2))).fit(*data)


def test_a_predictor_that_returns_a_column(data):
    X, y = data
    assert_close(quick(lambda X: X[:, :1]).fit(X, y).losses(X, y), np.abs(y - X[:, 0]))


class OwnError(Exception):
    pass


def test_a_predictor_that_raises(data):
    X, y = data

    def g(X):
        if X.max() > 100:
            raise OwnError("out of range")
        return np.zeros(len(X))

    locus = quick(g).fit(X, y)
    with pytest.raises(OwnError, match="out of range") as caught:
        locus.loss_bound(X + 1000)
    (note,) = caught.value.__notes__
    assert note.startswith("raised by the predictor <function")
    assert note.endswith("on 60 rows")
    with pytest.raises(OwnError) as caught:
        quick(g).fit(X + 1000, y)
    assert caught.value.__notes__


@pytest.mark.parametrize("g", [Ridge(), make_pipeline(StandardScaler(), Ridge())])
def test_a_predictor_that_is_not_fitted(g, data):
    with raises(NotFittedError, "predictor", "not fitted", type(g).__name__):
        quick(g).fit(*data)
    with raises(NotFittedError, "predictor", "not fitted", type(g).__name__):
        quick(g).fit_losses(data[0], np.ones(60))


def test_a_fitted_model_without_the_usual_attributes(data):
    class Homemade(BaseEstimator):
        def fit(self, X, y):
            self.mean = np.mean(y)
            return self

        def predict(self, X):
            return np.full(len(X), self.mean)

    X, y = data
    assert_close(quick(Homemade().fit(X, y)).fit(X, y).predict(X), np.full(60, y.mean()))


@pytest.mark.parametrize("g", [Ridge, None, 3, "ridge"])
def test_what_is_no_predictor(g, data):
    with raises(TypeError, "predictor must be", "predict method"):
        quick(g).fit(*data)


# Engines and gamma


def test_gamma_needs_several_draws(data):
    with raises(ValueError, "Scale gives one", "engines.Bagged(engine, n_draws=20)"):
        quick(engine=Scale(), gamma=KNNGamma()).fit(*data)
    locus = quick(engine=Bagged(Scale(), n_draws=3), gamma=KNNGamma()).fit(*data)
    assert np.isfinite(locus.loss_bound(data[0])).all()


@pytest.mark.parametrize("engine", [Ridge(), Forest, 3])
def test_what_is_no_engine(engine, data):
    with raises(TypeError, "engine must be", "fit and predict_draws"):
        quick(engine=engine).fit(*data)


@pytest.mark.parametrize("gamma", [0.5, KNNGamma, StandardScaler()])
def test_what_is_no_gamma(gamma, data):
    with raises(TypeError, "gamma must be", "fit and predict"):
        quick(engine=FirstSignalNormal(n_draws=3), gamma=gamma).fit(*data)


def test_an_engine_whose_laws_contradict_themselves(data):
    class Low:
        shape = (1, 1)

        def __init__(self, n):
            self.shape = (n, 1)

        def sf(self, z):
            return np.full(self.shape, np.nan)

        def isf(self, level):
            return np.zeros(self.shape)

    class Broken(ConstantNormal):
        def predict_draws(self, S):
            return Low(len(S))

    with raises(RuntimeError, "Broken", "inconsistent"):
        quick(engine=Broken()).fit(*data)


class FallingShort(ConstantNormal):
    """Its inverse falls short of the loss that set the level."""

    def predict_draws(self, S):
        draws = super().predict_draws(S)
        wave = SimpleNamespace(shape=draws.shape)
        wave.sf = lambda z: np.where(z > 9.0, 0.0, np.where(z > 0.5, 0.9, 0.1))
        wave.isf = lambda level: np.full(draws.shape, 0.0)
        return wave


def test_laws_whose_inverse_falls_short_are_refused(data):
    with raises(RuntimeError, "FallingShort", "isf(sf)"):
        quick(engine=FallingShort()).fit(*data)


def test_a_missing_stored_prediction_has_no_bound(data):
    X, y = data
    locus = quick(predictor=prediction_column(0)).fit(X, y)
    X = X.copy()
    X[3, 0] = np.nan
    with raises(ValueError, "predictor", "1 rows"):
        locus.loss_bound(X)


@pytest.mark.parametrize("seed", range(4))
def test_text_that_the_fitting_rows_do_not_hold(seed, data):
    X, y = data
    rare = np.full((60, 1), None, dtype=object)
    rare[7] = "vip"
    X = np.hstack([X.astype(object), rare])
    locus = Locus(zeros, engine=Forest(n_trees=5), random_state=seed).fit(X, y)
    assert np.isfinite(locus.loss_bound(X)).all()


def test_text_is_no_number(data):
    locus = quick().fit(*data)
    with raises(TypeError, "alpha must be"):
        locus.loss_bound(data[0], "0.1")
    with raises(TypeError, "tau must be"):
        locus.exceedance(data[0], ["5"])
