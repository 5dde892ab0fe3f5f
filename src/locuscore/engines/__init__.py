"""Models of the loss: classes with `fit(S, z)` and `predict_draws(S)`, loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from locuscore._protocols import LossEngine
    from locuscore.engines._bagged import Bagged
    from locuscore.engines._forest import Forest
    from locuscore.engines._gaussian import Gaussian
    from locuscore.engines._mdn import MDN
    from locuscore.engines._quantile import QuantileGrid
    from locuscore.engines._scale import Scale

_MODULES = {
    "Bagged": "_bagged",
    "Forest": "_forest",
    "Gaussian": "_gaussian",
    "MDN": "_mdn",
    "QuantileGrid": "_quantile",
    "Scale": "_scale",
}

__all__ = ["MDN", "Bagged", "Forest", "Gaussian", "QuantileGrid", "Scale", "default_engine"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def default_engine() -> "LossEngine":
    """Return the engine `Locus` uses when none is given; docs/choosing.md shows the evidence."""
    from locuscore.engines._forest import Forest  # noqa: PLC0415 - loaded when first used

    return Forest()
