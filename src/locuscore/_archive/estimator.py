"""What an archive holds of a fitted `Locus`, and how the estimator comes back from it."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from locuscore._archive.container import ArchiveError
from locuscore._archive.kept_rows import decode_rows
from locuscore._archive.other_libraries import LIBRARIES, library_of
from locuscore._archive.skops_models import HOW_TO_TRUST, foreign_types
from locuscore._archive.torch_weights import (
    decoded_weights,
    encoded_weights,
    modules_of,
    put_weights,
)
from locuscore._archive.values import Reader, Writer, library_versions
from locuscore._inputs.encoder import Encoder
from locuscore._inputs.fold_signals import FoldSignals
from locuscore._inputs.losses import MAKERS, Loss, cost, pinball, resolve_loss
from locuscore._inputs.opinion import Opinion
from locuscore._inputs.probe import Probe
from locuscore._inputs.schema import Schema
from locuscore._inputs.signals import Signals, chosen_parts
from locuscore._laws.calibration import MarginalCalibration
from locuscore._laws.cross_fitted import CrossFitted
from locuscore._laws.distribution import Support
from locuscore._locus import Locus
from locuscore._shared.checks import LocusWarning, check_unit
from locuscore._shared.kept import kept_of
from locuscore.calibration._cross_fit import CrossFitCalibration
from locuscore.calibration._fading import FadingCalibration

HOW_TO_SUPPLY = "supply it with Scorer.load(path, predictor=g), or --predictor MODEL."
HOW_TO_SIGN = (
    "sign the archive, with scorer.save(path, key=key) or --key-file FILE, and it is held; or "
)


def encode_loss(loss: Loss, writer: Writer) -> Any:
    """Return a loss by name and parameters; of a function of the caller's own, only the name."""
    function = loss.function
    if isinstance(function, partial) and loss.name == "cost":
        parts = {"matrix": function.keywords["costs"], "classes": loss.classes}
        return {"name": "cost", **{key: writer.encode(part) for key, part in parts.items()}}
    if isinstance(function, partial) and loss.name.startswith("pinball"):
        return {"name": "pinball", "level": float(function.keywords["level"])}
    if loss.made_by is not None:
        kind, parameters = loss.made_by
        return {"name": kind, "parameters": writer.encode(parameters)}
    return {"name": loss.name, "is_own": loss.reads == "anything"}


def decode_loss(state: Mapping[str, Any], reader: Reader, given: Any) -> Loss:
    """Return the loss, or the one given; without either, one that says so when it is called."""
    if given is not None:
        return resolve_loss(given)
    if not isinstance(state["name"], str):
        raise ArchiveError(f"its loss has no name, but {state['name']!r:.40}.")
    match state["name"]:
        case "cost":
            return cost(reader.decode(state["matrix"]), reader.decode(state["classes"]))
        case "pinball":
            return pinball(state["level"])
        case name if "parameters" in state:
            return _made_loss(name, reader.decode(state["parameters"]))
        case name if state["is_own"]:
            return Loss(name, _AbsentLoss(name), Support(), "anything")
        case name:
            return resolve_loss(name)


def _made_loss(name: str, parameters: Any) -> Loss:
    """Return a loss with parameters, which its own function checks."""
    if name not in MAKERS or not isinstance(parameters, dict):
        raise ArchiveError(f"its loss {name!r:.40} is not known to this version.")
    try:
        return MAKERS[name](**parameters)
    except TypeError as error:
        why = str(error).rstrip(".")
        raise ArchiveError(f"its loss has other parameters than {name} takes ({why}).") from None


@dataclass(frozen=True)
class _AbsentLoss:
    """Stands for a loss function that no archive can hold; scoring does not need it."""

    name: str

    def __call__(self, y_true: Any, y_pred: Any) -> Any:
        raise ValueError(
            f"the loss {self.name} is a function of your own, which an archive cannot hold; pass "
            "it to Scorer.load(path, loss=...), or with --loss module:object."
        )


def given_signals(signals: Any, given: Any) -> Signals | FoldSignals:
    """Return the map from rows to floats; functions of the caller's own must be given."""
    if isinstance(signals, FoldSignals):
        return FoldSignals([_given_signals(fold, given) for fold in signals.folds])
    return _given_signals(signals, given)


