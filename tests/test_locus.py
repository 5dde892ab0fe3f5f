import copy
import pickle
import warnings
from importlib import import_module

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from engines_for_tests import ConstantNormal, FirstSignalNormal
from helpers import assert_close, raises, warns
from locuscore import (
    KNNGamma,
    Locus,
    LocusWarning,
    pinball,
    prediction_column,
)
from locuscore._inputs import signals as signals_module
from locuscore._inputs.encoder import Encoder
from locuscore._laws import loss_model
from locuscore._laws.calibration import calibrated_level
from locuscore._shared import blocks
from locuscore.engines import Bagged, Forest, Gaussian, QuantileGrid, Scale


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 3))
    return X, X[:, 0] + np.abs(X[:, 1]) * rng.normal(size=300)


def first_column(X):
    return X[:, 0]


def quick(predictor=first_column, **kwargs):
    return Locus(predictor, **{"engine": Forest(n_trees=10), "random_state": 0, **kwargs})


class NeverAgain:
    """A predictor that may be used, but not fitted, copied or changed."""

    def predict(self, X):
        return X[:, 0]

    def fit(self, X, y):
        raise AssertionError("the predictor was fitted")

    def __deepcopy__(self, memo):
        raise AssertionError("the predictor was copied")


# What stands in for g


@pytest.mark.parametrize("kind", ["regressor", "pipeline", "method", "column"])
def test_kinds_of_predictors(kind, data):
    X, y = data
    g = Ridge().fit(X[:150], y[:150])
    pipeline = make_pipeline(StandardScaler(), Ridge()).fit(X[:150], y[:150])
    predictor = {
        "regressor": g,
        "pipeline": pipeline,
        "method": g.predict,
        "column": prediction_column(2),
    }[kind]
    expected = {"pipeline": pipeline.predict(X), "column": X[:, 2]}.get(kind, g.predict(X))
    locus = quick(predictor).fit(X[150:], y[150:])
    assert_close(locus.predict(X), expected)
    assert_close(locus.losses(X, y), np.abs(y - expected))
    covered = np.mean(locus.losses(X, y) <= locus.loss_bound(X, alpha=0.1))
    assert covered > 0.75
    # The same numbers, whichever way g is given, when the engine sees x alone.
    if kind == "method":
        bounds = [quick(p, signals="x").fit(X, y).loss_bound(X) for p in (g, g.predict)]
        assert_close(*bounds)


def test_a_classifier_with_text_labels(data):
    X, y = data
    labels = np.where(y > 0, "up", "down")
    g = RandomForestClassifier(10, random_state=0).fit(X[:150], labels[:150])
    locus = quick(g, loss="zero_one").fit(X[150:], labels[150:])
    assert list(locus.predict(X)) == list(g.predict(X))
    assert set(locus.loss_bound(X, alpha=[0.3, 0.05]).ravel()) <= {0.0, 1.0}
    exceedance = locus.exceedance(X, 0.5)
    assert np.all((exceedance > 0) & (exceedance <= 1))


@pytest.mark.extra
def test_a_column_of_a_frame_as_the_predictor(data):
    X, y = data
    frame = import_module("pandas").DataFrame(X, columns=["a", "b", "yhat"])
    by_name = quick(prediction_column("yhat")).fit(frame, y)
    by_position = quick(prediction_column(2)).fit(X, y)
    assert_close(by_name.loss_bound(frame), by_position.loss_bound(X))


def test_the_predictor_is_never_fitted_or_copied(data):
    X, y = data
    g = NeverAgain()
    locus = quick(g, gamma=KNNGamma(k=5)).fit(X, y)
    for other in (clone(locus), clone(clone(locus)).fit(X, y), copy.copy(locus)):
        assert other.predictor is g
        assert other.fit(X, y).predict(X[:2]).tolist() == X[:2, 0].tolist()
    locus.loss_bound(X, [0.5, 0.1])
    locus.exceedance(X, 1.0)
    locus.losses(X, y)
    assert not [name for name in vars(g) if name.endswith("_")]


