"""A predictor from the outside: a skops, ONNX or joblib file."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from locuscore._archive.container import checked
from locuscore._archive.skops_models import read_skops
from locuscore._protocols import Rows
from locuscore._shared.frames import as_frame, column
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


def load_predictor(
    path: str | Path, *, trusted: Sequence[str] = (), trust_pickle: bool = False
) -> Any:
    """Read a fitted predictor from a file, for `Locus` or `Scorer.load`.

    Parameters
    ----------
    path
        ``model.skops``, which is read without running code; ``model.onnx``, which onnxruntime
        runs; or ``model.joblib`` or a pickle, which run whatever code is in them.
    trusted
        Names of types, such as ``"sklearn.svm._classes.SVR"``, that a skops file may hold in
        addition to those on the list of this library.
    trust_pickle
        Read a joblib file or a pickle. Without it they are refused.
    """
    path = Path(path)
    if path.suffix not in {".skops", ".onnx", *PICKLES}:
        raise ValueError(
            f"{path} cannot be read as a predictor; expected a .skops, .onnx or .joblib file."
        )
    if path.suffix in PICKLES:
        if not trust_pickle:
            raise ValueError(
                f"reading {path} runs whatever code is in it; if you made the file, allow that "
                "with trust_pickle=True, or --trust-pickle; or save the model with skops."
            )
        return import_module("joblib").load(path)
    data = path.read_bytes()
    if path.suffix == ".onnx":
        return read_onnx(data)
    how = "name each in trusted=[...], or with --trust TYPE, if you trust it."
    return checked(lambda: read_skops(data, trusted, how), path)


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
        inputs, frame = self.session.get_inputs(), as_frame(X)
        if len(inputs) == 1:
            columns = [np.asarray(X if frame is None else frame.to_numpy())]
        else:
            columns = [column(X, part.name)[:, None] for part in inputs]
        feed: dict[str, np.ndarray] = {
            part.name: values.astype(ONNX_TYPES[part.type])
            for part, values in zip(inputs, columns, strict=True)
        }
        return [np.asarray(output) for output in self.session.run(None, feed)]


class OnnxClassifier(OnnxModel):
    """An ONNX model whose second output is a matrix of class probabilities."""

    def predict_proba(self, X: Rows) -> np.ndarray:
        """Return the probabilities, (n, classes)."""
        return self._outputs(X)[1]
