"""Fitted objects as JSON and plain arrays, and back: one table says what is saved of each class.

Only what scoring reads is saved. Classes are looked up in the table, so a file can name no other;
objects are filled without calling anything.
"""

import inspect
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors

from locuscore import engines
from locuscore._archive.container import ArchiveError, array_bytes, read_array
from locuscore._archive.fitted_models import limit_jobs
from locuscore._archive.formats import (
    is_lightgbm,
    lightgbm_parts,
    read_lightgbm,
    read_skops,
    skops_bytes,
)
from locuscore._archive.trees import canonical_stochtree

# What scoring reads of each class. Parameters that are plain values are kept as well.
_FIELDS = {
    "locuscore.engines": {
        "Auto": "engine_",
        "BART": "n_signals_ target_ forests_",
        "Bagged": "engines_",
        "Ensemble": "engines_ weights_",
        "Forest": "forest_ table_row_ table_ smallest_",
        "Gaussian": "location_ scale_",
        "MDN": "target_ signal_centre_ signal_unit_ masks_ network_",
        "QuantileGrid": "models_ levels_ lowest_ smallest_",
        "Scale": "model_ unit_ shape_points_ tail_scale_",
    },
    "locuscore.engines._bart": {"Forests": ""},
    "locuscore.engines._mixture_network": {"Trained": "weights best_epoch history"},
    "locuscore.engines._target": {"Target": "transform unit centre spread"},
    "locuscore._laws.distribution": {"Floor": "start scale", "Support": "low high points"},
    "locuscore._inputs.encoder": {"Encoder": "codes_"},
    "locuscore._inputs.schema": {"Schema": "kind names types"},
    "locuscore._laws.gamma": {"KNNGamma": "mean_ spread_ neighbours_ q_lo_ q_hi_"},
    "locuscore._inputs.predictor": {"PredictionColumn": "name"},
    "locuscore._inputs.used_rows": {
        "RowSet": "model calibration",
        "UsedRows": "inputs labelled labels label_type salt",
    },
}
_CLASSES = {
    name: (module, fields.split())
    for module, classes in _FIELDS.items()
    for name, fields in classes.items()
}
# Of a class, what archives written before it lack.
_LATER = {"Forest": ["n_draws_"]}
PLAIN = (bool, int, float, str, type(None))
NUMBERS_AND_TEXT = "biufSUmM"
# Fields of the classes above that are one value each: arrays would multiply each other's sizes.
_SINGLE = {
    "n_signals_",
    "smallest_",
    "lowest_",
    "unit_",
    "tail_scale_",
    "best_epoch",
    "transform",
    "unit",
    "centre",
    "spread",
    "start",
    "scale",
    "low",
    "high",
    "kind",
    "q_lo_",
    "q_hi_",
    "name",
    "labels",
    "label_type",
    "n_draws_",
}


