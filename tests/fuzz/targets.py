"""Honest archives to forge: every engine, and every kind of predictor, that an archive can hold.

They are written in the present format; some of format 1 are there as well.
"""

import json
import pickle
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.dummy import (
    DummyClassifier,
    DummyRegressor,
)
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    StratifiedKFold,
)
from sklearn.neural_network import (
    MLPClassifier,
    MLPRegressor,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeRegressor

import archives_for_tests
from archives_for_tests import LOSS_MODELS, loss_model
from locuscore import Locus, Scorer, cost_per_unit, norm, prediction_column, relative
from locuscore._inputs import opinion_models
from locuscore.calibration import ByGroup, ClusterRows, OutOfBag, Shifted
from locuscore.engines import Forest

N_FIT, N_BATCH = 120, 6
TINY = {"max_iter": 2, "max_leaf_nodes": 4}
FEW_LEAVES = {"n_estimators": 2, "num_leaves": 4, "verbose": -1}


def lightgbm(kind, **settings):
    import lightgbm

    return getattr(lightgbm, kind)(**FEW_LEAVES, **settings)


def xgboost(kind, **settings):
    import xgboost

    return getattr(xgboost, kind)(**{"n_estimators": 2, "max_depth": 2, "n_jobs": 1} | settings)


def catboost(kind):
    import catboost

    few = {"iterations": 2, "depth": 2, "thread_count": 1}
    return getattr(catboost, kind)(**few, verbose=0, allow_writing_files=False)


def onnx(X, y):
    """The ONNX form of a linear model."""
    from skl2onnx import to_onnx

    from locuscore._archive.onnx_models import read_onnx

    return read_onnx(to_onnx(LinearRegression().fit(X, y), X[:1]).SerializeToString())


def torch_predictor():
    """A network of a few weights of several types, the same every time; the fuzzer passes it."""
    import torch

    from locuscore.torch import TorchPredictor

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 1)
    )
    return TorchPredictor([net.double(), torch.nn.Linear(3, 1).double()])


def regressors():
    """Models whose fitted attributes are much alike: one archive holds them all."""
    steps = {"max_iter": 2000, "tol": 0.1, "random_state": 0}
    shallow = {"max_depth": 2, "random_state": 0}
    return [
        ARDRegression(),
        BayesianRidge(),
        DummyRegressor(),
        ElasticNet(),
        ElasticNetCV(cv=2, alphas=3),
        ExtraTreesRegressor(2, **shallow),
        GammaRegressor(),
        HuberRegressor(),
        Lasso(),
        LassoCV(cv=2, alphas=3),
        PoissonRegressor(),
        QuantileRegressor(),
        RidgeCV(),
        MLPRegressor(hidden_layer_sizes=(2,), solver="sgd", **steps),
    ]


def classifiers():
    """The same for classes."""
    return [
        AdaBoostClassifier(n_estimators=2, random_state=0),
        BaggingClassifier(n_estimators=2, random_state=0),
        LogisticRegressionCV(Cs=2, cv=StratifiedKFold(2)),
        RidgeClassifier(),
        SGDClassifier(loss="modified_huber", random_state=0),
    ]


def encoded_columns():
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["kind", "town"]),
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["town"]),
        (numbers, make_column_selector("s")),
    )


def unfitted(kind, **settings):
    return lambda: kind(**settings)


