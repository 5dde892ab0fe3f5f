"""Values in the types JSON has, and back; and read-only copies of them."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

SCALARS = frozenset((bool, int, float, str, type(None)))


def read_only(value: Any) -> Any:
    """Return mappings that are read-only, and sequences as tuples, all the way down."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: read_only(part) for key, part in value.items()})
    if isinstance(value, tuple) and set(map(type, value)) <= SCALARS:
        return value
    if isinstance(value, tuple | list | np.ndarray):
        return tuple(read_only(part) for part in value)
    return value.item() if isinstance(value, np.generic) else value


def to_json(value: Any, non_finite: Callable[[float], str | None] = str) -> Any:
    """Return a value made of what JSON has: no numpy, no tuple, no infinity.

    Numbers that JSON does not have become the texts "inf", "-inf" and "nan", or what `non_finite`
    makes of them.
    """
    if isinstance(value, Mapping):
        return {str(key): to_json(part, non_finite) for key, part in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [to_json(part, non_finite) for part in value]
    return non_finite(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_json(value: Any) -> Any:
    """Undo `to_json`; sequences come back as tuples."""
    if isinstance(value, Mapping):
        return {key: from_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return tuple(from_json(part) for part in value)
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value
