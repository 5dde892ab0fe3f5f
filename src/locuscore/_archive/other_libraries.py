"""Models of other libraries that an archive can hold, each in its library's own format.

A fixed list. Two of them are read by compiled code that nobody can check from outside, so they are
written to signed archives only, and read only where the key has been verified.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from locuscore._archive.catboost_models import catboost_parts, is_catboost, read_catboost
from locuscore._archive.lightgbm_models import is_lightgbm, lightgbm_parts, read_lightgbm
from locuscore._archive.onnx_models import OnnxModel, read_onnx
from locuscore._archive.xgboost_models import is_xgboost, read_xgboost, xgboost_parts


@dataclass(frozen=True)
class Library:
    """How models of one library are known, written and read.

    `parts` gives the bytes of a member and settings, from which `read` makes the model. `title` is
    for sentences.
    """

    title: str
    ending: str
    is_one: Callable[[Any], bool]
    parts: Callable[[Any], tuple[bytes, dict[str, Any]]]
    read: Callable[[bytes, Mapping[str, Any]], Any]
    settings: tuple[str, ...]
    needs_key: bool = False


LIBRARIES = {
    "lightgbm": Library(
        "a LightGBM model", "txt", is_lightgbm, lightgbm_parts, read_lightgbm, ("classes",)
    ),
    "xgboost": Library(
        "an xgboost model",
        "json",
        is_xgboost,
        xgboost_parts,
        read_xgboost,
        ("kind", "missing", "n_jobs"),
    ),
    "catboost": Library(
        "a CatBoost model", "cbm", is_catboost, catboost_parts, read_catboost, ("kind",), True
    ),
    "onnx": Library(
        "an ONNX model",
        "onnx",
        lambda model: isinstance(model, OnnxModel),
        lambda model: (model.data, {}),
        lambda data, _: read_onnx(data),
        (),
        True,
    ),
}


def library_of(model: Any) -> str | None:
    """Name of the library that a model belongs to; None where it is not on the list."""
    return next((name for name, library in LIBRARIES.items() if library.is_one(model)), None)


def why_a_key(library: Library) -> str:
    """Why a model is held by signed archives only."""
    return f"{library.title} is read by native code that cannot be checked from outside"