# Each is fitted on three numbers, of which the last is a whole one.
ON_NUMBERS = {
    "linear": LinearRegression,
    "tweedie": unfitted(TweedieRegressor, power=0),
    "sgd": unfitted(SGDRegressor, max_iter=2000, tol=1e-2, random_state=0),
    "logistic": LogisticRegression,
    "decision tree": unfitted(DecisionTreeRegressor, max_depth=3),
    "random forest": unfitted(RandomForestRegressor, n_estimators=2, max_depth=3, random_state=0),
    "random forest classifier": unfitted(
        RandomForestClassifier, n_estimators=2, max_depth=3, random_state=0
    ),
    "extra trees": unfitted(ExtraTreesClassifier, n_estimators=2, max_depth=3, random_state=0),
    "bagging": unfitted(BaggingRegressor, n_estimators=2, max_features=2, random_state=0),
    "adaboost": unfitted(AdaBoostRegressor, n_estimators=2, random_state=0),
    "boosted": unfitted(HistGradientBoostingRegressor, **TINY),
    "boosted counts": unfitted(HistGradientBoostingRegressor, loss="poisson", **TINY),
    "boosted with categories": unfitted(
        HistGradientBoostingRegressor, categorical_features=[2], **TINY
    ),
    "boosted classifier": unfitted(
        HistGradientBoostingClassifier, categorical_features=[2], **TINY
    ),
    "network": unfitted(
        MLPClassifier, hidden_layer_sizes=(3,), max_iter=2000, tol=0.1, random_state=0
    ),
    "dummy with a generator": unfitted(
        DummyClassifier, strategy="uniform", random_state=np.random.RandomState(0)
    ),
    "calibrated": lambda: CalibratedClassifierCV(LogisticRegression(), cv=2),
    "isotonic": lambda: make_pipeline(
        make_column_transformer((StandardScaler(), [0])), IsotonicRegression(out_of_bounds="clip")
    ),
    "transformed target": lambda: TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    "stacking": lambda: StackingRegressor(
        [("a", Ridge()), ("b", DecisionTreeRegressor(max_depth=2))], Ridge(), cv=2
    ),
    "voting": lambda: VotingClassifier(
        [("a", LogisticRegression()), ("b", DummyClassifier())], voting="soft"
    ),
    "grid search": lambda: GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
    "boosted of three classes": unfitted(HistGradientBoostingClassifier, **TINY),
    "kinds of regressors": lambda: VotingRegressor(
        [(type(model).__name__, model) for model in regressors()]
    ),
    "kinds of classifiers": lambda: StackingClassifier(
        [(type(model).__name__, model) for model in classifiers()], LogisticRegression(), cv=2
    ),
    "kinds of scalers": lambda: make_pipeline(
        make_column_transformer(
            (make_pipeline(MinMaxScaler(), PowerTransformer()), slice(0, 2)),
            (RobustScaler(), [0]),
            remainder=MaxAbsScaler(),
        ),
        Normalizer(),
        RandomizedSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=1, cv=2, random_state=0),
    ),
    "preparation": lambda: make_pipeline(
        FeatureUnion(
            [("a", FunctionTransformer(np.square)), ("b", QuantileTransformer(n_quantiles=5))]
        ),
        KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
        PolynomialFeatures(2),
        Ridge(),
    ),
    "lightgbm": lambda: lightgbm("LGBMRegressor"),
    "lightgbm classifier": lambda: lightgbm("LGBMClassifier"),
    "lightgbm of three classes": lambda: lightgbm("LGBMClassifier"),
    "xgboost": lambda: xgboost("XGBRegressor"),
    "xgboost with weights of trees": lambda: xgboost("XGBRegressor", booster="dart"),
    "xgboost classifier": lambda: xgboost("XGBClassifier"),
    "xgboost of three classes": lambda: xgboost("XGBClassifier"),
    "xgboost in a pipeline": lambda: make_pipeline(
        StandardScaler(),
        TransformedTargetRegressor(xgboost("XGBRegressor"), transformer=StandardScaler()),
    ),
    "lightgbm in a pipeline": lambda: make_pipeline(StandardScaler(), lightgbm("LGBMRegressor")),
    "boosted models that vote": lambda: VotingClassifier(
        [("a", lightgbm("LGBMClassifier")), ("b", xgboost("XGBClassifier"))], voting="hard"
    ),
}
# And these on a frame of a number and two columns of categories.
ON_FRAMES = {
    "pipeline on a frame": lambda: make_pipeline(encoded_columns(), Ridge()),
    "target encoder": lambda: make_pipeline(
        make_column_transformer((TargetEncoder(cv=2, random_state=0), ["kind", "town"])), Ridge()
    ),
    "boosted on a frame": unfitted(HistGradientBoostingRegressor, **TINY),
    "lightgbm on a frame": lambda: lightgbm("LGBMRegressor", min_data_per_group=5, cat_smooth=1),
    "xgboost on a frame": lambda: xgboost(
        "XGBRegressor", enable_categorical=True, max_cat_to_onehot=1
    ),
    "prediction column": lambda: prediction_column("size"),
    "free text": lambda: prediction_column("size"),
}
# Some have losses with parameters; tests/archive/test_forged_losses.py forges each of them.
LOSSES = {
    "prediction column": lambda: cost_per_unit(over=0.5, under=1),
    "boosted on a frame": lambda: relative(floor=0.5),
    "lightgbm": lambda: norm("max", [2.0]),
}
# With a second opinion of each kind; the others have none, which keeps them small.
OPINIONS = {
    "opinion on errors": lambda: prediction_column(0),
    "opinion on classes": unfitted(LogisticRegression, C=0.01),
    "opinion on sizes": lambda: None,
}
# Each calibration that keeps more than its tails, with what goes to `fit`, on the frame, of which
# one column is the prediction.
CALIBRATIONS = {
    "by group": (lambda: ByGroup("kind"), {}),
    "by group with a pool": (lambda: ByGroup("kind", pool_below=20), {}),
    "by overlapping groups": (lambda: ByGroup(["kind", "town"]), {}),
    "clusters": (lambda: None, {"clusters": np.arange(N_FIT) // 3}),
    "rows of clusters": (lambda: ClusterRows(4), {"clusters": np.arange(N_FIT) // 4}),
    "out of bag": (OutOfBag, {}),
    # Weights that were learned, from the rows themselves after a shift.
    "learned weights": (Shifted, {"target": lambda X: X.assign(size=np.sqrt(X["size"]))}),
}
# Read by compiled code that cannot be checked, so that a key must vouch for them; nobody forges it.
SIGNED = {"catboost": lambda: catboost("CatBoostRegressor"), "onnx": None}
TORCH = "weights of torch"
PREDICTORS = ON_NUMBERS | ON_FRAMES | OPINIONS | SIGNED | {TORCH: torch_predictor}
KEY = b"a key of thirty-two bytes or more"
# Archives of an earlier format without parts of scikit-learn, which load with any version of it.
FORMAT_1 = Path(__file__).parents[1] / "archives" / "format_1"
EARLIER = {f"format 1 {name}": FORMAT_1 / f"{name}.locus" for name in ("bart", "lightgbm", "mdn")}
# Torch, once imported, makes each fork dearer: what needs it comes last.
NEED_TORCH = [name for name in LOSS_MODELS if name.startswith(archives_for_tests.NEED_TORCH)]
NEED_TORCH += ["format 1 lightgbm", "format 1 mdn"]  # their engine is an MDN
NEED_TORCH += [TORCH]
FADING = "fading calibration"
EVERY = [*LOSS_MODELS, *PREDICTORS, *CALIBRATIONS, *EARLIER, FADING]
TARGETS = [name for name in EVERY if name not in NEED_TORCH] + NEED_TORCH


@dataclass(frozen=True)
class Target:
    """An honest archive, rows to score with it, and the scores."""

    name: str
    archive: bytes
    batch: object
    scores: dict[str, np.ndarray]


def make_target(name):
    """Fit the scorer that a name stands for; small, and the same every time."""
    if name in EARLIER:
        return earlier_target(name)
    settings = {"engine": Forest(n_trees=2, min_samples_leaf=20), "random_state": 0}
    settings["signals"] = "all" if name in OPINIONS else ["x", "predictor"]
    if name in LOSS_MODELS:
        settings |= loss_model(name)
    X, y = frame() if name in ON_FRAMES or name in CALIBRATIONS else numbers()
    if name == "free text":
        pairs = np.random.default_rng(0).choice(["ox", "hen", "cow", "cat", "dog"], (N_FIT, 4))
        X["note"] = [" ".join(pair) for pair in pairs]
    if name in LOSSES:
        settings["loss"] = LOSSES[name]()
    other = ON_FRAMES["prediction column"] if name in CALIBRATIONS else LinearRegression
    predictor = onnx(X, y) if name == "onnx" else PREDICTORS.get(name, other)()
    if isinstance(predictor, ClassifierMixin):
        n_classes = 3 if name.endswith("three classes") else 2
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
        settings["loss"] = "brier" if hasattr(predictor, "predict_proba") else "zero_one"
    if hasattr(predictor, "fit"):
        predictor.fit(X, y)
    made, more = CALIBRATIONS.get(name, (lambda: None, {}))
    if name in CALIBRATIONS:
        settings["calibration"] = made()
    more = {key: value(X) if callable(value) else value for key, value in more.items()}
    locus = Locus(predictor, **settings)
    with patch.object(opinion_models, "MORE_ROUNDS", (20,)):  # small, so that bytes matter
        # Losses that follow x, so that their size is worth an opinion.
        locus = (
            locus.fit_losses(X, np.exp(X[:, 0])) if predictor is None else locus.fit(X, y, **more)
        )
    assert (locus.signals_.opinion is not None) == (name in OPINIONS)
    if name == FADING:
        locus = locus.recalibrate(*numbers(seed=1), half_life=40, drift_per_row=1e-3)
    rule = locus.tau_rule(tau=0.5, alpha=0.2)
    if name == "prediction column":  # one archive with a rule by group
        rule = locus.certify_groups("town", 0.5, 0.6, 0.4)
        assert not rule.accepts_nothing
    scorer = Scorer(locus, rule, alphas=(0.1, 0.25))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.locus"
        # A forged predictor that answers otherwise is refused by kept rows, before it scores.
        keep = name in LOSS_MODELS or name == "pipeline on a frame"
        scorer.save(path, keep_rows=keep, key=KEY if name in SIGNED else None)
        archive = path.read_bytes()
    return Target(name, archive, batch := batch_of(X), columns(scorer(batch)))


def earlier_target(name):
    import pandas as pd

    record = json.loads(EARLIER[name].with_suffix(".json").read_text())
    batch, scores = (pd.DataFrame(record[part]) for part in ("batch", "scores"))
    return Target(name, EARLIER[name].read_bytes(), batch, columns(scores))


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N_FIT, 3))
    X[:, 2] = np.floor(6 * X[:, 2])
    return X, np.abs(X[:, 0] + 2 * (X[:, 2] % 2) + X[:, 1] * rng.normal(size=N_FIT))


def frame():
    import pandas as pd

    rng = np.random.default_rng(0)
    size = rng.uniform(size=N_FIT)
    kind = pd.Categorical(rng.choice(["a", "b", "c"], size=N_FIT))
    town = pd.Categorical(rng.choice(["north", "south"], size=N_FIT))
    y = size + (kind == "b") + 0.2 * rng.normal(size=N_FIT)
    return pd.DataFrame({"size": size, "kind": kind, "town": town}), y


def batch_of(X):
    """A few rows of the fit, and, of numbers, as many far from it."""
    return (
        np.vstack([X[:N_BATCH], -1e3 * X[:N_BATCH]]) if isinstance(X, np.ndarray) else X[:N_BATCH]
    )


def columns(scores):
    return {name: np.asarray(scores[name]) for name in scores}


def write_target(name, folder):
    """Fit a target, unless the folder has it, and return its file."""
    path = Path(folder) / f"{name}.pickle"
    if not path.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path.write_bytes(pickle.dumps(make_target(name)))
    return path


def read_target(path):
    return pickle.loads(path.read_bytes())
