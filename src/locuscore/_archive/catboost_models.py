"""Models of CatBoost, kept as CatBoost's own binary: read only where a key vouches for it."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn.exceptions import NotFittedError

from locuscore._shared.optional import require

KINDS = ("CatBoostClassifier", "CatBoostRegressor", "CatBoost")


def is_catboost(model: Any) -> bool:
    """Whether a model is one of CatBoost's."""
    return any(kind.__module__ == "catboost.core" for kind in type(model).__mro__)


def catboost_parts(model: Any) -> tuple[bytes, dict[str, Any]]:
    """Return the model's binary, and which of CatBoost's classes it is."""
    if not model.is_fitted():
        raise NotFittedError(f"the {type(model).__name__} is not fitted.")
    names = [kind.__name__ for kind in type(model).__mro__]
    kind = next((name for name in KINDS if name in names), "CatBoost")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path), format="cbm")
        return path.read_bytes(), {"kind": kind}


def read_catboost(data: bytes, settings: Mapping[str, Any]) -> Any:
    """Build a predictor from the binary, which CatBoost parses unchecked."""
    if settings["kind"] not in KINDS:
        raise ValueError("a CatBoost model is of an unknown kind")
    model = getattr(require("catboost", extra="catboost"), settings["kind"])()
    model.load_model(blob=data)
    return model


def read_catboost_file(data: bytes) -> Any:
    """Build a predictor from a file that CatBoost has written."""
    model = read_catboost(data, {"kind": "CatBoost"})
    kind = "CatBoostClassifier" if len(model.classes_) else "CatBoostRegressor"
    return read_catboost(data, {"kind": kind})
