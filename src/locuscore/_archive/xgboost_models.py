"""Models of xgboost, kept as xgboost's own JSON."""

import json
from collections.abc import Mapping
from os import cpu_count
from typing import Any

from sklearn.base import is_classifier

from locuscore._archive.xgboost_json import canonical_xgboost
from locuscore._shared.optional import require

KINDS = {"regressor": "XGBRegressor", "classifier": "XGBClassifier"}


def is_xgboost(model: Any) -> bool:
    """Whether a model is one of xgboost's."""
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(model).__mro__}
    return bool(names & {"xgboost.sklearn.XGBModel", "xgboost.core.Booster"})


def xgboost_parts(model: Any) -> tuple[bytes, dict[str, Any]]:
    """Return the model's JSON, with the rounds that it predicts with, and how it is called."""
    if not hasattr(model, "get_booster"):  # a Booster, which predicts with all rounds
        return _json(model, None), {"kind": "regressor", "missing": float("nan"), "n_jobs": None}
    settings = {
        "kind": "classifier" if is_classifier(model) else "regressor",
        "missing": float(model.missing),
        "n_jobs": model.n_jobs if isinstance(model.n_jobs, int) else None,
    }
    booster = model.get_booster()
    best = booster.attr("best_iteration")
    return _json(booster, None if best is None else int(best) + 1), settings


def _json(booster: Any, n_rounds: int | None) -> bytes:
    return canonical_xgboost(bytes(booster.save_raw("json")).decode(), n_rounds).encode()


def read_xgboost(data: bytes, settings: Mapping[str, Any]) -> Any:
    """Build a predictor from JSON, read into numbers and written anew."""
    kind, missing, n_jobs = (settings[name] for name in ("kind", "missing", "n_jobs"))
    if kind not in KINDS or type(missing) is not float or type(n_jobs) not in (int, type(None)):
        raise ValueError("an xgboost model is called in an unknown way")
    text = canonical_xgboost(data.decode())
    library = require("xgboost", extra="xgboost")
    # Not more threads than there are processors.
    n_jobs = None if n_jobs is None else min(n_jobs, cpu_count() or 1)
    model = getattr(library, KINDS[kind])(missing=missing, n_jobs=n_jobs)
    try:
        model.load_model(bytearray(text.encode()))
    except library.core.XGBoostError as error:  # whose text has a line for each frame of the stack
        why = str(error).partition("\n")[0].rpartition(": ")[2]
        raise ValueError(f"xgboost {library.__version__} cannot read its model ({why})") from None
    return model


def read_xgboost_file(data: bytes) -> Any:
    """Build a predictor from a file that xgboost has written, with rounds up to the best one."""
    text = data.decode()
    learner = json.loads(text)["learner"]
    best, objective = learner["attributes"].get("best_iteration"), learner["objective"]["name"]
    text = canonical_xgboost(text, None if best is None else int(best) + 1)
    is_class = objective == "binary:logistic" or objective.startswith("multi:")
    settings = {"missing": float("nan"), "n_jobs": None}
    kind = "classifier" if is_class else "regressor"
    return read_xgboost(text.encode(), settings | {"kind": kind})
