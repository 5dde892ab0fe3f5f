"""Each kind of predictor that an archive holds, on rows that every shell can read."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from locuscore import Locus, Scorer, prediction_column
from locuscore.engines import Forest
from service_for_tests import frame

KEY = b"0123456789abcdef" * 2
NUMBERS, LEVELS, ALL = ["size", "rooms"], ["size", "rooms", "state"], None
NET = """
import torch
from locuscore.torch import TorchPredictor

torch.manual_seed({seed})
g = TorchPredictor(torch.nn.Sequential(
    torch.nn.Linear(2, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
).double())
"""


def boosted(library, kind, **settings):
    """A few small trees of a library, with one thread."""
    match library:
        case "lightgbm":
            import lightgbm as package

            few = {"n_estimators": 4, "num_leaves": 5, "n_jobs": 1, "verbose": -1}
        case "xgboost":
            import xgboost as package

            few = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
        case _:
            import catboost as package

            few = {"iterations": 4, "depth": 3, "thread_count": 1, "verbose": 0}
            few |= {"allow_writing_files": False}
    return getattr(package, kind)(**few | settings)


def encoded(model):
    """A model at the end of a pipeline, after columns of text have become numbers."""
    codes = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town", "state"]),
        (StandardScaler(), ["size"]),
        remainder="passthrough",
    )
    return make_pipeline(codes, model)


def network(seed=0):
    """A network with weights that only the seed decides."""
    names = {}
    exec(NET.format(seed=seed), names)
    return names["g"]


def onnx(X, y):
    from skl2onnx import to_onnx

    from locuscore._archive.onnx_models import read_onnx

    values = X.to_numpy(dtype=float)
    return read_onnx(to_onnx(Ridge().fit(values, y), values[:1]).SerializeToString())


@dataclass(frozen=True)
class Kind:
    """How a predictor is made, its columns, and what saving and loading it take."""

    make: Any
    columns: Any = ALL
    is_class: bool = False
    is_signed: bool = False
    is_torch: bool = False


KINDS = {
    "scikit-learn": Kind(lambda: encoded(Ridge())),
    "prediction column": Kind(lambda: prediction_column("size")),
    "lightgbm": Kind(lambda: boosted("lightgbm", "LGBMRegressor"), LEVELS),
    "lightgbm in a pipeline": Kind(lambda: encoded(boosted("lightgbm", "LGBMRegressor"))),
    "lightgbm classifier in a pipeline": Kind(
        lambda: encoded(boosted("lightgbm", "LGBMClassifier")), is_class=True
    ),
    "xgboost": Kind(lambda: boosted("xgboost", "XGBRegressor", enable_categorical=True), LEVELS),
    "xgboost classifier": Kind(lambda: boosted("xgboost", "XGBClassifier"), NUMBERS, is_class=True),
    "xgboost in a pipeline": Kind(
        lambda: encoded(
            TransformedTargetRegressor(
                boosted("xgboost", "XGBRegressor"), transformer=StandardScaler()
            )
        )
    ),
    "catboost": Kind(lambda: boosted("catboost", "CatBoostRegressor"), NUMBERS, is_signed=True),
    "catboost classifier in a pipeline": Kind(
        lambda: encoded(boosted("catboost", "CatBoostClassifier")), is_class=True, is_signed=True
    ),
    "onnx": Kind(None, NUMBERS, is_signed=True),
    "torch": Kind(network, NUMBERS, is_torch=True),
}


def rows_of(name, n, seed):
    """Rows and targets for a kind."""
    X, y = frame(n, seed)
    kind = KINDS[name]
    X = X if kind.columns is ALL else X[kind.columns]
    return X, (np.asarray(y > y.median()).astype(int) if kind.is_class else y)


def scorer_of(name):
    """A scorer with a predictor of a kind."""
    kind, (X, y) = KINDS[name], rows_of(name, 300, 0)
    g = onnx(X, y) if kind.make is None else kind.make()
    if hasattr(g, "fit"):
        g.fit(X, y)
    settings = {"engine": Forest(n_trees=3), "signals": ["x", "predictor"], "random_state": 0}
    settings["loss"] = "log" if kind.is_class else "absolute"
    locus = Locus(g, **settings).fit(X, y)
    return Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.1, 0.25))


def given_to_save(name):
    return {"key": KEY} if KINDS[name].is_signed else {}


def given_to_load(name):
    """The key, or a network of the same form with other weights."""
    other = {"predictor": network(seed=1)} if KINDS[name].is_torch else {}
    return given_to_save(name) | other
