"""How wide one row becomes on its way through transformers that a file has set up.

Steps that repeat, expand or encode columns multiply their number: ten unions of ten steps each, a
few lines in a file, turn one column into ten thousand million.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn import preprocessing
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline

WIDEST = 2**23  # columns of one row, for each column that comes in
DEEPEST = 8  # models in models; what scikit-learn does with them triples at each


def check_widths(model: Any) -> None:
    """Raise if a column of a row may become more than `WIDEST`, or models are nested too deeply."""
    _check_depth(model)
    _width(model, 1)


def _check_depth(model: Any, depth: int = 0) -> None:
    """Raise where models stand in models too often.

    A pipeline asks its first and its last step what they are, each of which asks its own.
    """
    if depth > DEEPEST:
        raise ValueError(f"its models are nested more than {DEEPEST} deep")
    for part in _models(getattr(model, "__dict__", {})):
        _check_depth(part, depth + 1)


def _width(step: Any, width: int) -> int:
    """Return the most columns that leave a step, if so many enter it."""
    own = getattr(step, "__dict__", {})
    match step:
        case Pipeline():
            for _, part, *_ in own["steps"]:
                width = _width(part, width)
        case FeatureUnion():
            width = _total(_width(part, width) for _, part, *_ in own["transformer_list"])
        case ColumnTransformer():
            width = _total(
                _width(part, width * _repeats(columns))
                for _, part, columns in own.get("transformers_", [])
            )
        case BaggingClassifier() | BaggingRegressor():
            most = max(map(_repeats, own.get("estimators_features_", [])), default=1)
            width *= most
            width = max([width, *(_width(part, width) for part in own.get("estimators_", []))])
        case preprocessing.PolynomialFeatures():
            width = own.get("_n_out_full", width)
        case preprocessing.OneHotEncoder():
            width = sum(own.get("_n_features_outs", [width]))
        case preprocessing.KBinsDiscretizer():
            width = _width(own.get("_encoder"), width)
        case preprocessing.TargetEncoder():
            width *= max(1, len(() if own.get("classes_") is None else own["classes_"]))
        case SimpleImputer():
            width *= 2  # with a column that says what was missing
        case _:
            width = max([width, *(_width(part, width) for part in _models(own))])
    if width > WIDEST:
        raise ValueError(f"a {type(step).__name__} makes more than {WIDEST} columns of one")
    return width


def _total(widths: Iterable[int]) -> int:
    """Return the sum, or as much of it as is too wide."""
    total = 0
    for width in widths:
        total += width
        if total > WIDEST:
            break
    return total


def _repeats(columns: Any) -> int:
    """How often a choice of columns takes one of them, at most."""
    if isinstance(columns, slice | str) or callable(columns):
        return 1
    values = np.asarray(columns)
    if values.dtype.kind == "b" or not values.size:
        return 1
    return int(np.unique(values, return_counts=True)[1].max())


def _models(value: Any) -> Iterator[BaseEstimator]:
    """Yield the models among the attributes of another, in lists as well."""
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, BaseEstimator):
            yield part
        elif isinstance(part, dict | list | tuple):
            yield from _models(part)
