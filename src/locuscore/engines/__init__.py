"""Models of the loss: classes with `fit(S, z)` and `predict_draws(S)`, loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from locuscore._shared.optional import require

if TYPE_CHECKING:
    from locuscore._protocols import LossEngine
    from locuscore.engines._bagged import Bagged
    from locuscore.engines._bart import BART
    from locuscore.engines._bayesian_mdn import BayesianMDN
    from locuscore.engines._ensemble import Ensemble
    from locuscore.engines._flexcode import FlexCode
    from locuscore.engines._flow import Flow
    from locuscore.engines._forest import Forest
    from locuscore.engines._gaussian import Gaussian
    from locuscore.engines._mdn import MDN
    from locuscore.engines._pymc_bart import PyMCBART
    from locuscore.engines._quantile import QuantileGrid
    from locuscore.engines._scale import Scale
    from locuscore.engines._selection import Auto, EngineSelection, select_engine
    from locuscore.engines._skpro import FromSkpro
    from locuscore.engines._variational_gp import VariationalGP

_MODULES = {
    "BART": "_bart",
    "Auto": "_selection",
    "Bagged": "_bagged",
    "BayesianMDN": "_bayesian_mdn",
    "EngineSelection": "_selection",
    "Ensemble": "_ensemble",
    "FlexCode": "_flexcode",
    "Flow": "_flow",
    "Forest": "_forest",
    "FromSkpro": "_skpro",
    "Gaussian": "_gaussian",
    "MDN": "_mdn",
    "PyMCBART": "_pymc_bart",
    "QuantileGrid": "_quantile",
    "Scale": "_scale",
    "VariationalGP": "_variational_gp",
    "select_engine": "_selection",
}

# Engines on an optional package: what they import, and the extra that installs it.
_EXTRAS = {
    "BART": ("stochtree", "bart"),
    "BayesianMDN": ("torch", "mdn"),
    "Flow": ("zuko", "flow"),
    "FromSkpro": ("skpro", "skpro"),
    "MDN": ("torch", "mdn"),
    "PyMCBART": ("pymc_bart", "pymc"),
    "VariationalGP": ("gpytorch", "gp"),
}

# Engines that say how they are kept in an archive; a file can name no other of ours.
KEPT = (
    "Auto",
    "BART",
    "Bagged",
    "BayesianMDN",
    "Ensemble",
    "FlexCode",
    "Flow",
    "Forest",
    "Gaussian",
    "MDN",
    "QuantileGrid",
    "Scale",
    "VariationalGP",
)

# What `Locus(engine=...)` and the command line call those that can be made without arguments.
NAMES = {
    "auto": "Auto",
    "bart": "BART",
    "bayesian_mdn": "BayesianMDN",
    "flexcode": "FlexCode",
    "flow": "Flow",
    "forest": "Forest",
    "gaussian": "Gaussian",
    "mdn": "MDN",
    "pymc_bart": "PyMCBART",
    "quantile_grid": "QuantileGrid",
    "scale": "Scale",
    "variational_gp": "VariationalGP",
}
_NEED_ARGUMENTS = {
    "bagged": "Bagged(engine)",
    "ensemble": "Ensemble(engines)",
    "from_skpro": "FromSkpro(regressor)",
}

__all__ = [
    "BART",
    "MDN",
    "Auto",
    "Bagged",
    "BayesianMDN",
    "EngineSelection",
    "Ensemble",
    "FlexCode",
    "Flow",
    "Forest",
    "FromSkpro",
    "Gaussian",
    "PyMCBART",
    "QuantileGrid",
    "Scale",
    "VariationalGP",
    "default_engine",
    "select_engine",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _EXTRAS:
        package, extra = _EXTRAS[name]
        require(package, extra=extra)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def default_engine() -> "LossEngine":
    """Return the engine `Locus` uses when none is given; docs/choosing.md shows the evidence.

    Examples
    --------
    >>> from locuscore.engines import default_engine
    >>> default_engine()
    Forest()
    """
    from locuscore.engines._forest import Forest  # noqa: PLC0415 - loaded when first used

    return Forest()


def resolve_engine(engine: "LossEngine | str | None") -> "LossEngine":
    """Return the engine meant by None, by a name of `NAMES` or by itself."""
    if engine is None:
        return default_engine()
    if isinstance(engine, str):
        return _named_engine(engine)
    from locuscore._shared.checks import check_methods  # noqa: PLC0415 - numpy, when first used

    check_methods(engine, ["fit", "predict_draws"], "engine")
    return engine


def _named_engine(name: str) -> "LossEngine":
    """Return a new engine with its usual settings; capitals and underscores do not matter."""

    def looked_up(table: dict[str, str]) -> str | None:
        alike = {key.replace("_", ""): value for key, value in table.items()}
        return alike.get(name.lower().replace("_", ""))

    if call := looked_up(_NEED_ARGUMENTS):
        raise ValueError(
            f"engine {name!r} needs an argument; pass the object locuscore.engines.{call}."
        )
    found = looked_up(NAMES)
    if found is None:
        raise ValueError(
            f"unknown engine {name!r}; expected one of {', '.join(NAMES)}, or an object with the "
            "methods fit and predict_draws, such as locuscore.engines.Forest()."
        )
    made: LossEngine = __getattr__(found)()
    return made