def test_a_fitted_model_is_left_as_it_was(data):
    X, y = data
    g = RandomForestRegressor(5, random_state=0).fit(X, y)
    before = pickle.dumps(g)
    quick(g).fit(X, y).loss_bound(X)
    assert pickle.dumps(g) == before


# Parameters


def test_parameters_are_stored_read_and_set():
    engine, gamma = Scale(), KNNGamma()
    locus = Locus(
        first_column,
        loss="squared",
        engine=engine,
        signals="x",
        gamma=gamma,
        support=(0, 5),
        calibration_size=0.3,
        random_state=7,
    )
    params = locus.get_params(deep=False)
    assert params == {
        "predictor": first_column,
        "loss": "squared",
        "engine": engine,
        "signals": "x",
        "gamma": gamma,
        "calibration": None,
        "support": (0, 5),
        "calibration_size": 0.3,
        "random_state": 7,
        "unit": None,
    }
    assert locus.get_params()["gamma__k"] == 50
    assert locus.set_params(gamma__k=9, loss="absolute") is locus
    assert (gamma.k, locus.loss) == (9, "absolute")
    with raises(ValueError, "'lambda_'"):
        locus.set_params(lambda_=1)


def test_a_clone_has_its_own_parts_and_the_same_bounds(data):
    X, y = data
    locus = quick(loss=pinball(0.8), gamma=KNNGamma(k=5)).fit(X, y)
    twin = clone(locus)
    assert twin.engine is not locus.engine
    assert twin.gamma is not locus.gamma
    with pytest.raises(NotFittedError):
        twin.loss_bound(X)
    assert_close(twin.fit(X, y).loss_bound(X), locus.loss_bound(X))


def test_changing_parameters_waits_for_the_next_fit(data):
    X, y = data
    locus = quick().fit(X, y)
    bounds, losses = locus.loss_bound(X), locus.losses(X, y)
    locus.set_params(loss="squared", support=(0, 100), engine=Scale())
    assert_close(locus.loss_bound(X), bounds)
    assert_close(locus.losses(X, y), losses)
    assert locus.support_.high == np.inf


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"loss": pinball(0.9)},
        {"gamma": KNNGamma(k=5)},
        {"engine": Bagged(Scale(), n_draws=2), "gamma": KNNGamma(k=5)},
    ],
)
def test_pickle_keeps_every_bound(kwargs, data):
    X, y = data
    locus = quick(RandomForestRegressor(5, random_state=0).fit(X, y), **kwargs).fit(X, y)
    again = pickle.loads(pickle.dumps(locus))
    assert np.array_equal(again.loss_bound(X, [0.5, 0.1]), locus.loss_bound(X, [0.5, 0.1]))
    assert np.array_equal(again.exceedance(X, 1.0), locus.exceedance(X, 1.0))


# Fitting


def test_not_fitted():
    locus = quick()
    X = np.zeros((2, 3))
    for call in (
        lambda: locus.loss_bound(X),
        lambda: locus.exceedance(X, 1.0),
        lambda: locus.loss_dist(X),
        lambda: locus.losses(X, [0, 0]),
        lambda: locus.predict(X),
    ):
        with raises(NotFittedError, "Locus", "not fitted"):
            call()


def test_a_failed_fit_leaves_nothing_half_fitted(data):
    X, y = data
    locus = quick().fit(X, y)
    with pytest.raises(ValueError, match="non-finite"):
        locus.fit(X[:, :2], np.where(y > 0, np.inf, y))
    with pytest.raises(NotFittedError):
        locus.loss_bound(X)


def test_logged_losses_give_the_same_bounds(data):
    """As long as nothing is learned from y itself, as a second opinion is."""
    X, y = data
    locus = quick(signals=["x", "predictor"]).fit(X, y)
    logged = quick(signals=["x", "predictor"]).fit_losses(X, np.abs(y - X[:, 0]))
    assert_close(logged.loss_bound(X), locus.loss_bound(X))
    assert_close(logged.exceedance(X, 1.0), locus.exceedance(X, 1.0))