@dataclass
class Writer:
    """Turns values into JSON; arrays and models become members."""

    members: dict[str, bytes] = field(default_factory=dict)

    def encode(self, value: Any) -> Any:
        """Return a value in the types JSON has."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not np.isfinite(value):
            return {"is": "float", "value": repr(value)}
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, list | tuple | dict | bytes):
            return self._container(value)
        return self._array(value) if isinstance(value, np.ndarray) else self._object(value)

    def _container(self, value: list[Any] | tuple[Any, ...] | dict[Any, Any] | bytes) -> Any:
        if isinstance(value, bytes):
            return {"is": "bytes", "hex": value.hex()}
        if isinstance(value, dict):
            pairs = [[self.encode(key), self.encode(item)] for key, item in value.items()]
            return {"is": "dict", "items": pairs}
        items = [self.encode(item) for item in value]
        return items if isinstance(value, list) else {"is": "tuple", "items": items}

    def add(self, data: bytes, ending: str) -> str:
        """Store a member and return its name."""
        name = f"parts/{len(self.members)}.{ending}"
        self.members[name] = data
        return name

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype.kind in NUMBERS_AND_TEXT:
            return {"is": "array", "member": self.add(array_bytes(value), "npy")}
        items = [self.encode(item) for item in value.ravel().tolist()]
        return {"is": "objects", "shape": list(value.shape), "items": items}

    def _object(self, value: Any) -> Any:
        kind = type(value)
        if kind.__name__ in _CLASSES and kind is _find(kind.__name__):
            return {"is": "object", "class": kind.__name__, "state": self._state(value)}
        if isinstance(value, NearestNeighbors):
            # Its index is compiled code's own; built again from the rows it is the same.
            rows = {"rows": self.encode(value._fit_X), "n_neighbors": value.n_neighbors}
            return {"is": "neighbours", **rows}
        if is_lightgbm(value):
            text, classes = lightgbm_parts(value)
            member = self.add(text.encode(), "txt")
            return {"is": "lightgbm", "member": member, "classes": self.encode(classes)}
        if isinstance(value, BaseEstimator) and not hasattr(value, "predict_draws"):
            return {"is": "skops", "member": self.add(skops_bytes(value), "skops")}
        raise TypeError(
            f"{kind.__name__} has no safe format and cannot be saved; an archive takes the engines "
            f"{', '.join(_FIELDS['locuscore.engines'])}, and KNNGamma."
        )

    def _state(self, value: Any) -> dict[str, Any]:
        if type(value).__name__ == "Forests":
            return {
                name: [n_trees, is_exponentiated, self.add(text.encode(), "txt")]
                for name, (n_trees, is_exponentiated, text) in value.__getstate__().items()
            }
        name = type(value).__name__
        names = _CLASSES[name][1] + [late for late in _LATER.get(name, []) if hasattr(value, late)]
        if isinstance(value, BaseEstimator):
            given = value.get_params(deep=False).items()
            names += [name for name, parameter in given if isinstance(parameter, PLAIN)]
        return {name: self.encode(getattr(value, name)) for name in names}


@dataclass(frozen=True)
class Reader:
    """Turns what `Writer` wrote back into values."""

    members: Mapping[str, bytes]
    versions: Mapping[str, str]
    trusted: Sequence[str] = ()
    taken: set[str] = field(default_factory=set)

    def part(self, member: str) -> bytes:
        """Return a member, once: one that many values shared would be built as many times."""
        if member in self.taken:
            raise ArchiveError(f"several of its values are the member {member!r}.")
        self.taken.add(member)
        return self.members[member]

    def decode(self, value: Any) -> Any:
        """Return the value that was encoded."""
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if value["is"] not in _DECODERS:
            raise ArchiveError(f"it holds a value of the unknown kind {value['is']!r}.")
        return _DECODERS[value["is"]](self, value)

    def build(self, name: str, state: Mapping[str, Any]) -> Any:
        """Return an object of one of the classes in the table, filled with its state."""
        if name not in _CLASSES:
            raise ArchiveError(f"it holds an object of the unknown class {name!r}.")
        kind = _find(name)
        result = object.__new__(kind)
        if name == "Forests":
            raise ArchiveError("it holds forests of stochtree without their engine.")
        if issubclass(kind, BaseEstimator):
            parameters = inspect.signature(kind).parameters.values()
            defaults = {p.name: p.default for p in parameters}
            vars(result).update(
                {n: None if d is inspect.Parameter.empty else d for n, d in defaults.items()}
            )
        allowed = {*_CLASSES[name][1], *_LATER.get(name, []), *vars(result)}
        if not set(_CLASSES[name][1]) <= set(state) <= allowed:
            raise ArchiveError(f"the state of its {name} is not what a {name} has.")
        parts = dict(state)
        if name == "BART":
            forests = self._forests(parts.pop("forests_")["state"], state["n_signals_"])
            vars(result)["forests_"] = forests
        vars(result).update({key: self.decode(item) for key, item in parts.items()})
        for key in parts.keys() - (set(_CLASSES[name][1]) - _SINGLE):
            if not isinstance(vars(result)[key], PLAIN):
                raise ArchiveError(f"the {key} of its {name} is no single value.")
        limit_jobs(result)
        return result

    def _forests(self, state: Mapping[str, Any], n_signals: int) -> Any:
        """Return the forests of BART, which read no more signals than it checks."""
        texts = {}
        for name in ("location", "variance"):
            n_trees, is_exponentiated, member = state[name]
            text = self.part(member).decode()
            text = canonical_stochtree(text, n_trees, is_exponentiated, n_signals)
            texts[name] = (n_trees, is_exponentiated, text)
        result = object.__new__(_find("Forests"))
        result.__setstate__(texts)
        return result

    def skops(self, member: str) -> Any:
        """Return a part of scikit-learn's, if its minor version is the one installed."""
        written, here = self.versions.get("scikit-learn"), version("scikit-learn")
        if not isinstance(written, str):
            raise ArchiveError("its manifest does not say which scikit-learn wrote its parts.")
        minor = ".".join(written.split(".")[:2])
        if minor != ".".join(here.split(".")[:2]):
            raise ArchiveError(
                f"it holds parts written by scikit-learn {written}, which only this minor version "
                f"reads, and {here} is installed; install scikit-learn=={minor}.*, or fit and save "
                "it again."
            )
        return read_skops(self.part(member), self.trusted)


def _objects(reader: Reader, value: Mapping[str, Any]) -> np.ndarray:
    items = [reader.decode(item) for item in value["items"]]
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(value["shape"])


def _neighbours(reader: Reader, value: Mapping[str, Any]) -> NearestNeighbors:
    model = NearestNeighbors(n_neighbors=value["n_neighbors"])
    return model.fit(reader.decode(value["rows"]))


def _lightgbm(reader: Reader, value: Mapping[str, Any]) -> Any:
    text = reader.part(value["member"]).decode()
    return read_lightgbm(text, reader.decode(value["classes"]))


_DECODERS: dict[str, Callable[[Reader, Mapping[str, Any]], Any]] = {
    "array": lambda reader, value: read_array(reader.part(value["member"])),
    "bytes": lambda _, value: bytes.fromhex(value["hex"]),
    "dict": lambda reader, value: {
        reader.decode(key): reader.decode(item) for key, item in value["items"]
    },
    "float": lambda _, value: float(value["value"]),
    "lightgbm": _lightgbm,
    "neighbours": _neighbours,
    "object": lambda reader, value: reader.build(value["class"], value["state"]),
    "objects": _objects,
    "skops": lambda reader, value: reader.skops(value["member"]),
    "tuple": lambda reader, value: tuple(reader.decode(item) for item in value["items"]),
}


def library_versions() -> dict[str, str]:
    """Versions of the libraries whose objects an archive may hold."""
    found = {"python": platform.python_version()}
    for name in ("locuscore", "numpy", "scikit-learn", "skops", "lightgbm", "stochtree"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _find(name: str) -> Any:
    module = _CLASSES[name][0]
    # Engines are asked for by name, which says what to install where a package is missing.
    return getattr(engines if module == "locuscore.engines" else import_module(module), name)
