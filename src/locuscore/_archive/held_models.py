"""Models of other libraries inside models of scikit-learn, such as at the end of a pipeline.

skops would not build them. So each is written beside the scikit-learn model, in its library's own
format, and a `HeldModel` with a number stands in its place. What is loaded keeps these: they hand
their rows on.
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from locuscore._archive.container import ArchiveError
from locuscore._archive.fitted_models import inside
from locuscore._archive.other_libraries import library_of
from locuscore._protocols import Rows


class HeldModel(BaseEstimator):
    """Stands in a scikit-learn model for one of another library, by its number.

    None is the number of a model that is not fitted, such as the one given to a meta-estimator.
    `decides` says whether the model had a `decision_function`, which some meta-estimators prefer.
    """

    def __init__(self, number: int | None = None, decides: bool = False) -> None:
        self.number, self.decides = number, decides

    def fit(self, X: Rows, y: Any = None) -> "HeldModel":
        """Raise: what was loaded can predict, and no more."""
        raise TypeError("a model that was loaded from an archive cannot be fitted again.")

    def predict(self, X: Rows) -> np.ndarray:
        """What the model says."""
        return np.asarray(self._fitted().predict(X))

    @available_if(lambda self: hasattr(vars(self).get("model_"), "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Rows) -> np.ndarray:
        """Class probabilities, (n, classes)."""
        return np.asarray(self._fitted().predict_proba(X))

    @available_if(lambda self: self.decides)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Rows) -> np.ndarray:
        """Scores of the classes."""
        return np.asarray(self._fitted().decision_function(X))

    def _fitted(self) -> Any:
        if "model_" not in vars(self):
            raise NotFittedError("this model was not fitted when it was saved.")
        return self.model_

    def fill(self, model: Any) -> None:
        """Put the model in."""
        self.model_ = model
        classes = getattr(model, "classes_", None)
        if classes is not None and len(classes):
            self.classes_ = np.asarray(classes)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if "classes_" in vars(self) else "regressor"
        return tags


def with_places(model: Any) -> tuple[Any, list[Any]]:
    """Return a scikit-learn model with places for those of other libraries in it, and these."""
    places: dict[int, Any] = {}
    models: list[Any] = []
    # Looking into a partial function would give it a dictionary that it did not have.
    for part in inside(model, is_end=lambda part: isinstance(part, partial) or _is_other(part)):
        if not _is_other(part):
            continue
        found = vars(part).get("model_") if isinstance(part, HeldModel) else part
        is_fitted = found is not None and _is_fitted(found)
        decides = hasattr(part, "decision_function")
        places[id(part)] = HeldModel(len(models) if is_fitted else None, decides)
        models += [found] if is_fitted else []
    # A copy takes what it is told to have copied already, wherever that stands.
    return (copy.deepcopy(model, dict(places)) if places else model), models


def _is_other(part: Any) -> bool:
    return isinstance(part, HeldModel) or library_of(part) is not None


def _is_fitted(model: Any) -> bool:
    """Whether a model has been fitted, which each library says in its own way."""
    if hasattr(model, "__sklearn_is_fitted__"):
        return bool(model.__sklearn_is_fitted__())
    is_fitted = getattr(model, "is_fitted", None)  # of CatBoost
    return bool(is_fitted()) if callable(is_fitted) else True


def fill_places(model: Any, models: Sequence[Any]) -> None:
    """Put models into their places; each must have one, and each place that is numbered its own."""
    taken = set()
    for part in inside(model):
        if not isinstance(part, HeldModel):
            continue
        own = vars(part)
        number = own.get("number")
        are_plain = type(number) in (int, type(None)) and type(own.get("decides")) is bool
        if set(own) != {"number", "decides"} or not are_plain:
            raise ArchiveError("it holds a place for a model that is none.")
        if number is None:
            continue
        if not 0 <= number < len(models):
            raise ArchiveError("it holds a place for a model that is not there.")
        part.fill(models[number])
        taken.add(number)
    if len(taken) < len(models):
        raise ArchiveError("it holds a model that has no place.")
