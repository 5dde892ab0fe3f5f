"""xgboost's model JSON, read into numbers and written anew.

xgboost follows the numbers of a model unchecked: children, parents, features, groups, categories.
So it never reads JSON from a file: it reads JSON that is written here, from numbers that were
checked. Nodes that pruning left behind are dropped, and parents follow from children.
"""

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from locuscore._archive.xgboost_trees import (
    MOST_WORDS,
    Tree,
    known_keys,
    shortest,
    single_floats,
    whole_numbers,
)

LARGEST = 2**31 - 1  # of xgboost's integers
MOST_FEATURES = 1_000_000  # it makes room for all of them, for each row of a block
NUMBER = re.compile(r"[-+]?[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # which it reads otherwise than it writes
FEATURE_TYPES = {"float", "int", "i", "q", "c"}
# Objectives, each with where its settings stand and which of them are numbers.
_LOGISTIC = ("reg_loss_param", ("scale_pos_weight",))
OBJECTIVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "binary:hinge": ("", ()),
    "binary:logistic": _LOGISTIC,
    "binary:logitraw": _LOGISTIC,
    "count:poisson": ("poisson_regression_param", ("max_delta_step",)),
    "multi:softmax": ("softmax_multiclass_param", ("num_class",)),
    "multi:softprob": ("softmax_multiclass_param", ("num_class",)),
    "reg:absoluteerror": ("", ()),
    "reg:gamma": _LOGISTIC,
    "reg:logistic": _LOGISTIC,
    "reg:pseudohubererror": ("pseudo_huber_param", ("huber_slope",)),
    "reg:quantileerror": ("quantile_loss_param", ("quantile_alpha",)),
    "reg:squarederror": _LOGISTIC,
    "reg:squaredlogerror": ("", ()),
    "reg:tweedie": ("tweedie_regression_param", ("tweedie_variance_power",)),
    "survival:cox": ("", ()),
}
# Types of levels that are whole numbers, by xgboost's own code.
LEVEL_TYPES = {9: np.int8, 10: np.uint8, 11: np.int16, 13: np.int32, 15: np.int64}

Json = dict[str, Any]


def canonical_xgboost(text: str, n_rounds: int | None = None) -> str:
    """Return the model with every number checked, in xgboost's own JSON; raise where one is bad.

    `n_rounds` keeps the first so many rounds of boosting. Attributes of the model are left out:
    predicting reads none.
    """
    model = _object(json.loads(text), "learner version")
    learner = _object(
        model["learner"],
        "attributes feature_names feature_types gradient_booster learner_model_param objective",
    )
    sizes = _object(
        learner["learner_model_param"],
        "base_score boost_from_average num_class num_feature num_target",
    )
    n_features = _whole(sizes["num_feature"], 1, MOST_FEATURES)
    n_classes = _whole(sizes["num_class"], 0, LARGEST)
    n_targets = _whole(sizes.get("num_target", "1"), 1, LARGEST)
    if n_classes > 1 and n_targets > 1:
        raise ValueError("an xgboost model has both classes and several targets")
    n_outputs = max(n_classes, n_targets)
    checked = {
        "attributes": {},
        "feature_names": _names(learner.get("feature_names", []), n_features),
        "feature_types": _types(learner.get("feature_types", []), n_features),
        "gradient_booster": _booster(learner["gradient_booster"], n_features, n_outputs, n_rounds),
        "learner_model_param": {
            "base_score": _base_score(sizes["base_score"], n_outputs),
            "boost_from_average": str(_whole(sizes.get("boost_from_average", "1"), 0, 1)),
            "num_class": str(n_classes),
            "num_feature": str(n_features),
            "num_target": str(n_targets),
        },
        "objective": _objective(learner["objective"], n_classes, n_targets),
    }
    # Not escaped: xgboost keeps escapes of letters as they stand.
    return json.dumps(
        {"learner": checked, "version": _version(model["version"])}, ensure_ascii=False
    )


def _object(value: Any, names: str) -> Json:
    """Return an object of JSON with none but these keys."""
    return known_keys(value, set(names.split()))


