"""What is read off the fixed predictor: its output for the loss, and its own signals."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from locuscore._inputs.frames import as_array, column, n_rows, read_array, take_rows
from locuscore._inputs.losses import Loss
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.checks import check_losses, check_numeric, check_same_order, check_targets


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
        "an xgboost.Booster reads a DMatrix, not rows; pass an XGBRegressor or XGBClassifier, or "
        "the function lambda X: booster.predict(xgboost.DMatrix(X))."
    ),
    "torch.nn.modules.module.Module": (
        "a torch module reads tensors, not rows; call net.eval() and pass the function lambda X: "
        "net(torch.as_tensor(np.asarray(X), dtype=torch.float32)).detach().cpu().numpy()."
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


def _check_loss_fits(loss: Loss, predictor: Any) -> None:
    """Raise where no loss was chosen and the default, for numbers, would be used on classes."""
    model = getattr(predictor, "__self__", predictor)  # of a method, such as model.predict
    if loss.is_default and is_classifier(model):
        raise ValueError(
            f"the predictor {type(model).__name__} is a classifier, and the default loss is "
            "'absolute', for numbers; choose one of 'zero_one', 'log', 'brier' or cost(matrix). If "
            "the labels are numbers whose difference has a meaning, pass loss='absolute'."
        )


def realised_losses(
    loss: Loss, predictor: Any, X: Rows, y: ArrayLike | None, known: FloatArray | None = None
) -> FloatArray:
    """Return ``L(y, g(x))`` for each row, giving the loss what it reads.

    `known` is g(x) where somebody has computed it as one number per row; a loss of numbers then
    does not ask the predictor again.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    check_same_order(X=X, y=y)
    _check_loss_fits(loss, predictor)
    n = n_rows(X)
    targets = check_targets(as_array(y), n)
    if not n:
        return np.empty(0)
    if loss.reads == "probabilities":
        probabilities = predict_proba(predictor, X)
        codes = class_codes(targets, classes_of(predictor))
        return check_losses(loss(codes, probabilities), n)
    if loss.reads == "numbers":
        targets = check_numeric(targets, "y")
    output: np.ndarray
    output = predict(predictor, X) if known is None or loss.reads != "numbers" else known
    if loss.reads == "numbers":
        output = check_numeric(output, "the predictor's output")
    if loss.reads == "codes":
        classes = _cost_classes(loss, predictor)
        targets, output = class_codes(targets, classes), class_codes(output, classes)
    if loss.reads != "anything" and not targets.shape == output.shape == (n,):
        raise ValueError(
            f"y has shape {targets.shape}, and the predictor returned shape {output.shape}; the "
            f"loss {loss.name} compares one value with one. For several outputs pass a loss of "
            "your own, such as lambda y, g: np.abs(y - g).max(axis=1)."
        )
    return check_losses(loss(targets, output), n)


def predict(predictor: Any, X: Rows) -> np.ndarray:
    """Return g(X), one row of output per row of X."""
    output = _call(predictor, getattr(predictor, "predict", predictor), X)
    check_same_order(**{"X": X, "g(X)": output})
    values = read_array(output, "the predictor's output")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != n_rows(X):
        raise ValueError(
            f"the predictor must return one prediction per row; got an output of shape "
            f"{values.shape} for {n_rows(X)} rows."
        )
    return values


def n_outputs(predictor: Any, X: Rows) -> int:
    """Return the number of predictions per row; none without a predictor."""
    if predictor is None:
        return 0
    first = predict(predictor, take_rows(X, slice(0, 1)))
    return 1 if first.ndim == 1 else first.shape[1]


def predict_proba(predictor: Any, X: Rows) -> FloatArray:
    """Return g's class probabilities, shape (n, classes)."""
    if hasattr(predictor, "predict") and not hasattr(predictor, "predict_proba"):
        raise TypeError(
            f"this loss needs class probabilities, but {type(predictor).__name__} has no "
            "predict_proba; calibrate it, or use the loss 'zero_one'."
        )
    values = read_array(
        _call(predictor, getattr(predictor, "predict_proba", predictor), X),
        "the predictor's output",
    )
    if values.ndim != 2 or len(values) != n_rows(X):
        raise ValueError(
            f"class probabilities must have shape ({n_rows(X)}, classes); got {values.shape}."
        )
    return np.asarray(values, dtype=np.float64)


def _call(predictor: Any, function: Any, X: Rows) -> Any:
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


def _cost_classes(loss: Loss, predictor: Any) -> Any:
    """Return the classes that the rows and columns of a cost matrix stand for."""
    classes = classes_of(predictor) if loss.classes is None else loss.classes
    if classes is not None and len(classes) != loss.n_classes:
        raise ValueError(
            f"the cost matrix has {loss.n_classes} classes, but the predictor knows "
            f"{len(classes)}: {np.asarray(classes).tolist()}."
        )
    return classes


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


