"""Predictors of the libraries people use: accepted as they are, or refused with the remedy."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from engines_for_tests import ConstantNormal
from helpers import assert_close, raises
from locuscore import Locus, LocusWarning, Scorer, cost
from locuscore.engines import Forest

LABELS = {
    "numbers": np.array([0, 1, 2]),
    "two": np.array([0, 1, 1]),
    "text": np.array(["low", "high", "odd"]),
    "truth": np.array([False, True, True]),
}


def boosted(library, kind):
    """A small boosted model, silent and with one thread."""
    if library == "xgboost":
        import xgboost

        return getattr(xgboost, f"XGB{kind}")(n_estimators=4, n_jobs=1)
    if library == "lightgbm":
        import lightgbm

        return getattr(lightgbm, f"LGBM{kind}")(n_estimators=4, n_jobs=1, verbose=-1)
    import catboost

    settings = {"iterations": 4, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
    return getattr(catboost, f"CatBoost{kind}")(**settings)


def placed(model, alone):
    return model if alone else make_pipeline(StandardScaler(), model)


def fitted(g, X, y, **settings):
    return Locus(g, engine=Forest(n_trees=5), random_state=0, **settings).fit(X, y)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 3))
    return X, X[:, 0] + rng.normal(size=120), (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)


libraries = pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
alone_or_last = pytest.mark.parametrize("alone", [True, False], ids=["alone", "pipeline"])


@pytest.mark.extra
@libraries
@alone_or_last
@pytest.mark.parametrize("frame", [True, False], ids=["frame", "array"])
def test_boosted_regressors(library, alone, frame, data):
    import pandas as pd

    X, y, _ = data
    X = pd.DataFrame(X, columns=list("abc")) if frame else X
    g = placed(boosted(library, "Regressor"), alone).fit(X, y)
    locus = fitted(g, X, y)
    assert_close(locus.losses(X, y), np.abs(y - np.asarray(g.predict(X), dtype=float)))
    table = Scorer(locus)(X)
    assert np.isfinite(table["bound_0.1"]).all()
    assert_close(np.asarray(table["prediction"]), np.asarray(g.predict(X), dtype=float))
    # The prediction is a signal.
    assert "prediction" in locus.signals_.names(g, list("abc"), locus.fit_signals_.shape[1])


@pytest.mark.extra
@libraries
@alone_or_last
@pytest.mark.parametrize("labels", LABELS)
def test_boosted_classifiers(library, alone, labels, data):
    if library == "xgboost" and labels == "text":
        labels = "numbers"  # it takes 0, 1, 2, ... only
    X, _, codes = data
    y = LABELS[labels][codes]
    g = placed(boosted(library, "Classifier"), alone).fit(X, y)
    wrong = np.ravel(g.predict(X)) != y
    locus = fitted(g, X, y, loss="zero_one")
    assert_close(locus.losses(X, y), wrong)
    assert np.ravel(Scorer(locus)(X)["prediction"]).tolist() == np.ravel(g.predict(X)).tolist()
    costs = cost(1 - np.eye(len(set(y))))
    assert_close(fitted(g, X, y, loss=costs, signals="x").losses(X, y), wrong)
    chosen = g.predict_proba(X)[np.arange(120), np.searchsorted(np.unique(y), y)]
    logs = fitted(g, X, y, loss="log", signals="x").losses(X, y)
    assert_close(logs, -np.log(chosen.astype(float)))
    with raises(ValueError, "classifier", "'zero_one'", "'log'", "'brier'", "cost"):
        fitted(g, X, y)


@pytest.mark.extra
@pytest.mark.parametrize("frame", [True, False], ids=["frame", "array"])
def test_a_booster_of_lightgbm_is_a_predictor(frame, data, tmp_path):
    import pandas as pd

    X, y, _ = data
    X = pd.DataFrame(X, columns=list("abc")) if frame else X
    booster = boosted("lightgbm", "Regressor").fit(X, y).booster_
    scorer = Scorer(fitted(booster, X, y))
    assert_close(scorer(X)["prediction"], booster.predict(X))
    scorer.save(tmp_path / "a.locus")
    assert_close(Scorer.load(tmp_path / "a.locus")(X)["bound_0.1"], scorer(X)["bound_0.1"])


@pytest.mark.extra
def test_a_booster_of_xgboost_is_refused_with_a_remedy_that_works(data, tmp_path):
    import xgboost

    X, y, _ = data
    booster = boosted("xgboost", "Regressor").fit(X, y).get_booster()
    with raises(TypeError, "g = xgboost.XGBRegressor(); g.load_model(booster.save_raw())"):
        fitted(booster, X, y)
    g = xgboost.XGBRegressor()
    g.load_model(booster.save_raw())
    assert_close(g.predict(X), booster.predict(xgboost.DMatrix(X)))
    scorer = Scorer(fitted(g, X, y))
    scorer.save(tmp_path / "a.locus")
    assert_close(Scorer.load(tmp_path / "a.locus")(X)["bound_0.1"], scorer(X)["bound_0.1"])


@pytest.mark.extra
def test_a_torch_module_is_refused_with_a_remedy_that_works(data):
    import torch

    X, y, _ = data
    net = torch.nn.Sequential(torch.nn.Linear(3, 1)).eval()
    with raises(TypeError, "tensors", "TorchPredictor(net)", "locuscore.torch"):
        fitted(net, X, y)
    from locuscore.torch import TorchPredictor

    g = TorchPredictor(net)
    assert_close(fitted(g, X, y).losses(X, y), np.abs(y - g.predict(X)[:, 0]), rtol=1e-6)


@pytest.mark.extra
def test_a_torch_module_with_a_predict_of_its_own_is_a_predictor(data):
    import torch

    class Net(torch.nn.Module):
        def predict(self, X):
            return X[:, 0]

    X, y, _ = data
    assert_close(fitted(Net(), X, y).losses(X, y), np.abs(y - X[:, 0]))


@pytest.mark.extra
def test_tensors_are_read_as_arrays_or_refused_with_the_remedy(data):
    import torch

    X, y, _ = data
    rows, targets = torch.as_tensor(X), torch.as_tensor(y)
    expected = fitted(lambda X: X[:, 0], X, y).loss_bound(X)
    assert_close(fitted(lambda X: X[:, 0], rows, targets).loss_bound(rows), expected)
    assert_close(fitted(lambda X: torch.as_tensor(X[:, 0]), X, y).loss_bound(X), expected)
    remedy = ".detach().cpu().numpy()"
    learned = rows.clone().requires_grad_()
    with raises(TypeError, "X is a torch.Tensor", remedy):
        fitted(lambda X: X[:, 0], learned, y)
    with raises(TypeError, "y is a torch.Tensor", remedy):
        fitted(lambda X: X[:, 0], X, targets.clone().requires_grad_())
    with raises(TypeError, "predictor's output", "torch.Tensor", remedy):
        fitted(lambda X: torch.as_tensor(X[:, 0]).requires_grad_(), X, y)
    with raises(TypeError, "X is a torch.Tensor", remedy):
        fitted(lambda X: X[:, 0], rows.to(torch.bfloat16), y)


@pytest.mark.parametrize("classifier", [LogisticRegression(), RidgeClassifier()])
@alone_or_last
def test_a_classifier_needs_a_loss_of_its_own(classifier, alone, data):
    X, _, codes = data
    g = placed(classifier, alone).fit(X, codes)
    for predictor in (g, g.predict):
        with raises(
            ValueError,
            type(g).__name__,
            "classifier",
            "'zero_one', 'log', 'brier' or cost(matrix)",
            "loss='absolute'",
        ):
            fitted(predictor, X, codes)
    # Grades may be compared as numbers, if one asks for it.
    locus = fitted(g, X, codes, loss="absolute")
    assert_close(locus.losses(X, codes), np.abs(codes - g.predict(X)))
    assert locus.get_params()["loss"] == "absolute"


def test_predictions_in_place_of_a_predictor_are_refused_with_the_remedy(data):
    X, y, _ = data
    with raises(TypeError, "prediction_column(name)") as refused:
        fitted(y, X, y)
    assert len(str(refused.value)) < 300


def test_logged_losses_of_a_classifier_need_no_loss(data):
    X, _, codes = data
    g = DummyClassifier().fit(X, codes)
    locus = Locus(g, engine=ConstantNormal(), random_state=0).fit_losses(X, np.abs(X[:, 0]))
    assert np.isfinite(locus.loss_bound(X)).all()
    with raises(ValueError, "classifier"):
        locus.losses(X, codes)


def test_a_regressor_with_an_empty_list_of_classes(data):
    class Regressor(BaseEstimator):
        classes_ = ()

        def predict(self, X):
            return X[:, 0]

    X, y, _ = data
    locus = fitted(Regressor(), X, y)
    assert locus.loss_.name == "absolute"
    assert locus.get_params()["loss"] is None
    assert Scorer(locus)(X[:0])["prediction"].dtype == np.float64


@pytest.mark.extra
def test_predictions_in_another_order_than_their_rows_are_refused(data):
    import pandas as pd

    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abc"))
    with raises(ValueError, "g(X)", "row labels of X", "g(X).loc[X.index"):
        fitted(lambda X: X["a"].sort_values(), frame, y)
    locus = fitted(lambda X: X["a"], frame, y)
    assert_close(locus.losses(frame, y).to_numpy(), np.abs(y - X[:, 0]))


@pytest.mark.extra
def test_a_native_model_given_to_load_is_refused_with_the_remedy(data, tmp_path):
    import torch

    X, y, _ = data
    with pytest.warns(LocusWarning, match="left out"):
        Scorer(fitted(lambda X: X[:, 0], X, y)).save(tmp_path / "a.locus")
    with raises(TypeError, "tensors"):
        Scorer.load(tmp_path / "a.locus", predictor=torch.nn.Linear(3, 1))


@pytest.mark.extra
@libraries
@alone_or_last
@pytest.mark.filterwarnings("ignore:the predictor:locuscore.LocusWarning")
def test_boosted_models_given_to_load_score_as_before(library, alone, data, tmp_path):
    X, y, _ = data
    g = placed(boosted(library, "Regressor"), alone).fit(X, y)
    scorer = Scorer(fitted(g, X, y))
    scorer.save(tmp_path / "a.locus")
    loaded = Scorer.load(tmp_path / "a.locus", predictor=g)
    assert_close(loaded(X)["bound_0.1"], scorer(X)["bound_0.1"])