def test_logged_losses_need_no_predictor(data):
    X, y = data
    locus = quick(None, signals=["x", "predictor"]).fit_losses(X, y**2)
    assert_close(locus.loss_bound(X), quick(signals="x").fit_losses(X, y**2).loss_bound(X))
    for call in (
        lambda: locus.predict(X),
        lambda: locus.losses(X, y),
        lambda: locus.recalibrate(X + 1, y),
        lambda: locus.certify(1.0, 0.1, 0.1, X=X + 1, y=y),
    ):
        with raises(TypeError, "no predictor", "logged losses", "recalibrate_losses(X, losses)"):
            call()
    with raises(TypeError, "predictor must be", "fitted"):
        locus.fit(X, y)


def test_the_same_seed_gives_the_same_bounds(data):
    X, y = data
    first, second = quick().fit(X, y), quick().fit(X, y)
    assert np.array_equal(first.loss_bound(X), second.loss_bound(X))
    assert np.array_equal(first.loss_bound(X), first.fit(X, y).loss_bound(X))
    assert not np.array_equal(first.loss_bound(X), quick(random_state=1).fit(X, y).loss_bound(X))


def test_other_kinds_of_random_state(data):
    X, y = data
    for make in (np.random.default_rng, np.random.RandomState):
        bounds = [quick(random_state=make(3)).fit(X, y).loss_bound(X) for _ in range(2)]
        assert np.array_equal(*bounds)
    assert np.isfinite(quick(random_state=None).fit(X, y).loss_bound(X)).all()


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0.5, 150), (0.25, 75), (np.float32(0.25), 75), (40, 40), (np.int64(1), 1), (1e-9, 1)],
)
def test_the_size_of_the_calibration_part(size, expected, data):
    X, y = data
    locus = quick(calibration_size=size, engine=ConstantNormal()).fit(X, y)
    assert len(locus.calibration_rows_) == len(locus.tails_) == expected
    together = np.concatenate([locus.fit_rows_, locus.calibration_rows_])
    assert sorted(together) == list(range(300))


def test_calibration_rows_by_position(data):
    X, y = data
    rows = [7, 3, 299, 3]
    locus = quick(calibration_size=rows, engine=ConstantNormal()).fit(X, y)
    assert locus.calibration_rows_.tolist() == [3, 7, 299]


@pytest.mark.parametrize("size", [0, -1, 0.0, 1.0, -0.5, True, "half", float("nan")])
def test_sizes_that_make_no_sense(size, data):
    with raises(ValueError, "calibration_size", "between 0 and 1", f"got {size!r}"):
        quick(calibration_size=size).fit(*data)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        *((3, 1), (4, 2), (10, 5), (39, 20), (40, 19), (60, 29), (200, 99), (399, 99)),
        *((1000, 249), (2000, 499), (4000, 499), (10_000, 1249)),
    ],
)
def test_by_default_the_share_that_calibrates_falls_with_the_number_of_rows(n, expected, rng):
    rows = rng.uniform(size=(n, 2))
    locus = Locus(None, engine=ConstantNormal(), random_state=0).fit_losses(rows, rows[:, 0])
    assert len(locus.tails_) == expected


@pytest.mark.parametrize("rows", [[], [300], [-1], [0.5], np.ones(300, dtype=bool), np.arange(301)])
def test_positions_that_make_no_sense(rows, data):
    with raises(ValueError, "[0, 300)"):
        quick(calibration_size=rows).fit(*data)


def test_small_samples_are_split_as_well_as_they_can_be():
    X = np.arange(3.0)[:, None]
    locus = quick(engine=ConstantNormal()).fit(X, [1.0, 2.0, 4.0])
    assert (len(locus.fit_rows_), len(locus.calibration_rows_)) == (2, 1)


