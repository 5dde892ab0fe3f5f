"""Values in the types JSON has, and back; and read-only copies of them."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

SCALARS = frozenset((bool, int, float, str, type(None)))


def frozen(value: Any) -> Any:
    """Return mappings that are read-only, and sequences as tuples, all the way down."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(part) for key, part in value.items()})
    if isinstance(value, tuple) and set(map(type, value)) <= SCALARS:
        return value
    if isinstance(value, tuple | list | np.ndarray):
        return tuple(frozen(part) for part in value)
    return value.item() if isinstance(value, np.generic) else value


def plain(value: Any) -> Any:
    """Return a value made of what JSON has: no numpy, no tuple, no infinity."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def restored(value: Any) -> Any:
    """Undo `plain`; sequences come back as tuples."""
    if isinstance(value, Mapping):
        return {key: restored(part) for key, part in value.items()}
    if isinstance(value, list):
        return tuple(restored(part) for part in value)
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value