def own_signals(predictor: Any, X: Rows) -> np.ndarray:
    """What g itself says about each row, as columns; text where g is a function that returns text.

    A classifier gives its class code, the margin between its two likeliest classes and the
    entropy of its probabilities; a forest or bag of regressors the mean and standard deviation
    over its members, in one pass; any other predictor its output.
    """
    if hasattr(predictor, "predict_proba"):
        probabilities = _call(predictor, predictor.predict_proba, X)
        outputs = probabilities if isinstance(probabilities, list) else [probabilities]
        return np.hstack([_class_signals(np.asarray(p, dtype=np.float64)) for p in outputs])
    if has_members(predictor):
        return np.hstack(_call(predictor, partial(_mean_and_spread, predictor), X))
    output = predict(predictor, X)
    classes = classes_of(predictor)
    if classes is not None and output.ndim == 1:
        output = class_codes(output, classes)
    return output.reshape(len(output), -1)


def _class_signals(probabilities: FloatArray) -> FloatArray:
    top = np.sort(probabilities, axis=1)[:, -2:]
    margin = top[:, -1] - (top[:, 0] if top.shape[1] == 2 else 0.0)
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    entropy = -(probabilities * logs).sum(axis=1)
    return np.column_stack([probabilities.argmax(axis=1), margin, entropy])


# Known by their `predict`, the plain mean over members; a subclass with its own is another matter.
_MEANS = {
    model.predict
    for model in (BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor, VotingRegressor)
}

_SEARCHES = (GridSearchCV, RandomizedSearchCV)


def has_members(predictor: Any) -> bool:
    """Whether the predictor, or the last model inside it, is a plain mean over members."""
    if isinstance(predictor, Pipeline):
        return has_members(predictor[-1])
    if isinstance(predictor, _SEARCHES):
        return has_members(getattr(predictor, "best_estimator_", None))
    if isinstance(predictor, TransformedTargetRegressor):
        return has_members(getattr(predictor, "regressor_", None))
    is_mean = getattr(type(predictor), "predict", None) in _MEANS
    is_weighted = getattr(predictor, "weights", None) is not None
    return is_mean and hasattr(predictor, "estimators_") and not is_weighted


def _mean_and_spread(
    predictor: Any, X: Rows, push: Callable[[FloatArray], FloatArray] = np.asarray
) -> tuple[FloatArray, FloatArray]:
    """Prediction, and standard deviation over the members' predictions after `push`."""
    if isinstance(predictor, _SEARCHES):
        return _mean_and_spread(predictor.best_estimator_, X, push)
    if isinstance(predictor, Pipeline):
        inside = X if len(predictor) == 1 else predictor[:-1].transform(X)
        return _mean_and_spread(predictor[-1], inside, push)
    if isinstance(predictor, TransformedTargetRegressor):
        back = predictor.transformer_.inverse_transform
        _, spread = _mean_and_spread(predictor.regressor_, X, lambda values: push(back(values)))
        # The mean of what is pushed is not the prediction, which is the mean pushed.
        return predict(predictor, X).reshape(len(spread), -1), spread
    members = _members(predictor, X, push)
    parts = min(effective_n_jobs(getattr(predictor, "n_jobs", None)), len(members))
    # Sums of differences to one member: exact when the members agree.
    origin = members[0]()
    sums = Parallel(n_jobs=parts, require="sharedmem")(
        delayed(_sum_differences)(members[i::parts], origin) for i in range(parts)
    )
    first = sum(s[0] for s in sums) / len(members)
    second = sum(s[1] for s in sums) / len(members)
    return origin + first, np.sqrt(np.maximum(second - first**2, 0.0))


def _members(
    predictor: Any, X: Rows, push: Callable[[FloatArray], FloatArray]
) -> list[Callable[[], FloatArray]]:
    """One function per member: its predictions on X, (n, outputs), after `push`.

    X is prepared once, the way the ensemble's own `predict` does.
    """
    models = predictor.estimators_
    if isinstance(predictor, VotingRegressor):
        return [partial(_member_output, model, X, None, push) for model in models]
    if isinstance(predictor, BaggingRegressor):
        array = validate_data(
            predictor,
            X,
            reset=False,
            accept_sparse=["csr", "csc"],
            dtype=None,
            ensure_all_finite=False,
        )
        subsets = predictor.estimators_features_
        return [
            partial(_member_output, model, array, subset, push)
            for model, subset in zip(models, subsets, strict=True)
        ]
    array = validate_data(
        predictor,
        X,
        reset=False,
        accept_sparse="csr",
        dtype=np.float32,
        ensure_all_finite="allow-nan",
    )
    return [partial(_member_output, model.tree_, array, None, push) for model in models]


def _member_output(
    model: Any, X: Any, features: Any, push: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    values = np.asarray(model.predict(X if features is None else X[:, features]))
    return np.asarray(push(values.reshape(len(values), -1)), dtype=np.float64)


def _sum_differences(
    members: list[Callable[[], FloatArray]], origin: FloatArray
) -> tuple[FloatArray, FloatArray]:
    first, second = np.zeros_like(origin), np.zeros_like(origin)
    for member in members:
        difference = member() - origin
        first += difference
        second += difference**2
    return first, second