def test_calibration_rows_never_reach_engine_gamma_or_encoder(data, monkeypatch):
    X, y = data
    seen, gamma_seen, encoder_seen = [], [], []

    class SpyEncoder(Encoder):
        def fit(self, X):
            encoder_seen.append(np.array(X))
            return super().fit(X)

    class SpyGamma:
        def fit(self, S):
            gamma_seen.append(S)
            return self

        def predict(self, S):
            return np.full(len(S), 0.5)

        def __deepcopy__(self, memo):
            return self

    monkeypatch.setattr(signals_module, "Encoder", SpyEncoder)
    engine = FirstSignalNormal(seen, n_draws=3)
    locus = quick(engine=engine, gamma=SpyGamma()).fit(X, y)
    (fitted_on,) = [S for method, S in seen if method == "fit"]
    assert_close(fitted_on[:, :3], X[locus.fit_rows_])
    assert_close(gamma_seen[0], fitted_on)
    assert len(gamma_seen) == 1
    assert_close(encoder_seen[0], X[locus.fit_rows_])
    calibration = {tuple(row) for row in X[locus.calibration_rows_]}
    for rows in encoder_seen:
        assert not calibration & {tuple(row[:3]) for row in rows}
    locus.loss_bound(X)
    assert [method for method, _ in seen].count("fit") == 1


def test_a_plain_engine_with_two_methods(data):
    X, y = data

    class Plain:
        def fit(self, S, z):  # returns nothing
            self.law = ConstantNormal().fit(S, z)

        def predict_draws(self, S):
            return self.law.predict_draws(S)

        def __len__(self):  # falsy, yet an engine
            return 0

    engine = Plain()
    locus = quick(engine=engine).fit(X, y)
    assert_close(locus.loss_bound(X), quick(engine=ConstantNormal()).fit(X, y).loss_bound(X))
    assert not hasattr(engine, "law")


# Asking


def test_bounds_for_one_alpha_and_for_many(data):
    X, y = data
    locus = quick().fit(X, y)
    alphas = [0.05, 0.1, 0.3, 0.7]
    bounds = locus.loss_bound(X, alphas)
    assert bounds.shape == (300, 4)
    assert np.all(np.diff(bounds, axis=1) <= 0)
    for j, alpha in enumerate(alphas):
        assert np.array_equal(locus.loss_bound(X, alpha), bounds[:, j])
    assert np.array_equal(locus.loss_bound(X), bounds[:, 1])
    assert locus.loss_bound(X, [0.1]).shape == (300, 1)
    assert np.array_equal(locus.loss_bound(X, np.array(alphas)), bounds)


def test_the_bound_is_the_inverse_at_the_calibrated_level(data):
    X, y = data
    locus = quick().fit(X, y)
    level = calibrated_level(locus.tails_, 0.1)
    assert_close(locus.loss_bound(X, 0.1), locus.loss_dist(X).isf(level))


@pytest.mark.parametrize("gamma", [None, KNNGamma(k=5)])
def test_exceedance_and_bound_are_the_same_statement(gamma, data):
    X, y = data
    locus = quick(gamma=gamma).fit(X, y)
    alphas, taus = [0.05, 0.2, 0.5], [0.1, 0.5, 2.0]
    bounds, exceedance = locus.loss_bound(X, alphas), locus.exceedance(X, taus)
    assert exceedance.shape == (300, 3)
    for i, alpha in enumerate(alphas):
        for j, tau in enumerate(taus):
            assert np.array_equal(bounds[:, i] <= tau, exceedance[:, j] <= alpha)
    assert np.array_equal(locus.exceedance(X, 0.5), exceedance[:, 1])
    assert np.all(np.diff(exceedance, axis=1) <= 0)


def test_calibration_rows_are_covered_as_often_as_promised(data):
    X, y = data
    locus = quick().fit(X, y)
    rows = locus.calibration_rows_
    z = locus.losses(X[rows], y[rows])
    for alpha in (0.05, 0.1, 0.5, 0.9):
        covered = int(np.sum(z <= locus.loss_bound(X[rows], alpha)))
        assert covered >= np.ceil((1 - alpha) * (len(rows) + 1) - 1e-9)


def test_shapes_of_the_predictive_law(data):
    X, y = data
    dist = quick().fit(X, y).loss_dist(X[:5])
    assert len(dist) == 5
    for method in (dist.cdf, dist.sf, dist.tail):
        assert method(1.0).shape == (5,)
        assert method(np.arange(5.0)).shape == (5,)
        assert method(np.array([[0.0, 1.0, 2.0]])).shape == (5, 3)
        assert method(np.ones((5, 2))).shape == (5, 2)
    assert dist.ppf(0.9).shape == (5,)
    assert dist.isf(np.array([[0.5, 0.1]])).shape == (5, 2)
    assert_close(dist.cdf(1.0), 1 - dist.sf(1.0))


