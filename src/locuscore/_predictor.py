"""What is read off the fixed predictor: its output for the loss, and its own signals."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from locuscore._frames import as_frame, column, n_rows
from locuscore._protocols import FloatArray, Rows


@dataclass(frozen=True)
class PredictionColumn:
    """A predictor that lives elsewhere: its predictions are a column of X."""

    name: Hashable

    def __call__(self, X: Rows) -> np.ndarray:
        return column(X, self.name)


def prediction_column(name: Hashable) -> PredictionColumn:
    """Use a column of X, by name in a frame or by position in an array, as the predictions."""
    return PredictionColumn(name)


def check_predictor(predictor: Any) -> None:
    """Raise unless the predictor can be called, directly or by `predict`, and is fitted."""
    if isinstance(predictor, type) or not (callable(predictor) or hasattr(predictor, "predict")):
        raise TypeError(
            "predictor must be a fitted object with a predict method, a function of X, or "
            f"prediction_column(name); got {predictor!r}."
        )
    if isinstance(predictor, BaseEstimator):
        check_is_fitted(
            predictor,
            msg="The predictor %(name)s is not fitted: fit it first; locuscore never trains it.",
        )


def predict(predictor: Any, X: Rows) -> np.ndarray:
    """Return g(X), one row of output per row of X."""
    return _one_per_row(predictor, getattr(predictor, "predict", predictor), X)


def predict_proba(predictor: Any, X: Rows) -> FloatArray:
    """Return g's class probabilities, shape (n, classes)."""
    if hasattr(predictor, "predict") and not hasattr(predictor, "predict_proba"):
        raise TypeError(
            f"this loss needs class probabilities, but {type(predictor).__name__} has no "
            "predict_proba; calibrate it, or use the loss 'zero_one'."
        )
    values = _one_per_row(predictor, getattr(predictor, "predict_proba", predictor), X)
    if values.ndim != 2:
        raise ValueError(f"class probabilities must have shape (n, classes); got {values.shape}.")
    return np.asarray(values, dtype=np.float64)


def class_codes(predictor: Any, labels: np.ndarray) -> np.ndarray:
    """Return each label's position in the predictor's ``classes_``, or the label itself."""
    classes = getattr(predictor, "classes_", None)
    if classes is None:
        codes = np.asarray(labels)
        if codes.dtype.kind not in "iub" or (len(codes) and codes.min() < 0):
            raise ValueError(
                "without `classes_` on the predictor, classes must be the whole numbers "
                f"0, 1, 2, ...; got values of type {codes.dtype}."
            )
        return codes.astype(np.int64)
    position = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    unknown = sorted({str(v) for v in np.asarray(labels).tolist() if v not in position})
    if unknown:
        raise ValueError(f"y has classes the predictor does not know: {unknown[:5]}.")
    return np.array([position[v] for v in np.asarray(labels).tolist()], dtype=np.int64)


def own_signals(predictor: Any, X: Rows) -> FloatArray:
    """What g itself says about each row, as float columns.

    A classifier gives its class code, the margin between its two likeliest classes and the
    entropy of its probabilities; a forest or bag of regressors the mean and standard deviation
    over its members, in one pass; any other predictor its output. A prediction column is among
    the features already and adds nothing.
    """
    if isinstance(predictor, PredictionColumn):
        return np.empty((n_rows(X), 0))
    if hasattr(predictor, "predict_proba"):
        return _class_signals(predict_proba(predictor, X))
    members = _members_mean_and_spread(predictor, X)
    if members is not None:
        return members
    output = predict(predictor, X)
    if hasattr(predictor, "classes_"):
        output = class_codes(predictor, output)
    return np.asarray(output, dtype=np.float64).reshape(len(output), -1)


def _one_per_row(predictor: Any, function: Any, X: Rows) -> np.ndarray:
    try:
        values = np.asarray(function(X))
    except Exception as error:
        error.add_note(f"raised by the predictor {predictor!r} on {n_rows(X)} rows")
        raise
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != n_rows(X):
        raise ValueError(
            f"the predictor must return one prediction per row; got an output of shape "
            f"{values.shape} for {n_rows(X)} rows."
        )
    return values


def _class_signals(probabilities: FloatArray) -> FloatArray:
    top = np.sort(probabilities, axis=1)[:, -2:]
    margin = top[:, -1] - (top[:, 0] if top.shape[1] == 2 else 0.0)
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    entropy = -(probabilities * logs).sum(axis=1)
    return np.column_stack([probabilities.argmax(axis=1), margin, entropy])


def _members_mean_and_spread(predictor: Any, X: Rows) -> FloatArray | None:
    """Mean and standard deviation over the members of an averaging ensemble; None for others."""
    if isinstance(predictor, Pipeline):
        final = predictor[-1]
        if not isinstance(final, _AVERAGING):
            return None
        return _members_mean_and_spread(final, predictor[:-1].transform(X))
    if not isinstance(predictor, _AVERAGING):
        return None
    if isinstance(predictor, VotingRegressor):
        if predictor.weights is not None:
            return None
        tasks = [(member, X, None) for member in predictor.estimators_]
    elif isinstance(predictor, BaggingRegressor):
        array = X if sparse.issparse(X) else np.asarray(X)
        features = predictor.estimators_features_
        tasks = [(m, array, f) for m, f in zip(predictor.estimators_, features, strict=True)]
    else:
        array = _as_float32(X)
        tasks = [(tree.tree_, array, None) for tree in predictor.estimators_]
    parts = min(effective_n_jobs(getattr(predictor, "n_jobs", None)), len(tasks))
    # Sums of differences to one member: exact when the members agree.
    origin = _member_output(tasks[0])
    sums = Parallel(n_jobs=parts, require="sharedmem")(
        delayed(_sum_differences)(tasks[i::parts], origin) for i in range(parts)
    )
    first = sum(s[0] for s in sums) / len(tasks)
    second = sum(s[1] for s in sums) / len(tasks)
    spread = np.sqrt(np.maximum(second - first**2, 0.0))
    return np.hstack([origin + first, spread])


_AVERAGING = (BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor, VotingRegressor)


def _as_float32(X: Rows) -> Any:
    if sparse.issparse(X):
        return X.astype(np.float32)
    frame = as_frame(X)
    array = X if frame is None else frame.to_numpy()
    return np.ascontiguousarray(array, dtype=np.float32)


def _member_output(task: tuple[Any, Any, Any]) -> FloatArray:
    member, X, features = task
    values = np.asarray(member.predict(X if features is None else X[:, features]))
    return values.reshape(len(values), -1)


def _sum_differences(
    tasks: list[tuple[Any, Any, Any]], origin: FloatArray
) -> tuple[FloatArray, FloatArray]:
    first, second = np.zeros_like(origin), np.zeros_like(origin)
    for task in tasks:
        difference = _member_output(task) - origin
        first += difference
        second += difference**2
    return first, second
