"""One error text for every optional package that is missing."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say in one sentence how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise
        raise _missing(module, extra) from None


def check_installed(packages: Iterable[str], *, extra: str) -> None:
    """Raise as `require` does, without the time that an import takes."""
    for package in packages:
        try:
            is_there = find_spec(package) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise _missing(package, extra)


def _missing(module: str, extra: str) -> ModuleNotFoundError:
    sentence = f"{module} is not installed; run: pip install 'locuscore[{extra}]'"
    return ModuleNotFoundError(sentence, name=module)
