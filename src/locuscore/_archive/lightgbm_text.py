"""LightGBM's model text, read into numbers and written anew.

LightGBM parses its text leniently and uses the numbers in it unchecked. So it never reads text from
a file: it reads text that is written here, from numbers that were checked.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locuscore._shared.tree_links import check_links

VERSIONS = ("v3", "v4")
HEADER = [
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "average_output",
    "feature_names",
    "monotone_constraints",
    "feature_infos",
    "tree_sizes",
]
# Names in LightGBM's order: the type of the numbers, what there is one of each for, and whether
# LightGBM follows them. It allocates by the number of leaves, so those must be there in full.
LISTS = {
    "split_feature": (int, "split", True),
    "split_gain": (float, "split", False),
    "threshold": (float, "split", True),
    "decision_type": (int, "split", True),
    "left_child": (int, "split", True),
    "right_child": (int, "split", True),
    "leaf_value": (float, "leaf", True),
    "leaf_weight": (float, "leaf", False),
    "leaf_count": (int, "leaf", False),
    "internal_value": (float, "split", False),
    "internal_weight": (float, "split", False),
    "internal_count": (int, "split", False),
}
CATEGORIES = ("cat_boundaries", "cat_threshold")
TREE = {"num_leaves", "num_cat", *LISTS, *CATEGORIES, "is_linear", "shrinkage"}
# Objectives of one output; the only setting that predicting reads is sqrt.
PLAIN_OBJECTIVES = re.compile(
    "regression(_l1)?|huber|fair|poisson|quantile|mape|gamma|tweedie|cross_entropy(_lambda)?|"
    "lambdarank|rank_xendcg"
)
# The range of a feature, its categories, or "none".
INFO = re.compile(r"none|\[[-+.\deinfa]+:[-+.\deinfa]+\]|-?\d+(:-?\d+)*")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
LARGEST = 2**31 - 1  # of LightGBM's integers
CATEGORICAL, MISSING = 1, 2  # bits of a decision type, and the place of the two after them

Scalar = str | int | float | bool | None


def canonical_lightgbm(text: str) -> str:
    """Return the model with every number checked, in LightGBM's own text; raise where one is bad.

    Its parameters and feature importances are left out: predicting reads neither.
    """
    # LightGBM's idea of where a line ends need not be ours.
    if CONTROL.search(text):
        raise ValueError("a LightGBM model holds control characters")
    model, end, rest = text.partition("\nend of trees\n")
    head, *blocks = re.split(r"\n{2,}", model.rstrip("\n"))
    lines = head.split("\n")
    if not end or not blocks or lines[0] != "tree":
        raise ValueError("this is no complete text of a LightGBM model")
    header = _header(_entries(lines[1:], set(HEADER)), len(blocks))
    trees = [
        _Tree.read(block, i, len(header["feature_names"].split(" "))).text(i)
        for i, block in enumerate(blocks)
    ]
    # LightGBM jumps from tree to tree by these, so they are counted anew.
    header["tree_sizes"] = _joined(map(len, trees))
    keys = [key for key in HEADER if key in header]
    told = [key if key == "average_output" else f"{key}={header[key]}" for key in keys]
    categories = json.dumps(_pandas_categories(rest))
    last = ["".join(trees) + "end of trees", "", f"pandas_categorical:{categories}", ""]
    return "\n".join(["tree", *told, "", *last])


def _entries(lines: Sequence[str], known: set[str]) -> dict[str, str]:
    """Lines ``key=value``, each known key at most once."""
    entries: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition("=")
        # Of a repeated line LightGBM may take another one than we do.
        if key not in known or key in entries:
            raise ValueError(f"a LightGBM model has an unknown or repeated line {key[:40]!r}")
        entries[key] = value
    return entries


def _header(entries: dict[str, str], n_trees: int) -> dict[str, str]:
    """Return what the text says of the whole model, written anew."""
    names, infos = entries["feature_names"].split(" "), entries["feature_infos"].split(" ")
    n_outputs = _whole(entries["num_class"], 1, n_trees)
    if entries["version"] not in VERSIONS:
        raise ValueError(f"LightGBM wrote the unknown version {entries['version'][:20]!r}")
    if _whole(entries["max_feature_idx"], 0, LARGEST) + 1 != len(names) or "" in names:
        raise ValueError("a LightGBM model has other features than it names")
    if len(infos) != len(names) or not all(map(INFO.fullmatch, infos)):
        raise ValueError("a LightGBM model does not describe its features")
    per_round = _whole(entries.get("num_tree_per_iteration", str(n_outputs)), 1, n_trees)
    # It writes one output per tree of a round, into room for its number of classes.
    if per_round != n_outputs or n_trees % n_outputs:
        raise ValueError("a LightGBM model has other outputs than trees in a round")
    header = {
        "version": entries["version"],
        "num_class": str(n_outputs),
        "num_tree_per_iteration": str(n_outputs),
        "label_index": str(_whole(entries.get("label_index", "0"), 0, LARGEST)),
        "max_feature_idx": str(len(names) - 1),
        "feature_names": " ".join(names),
        "feature_infos": " ".join(infos),
    }
    if "objective" in entries:
        header["objective"] = _objective(entries["objective"], n_outputs)
    if "average_output" in entries:
        header["average_output"] = ""
    if "monotone_constraints" in entries:
        signs = [_whole(v, -1, 1) for v in entries["monotone_constraints"].split()]
        if len(signs) != len(names):
            raise ValueError("a LightGBM model constrains other features than it has")
        header["monotone_constraints"] = _joined(signs)
    return header


def _objective(text: str, n_outputs: int) -> str:
    """Return an objective whose number of outputs is that of the model."""
    name, *settings = text.split(" ")
    given = dict(setting.split(":") for setting in settings if ":" in setting)
    match name:
        case "multiclass" | "multiclassova" if given.get("num_class") == str(n_outputs):
            told = [name, f"num_class:{n_outputs}"]
        case "binary" if n_outputs == 1:
            told = [name]
        case _ if PLAIN_OBJECTIVES.fullmatch(name) and n_outputs == 1:
            told = [name, *(["sqrt"] if "sqrt" in settings else [])]
        case _:
            raise ValueError(f"a LightGBM model of {n_outputs} outputs has the objective {text!r}")
    if name in ("binary", "multiclassova"):
        sigmoid = float(given["sigmoid"])
        if not 0 < sigmoid < math.inf:
            raise ValueError("the sigmoid of a LightGBM model is not positive")
        told.append(f"sigmoid:{sigmoid!r}")
    return " ".join(told)


@dataclass(frozen=True)
class _Tree:
    """The numbers of one tree."""

    lists: dict[str, list[Any]]
    cat_boundaries: list[int]
    cat_threshold: list[int]
    shrinkage: float

    @classmethod
    def read(cls, block: str, position: int, n_features: int) -> "_Tree":
        """Read a tree; raise where LightGBM would be led astray."""
        first, *lines = block.split("\n")
        # Their leaves have lists of features and coefficients that predicting follows as well.
        if "is_linear=1" in lines:
            raise ValueError(
                "LightGBM models with linear trees are not held; fit it with linear_tree=False"
            )
        entries = _entries(lines, TREE)
        if first != f"Tree={position}":
            raise ValueError("the trees of a LightGBM model are not in order")
        _whole(entries.get("is_linear", "0"), 0, 0)
        n_leaves = _whole(entries["num_leaves"], 1, LARGEST)
        lists: dict[str, list[Any]] = {}
        for key, (kind, place, is_followed) in LISTS.items():
            lists[key] = [kind(number) for number in entries.get(key, "").split()]
            expected = n_leaves if place == "leaf" else n_leaves - 1
            if len(lists[key]) != expected and (is_followed or lists[key]):
                raise ValueError("a tree has other leaves or splits than it claims")
        boundaries, words = (list(map(int, entries.get(key, "").split())) for key in CATEGORIES)
        tree = cls(lists, boundaries, words, float(entries.get("shrinkage", "1")))
        tree._check(n_leaves, _whole(entries["num_cat"], 0, LARGEST), n_features)
        return tree

    def _check(self, n_leaves: int, n_sets: int, n_features: int) -> None:
        left, right, feature, kinds = (
            np.array(self.lists[key], dtype=np.int64)
            for key in ("left_child", "right_child", "split_feature", "decision_type")
        )
        # Leaves are numbered -1, -2, ...: here they get the numbers after those of the splits.
        left, right = (np.where(v < 0, n_leaves - 2 - v, v) for v in (left, right))
        check_links(left, right, feature, 2 * n_leaves - 1, n_features)
        if np.any((kinds < 0) | (kinds >> MISSING > 2)):
            raise ValueError("a tree decides in an unknown way")
        for key in ("leaf_count", "internal_count"):
            if not all(0 <= count <= LARGEST for count in self.lists[key]):
                raise ValueError("a tree counts more rows than there can be")
        self._check_categories(kinds & CATEGORICAL == 1, n_sets)

    def _check_categories(self, is_categorical: np.ndarray, n_sets: int) -> None:
        used = np.array(self.lists["threshold"], dtype=np.float64)[is_categorical]
        ends, words = np.array(self.cat_boundaries or [0], dtype=np.int64), self.cat_threshold
        # A categorical split names a set, and a set is a range of words with 32 bits each.
        is_right = (
            len(ends) == n_sets + 1
            and ends[0] == 0
            and ends[-1] == len(words)
            and np.all(np.diff(ends) >= 0)
            and all(0 <= word < 2**32 for word in words)
            and np.isin(used, np.arange(n_sets)).all()
        )
        if not is_right:
            raise ValueError("a tree refers to categories that do not exist")

    def text(self, position: int) -> str:
        """Return the tree as LightGBM writes it."""
        n_sets = max(0, len(self.cat_boundaries) - 1)
        sets = dict(zip(CATEGORIES, (self.cat_boundaries, self.cat_threshold), strict=True))
        lists = self.lists | (sets if n_sets else {})
        lines = [f"Tree={position}", f"num_leaves={len(lists['leaf_value'])}", f"num_cat={n_sets}"]
        # LightGBM does without those that it does not follow, but ends the process over empty ones.
        is_leaf = len(lists["leaf_value"]) == 1
        told = {key: numbers for key, numbers in lists.items() if numbers or is_leaf}
        lines += [f"{key}={_joined(numbers)}" for key, numbers in told.items()]
        return "\n".join([*lines, "is_linear=0", f"shrinkage={self.shrinkage!r}", "", "", ""])


def _joined(numbers: Iterable[int | float]) -> str:
    return " ".join(map(repr, numbers))


def _whole(text: str, low: int, high: int) -> int:
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"a LightGBM model says {text[:20]}, where {low} to {high} is possible")
    return number


def _pandas_categories(rest: str) -> list[list[Scalar]] | None:
    """Levels of the categorical columns of a frame, from the last line."""
    last = rest.rstrip("\n").rpartition("\n")[2]
    if not last.startswith("pandas_categorical:"):
        return None
    levels = json.loads(last.partition(":")[2])
    if levels is not None and not (
        isinstance(levels, list)
        and all(isinstance(one, list) for one in levels)
        and all(isinstance(level, Scalar) for one in levels for level in one)
    ):
        raise ValueError("a LightGBM model has unknown categories")
    return levels
