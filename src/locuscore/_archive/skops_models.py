"""Models of scikit-learn in the format of skops, of which objects of named types only are built.

The types listed below are trusted; others load only if the caller names them, and then by skops.
Whatever compiled code will follow is checked before it does.
"""

import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from locuscore._archive.container import ArchiveError
from locuscore._archive.fitted_models import check_fitted
from locuscore._archive.held_models import fill_places
from locuscore._archive.skops_objects import build
from locuscore._archive.skops_schema import SkopsFile, named
from locuscore._archive.widths import check_widths
from locuscore._shared.optional import require

# Classes of which an object may be made and filled with attributes. Each must be safe with any
# attributes, or have a check in `fitted_models`.
_OBJECTS = {
    "locuscore._archive.held_models": "HeldModel",
    "locuscore._shared.boosting": "BoostedClasses BoostedTrees",
    "locuscore.engines._boosting": "BoostedTrees",  # in archives of 0.1.0
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss": "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss "
    "HalfMultinomialLoss HalfPoissonLoss HalfSquaredError HalfTweedieLoss "
    "HalfTweedieLossIdentity HuberLoss PinballLoss",
    "sklearn.calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "sklearn.compose._column_transformer": "ColumnTransformer _RemainderColsList "
    "make_column_selector",
    "sklearn.compose._target": "TransformedTargetRegressor",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "sklearn.ensemble._forest": "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier "
    "RandomForestRegressor",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier "
    "HistGradientBoostingRegressor",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.ensemble._stacking": "StackingClassifier StackingRegressor",
    "sklearn.ensemble._voting": "VotingClassifier VotingRegressor",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
    "sklearn.impute._base": "MissingIndicator SimpleImputer",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.linear_model._base": "LinearRegression",
    "sklearn.linear_model._bayes": "ARDRegression BayesianRidge",
    "sklearn.linear_model._coordinate_descent": "ElasticNet ElasticNetCV Lasso LassoCV",
    "sklearn.linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
    "sklearn.linear_model._huber": "HuberRegressor",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._quantile": "QuantileRegressor",
    "sklearn.linear_model._ridge": "Ridge RidgeCV RidgeClassifier",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDRegressor",
    "sklearn.metrics._scorer": "_PassthroughScorer",
    "sklearn.model_selection._search": "GridSearchCV RandomizedSearchCV",
    "sklearn.model_selection._split": "KFold StratifiedKFold",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing._data": "MaxAbsScaler MinMaxScaler Normalizer PowerTransformer "
    "QuantileTransformer RobustScaler StandardScaler",
    "sklearn.preprocessing._discretization": "KBinsDiscretizer",
    "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "sklearn.preprocessing._function_transformer": "FunctionTransformer",
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder",
    "sklearn.preprocessing._polynomial": "PolynomialFeatures",
    "sklearn.preprocessing._target_encoder": "TargetEncoder",
    "sklearn.tree._classes": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier "
    "ExtraTreeRegressor",
}
OBJECTS = named(_OBJECTS)

HOW_TO_TRUST = (
    "if you trust them, name them in Scorer.load(path, trusted=[...]), or with --trust TYPE; where "
    "they belong to the predictor, you can also supply it: Scorer.load(path, predictor=g), or "
    "--predictor MODEL."
)
# Libraries whose models need no trust if they come in a file of their own.
OWN_FILES = {
    "xgboost": "model.save_model('model.json')",
    "lightgbm": "model.booster_.save_model('model.txt')",
    "catboost": "model.save_model('model.cbm')",
}


# Adapters to other libraries, which import these whole: seconds, and nothing here uses them.
ADAPTERS = tuple(f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch"))


def import_skops() -> Any:
    """Import skops, which imports every package of scikit-learn, without the adapters among them.

    They are absent for as long as that takes, and can be imported afterwards.
    """
    with ExitStack() as absent:
        if "skops.io" not in sys.modules:
            for name in set(ADAPTERS) - set(sys.modules):
                sys.modules[name] = None  # type: ignore[assignment]  # Python: not to be found
                absent.callback(sys.modules.pop, name, None)
        return require("skops.io", extra="archive")


def skops_bytes(model: Any) -> bytes:
    """Return a scikit-learn object in the format of skops."""
    data: bytes = import_skops().dumps(model)
    return data


def foreign_types(data: bytes) -> list[str]:
    """Types in a skops file that are not on the list."""
    return sorted(SkopsFile(data, OBJECTS).foreign())


def read_skops(
    data: bytes,
    trusted: Sequence[str] = (),
    how: str = HOW_TO_TRUST,
    models: Sequence[Any] = (),
) -> Any:
    """Build the object, if all its types are trusted, and check what compiled code will follow.

    `models` are those of other libraries that stand beside the file and have places in it.
    """
    file = SkopsFile(data, OBJECTS)
    foreign = sorted(file.foreign() - set(trusted))
    if foreign:
        names = ", ".join(map(repr, foreign))  # some have blanks
        own = _own_files(foreign)
        raise ArchiveError(f"it holds types that are not trusted: {names}; {how}{own}")
    file.check()
    with warnings.catch_warnings():
        # Only the last digits differ: the minor version was compared.
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        if file.foreign():
            # skops copies this list at every node, so it gets no more than it needs.
            model = import_skops().loads(file.rewritten(), trusted=sorted(file.kinds))
        else:
            model = build(file)
    fill_places(model, models)
    check_fitted(model)
    check_widths(model)
    return model


def _own_files(foreign: Sequence[str]) -> str:
    """How models of other libraries are saved so that no type has to be trusted."""
    libraries = {name.split(".")[0] for name in foreign}
    return "".join(
        f" A model of {name} alone needs no trust in a file of its own: {how}."
        for name, how in OWN_FILES.items()
        if name in libraries
    )
