"""The members of an ensemble: its prediction, and how far its members disagree, in one pass."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from inspect import getattr_static
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.utils.validation import validate_data

from locuscore._protocols import FloatArray, Rows

# How the `predict` of a bag, and that of a forest, has its rows checked.
_bag_rows = partial(
    validate_data, reset=False, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False
)
_forest_rows = partial(
    validate_data, reset=False, accept_sparse="csr", dtype=np.float32, ensure_all_finite="allow-nan"
)


@dataclass(frozen=True)
class _Kinds:
    """Classes of scikit-learn that are, or hold, a mean over members."""

    bag: Any
    vote: Any
    forests: tuple[Any, ...]
    pipeline: Any
    searches: tuple[Any, ...]
    transformed: Any

    @classmethod
    @cache
    def known(cls) -> Self:
        """Import them, which takes a while and is not needed before there is a predictor."""
        from sklearn import compose, ensemble, model_selection, pipeline  # noqa: PLC0415

        return cls(
            ensemble.BaggingRegressor,
            ensemble.VotingRegressor,
            (ensemble.ExtraTreesRegressor, ensemble.RandomForestRegressor),
            pipeline.Pipeline,
            (model_selection.GridSearchCV, model_selection.RandomizedSearchCV),
            compose.TransformedTargetRegressor,
        )


def has_members(predictor: Any) -> bool:
    """Whether the predictor, or the last model inside it, is a plain mean over members.

    One of another library says so by a method ``mean_and_spread(X)``.
    """
    if hasattr(predictor, "mean_and_spread"):
        return True
    kinds = _Kinds.known()
    if _predicts_like(predictor, kinds.pipeline):
        return has_members(predictor[-1])
    if _predicts_like(predictor, *kinds.searches):
        return has_members(getattr(predictor, "best_estimator_", None))
    if _predicts_like(predictor, kinds.transformed):
        return has_members(getattr(predictor, "regressor_", None))
    is_weighted = getattr(predictor, "weights", None) is not None
    is_mean = _predicts_like(predictor, kinds.bag, kinds.vote, *kinds.forests) and not is_weighted
    return is_mean and hasattr(predictor, "estimators_")


def _predicts_like(predictor: Any, *kinds: type) -> bool:
    """Whether `predict` is that of one of these classes; a subclass or object may replace it."""
    if not isinstance(predictor, kinds):
        return False
    own = getattr_static(predictor, "predict", None)
    return own in [getattr_static(k, "predict") for k in kinds]


def mean_and_spread(
    predictor: Any, X: Rows, scale_back: Callable[[FloatArray], FloatArray] = np.asarray
) -> tuple[FloatArray | None, FloatArray]:
    """Mean and standard deviation over the members' predictions after `scale_back`.

    The mean is the prediction to rounding, and None where it is not.
    """
    if hasattr(predictor, "mean_and_spread"):
        return predictor.mean_and_spread(X)
    kinds = _Kinds.known()
    if isinstance(predictor, kinds.searches):
        return mean_and_spread(predictor.best_estimator_, X, scale_back)
    if isinstance(predictor, kinds.pipeline):
        inside = X if len(predictor) == 1 else predictor[:-1].transform(X)
        return mean_and_spread(predictor[-1], inside, scale_back)
    if isinstance(predictor, kinds.transformed):
        back = predictor.transformer_.inverse_transform
        inner = predictor.regressor_
        _, spread = mean_and_spread(inner, X, lambda values: scale_back(back(values)))
        # The prediction is the back-transformed mean, not the mean of back-transformed values.
        return None, spread
    members = _members(predictor, X, scale_back)
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
    predictor: Any, X: Rows, scale_back: Callable[[FloatArray], FloatArray]
) -> list[Callable[[], FloatArray]]:
    """One function per member: its predictions on X, (n, outputs), on the scale of the target.

    X is prepared once, the way the ensemble's own `predict` does.
    """
    kinds = _Kinds.known()
    models, subsets = predictor.estimators_, [None] * len(predictor.estimators_)
    if isinstance(predictor, kinds.bag):
        X, subsets = _bag_rows(predictor, X), predictor.estimators_features_
    elif not isinstance(predictor, kinds.vote):
        X, models = _forest_rows(predictor, X), [m.tree_ for m in models]
    parts = zip(models, subsets, strict=True)
    return [partial(_member_output, model, X, subset, scale_back) for model, subset in parts]


def _member_output(
    model: Any, X: Any, features: Any, scale_back: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    values = np.asarray(model.predict(X if features is None else X[:, features]))
    return np.asarray(scale_back(values.reshape(len(values), -1)), dtype=np.float64)


def _sum_differences(
    members: list[Callable[[], FloatArray]], origin: FloatArray
) -> tuple[FloatArray, FloatArray]:
    first, second = np.zeros_like(origin), np.zeros_like(origin)
    for member in members:
        difference = member() - origin
        first += difference
        second += difference**2
    return first, second
