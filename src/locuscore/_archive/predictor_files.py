"""A predictor from the outside: a file of skops, xgboost, LightGBM, CatBoost, ONNX or joblib."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from locuscore._archive.catboost_models import read_catboost_file
from locuscore._archive.container import ArchiveError, checked
from locuscore._archive.lightgbm_models import read_lightgbm_file
from locuscore._archive.onnx_models import read_onnx
from locuscore._archive.skops_models import read_skops
from locuscore._archive.xgboost_models import read_xgboost_file

PICKLES = (".joblib", ".pkl", ".pickle")
NATIVE = {
    ".json": read_xgboost_file,
    ".txt": read_lightgbm_file,
    ".cbm": read_catboost_file,
    ".onnx": read_onnx,
}


def load_predictor(
    path: str | Path, *, trusted: Sequence[str] = (), trust_pickle: bool = False
) -> Any:
    """Read a fitted predictor from a file, for `Locus` or `Scorer.load`.

    Parameters
    ----------
    path
        ``model.skops``, ``model.json`` of xgboost or ``model.txt`` of LightGBM, which are checked
        and read without running code; ``model.onnx`` or ``model.cbm`` of CatBoost, which their
        libraries parse unchecked; or ``model.joblib`` or a pickle, which run whatever code is in
        them. Classes of an xgboost or LightGBM file are 0, 1, 2, ...
    trusted
        Names of types, such as ``"sklearn.svm._classes.SVR"``, that a skops file may hold in
        addition to those on the list of this library.
    trust_pickle
        Read a joblib file or a pickle. Without it they are refused.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import skops.io
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import load_predictor
    >>> path = Path(mkdtemp(), "model.skops")
    >>> skops.io.dump(LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0]), path)
    >>> load_predictor(path).predict([[3.0]]).round(6)
    array([6.])
    """
    path = Path(path)
    if path.suffix not in {".skops", *NATIVE, *PICKLES}:
        raise ValueError(
            f"{path} cannot be read as a predictor; expected a .skops, {', '.join(NATIVE)} or "
            ".joblib file."
        )
    if path.suffix in PICKLES:
        if not trust_pickle:
            raise ValueError(
                f"reading {path} runs whatever code is in it; if you made the file, allow that "
                "with trust_pickle=True, or --trust-pickle; or save the model with skops."
            )
        return import_module("joblib").load(path)
    data = path.read_bytes()
    if path.suffix in NATIVE:
        return _read_native(path, data)
    how = "name each in trusted=[...], or with --trust TYPE, if you trust it."
    return checked(lambda: read_skops(data, trusted, how), path)


def _read_native(path: Path, data: bytes) -> Any:
    """Read a model of another library, and turn whatever a broken file provokes into one error."""
    try:
        return NATIVE[path.suffix](data)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # each library has its own
        why = str(error).rstrip(".") if isinstance(error, ValueError) else "it is damaged or none"
        raise ArchiveError(f"{path} cannot be read as a model: {why}.") from error
