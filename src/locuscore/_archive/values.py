"""Fitted objects as JSON and plain arrays, and back.

What is kept of a class stands in the class itself (`locuscore._shared.kept`). Objects are made
without calling their constructors, from attributes that the class declares and nothing else.
"""

import inspect
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from locuscore import engines
from locuscore._archive.container import ArchiveError, array_bytes, read_array
from locuscore._archive.fitted_models import are_numbers, limit_jobs
from locuscore._archive.held_models import with_places
from locuscore._archive.kinds import HOW_TO_DECLARE, Kinds, declared
from locuscore._archive.other_libraries import LIBRARIES, library_of, why_a_key
from locuscore._archive.skops_models import read_skops, skops_bytes
from locuscore._shared.kept import Kept, kept_of

PLAIN = (bool, int, float, str, type(None))
NUMBERS_AND_TEXT = "biufSUmM"
# Distributions whose objects an archive may hold; some come under two names.
WRITERS = (
    *("locuscore", "numpy", "scikit-learn", "skops", "stochtree", "torch"),
    *("lightgbm", "xgboost", "xgboost-cpu", "catboost", "onnxruntime"),
)
LONGEST_TEXT = 2**12  # longer ones are members, so that the JSON stays readable


@dataclass(frozen=True)
class Writer:
    """Turns values into JSON; arrays, long texts and models become members."""

    members: dict[str, bytes] = field(default_factory=dict)
    kinds: Kinds = field(default_factory=Kinds)
    foreign: dict[str, type] = field(default_factory=dict)  # by kind, as they come
    is_signed: bool = False

    def encode(self, value: Any) -> Any:
        """Return a value in the types JSON has."""
        if isinstance(value, np.generic):
            value = value.item()
        # JSON has no infinity. Its name alone would come back as text.
        if isinstance(value, float) and not np.isfinite(value):
            return {"is": "float", "value": repr(value)}
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            return {"is": "text", "member": self.add_member(value.encode(), "txt")}
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, list | tuple | dict | bytes):
            return self._container(value)
        return self._array(value) if isinstance(value, np.ndarray) else self._object(value)

    def _container(self, value: list[Any] | tuple[Any, ...] | dict[Any, Any] | bytes) -> Any:
        if isinstance(value, bytes):
            return {"is": "bytes", "hex": value.hex()}
        if isinstance(value, dict):  # as pairs: keys of JSON are text, and ours may be numbers
            pairs = [[self.encode(key), self.encode(item)] for key, item in value.items()]
            return {"is": "dict", "items": pairs}
        items = [self.encode(item) for item in value]
        return items if isinstance(value, list) else {"is": "tuple", "items": items}

    def add_member(self, data: bytes, ending: str) -> str:
        """Store a member and return its name."""
        name = f"parts/{len(self.members)}.{ending}"
        self.members[name] = data
        return name

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype.kind in NUMBERS_AND_TEXT:
            return {"is": "array", "member": self.add_member(array_bytes(value), "npy")}
        # numpy would pickle Python objects.
        items = [self.encode(item) for item in value.ravel().tolist()]
        return {"is": "objects", "shape": list(value.shape), "items": items}

    def _object(self, value: Any) -> Any:
        kept = kept_of(type(value))
        if kept is not None:
            return {"is": "object", "kind": kept.kind, "state": self._parts(value, kept)}
        # skops could write an engine of somebody else, but nobody could read it without trust.
        is_model = isinstance(value, BaseEstimator) and not hasattr(value, "predict_draws")
        if is_model or library_of(value) is not None:
            return self.model(value)
        raise TypeError(
            f"{type(value).__name__} has no safe format and cannot be saved; an archive takes the "
            f"engines {', '.join(engines.KEPT)}, KNNGamma, and classes that declare how they are "
            f"kept, such as {HOW_TO_DECLARE}."
        )

    def model(self, value: Any) -> dict[str, Any]:
        """Return a model of scikit-learn, or of another library on the list."""
        name = library_of(value)
        if name is None:
            model, others = with_places(value)
            data = skops_bytes(model)
            beside = {"beside": [self.model(other) for other in others]} if others else {}
            return {"is": "skops", "member": self.add_member(data, "skops"), **beside}
        library = LIBRARIES[name]
        if library.needs_key and not self.is_signed:
            raise ValueError(f"{why_a_key(library)}, so only a signed archive holds it")
        data, settings = library.parts(value)
        told = {key: self.encode(setting) for key, setting in settings.items()}
        return {"is": name, "member": self.add_member(data, library.ending), **told}

    def _parts(self, value: Any, kept: Kept) -> dict[str, Any]:
        kind = type(value)
        known = self.kinds.find(kept.kind) or self.foreign.setdefault(kept.kind, kind)
        if known is not kind:
            raise TypeError(
                f"{kind.__name__} cannot be saved: it is kept as {kept.kind!r}, and so is another "
                "class; give its ARCHIVE another kind."
            )
        parts = _parts_of(value, kept)
        inside = replace(self, kinds=self.kinds.inside(kind))
        return {name: inside.encode(part) for name, part in parts.items()}


