"""What choices of calibration have in common: their parameters, and how they are shown."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

LONGEST_SHOWN = 60
OTHERS = {
    "groups": "for a promise in every group, pass calibration=ByGroup(groups) to Locus.",
    "weights": "for new rows of another mix, pass calibration=Shifted(weights) to Locus.",
}


class Choice:
    """Parameters as in scikit-learn, and a text of one line, also where one is an array."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; none of them has parameters of its own."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({shown})"


def _shown(value: Any) -> str:
    if np.ndim(value) and not isinstance(value, list | tuple):
        return f"<{type(value).__name__} of {len(value)} values>"
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def with_params(choice: Any, params: Mapping[str, Any]) -> Any:
    """The choice with other parameters; it stays as it is, since another `Locus` may have it."""
    if not isinstance(choice, Choice):
        raise ValueError(
            f"calibration is {choice!r:.60}, which has no parameters to set; pass one that has, "
            "such as calibration=ByGroup(by)."
        )
    known = list(choice.get_params())
    for name in params:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{type(choice).__name__} has no parameter {name!r}; {has}.")
    return replace(choice, **params)  # type: ignore[type-var]


def refuse_others(given: Mapping[str, Any]) -> None:
    """Raise if `fit` was given what a calibration is to be given, or what nobody knows."""
    for name in given:
        remedy = OTHERS.get(name, "it takes clusters and target beside the labelled rows.")
        raise TypeError(f"fit takes no {name}; {remedy}")
