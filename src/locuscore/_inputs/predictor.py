"""The fixed predictor: what counts as one, its classes, and how it is called."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from locuscore._protocols import Rows
from locuscore._shared.checks import check_same_order, without_single_axis
from locuscore._shared.frames import column, n_rows, read_array
from locuscore._shared.kept import Kept
from locuscore._shared.targets import as_objects, holds_parts


@dataclass(frozen=True)
class PredictionColumn:
    """A predictor that lives elsewhere: its predictions are a column of X."""

    ARCHIVE = Kept("PredictionColumn", single=("name",))

    name: Hashable

    def __call__(self, X: Rows) -> np.ndarray:
        return column(X, self.name)


def prediction_column(name: Hashable) -> PredictionColumn:
    """Use a column of X, by name in a frame or by position in an array, as the predictions."""
    return PredictionColumn(name)


def check_asked_predictor(predictor: Any) -> None:
    """Raise unless a fitted Locus has a predictor, without which labels give no losses."""
    if predictor is None:
        raise TypeError(
            "this Locus was fitted on logged losses and has no predictor, so it makes no "
            "predictions and no losses of y; pass losses instead: recalibrate_losses(X, losses), "
            "whose result can certify, or certify_threshold(scores, losses, tau, eta, delta)."
        )
    check_predictor(predictor)


def check_predictor(predictor: Any) -> None:
    """Raise unless the predictor can be called, directly or by `predict`."""
    if isinstance(predictor, type) or not (callable(predictor) or hasattr(predictor, "predict")):
        raise TypeError(
            "predictor must be a fitted object with a predict method, a function of X, or, where "
            "predictions are made already, prediction_column(name) with the column of X that holds "
            f"them; got {predictor!r:.100}."
        )
    method = "predict" if hasattr(predictor, "predict") else "__call__"
    kinds = type(predictor).__mro__
    owner = next((kind for kind in kinds if method in vars(kind)), type(predictor))
    remedy = _NATIVE.get(f"{owner.__module__}.{owner.__qualname__}")
    if remedy is not None:
        raise TypeError(f"predictor is a {type(predictor).__name__}, and {remedy}")


# Classes whose predict or call takes their own library's data, and what to pass instead.
_NATIVE = {
    "xgboost.core.Booster": (
        "an xgboost.Booster reads a DMatrix, not rows; pass it as an XGBRegressor, or an "
        "XGBClassifier: g = xgboost.XGBRegressor(); g.load_model(booster.save_raw())."
    ),
    "torch.nn.modules.module.Module": (
        "a torch module reads tensors, not rows; pass TorchPredictor(net), from locuscore.torch."
    ),
}


def classes_of(predictor: Any) -> Any:
    """Return the classes a predictor knows; None if it has none, or an empty list of them."""
    classes = getattr(predictor, "classes_", None)
    # Regressors of CatBoost have an empty list.
    return None if classes is None or len(classes) == 0 else classes


def is_classifier(predictor: Any) -> bool:
    """Whether the predictor gives classes: it has probabilities of them, or knows their names."""
    return hasattr(predictor, "predict_proba") or classes_of(predictor) is not None


def predict(predictor: Any, X: Rows) -> np.ndarray:
    """Return g(X): shape (n,), or (n, outputs) where there are several."""
    return without_single_axis(raw_output(predictor, X))


def raw_output(predictor: Any, X: Rows) -> np.ndarray:
    """Return g(X) in the shape the predictor gave it, one row of output per row of X."""
    output = call(predictor, getattr(predictor, "predict", predictor), X)
    check_same_order(**{"X": X, "g(X)": output})
    values = _one_per_row(output)
    if not values.ndim or len(values) != n_rows(X):
        raise ValueError(
            f"the predictor must return one prediction per row; got an output of shape "
            f"{values.shape} for {n_rows(X)} rows."
        )
    return values


def _one_per_row(output: Any) -> np.ndarray:
    """Return answers as an array; of objects, where lists or masks of several sizes make none."""
    try:
        return read_array(output, "the predictor's output")
    except ValueError:
        if not holds_parts(output):
            raise
    return as_objects(output)


def call(predictor: Any, function: Any, X: Rows) -> Any:
    try:
        return function(X)
    except NotFittedError as error:
        raise NotFittedError(
            f"the predictor {type(predictor).__name__} is not fitted: fit it first; locuscore "
            "never trains it."
        ) from error
    except Exception as error:
        error.add_note(f"raised by the predictor {predictor!r} on {n_rows(X)} rows")
        raise


def class_codes(labels: np.ndarray, classes: Any) -> np.ndarray:
    """Return each label's position among the classes, or the label itself where there are none."""
    if classes is None:
        codes = np.asarray(labels)
        if codes.dtype.kind not in "iub" or (len(codes) and codes.min() < 0):
            raise ValueError(
                "without `classes_` on the predictor, classes must be the whole numbers 0, 1, "
                f"2, ...; got values of type {codes.dtype}. Name them: cost(matrix, classes=...)."
            )
        return codes.astype(np.int64)
    position = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    unknown = sorted({str(v) for v in np.asarray(labels).tolist() if v not in position})
    if unknown:
        raise ValueError(f"unknown classes {unknown[:5]}; expected {list(position)}.")
    return np.array([position[v] for v in np.asarray(labels).tolist()], dtype=np.int64)