def _whole(text: Any, low: int, high: int) -> int:
    number = int(text) if isinstance(text, str) and re.fullmatch("[0-9]{1,12}", text) else -1
    if not low <= number <= high:
        said = str(text)[:20]
        raise ValueError(f"an xgboost model says {said!r}, where {low} to {high} is possible")
    return number


def _names(names: Any, n_features: int) -> list[str]:
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not are_names or len(names) not in (0, n_features):
        raise ValueError("an xgboost model has other features than it names")
    if any(map(CONTROL.search, names)):
        raise ValueError("names of features in an xgboost model hold control characters")
    return list(names)


def _types(types: Any, n_features: int) -> list[str]:
    if not set(found := _names(types, n_features)) <= FEATURE_TYPES:
        raise ValueError("an xgboost model has features of an unknown type")
    return found


def _version(version: Any) -> list[int]:
    numbers = whole_numbers(version)
    if len(numbers) != 3 or numbers.min() < 0 or numbers.max() > 1000:
        raise ValueError("an xgboost model does not say which version wrote it")
    found: list[int] = numbers.tolist()
    return found


def _numbers(text: Any) -> list[str]:
    """Return the numbers of a list in text, such as ``[5E-1,1E0]``, or of one without brackets."""
    parts = text.strip("[]").split(",") if isinstance(text, str) else [""]
    if not all(map(NUMBER.fullmatch, parts)):
        raise ValueError("an xgboost model has a setting that is no number")
    return parts


def _base_score(text: Any, n_outputs: int) -> str:
    """Return the start of predictions: one number, or, since version 3.1, one for each output."""
    parts = _numbers(text)
    if len(parts) not in (1, n_outputs):
        raise ValueError("an xgboost model starts with other outputs than it has")
    return f"[{','.join(parts)}]" if text.startswith("[") else parts[0]


def _objective(objective: Any, n_classes: int, n_targets: int) -> Json:
    """Return an objective on the list, whose number of outputs is that of the model."""
    name = objective["name"] if isinstance(objective, Mapping) else None
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise ValueError(
            f"xgboost models with the objective {str(name)[:40]!r} are not held, only with "
            f"{', '.join(OBJECTIVES)}"
        )
    place, settings = OBJECTIVES[name]
    if not place:
        return {"name": name}
    given = _object(_object(objective, f"name {place}")[place], " ".join(settings))
    told = {}
    for setting in settings:
        numbers = _numbers(given[setting])
        is_right = len(numbers) == 1
        if setting == "quantile_alpha":  # one for each target
            is_right = len(numbers) == n_targets
        elif setting == "num_class":  # so many outputs become the classes of one row
            is_right = n_classes > 1 and numbers == [str(n_classes)]
        if not is_right:
            raise ValueError(f"the {setting} of an xgboost model is not that of its outputs")
        is_list = setting == "quantile_alpha"
        told[setting] = f"[{','.join(numbers)}]" if is_list else numbers[0]
    return {"name": name, place: told}


def _booster(booster: Any, n_features: int, n_outputs: int, n_rounds: int | None) -> Json:
    """Return trees, or trees with weights (dart)."""
    name = booster.get("name") if isinstance(booster, Mapping) else None
    if name == "dart":
        given = _object(booster, "gbtree name weight_drop")
        trees = _booster(given["gbtree"], n_features, n_outputs, n_rounds)
        weights, n_trees = single_floats(given["weight_drop"]), len(trees["model"]["trees"])
        if len(weights) < n_trees:
            raise ValueError("an xgboost model has other trees than weights of them")
        return {"gbtree": trees, "name": "dart", "weight_drop": shortest(weights[:n_trees])}
    if name != "gbtree":
        raise ValueError(
            f"xgboost models of the kind {str(name)[:20]!r} are not held, only gbtree and dart; a "
            "linear one can be fitted as sklearn.linear_model.ElasticNet"
        )
    return {"model": _model(booster["model"], n_features, n_outputs, n_rounds), "name": name}


