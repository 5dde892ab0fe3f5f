"""Checks of fitted scikit-learn objects: what compiled code will follow, and what sets sizes.

Attributes of a loaded model can be anything. Most of them are used by Python and numpy, which check
before they read. What is checked here is what reaches compiled code that does not, and what decides
how much memory one row takes.
"""

from collections.abc import Callable
from functools import partial
from numbers import Number
from os import cpu_count
from typing import Any

import numpy as np
from sklearn import dummy, ensemble, preprocessing
from sklearn.base import BaseEstimator, is_classifier
from sklearn.calibration import _SigmoidCalibration
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.model_selection._search import BaseSearchCV
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree
from sklearn.utils import check_array

from locuscore._archive.fitted_trees import (
    check_boosted,
    check_decision_tree,
    check_forest,
    features_of,
)

BOOSTED = (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor)
MOST_TERMS, MOST_LOOPED = 2**20, 2**16  # of a polynomial; above degree 3 sparse terms are looped
LARGEST_DEGREE = 64
# Arrays that scikit-learn multiplies and adds.
COMPUTED_WITH = {"coef_", "coefs_", "intercept_", "intercepts_", "mean_", "scale_", "var_"}
METHODS = {"predict", "predict_proba", "decision_function"}


def check_fitted(model: Any) -> None:
    """Check everything inside a fitted scikit-learn object."""
    found = inside(model)
    _check_masks(found)
    for value in found:
        # Checks of trees need the features and outputs of their model.
        if isinstance(value, Tree | TreePredictor):
            raise ValueError("a tree stands where no model looks after it")
        for kinds, check in CHECKS:
            if isinstance(value, kinds):
                check(value)


def inside(model: Any, is_end: Callable[[Any], bool] = lambda _: False) -> list[Any]:
    """Return all objects inside an object, without the trees that their own models check.

    What stands inside an object for which `is_end` is true is not looked at.
    """
    found: dict[int, Any] = {}
    waiting = [model]
    while waiting:
        value = waiting.pop()
        # A forged model may contain itself.
        if id(value) in found or value is None or isinstance(value, str | bytes | int | float):
            continue
        found[id(value)] = value
        waiting += [] if is_end(value) else _parts(value)
    return list(found.values())


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, np.ndarray):
        return np.asarray(value).ravel().tolist() if value.dtype.kind == "O" else []
    parts = dict(getattr(value, "__dict__", {}))
    for kinds, own in ((BaseDecisionTree, "tree_"), (BOOSTED, "_predictors")):
        if isinstance(value, kinds):
            parts.pop(own, None)
    return list(parts.values())


def _check_masks(found: list[Any]) -> None:
    """Check that nothing hides from the checks: comparing skips what is masked, using does not.

    The results of a search are masked by scikit-learn itself, and only looked at.
    """
    shown = {
        id(column)
        for value in found
        if isinstance(value, BaseSearchCV)
        for column in dict(vars(value).get("cv_results_", {})).values()
    }
    if any(isinstance(value, np.ma.MaskedArray) and id(value) not in shown for value in found):
        raise ValueError("a model holds masked values")


def limit_jobs(own: dict[str, Any]) -> None:
    """Let a model with these attributes start no more threads than this machine has cores."""
    if own.get("n_jobs") is not None:
        own["n_jobs"] = min(int(own["n_jobs"]), cpu_count() or 1)