def _given_signals(signals: Any, given: Any) -> Signals:
    parts = (signals.encoder, signals.output_encoder) if isinstance(signals, Signals) else (0, 0)
    is_map = all(isinstance(part, Encoder | None) for part in parts)
    widths = (signals.own_width, signals.function_width) if is_map else ()
    # As many columns are named.
    are_widths = all(type(width) is int and 0 <= width <= MOST_COLUMNS for width in widths)
    if not is_map or not are_widths or not isinstance(signals.opinion, Opinion | None):
        raise ArchiveError("its signals are no map of rows to numbers.")
    if not signals.needs_functions:
        return signals
    functions = () if given is None else chosen_parts(given)[1]
    if not functions:
        raise ArchiveError(
            "its signals hold a function of your own, which an archive cannot hold; pass it, or "
            "the list of several in their order, to Scorer.load(path, signals=...)."
        )
    return replace(signals, functions=functions)


def given_calibration(calibration: Any, given: Mapping[str, Any]) -> Any:
    """Return the calibration; a function of the caller's own that it reads rows by must be given.

    `given` has functions of X by what they give, ``groups`` or ``weights``; None if not passed.
    """
    is_usable = kept_of(type(calibration)) is not None and hasattr(calibration, "level")
    if not is_usable:
        raise ArchiveError("its parts do not make a fitted Locus.")
    lacks = getattr(calibration, "lacks", None)
    passed = [name for name, function in given.items() if function is not None]
    if [name for name in passed if name != lacks]:
        raise ArchiveError(f"it has no use for a function that gives {' and '.join(passed)}.")
    if lacks is None:
        return calibration
    if not passed:
        raise ArchiveError(
            f"its {lacks} are told by a function of your own, which an archive cannot hold; pass "
            f"it to Scorer.load(path, {lacks}=...)."
        )
    try:
        return calibration.with_function(given[lacks])
    except TypeError as error:  # what was passed is none, or not as many
        raise ArchiveError(str(error)) from None


def check_folds(engine: Any, calibration: Any) -> None:
    """Raise unless the loss models of folds and their calibration belong together."""
    is_cross_fitted = isinstance(engine, CrossFitted)
    is_alike = is_cross_fitted == isinstance(calibration, CrossFitCalibration)
    if is_alike and is_cross_fitted:
        tails = np.sort(np.concatenate(engine.tails))
        is_alike = len(engine.models) == calibration.k and np.array_equal(tails, calibration.tails)
    # Other rows may calibrate afterwards what all folds say, and these may fade.
    is_other = type(calibration) in (MarginalCalibration, FadingCalibration)
    if not is_alike and not (is_cross_fitted and is_other):
        raise ArchiveError("the loss models of its folds are not those that it calibrates.")


def encode_predictor(predictor: Any, writer: Writer, probe: Probe | None = None) -> Any:
    """Return the predictor, or that it is not in the archive, with a warning."""
    if predictor is None or kept_of(type(predictor)) is not None:
        return writer.encode(predictor)
    title, modules = f"the predictor, a {type(predictor).__name__},", modules_of(predictor)
    name, before = library_of(predictor), set(writer.members)
    is_known = modules or name is not None or isinstance(predictor, BaseEstimator)
    why = ""
    try:
        if modules:
            weights = writer.encode(encoded_weights(modules))
            return {"is": "weights", "type": type(predictor).__name__, "modules": weights}
        if is_known:
            state = writer.model(predictor)
            is_skops = state["is"] == "skops"
            foreign = foreign_types(writer.members[state["member"]]) if is_skops else []
            if foreign:
                _warn(f"the predictor holds types that are not trusted: {foreign}; {HOW_TO_TRUST}")
            elif name is not None or "beside" in state:
                _check_comes_back(state, writer, probe)
            return state
    except ModuleNotFoundError:
        raise
    except Exception as error:  # skops and other libraries have many reasons
        why = f" ({str(error).rstrip('.')})"
        for member in set(writer.members) - before:
            del writer.members[member]
    needs_key = any(one.title in why for one in LIBRARIES.values() if one.needs_key)
    no_format, sign = ("", HOW_TO_SIGN) if needs_key else ("has no safe format and ", "")
    _warn(f"{title} {no_format}is left out of the archive{why}: {sign}{HOW_TO_SUPPLY}")
    unsigned = {"needs_key": True} if needs_key else {}
    return {"is": "outside", "type": type(predictor).__name__, **unsigned}


def held_words(state: Any) -> str:
    """Say what an archive has of its predictor, from what `encode_predictor` returned."""
    kind = state.get("is") if isinstance(state, dict) else None
    if kind == "outside":
        return "not in the archive: pass it (--predictor)"
    if kind == "weights":
        return "its weights: pass one made as in fit (--predictor module:object)"
    kinds = [kind, *(other["is"] for other in (state or {}).get("beside", []))]
    needs_key = any(one in LIBRARIES and LIBRARIES[one].needs_key for one in kinds)
    return "in the archive, read with its key only" if needs_key else "in the archive"