def _model(model: Any, n_features: int, n_outputs: int, n_rounds: int | None) -> Json:
    given = _object(model, "cats gbtree_model_param iteration_indptr tree_info trees")
    sizes = _object(given["gbtree_model_param"], "num_parallel_tree num_trees size_leaf_vector")
    blocks, info = given["trees"], whole_numbers(given["tree_info"])
    if not isinstance(blocks, list) or not 0 < len(blocks) == len(info):
        raise ValueError("an xgboost model has other trees than it claims")
    # It writes one output per group, into room for as many as there are outputs.
    if info.min() < 0 or info.max() >= n_outputs or n_outputs > len(blocks):
        raise ValueError("an xgboost model has trees for outputs that do not exist")
    per_round = _whole(sizes["num_parallel_tree"], 0, len(blocks))
    ends = _rounds(given.get("iteration_indptr"), len(blocks), max(1, per_round) * n_outputs)
    if n_rounds is not None and 0 < n_rounds < len(ends):
        ends = ends[: n_rounds + 1]
    n_trees = int(ends[-1])
    trees = [Tree.read(block, n_features) for block in blocks[:n_trees]]
    # A category is a bit, and room is made for all bits below the largest.
    if sum(tree.n_words for tree in trees) > MOST_WORDS:
        raise ValueError("an xgboost model has more categories than there can be")
    told = {
        "gbtree_model_param": {"num_parallel_tree": str(per_round), "num_trees": str(n_trees)},
        "iteration_indptr": ends.tolist(),
        "tree_info": info[:n_trees].tolist(),
        "trees": [tree.to_json(i, n_features) for i, tree in enumerate(trees)],
    }
    return told | ({"cats": _levels(given["cats"], n_features)} if "cats" in given else {})


def _rounds(ends: Any, n_trees: int, per_round: int) -> np.ndarray:
    """Return where each round of boosting ends among the trees; older versions do not write it."""
    found = np.arange(0, n_trees + 1, per_round) if ends is None else whole_numbers(ends)
    if len(found) < 2 or found[0] != 0 or found[-1] != n_trees or np.any(np.diff(found) < 1):
        raise ValueError("the rounds of an xgboost model do not make up its trees")
    return found


def _levels(cats: Any, n_features: int) -> Json:
    """Return the levels of categorical columns, by which new rows are encoded."""
    given = _object(cats, "enc feature_segments sorted_idx")
    encodings, order = given["enc"], whole_numbers(given["sorted_idx"])
    if not isinstance(encodings, list) or len(encodings) not in (0, n_features):
        raise ValueError("an xgboost model has levels of other features than its own")
    written, sizes = [], []
    for encoding in encodings:
        one, size = _encoding(encoding)
        written.append(one)
        sizes.append(size)
    segments = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    if len(order) != segments[-1]:
        raise ValueError("an xgboost model has other levels than it has sorted")
    for start, end in pairwise(segments):
        # These are places of its levels, which a search follows.
        if not np.array_equal(np.sort(order[start:end]), np.arange(end - start)):
            raise ValueError("an xgboost model has sorted levels that do not exist")
    return {
        "enc": written,
        "feature_segments": segments.tolist() if encodings else [],
        "sorted_idx": order.tolist(),
    }


def _encoding(encoding: Any) -> tuple[Json, int]:
    """Return the levels of one column, texts or whole numbers, and how many there are."""
    given = _object(encoding, "offsets type values")
    values = whole_numbers(given["values"])
    if "offsets" in given and "type" not in given:
        # Texts one after the other; an offset is where one ends.
        offsets = whole_numbers(given["offsets"])
        is_right = (
            not len(values)
            if not len(offsets)
            else offsets[0] == 0 and offsets[-1] == len(values) and np.all(np.diff(offsets) >= 0)
        )
        if not is_right or not _fits(values, np.int8):
            raise ValueError("an xgboost model has texts of levels that do not exist")
        return {"offsets": offsets.tolist(), "values": values.tolist()}, max(0, len(offsets) - 1)
    kind = given.get("type")
    if "offsets" in given or type(kind) is not int or kind not in LEVEL_TYPES:
        raise ValueError("an xgboost model has levels of an unknown type")
    if not _fits(values, LEVEL_TYPES[kind]):
        raise ValueError("an xgboost model has levels that are too large for their type")
    return {"type": kind, "values": values.tolist()}, len(values)


def _fits(values: np.ndarray, kind: type) -> bool:
    limits = np.iinfo(kind)
    return not len(values) or bool(values.min() >= limits.min and values.max() <= limits.max)
