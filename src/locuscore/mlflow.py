"""A scorer as a model of MLflow: logged, registered and loaded like any other, without pickle.

The archive of `Scorer.save` is inside, beside the card and the report, and `mlflow.pyfunc` reads it
by this module.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from locuscore import Scorer, __version__
from locuscore._shared.optional import require

mlflow = require("mlflow", extra="mlflow")
require("pandas", extra="mlflow")

import numpy as np  # noqa: E402 - after the check
import pandas as pd  # noqa: E402 - after the check
from mlflow.models import Model, ModelSignature  # noqa: E402 - after the check
from mlflow.types import ColSpec, DataType, Schema, TensorSpec  # noqa: E402 - after the check

__all__ = ["input_example", "load_model", "log_model", "save_model", "signature"]

FLAVOR = "locuscore"
ARCHIVE, CARD, REPORT = "scorer.locus", "card.txt", "report.html"
KEY_FILE = "LOCUSCORE_KEY_FILE"
# By the kind of a column in `fit`: its type in MLflow, and a value that is nobody's.
KINDS: dict[str, tuple[Any, Any]] = {
    "float": (DataType.double, 0.5),
    "decimal": (DataType.double, 0.5),
    "integer": (DataType.long, 1),
    "truth": (DataType.boolean, True),
    "text": (DataType.string, "text"),
    "category": (
        mlflow.types.schema.AnyType(),
        "text",
    ),  # as text MLflow refuses categories of pandas
    "object": (DataType.string, "text"),
    "date": (DataType.datetime, datetime(2000, 1, 1)),
    "time": (DataType.datetime, datetime(2000, 1, 1)),
}


def save_model(
    scorer: Scorer,
    path: str | Path,
    *,
    key: bytes | None = None,
    keep_rows: bool = True,
    report: Any = None,
    mlflow_model: Model | None = None,
    **options: Any,
) -> None:
    """Write a scorer as a model of MLflow into a new folder.

    The model has the signature and the made-up example of this module, unless `options` has others,
    and the folder ``data/locuscore`` with the archive, the card and the report. The archive must be
    complete: a predictor that it cannot hold is refused here, not when the model is loaded.

    Parameters
    ----------
    scorer
        A scorer for which rows are enough, see `Scorer.asks`.
    path
        The folder, which must not exist.
    key, keep_rows
        As in `Scorer.save`. The key itself is never written.
    report
        A `locuscore.report.Report`, or the path of its page; None for no report.
    mlflow_model
        The model that this is added to; `log_model` passes it.
    options
        Others of ``mlflow.pyfunc.save_model``, such as `metadata` or `pip_requirements`. By default
        the requirements are the packages that the archive was written with.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.mlflow import load_model, save_model
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> folder = Path(mkdtemp(), "prices")
    >>> save_model(scorer, folder)
    >>> load_model(str(folder)).column_names
    ['prediction', 'bound_0.1', 'score', 'flag']
    """
    scorer.check_rows_are_enough()
    model = Model() if mlflow_model is None else mlflow_model
    given: dict[str, Any] = {
        "signature": signature(scorer),
        "input_example": input_example(scorer),
    } | options
    # MLflow ignores the options of a model that was saved without them.
    given["model_config"] = {"key_file": ""} | dict(given.get("model_config") or {})
    if "conda_env" not in given:
        given.setdefault("pip_requirements", _requirements(scorer))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / FLAVOR
        folder.mkdir()
        scorer.save(folder / ARCHIVE, key=key, keep_rows=keep_rows)
        Scorer.load(folder / ARCHIVE, key=key)  # raises here rather than where it is deployed
        (folder / CARD).write_text(scorer.card + "\n", encoding="utf-8")
        if report is not None:
            _write_report(report, folder / REPORT)
        model.add_flavor(
            FLAVOR,
            locuscore_version=__version__,
            data=f"data/{FLAVOR}",
            digest=scorer.digest,
            is_signed=key is not None,
        )
        mlflow.pyfunc.save_model(
            str(path),
            loader_module=__name__,
            data_path=str(folder),
            mlflow_model=model,
            **given,
        )


def log_model(
    scorer: Scorer, name: str, *, registered_model_name: str | None = None, **options: Any
) -> Any:
    """Log a scorer as a model of the active run, and register it if a name is given.

    Parameters
    ----------
    scorer
        A scorer for which rows are enough, see `Scorer.asks`.
    name
        The model's name in the run.
    registered_model_name
        The name under which it becomes a new version of a registered model.
    options
        Those of `save_model`, and of ``mlflow.models.Model.log``, such as `tags` or `params`.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its ``model_uri`` is what `load_model` and ``mlflow.pyfunc.load_model`` take.

    Examples
    --------
    ::

        with mlflow.start_run():
            log_model(scorer, "scorer", registered_model_name="prices")
    """
    return Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        scorer=scorer,
        registered_model_name=registered_model_name,
        **options,
    )


def load_model(model_uri: str, *, key: bytes | None = None, **options: Any) -> Scorer:
    """Read the scorer of a logged, registered or saved model; nothing in it is executed.

    Parameters
    ----------
    model_uri
        Such as ``models:/prices/3``, ``runs:/<id>/scorer`` or a folder.
    key, options
        As in `Scorer.load`. Without a key, the one in the file that the environment variable
        LOCUSCORE_KEY_FILE names is asked for, if there is one.

    Examples
    --------
    ::

        scorer = load_model("models:/prices/3")
        columns = scorer(X_new)
    """
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri)))
    flavors = Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        raise ValueError(
            f"{model_uri} is no model of locuscore, but of {', '.join(flavors)}; load it with "
            "MLflow itself."
        )
    place = (folder / str(flavors[FLAVOR]["data"])).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise ValueError(f"{model_uri} says that its archive is outside of it; it is no model.")
    return _load(place, key, None, **options)


def signature(scorer: Scorer) -> ModelSignature:
    """Return the columns that the model takes and gives, with their types.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.mlflow import signature
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> signature(scorer).outputs.input_names()
    ['prediction', 'bound_0.1', 'score', 'flag']
    """
    scored = _as_frame(scorer(_rows(scorer)[:0]))
    types = {"f": DataType.double, "b": DataType.boolean, "i": DataType.long}
    outputs: list[Any] = [
        ColSpec(types.get(scored[name].dtype.kind, DataType.string), name) for name in scored
    ]
    return ModelSignature(Schema(_inputs(scorer)), Schema(outputs))


def input_example(scorer: Scorer) -> Any:
    """Return one row for the model that is made up from the types of the columns.

    No row of `fit` is used. Columns with a small set of values have one of these.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from locuscore import Locus, Scorer
    >>> from locuscore.engines import Scale
    >>> from locuscore.mlflow import input_example
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> g = LinearRegression().fit(X[:100], y[:100])
    >>> locus = Locus(g, engine=Scale(), random_state=0).fit(X[100:], y[100:])
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1))
    >>> input_example(scorer).shape
    (1, 2)
    """
    return _rows(scorer)


def _inputs(scorer: Scorer) -> list[Any]:
    schema = scorer.schema
    if schema.kind == "array":
        return [TensorSpec(np.dtype(schema.types[0]), (-1, len(schema.names)))]
    return [
        ColSpec(_kind(name, kind.value)[0], str(name))
        for name, kind in zip(schema.names, schema.kinds, strict=True)
    ]


def _rows(scorer: Scorer) -> Any:
    schema, encoder = scorer.schema, scorer.locus.signals_.encoder
    row = [
        next(iter([] if encoder is None else encoder.level_shown(j)), _kind(name, kind.value)[1])
        for j, (name, kind) in enumerate(zip(schema.names, schema.kinds, strict=True))
    ]
    if schema.kind == "array":
        return np.array([row], dtype=schema.types[0])
    return pd.DataFrame([row], columns=[str(name) for name in schema.names])


def _kind(name: Any, kind: str) -> tuple[Any, Any]:
    if kind not in KINDS:
        raise ValueError(
            f"column {name!r} holds values of the kind {kind!r}, which MLflow has no type for; "
            "turn it into numbers, text or times without a zone before fit."
        )
    return KINDS[kind]


def _requirements(scorer: Scorer) -> list[str]:
    versions = scorer.manifest["written_by"]
    return [f"{name}=={version}" for name, version in versions.items() if name != "python"]


def _write_report(report: Any, path: Path) -> None:
    if isinstance(report, str | os.PathLike):
        path.write_bytes(Path(report).read_bytes())
    else:
        report.write(path)


def _load(folder: Path, key: bytes | None, key_file: str | None, **options: Any) -> Scorer:
    # The environment first: a model brings options of its own, and so could bring its own key.
    place = os.environ.get(KEY_FILE, key_file)
    if KEY_FILE in os.environ and not os.environ[KEY_FILE].strip():
        raise ValueError(f"{KEY_FILE} is empty; let it name the file of the key, or unset it.")
    if key is None and place:
        key = Path(place).read_bytes()
    return Scorer.load(folder / ARCHIVE, key=key, **options)


class PyfuncScorer:
    """What ``mlflow.pyfunc.load_model`` gives rows to."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Score rows; return a frame with the columns of the scorer."""
        return _as_frame(self.scorer(model_input))


def _as_frame(scored: Any) -> pd.DataFrame:
    return scored if isinstance(scored, pd.DataFrame) else pd.DataFrame(dict(scored))


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> PyfuncScorer:
    """Read what MLflow passes: the folder of the archive, and ``key_file`` if that is given."""
    return PyfuncScorer(_load(Path(path), None, (model_config or {}).get("key_file")))