def _check_comes_back(state: Any, writer: Writer, probe: Probe | None) -> None:
    """Raise unless a model of another library can be read, and answers as it did in `fit`."""
    versions = library_versions()
    again = Reader(writer.members, versions, is_authenticated=writer.is_signed).decode(state)
    found = None if probe is None else probe.compare(again)
    if found is not None and found.outcome == "other":
        raise ValueError(f"read back and asked about rows of fit, {found.text}")


def _warn(message: str) -> None:
    warnings.warn(message, LocusWarning, stacklevel=5)


def decode_predictor(state: Any, reader: Reader, given: Any, is_other: bool) -> Any:
    """Return the predictor of the archive, or the one given, with the archive's weights put in.

    One that may be another than that of `fit` keeps its own weights.
    """
    kind = state.get("is") if isinstance(state, dict) else None
    if kind == "weights":
        if given is None:
            raise ArchiveError(
                f"it holds the weights of its predictor, a {state['type']!s:.60}, and not its "
                "code; pass a predictor made as in fit, whose weights are replaced: "
                "Scorer.load(path, predictor=g), or --predictor module:object."
            )
        modules = modules_of(given)
        if modules and not is_other:
            put_weights(modules, decoded_weights(reader.decode(state["modules"])))
    if given is not None:
        return given
    if kind == "outside":
        title = f"its predictor, a {state['type']!s:.60},"
        why = "is held by signed archives only" if state.get("needs_key") else "has no safe format"
        raise ArchiveError(f"{title} {why} and is not in it; {HOW_TO_SUPPLY}")
    return reader.decode(state)


# Attributes of a fitted estimator that scoring reads, each of a class that says how it is kept.
FITTED = ("engine_", "gamma_", "support_", "floor_", "calibration_", "schema_", "signals_")
MOST_OUTPUTS = 10_000  # as many columns are named
MOST_COLUMNS = 1_000_000


def encode_locus(locus: Locus, writer: Writer) -> dict[str, Any]:
    """Return what scoring reads of a fitted estimator; the rows of D1 and D2 are not in it."""
    parts = {name: writer.encode(getattr(locus, name)) for name in (*FITTED, "n_features_in_")}
    if hasattr(locus, "feature_names_in_"):
        parts["feature_names_in_"] = writer.encode(locus.feature_names_in_)
    return parts | {
        "target": locus.target_name_,
        "n_outputs": locus.n_outputs_,
        **({"unit": locus.unit_} if locus.unit_ else {}),
        "loss": encode_loss(locus.loss_, writer),
        "predictor": encode_predictor(locus.predictor_, writer, locus.probe_),
    }


def decode_locus(
    state: Mapping[str, Any],
    reader: Reader,
    predictor: Any,
    loss: Any,
    signals: Any,
    rows: Mapping[str, Any],
    is_other: bool = False,
) -> Locus:
    """Return a fitted estimator that can score; `rows` are functions that tell groups, weights.

    `is_other` says that the predictor may be another than that of `fit`.
    """
    predictor = decode_predictor(state["predictor"], reader, predictor, is_other)
    own_loss = decode_loss(state["loss"], reader, loss)
    locus = Locus(predictor, loss=own_loss)
    names = [*FITTED, "n_features_in_", *({"feature_names_in_"} & set(state))]
    for name in names:
        setattr(locus, name, reader.decode(state[name]))
    locus.predictor_, locus.loss_, locus.selection_ = predictor, own_loss, None
    locus.target_name_, n_outputs = state["target"], state["n_outputs"]
    locus.unit = locus.unit_ = check_unit(state.get("unit"))
    locus.signals_ = given_signals(locus.signals_, signals)
    locus.calibration_ = given_calibration(locus.calibration_, rows)
    check_folds(locus.engine_, locus.calibration_)
    is_usable = (
        isinstance(locus.schema_, Schema)
        and isinstance(locus.target_name_, str | None)
        and len(locus.schema_.names) == locus.n_features_in_
        and hasattr(locus.engine_, "predict_draws")
        and isinstance(n_outputs, int)
        and 0 <= n_outputs <= MOST_OUTPUTS
    )
    if not is_usable:
        raise ArchiveError("its parts do not make a fitted Locus.")
    locus.n_outputs_ = 0 if predictor is None else max(1, n_outputs)
    for name, value in decode_rows(state, reader, locus.schema_).items():
        setattr(locus, name, value)
    return locus
