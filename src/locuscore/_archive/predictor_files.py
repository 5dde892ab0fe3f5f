"""A predictor from the outside: a skops, ONNX or joblib file, or an object of a module."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from locuscore._archive.container import checked
from locuscore._archive.skops_models import read_skops
from locuscore._inputs.frames import as_frame, column
from locuscore._protocols import Rows
from locuscore._shared.optional import require

PICKLES = (".joblib", ".pkl", ".pickle")
ONNX_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


def load_predictor(place: str, *, trusted: Sequence[str] = (), trust_pickle: bool = False) -> Any:
    """Return the predictor that a text names.

    ``model.skops`` is read without running code, if its types are on our list or in `trusted`;
    ``model.onnx`` by onnxruntime; ``module:object`` is imported; ``model.joblib`` runs whatever is
    in it, so it needs `trust_pickle`.
    """
    path = Path(place)
    if ":" in place and not path.exists():
        return imported_object(place)
    if path.suffix not in {".skops", ".onnx", *PICKLES}:
        raise ValueError(
            f"the predictor {place} is none of: a .skops, .onnx or .joblib file, module:object."
        )
    if path.suffix in PICKLES and not trust_pickle:
        raise ValueError(
            f"reading {place} runs whatever code is in it; allow that with --trust-pickle, if you "
            "made the file, or save the model with skops."
        )
    if path.suffix in PICKLES:
        return import_module("joblib").load(path)
    data = path.read_bytes()
    if path.suffix == ".onnx":
        return read_onnx(data)
    how = "name each with --trust, if you trust it."
    return checked(lambda: read_skops(data, trusted, how), path)


def imported_object(place: str) -> Any:
    """Return what ``module:object`` names; modules are also looked for in the current folder."""
    module, _, names = place.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        value = import_module(module)
        for name in names.split("."):
            value = getattr(value, name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise
        raise ValueError(f"{place}: there is no module {error.name}.") from None
    except AttributeError as error:
        raise ValueError(f"{place}: {error}.") from None
    return value


def read_onnx(data: bytes) -> "OnnxModel":
    """Return a predictor that runs an ONNX model."""
    runtime = require("onnxruntime", extra="onnx")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    kinds = [output.type for output in session.get_outputs()]
    gives_probabilities = len(kinds) > 1 and kinds[1] in ("tensor(float)", "tensor(double)")
    return OnnxClassifier(session) if gives_probabilities else OnnxModel(session)


class OnnxModel:
    """An ONNX model: one input of all columns in order, or one input for each column by name."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def predict(self, X: Rows) -> np.ndarray:
        """Return the model's first output."""
        return self._outputs(X)[0]

    def _outputs(self, X: Rows) -> list[np.ndarray]:
        inputs = self.session.get_inputs()
        feed: dict[str, np.ndarray]
        if len(inputs) == 1:
            frame = as_frame(X)
            values = np.asarray(X if frame is None else frame.to_numpy())
            feed = {inputs[0].name: values.astype(ONNX_TYPES[inputs[0].type])}
        else:
            feed = {
                part.name: column(X, part.name).astype(ONNX_TYPES[part.type])[:, None]
                for part in inputs
            }
        return [np.asarray(output) for output in self.session.run(None, feed)]


class OnnxClassifier(OnnxModel):
    """An ONNX model whose second output is a matrix of class probabilities."""

    def predict_proba(self, X: Rows) -> np.ndarray:
        """Return the probabilities, (n, classes)."""
        return self._outputs(X)[1]
