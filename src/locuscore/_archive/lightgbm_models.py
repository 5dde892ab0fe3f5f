"""Models of LightGBM, kept as LightGBM's own text."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from locuscore._archive.lightgbm_text import canonical_lightgbm
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.optional import require


class BoosterRegressor:
    """A LightGBM model that was loaded from its text."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def predict(self, X: Rows) -> FloatArray:
        """Predict."""
        return np.asarray(self.booster.predict(X))


class BoosterClassifier(BoosterRegressor):
    """A LightGBM classifier that was loaded from its text."""

    def __init__(self, booster: Any, classes: np.ndarray) -> None:
        super().__init__(booster)
        self.classes_ = classes

    def predict_proba(self, X: Rows) -> FloatArray:
        """Class probabilities, (n, classes)."""
        values = super().predict(X)
        return values if values.ndim == 2 else np.column_stack([1.0 - values, values])

    def decision_function(self, X: Rows) -> FloatArray:
        """Scores of the classes, before they become probabilities."""
        return np.asarray(self.booster.predict(X, raw_score=True))

    def predict(self, X: Rows) -> np.ndarray:
        """Likeliest class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def is_lightgbm(model: Any) -> bool:
    """Whether a model is one of LightGBM's, or one of the two above."""
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(model).__mro__}
    ours = isinstance(model, BoosterRegressor)
    return ours or bool(names & {"lightgbm.sklearn.LGBMModel", "lightgbm.basic.Booster"})


def lightgbm_parts(model: Any) -> tuple[bytes, dict[str, Any]]:
    """Return the model's text, and the classes of a classifier."""
    booster = getattr(model, "booster_", getattr(model, "booster", model))
    text = canonical_lightgbm(booster.model_to_string())
    return text.encode(), {"classes": getattr(model, "classes_", None)}


def read_lightgbm(data: bytes, settings: Mapping[str, Any]) -> BoosterRegressor:
    """Build a predictor from a model text, read into numbers and written anew."""
    model, classes = canonical_lightgbm(data.decode()), settings["classes"]
    booster = require("lightgbm", extra="lightgbm").Booster(model_str=model)
    return BoosterRegressor(booster) if classes is None else BoosterClassifier(booster, classes)


def read_lightgbm_file(data: bytes) -> BoosterRegressor:
    """Build a predictor from a file that LightGBM has written; it does not name classes."""
    text = canonical_lightgbm(data.decode())
    objective = re.search(r"^objective=(binary|multiclass(?:ova)? num_class:(\d+))", text, re.M)
    classes = None if objective is None else np.arange(int(objective[2] or 2))
    return read_lightgbm(text.encode(), {"classes": classes})
