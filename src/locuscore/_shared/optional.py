"""One error text for every optional package that is missing."""

from importlib import import_module
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say in one sentence how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise
        raise ModuleNotFoundError(
            f"{module} is not installed; run: pip install 'locuscore[{extra}]'", name=error.name
        ) from None
