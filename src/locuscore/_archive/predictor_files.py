"""A predictor from the outside: a skops, ONNX or joblib file."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from locuscore._archive.container import checked
from locuscore._archive.onnx_models import read_onnx
from locuscore._archive.skops_models import read_skops

PICKLES = (".joblib", ".pkl", ".pickle")


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