def test_no_rows_give_no_bounds_and_call_nothing(data):
    X, y = data
    seen = []

    def g(X):
        seen.append(len(X))
        return X[:, 0]

    locus = quick(g).fit(X, y)
    seen.clear()
    empty = X[:0]
    assert locus.loss_bound(empty).shape == (0,)
    assert locus.loss_bound(empty, [0.5, 0.1]).shape == (0, 2)
    assert locus.exceedance(empty, 1.0).shape == (0,)
    assert locus.exceedance(empty, [1.0, 2.0]).shape == (0, 2)
    assert locus.losses(empty, []).shape == (0,)
    with raises(ValueError, "loss_dist", "one row"):
        locus.loss_dist(empty)
    assert not seen


@pytest.mark.extra
def test_no_rows_of_a_frame(data):
    pd = import_module("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    locus = quick(lambda X: X["a"]).fit(frame, y)
    assert isinstance(locus.loss_bound(frame[:0]), pd.Series)
    assert locus.loss_bound(frame[:0], [0.5, 0.1]).shape == (0, 2)


@pytest.mark.parametrize(
    "engine",
    [
        Forest(n_trees=10),
        Gaussian(),
        Scale(),
        QuantileGrid((0.5, 0.9)),
        Bagged(Scale(), n_draws=2),
    ],
)
def test_rows_are_independent_of_their_batch(engine, data):
    X, y = data
    g = RandomForestRegressor(5, random_state=0).fit(X, y)
    gamma = KNNGamma(k=5) if isinstance(engine, Forest | Bagged) else None
    locus = quick(g, engine=engine, gamma=gamma).fit(X, y)
    X = X[:40]
    bounds, exceedance = locus.loss_bound(X, [0.5, 0.1]), locus.exceedance(X, 1.0)
    for size in (1, 7):
        batches = [X[i : i + size] for i in range(0, len(X), size)]
        parts = np.vstack([locus.loss_bound(batch, [0.5, 0.1]) for batch in batches])
        assert_close(parts, bounds, rtol=1e-9)
        parts = np.concatenate([locus.exceedance(batch, 1.0) for batch in batches])
        assert_close(parts, exceedance, rtol=1e-9)


@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_blocks_bound_what_the_engine_sees(kind, data, monkeypatch):
    X, y = data
    X = sparse.csr_array(X) if kind == "sparse" else X
    seen, asked = [], []

    def g(X):
        asked.append(X.shape[0])
        return np.zeros(X.shape[0])

    locus = quick(g, engine=FirstSignalNormal(seen, n_draws=4), gamma=None).fit(X, y)
    bounds, exceedance = locus.loss_bound(X, [0.5, 0.1]), locus.exceedance(X, 1.0)
    monkeypatch.setattr(blocks, "BLOCK_FLOATS", 40)  # 5 rows of 2 x 4 numbers
    monkeypatch.setattr(loss_model, "FIRST_ROWS", 1)
    monkeypatch.setattr(signals_module, "MOST_ROWS_AT_ONCE", 11)
    seen.clear()
    asked.clear()
    assert_close(locus.loss_bound(X, [0.5, 0.1]), bounds, rtol=1e-9)
    assert_close(locus.exceedance(X, 1.0), exceedance, rtol=1e-9)
    assert max(len(S) for _, S in seen) == 5
    # Rows of a sparse matrix are made dense, so there are fewer of them at once.
    assert max(asked) == {"array": 11, "sparse": 6}[kind]
    assert sum(asked) == 2 * 300
    refitted = quick(g, engine=FirstSignalNormal(n_draws=4)).fit(X, y)
    assert_close(refitted.tails_, locus.tails_, rtol=1e-9)


def test_few_rows_are_one_question_to_the_engine(data):
    X, y = data
    seen = []
    locus = quick(lambda X: X[:, 0], engine=FirstSignalNormal(seen, n_draws=4), gamma=None)
    locus.fit(X, y)
    seen.clear()
    locus.loss_bound(X[:1], [0.5, 0.1])
    locus.loss_bound(X[:64], [0.5, 0.1])
    assert [len(S) for _, S in seen] == [1, 64]


# Too few calibration rows


@pytest.mark.parametrize("alpha", [0.1, 0.07])
def test_too_few_calibration_rows(alpha, data):
    X, y = data
    enough = {0.1: 9, 0.07: 14}[alpha]
    few = quick(engine=ConstantNormal(), calibration_size=enough - 1).fit(X, y)
    with warns(LocusWarning, f"alpha = {alpha}", f"{enough} are needed") as caught:
        bounds = few.loss_bound(X, [0.5, alpha])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.isinf(bounds[:, 1]).all()
    assert np.isfinite(bounds[:, 0]).all()
    exact = quick(engine=ConstantNormal(), calibration_size=enough).fit(X, y)
    assert np.isfinite(exact.loss_bound(X, alpha)).all()  # and no warning, which would be an error


def test_one_warning_for_many_alphas(data):
    X, y = data
    few = quick(engine=ConstantNormal(), calibration_size=5).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few.loss_bound(X, [0.01, 0.1, 0.5])
    (only,) = caught
    assert "At least 99 are needed" in str(only.message)


def test_a_finite_support_tops_the_bound(data):
    X, y = data
    few = quick(engine=ConstantNormal(), calibration_size=3, support=(0, 30)).fit(X, y)
    with warns(LocusWarning, "top of the support, 30", "9 are needed"):
        assert_close(few.loss_bound(X, 0.1), np.full(300, 30.0))
    labels = (y > 0).astype(int)
    few = Locus(
        lambda X: np.zeros(len(X), dtype=int),
        loss="zero_one",
        engine=ConstantNormal(),
        calibration_size=3,
        random_state=0,
    ).fit(X, labels)
    with warns(LocusWarning, "top of the support, 1"):
        assert_close(few.loss_bound(X, 0.1), np.ones(300))
    assert_close(few.exceedance(X, 1.0), np.zeros(300))  # no loss exceeds the top


def test_a_predictor_set_after_fit_waits_for_the_next_fit(data):
    X, y = data
    locus = quick(predictor=first_column).fit(X, y)
    before = locus.losses(X, y)
    locus.set_params(predictor=lambda X: X[:, 0] + 100.0)
    assert_close(locus.losses(X, y), before)
    assert_close(locus.predict(X), X[:, 0])


def test_models_inside_an_engine_are_seeded_too(data):
    X, y = data
    engine = Gaussian(make_pipeline(StandardScaler(), RandomForestRegressor(5)))
    first, second = (quick(engine=engine).fit(X, y).loss_bound(X) for _ in range(2))
    assert_close(first, second)


def test_losses_without_a_predictor(data):
    X, y = data
    locus = Locus(engine=ConstantNormal(), random_state=0).fit_losses(X, np.abs(y))
    assert locus.loss_bound(X).shape == (300,)
    with raises(TypeError, "no predictor", "logged losses"):
        locus.predict(X)
    with raises(TypeError, "predictor must be", "fitted"):
        Locus().fit(X, y)


def test_losses_of_predictions_made_before(rng):
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200)
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=5), random_state=0).fit(X, y)
    assert_close(locus.losses_of(X[:, 0], y), locus.losses(X, y))
    with raises(ValueError, "predictions"):
        locus.losses_of(X[:3, 0], y)
    classes = np.where(X[:, 0] > 0, "b", "a")
    model = LogisticRegression().fit(X, classes)
    labels = Locus(model, loss="zero_one", engine=Forest(n_trees=5), random_state=0)
    labels.fit(X, np.where(y > 0, "b", "a"))
    assert_close(labels.losses_of(["a", "b"], ["b", "b"]), [1.0, 0.0])
    with raises(TypeError, "class probabilities"):
        labels.set_params(loss="log").fit(X, classes).losses_of(["a"], ["b"])
