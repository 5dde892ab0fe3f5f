"""Names of a package that are imported when they are first asked for."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], folders: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    `homes` has the module below the package in which each name is defined, and `folders` the
    packages below it that can be named without being imported first.
    """
    own = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name in folders:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        own[name] = value  # from now on it is found without asking here
        return value

    return get, lambda: sorted({*own, *homes, *folders})
