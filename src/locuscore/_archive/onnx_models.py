"""ONNX models, kept as they are: read only where a key vouches for them, or the caller."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from locuscore._protocols import Rows
from locuscore._shared.frames import as_frame, column
from locuscore._shared.optional import require

ONNX_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}
# Where tensors stand in a model, by the numbers that fields have in ONNX's own definition.
INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
EXTERNAL_DATA, DATA_LOCATION = 13, 14  # fields of a tensor
DEEPEST = 100  # graphs in graphs
OWN_FORMAT = b"ORTM"  # from the fifth byte, by which onnxruntime tells its own format from ONNX


def read_onnx(data: bytes) -> "OnnxModel":
    """Return a predictor that runs an ONNX model."""
    check_no_external_data(data)
    runtime = require("onnxruntime", extra="onnx")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    kinds = [output.type for output in session.get_outputs()]
    gives_probabilities = len(kinds) > 1 and kinds[1] in ("tensor(float)", "tensor(double)")
    return (OnnxClassifier if gives_probabilities else OnnxModel)(session, data)


class OnnxModel:
    """An ONNX model: one input of all columns in order, or one input for each column by name."""

    def __init__(self, session: Any, data: bytes) -> None:
        self.session, self.data = session, data

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

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(vars(read_onnx(state["data"])))


class OnnxClassifier(OnnxModel):
    """An ONNX model whose second output is a matrix of class probabilities."""

    def predict_proba(self, X: Rows) -> np.ndarray:
        """Return the probabilities, (n, classes)."""
        return self._outputs(X)[1]


def check_no_external_data(data: bytes) -> None:
    """Raise where a model is none of ONNX, or keeps numbers in other files, which it names.

    onnxruntime would open these: any file that the model names. What it would read in its own
    format, whatever stands there for us, is refused.
    """
    if data[4:8] == OWN_FORMAT:
        raise ValueError("this is a model in onnxruntime's own format; save it as ONNX")
    waiting = [(memoryview(data), "model", 0)]
    while waiting:
        message, kind, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError("an ONNX model has graphs in graphs too often")
        for number, value in _fields(message):
            is_outside = number == EXTERNAL_DATA or (number == DATA_LOCATION and value != 0)
            if kind == "tensor" and is_outside:
                raise ValueError(
                    "the ONNX model keeps its numbers in another file; make it one file: "
                    "onnx.save(onnx.load(path), path)"
                )
            inner = INSIDE[kind].get(number)
            if inner is not None:
                if isinstance(value, int):
                    raise ValueError("this is no ONNX model that can be read")
                waiting.append((value, inner, depth + 1))


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message of protobuf; whole numbers, or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        # Of a longer one other readers take the lower bits.
        number, kind = (tag >> 3, tag & 7) if tag < 2**32 else (0, 7)
        if kind == 0 and number:
            value, at = _varint(message, at)
            yield number, value
            continue
        fixed = {1: 8, 5: 4}.get(kind)
        if fixed is None and kind == 2:
            fixed, at = _varint(message, at)
        if fixed is None or not number or at + fixed > len(message):
            raise ValueError("this is no ONNX model that can be read")
        yield number, message[at : at + fixed]
        at += fixed


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return a whole number of seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            return value, at
    raise ValueError("this is no ONNX model that can be read")