def are_numbers(value: Any) -> bool:
    """Whether a value is an array of numbers: one of texts may hold values of any size."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def _check_sizes(model: Any) -> None:
    """Check what scikit-learn allocates before it looks at arrays."""
    own = vars(model)
    limit_jobs(own)
    for name in COMPUTED_WITH & own.keys():
        parts = own[name] if isinstance(own[name], list) else [own[name]]
        if not all(are_numbers(part) or isinstance(part, Number | None) for part in parts):
            raise ValueError(f"the {name} of a {type(model).__name__} are no numbers")
    unit = own.get("unit_", 1.0)
    if not isinstance(unit, float) or not 0 < unit < np.inf:
        raise ValueError(f"a {type(model).__name__} has a unit that is no positive number")
    # Broadcasting would give one value for each pair of a row and an intercept.
    if np.ndim(own.get("intercept_", 0.0)) > 1:
        raise ValueError(f"a {type(model).__name__} has an intercept of several dimensions")
    # A type of text or bytes can be of any length, for each value of the output.
    if own.get("dtype") is not None and np.dtype(own["dtype"]).kind not in "biuf":
        raise ValueError(f"a {type(model).__name__} gives something else than numbers")
    types = [value for value in own.values() if isinstance(value, np.dtype)]
    if any(one.kind not in "biufO" for one in types):
        raise ValueError(f"a {type(model).__name__} fills in something else than numbers or text")
    # Room is made for as many as it claims, and filled for as many as there are.
    if "n_classes_" in own and "classes_" in own:
        several = isinstance(own["n_classes_"], list)
        classes = own["classes_"] if several else [own["classes_"]]
        counts = own["n_classes_"] if several else [own["n_classes_"]]
        if [int(count) for count in counts] != [len(labels) for labels in classes]:
            raise ValueError(f"a {type(model).__name__} has other classes than it claims")


def _check_dummy(model: Any) -> None:
    """Check that a dummy has as many values as it claims, which it repeats for every row."""
    own = vars(model)
    if "n_outputs_" not in own:
        return
    n_outputs = own["n_outputs_"]
    if isinstance(model, dummy.DummyRegressor):
        is_right = own["constant_"].shape == (1, n_outputs)
    elif n_outputs == 1:
        parts = [own["class_prior_"], own["classes_"]]
        constant = own.get("constant")
        is_right = all(len(part) == own["n_classes_"] for part in parts) and (
            constant is None or bool(np.isin(constant, own["classes_"]).all())
        )
    else:
        parts = [own["class_prior_"], own["classes_"], own["n_classes_"]]
        is_right = all(isinstance(part, list) and len(part) == n_outputs for part in parts)
    if not is_right:
        raise ValueError("a dummy has other outputs than it claims")


def _check_one_hot(model: Any) -> None:
    """Check the columns of the sparse matrix that the encoder builds.

    Nobody else does, and compiled code uses their numbers as addresses.
    """
    own = vars(model)
    if "categories_" not in own:
        return
    levels = own["categories_"]
    if not isinstance(levels, list) or len(levels) != features_of(model):
        raise ValueError("an encoder has other features than it claims")
    nothing = [None] * len(levels)
    grouped = own["_infrequent_enabled"]
    rare = own["_infrequent_indices"] if grouped else nothing
    maps = own["_default_to_infrequent_mappings"] if grouped else nothing
    drops = own["_drop_idx_after_grouping"]
    dropped = nothing if drops is None else list(drops)
    if drops is not None and (drops.shape != (len(levels),) or drops.dtype.kind != "O"):
        raise ValueError("an encoder drops other columns than it has")
    # Rare levels become one column, and a dropped one none: the widths must follow from that.
    parts = (levels, rare, maps, dropped, own["_n_features_outs"])
    for known, few, places, drop, width in zip(*parts, strict=True):
        n_levels = len(known) - (0 if few is None else len(few) - 1)
        is_right = (
            width == n_levels - (drop is not None)
            and (few is None) == (places is None)
            and (few is None or (len(few) > 0 and _are_below(few, len(known))))
            and (places is None or (len(places) == len(known) and _are_below(places, n_levels)))
            and (drop is None or _are_below([drop], n_levels))
        )
        if not is_right:
            raise ValueError("an encoder has other columns than it claims")


def _are_below(values: Any, limit: int) -> bool:
    numbers = np.asarray(values)
    is_list = numbers.ndim == 1 and numbers.dtype.kind in "iu"
    return bool(is_list and ((numbers >= 0) & (numbers < limit)).all())


def _check_categories(model: Any) -> None:
    """Check that categories are sorted, as a search in them needs."""
    for known in vars(model).get("categories_", []):
        levels = known
        if known.dtype.kind == "O":  # numbers are searched in these as well
            there = [v for v in known if v is not None and v == v]  # neither None nor NaN
            levels = np.array([v for v in there if isinstance(v, Number)], dtype=np.float64)
            is_mixed = 0 < len(levels) < len(there)
        else:
            is_mixed = known.dtype.kind not in "biufUSmM"
        if known.ndim != 1 or is_mixed:
            raise ValueError("an encoder has unknown categories")
        is_sorted = np.array_equal(np.sort(levels), levels, equal_nan=levels.dtype.kind == "f")
        if levels.dtype.kind not in "US" and not is_sorted:
            raise ValueError("the categories of an encoder are not in order")


def _check_polynomial(model: Any) -> None:
    """Check that a polynomial has the terms it makes room for, and not too many."""
    own = vars(model)
    if "n_output_features_" not in own:
        return
    degrees = own["_min_degree"], own["_max_degree"]
    if not all(type(degree) is int and 0 <= degree <= LARGEST_DEGREE for degree in degrees):
        raise ValueError(f"a polynomial has a degree above {LARGEST_DEGREE}")
    # Counting takes as long as the degree, which is why that was bounded first.
    count = partial(
        model._num_combinations,
        n_features=features_of(model),
        max_degree=degrees[1],
        interaction_only=model.interaction_only,
        include_bias=model.include_bias,
    )
    widths = count(min_degree=degrees[0]), count(min_degree=0)
    most = MOST_TERMS if degrees[1] <= 3 else MOST_LOOPED
    if widths != (own["n_output_features_"], own["_n_out_full"]) or widths[1] > most:
        raise ValueError(f"a polynomial has other terms than it claims, or above {most}")


def _check_target_encoder(model: Any) -> None:
    """Check that every column it writes has an encoding.

    A column without one would keep whatever was in its memory before.
    """
    levels, found = vars(model).get("categories_", []), vars(model).get("encodings_", [])
    repeats = len(model.classes_) if getattr(model, "target_type_", "") == "multiclass" else 1
    wanted = [(len(known),) for known in levels for _ in range(repeats)]
    if [np.shape(encoding) for encoding in found] != wanted:
        raise ValueError("an encoder has other columns than it claims")


def _check_voting(model: Any) -> None:
    """Check votes, which are counted in an array as long as the largest label."""
    own = vars(model)
    if own.get("voting") != "hard" or "estimators_" not in own:
        return
    limit = len(own["le_"].classes_)
    for voter in own["estimators_"]:
        owns = [getattr(part, "__dict__", {}) for part in inside(voter)]
        labels = [own["classes_"] for own in owns if "classes_" in own]
        if not is_classifier(voter) or not labels:
            raise ValueError("a vote is cast by something that is no classifier")
        if not all(_are_below(np.asarray(one).astype(np.int64), limit) for one in labels):
            raise ValueError("a vote is cast for a class that does not exist")


def _check_stacking(model: Any) -> None:
    # Any method named there would be called.
    if not set(vars(model).get("stack_method_", [])) <= METHODS:
        raise ValueError("a stack asks its models for something else than predictions")


def _check_sigmoid(model: Any) -> None:
    # Several slopes would make a matrix of each column of scores.
    if np.ndim(model.a_) or np.ndim(model.b_):
        raise ValueError("a calibration has several slopes")


def _check_function(model: Any) -> None:
    """Check that functions on the list get rows and no settings of the file.

    Settings choose the type of the result, and whether values are left as memory had them.
    """
    own = vars(model)
    for name, settings in (("func", "kw_args"), ("inverse_func", "inv_kw_args")):
        given = own.get(name)
        function = given.func if isinstance(given, partial) else given
        is_listed = function is check_array or isinstance(function, np.ufunc | type)
        if is_listed and own.get(settings):
            raise ValueError("a transformer looks at its rows in an unknown way")


CHECKS: list[tuple[Any, Callable[[Any], None]]] = [
    (BaseEstimator, _check_sizes),
    (BaseDecisionTree, check_decision_tree),
    (BaseForest, check_forest),
    (BOOSTED, check_boosted),
    ((dummy.DummyClassifier, dummy.DummyRegressor), _check_dummy),
    ((preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder), _check_categories),
    (preprocessing.OneHotEncoder, _check_one_hot),
    (preprocessing.PolynomialFeatures, _check_polynomial),
    (preprocessing.TargetEncoder, _check_target_encoder),
    (ensemble.VotingClassifier, _check_voting),
    ((ensemble.StackingClassifier, ensemble.StackingRegressor), _check_stacking),
    (_SigmoidCalibration, _check_sigmoid),
    (preprocessing.FunctionTransformer, _check_function),
]