def _parts_of(value: Any, kept: Kept) -> dict[str, Any]:
    """Return what is kept of an object by name; raise where it would not load again."""
    name = type(value).__name__
    if hasattr(value, "to_parts"):
        parts = dict(value.to_parts())
    else:
        late = {one for one in kept.later if not hasattr(value, one)}
        every = (*kept.fields, *kept.numbers, *kept.single)
        names = [one for one in every if one not in late]
        parts = {one: getattr(value, one) for one in names}
    if not kept.names - set(kept.later) <= set(parts) <= kept.names:
        raise TypeError(f"{name} has the parts {sorted(parts)}, but declares {sorted(kept.names)}.")
    for single in set(kept.single) & set(parts):
        if not isinstance(parts[single], (*PLAIN, np.generic)):
            raise TypeError(
                f"the {single} of {name} is declared to be a single value, and is a "
                f"{type(parts[single]).__name__}; declare it in the fields of its ARCHIVE."
            )
    if isinstance(value, BaseEstimator):
        given = value.get_params(deep=False)
        parts = {key: part for key, part in given.items() if isinstance(part, PLAIN)} | parts
    return parts


@dataclass(frozen=True)
class Reader:
    """Turns what `Writer` wrote back into values."""

    members: Mapping[str, bytes]
    versions: Mapping[str, str]
    trusted: Sequence[str] = ()
    kinds: Kinds = field(default_factory=Kinds)
    taken: set[str] = field(default_factory=set)
    is_authenticated: bool = False

    def take_member(self, member: str) -> bytes:
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

    def build(self, kind: str, state: Mapping[str, Any]) -> Any:
        """Return an object of a known class, made from its state.

        No constructor is called: of a class with parts of its own, only its `from_parts`.
        """
        found = self.kinds.named(kind)
        kept, defaults = declared(found), _defaults(found)
        # Anything else, such as a method's name, would replace what the class itself has.
        if not kept.names - set(kept.later) <= set(state) <= kept.names | set(defaults):
            raise ArchiveError(f"the state of its {kind} is not what a {kind} has.")
        inside = replace(self, kinds=self.kinds.inside(found))
        parts = {name: inside.decode(item) for name, item in state.items()}
        for name in parts.keys() & set(kept.numbers):
            if not are_numbers(parts[name]) and parts[name] is not None:
                raise ArchiveError(f"the {name} of its {kind} is no array of numbers.")
        for name in parts.keys() - {*kept.fields, *kept.numbers}:
            # Arrays in place of numbers would multiply each other's sizes.
            if not isinstance(parts[name], PLAIN):
                raise ArchiveError(f"the {name} of its {kind} is no single value.")
        limit_jobs(parts)
        if hasattr(found, "from_parts"):
            return found.from_parts(parts)
        result: Any = object.__new__(found)
        for name, part in (defaults | parts).items():
            object.__setattr__(result, name, part)  # dataclasses are frozen
        return result

    def model(self, name: str, value: Mapping[str, Any]) -> Any:
        """Return a model of another library on the list."""
        library = LIBRARIES[name]
        if library.needs_key and not self.is_authenticated:
            raise ArchiveError(
                f"{why_a_key(library)}, so it is taken from an archive only if you load it with "
                "the key that signed it: Scorer.load(path, key=...), or --key-file FILE; or supply "
                "the predictor: Scorer.load(path, predictor=g), or --predictor MODEL."
            )
        settings = {key: self.decode(value[key]) for key in library.settings}
        return library.read(self.take_member(value["member"]), settings)

    def skops(self, value: Mapping[str, Any]) -> Any:
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
        models = [self.model(other["is"], other) for other in value.get("beside", [])]
        return read_skops(self.take_member(value["member"]), self.trusted, models=models)


def _defaults(kind: type) -> dict[str, Any]:
    """Parameters of an estimator with their defaults: those that no archive keeps are unused."""
    if not issubclass(kind, BaseEstimator):
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: None if p.default is inspect.Parameter.empty else p.default for p in parameters}


def _objects(reader: Reader, value: Mapping[str, Any]) -> np.ndarray:
    items = [reader.decode(item) for item in value["items"]]
    # Arrays among them would be broadcast against each other.
    if not all(isinstance(item, (*PLAIN, bytes)) for item in items):
        raise ArchiveError("it holds an array of objects that are no plain values.")
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(value["shape"])


_DECODERS: dict[str, Callable[[Reader, Mapping[str, Any]], Any]] = {
    "array": lambda reader, value: read_array(reader.take_member(value["member"])),
    "bytes": lambda _, value: bytes.fromhex(value["hex"]),
    "dict": lambda reader, value: {
        reader.decode(key): reader.decode(item) for key, item in value["items"]
    },
    "float": lambda _, value: float(value["value"]),
    "object": lambda reader, value: reader.build(value["kind"], value["state"]),
    "objects": _objects,
    "skops": lambda reader, value: reader.skops(value),
    "text": lambda reader, value: reader.take_member(value["member"]).decode(),
    "tuple": lambda reader, value: tuple(reader.decode(item) for item in value["items"]),
    **{name: lambda reader, value: reader.model(value["is"], value) for name in LIBRARIES},
}


def library_versions() -> dict[str, str]:
    """Versions of the libraries whose objects an archive may hold."""
    found = {"python": platform.python_version()}
    for name in WRITERS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
