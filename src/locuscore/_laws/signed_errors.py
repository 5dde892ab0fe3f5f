"""Losses that are functions of the signed error ``u = y - g(x)``, and the errors of D1."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from locuscore._laws.class_law import ClassLaw
from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.kept import Kept


@dataclass(frozen=True)
class ErrorLoss:
    """A loss of the signed error: ``(above * u) ** power``, and ``(below * -u) ** power`` if u < 0.

    Absolute, squared and pinball losses are of this form.
    """

    ARCHIVE = Kept("ErrorLoss", single=("above", "below", "power"))

    above: float = 1.0
    below: float = 1.0
    power: int = 1

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the loss that an archive holds, if it is of this form."""
        if parts["power"] not in (1, 2):
            raise ValueError("a loss of the error is neither it nor its square")
        return cls(float(parts["above"]), float(parts["below"]), parts["power"])

    def in_unit(self, unit: float) -> "ErrorLoss":
        """The same loss of errors that are measured in another unit."""
        return replace(self, above=self.above * unit, below=self.below * unit)

    def __call__(self, error: FloatArray) -> FloatArray:
        if self.above == self.below > 0:  # the same, in one pass less
            size = np.abs(error, dtype=np.float64)
            size *= self.above
        else:
            size = np.maximum(self.above * error, -self.below * error)
        return size if self.power == 1 else size**self.power


@dataclass(frozen=True, eq=False)
class SignedErrors:
    """What an engine may be told of D1 besides its losses, which have lost the sign.

    `errors` are ``y - g(x)`` of the rows of D1, `column` is the position among the signals of the
    error that the second opinion expects, and ``loss(errors)`` are the losses.
    """

    loss: ErrorLoss
    errors: FloatArray
    column: int

    def take(self, rows: IntArray) -> "SignedErrors":
        """Some of the rows."""
        return replace(self, errors=self.errors[rows])

    def unexpected(self, S: FloatArray) -> FloatArray:
        """The part of the errors that the second opinion did not expect."""
        return self.errors - S[:, self.column]


def fit_engine(
    engine: Any,
    S: FloatArray,
    z: FloatArray,
    errors: SignedErrors | None,
    spread: int | None = None,
    class_law: ClassLaw | None = None,
    clusters: IntArray | None = None,
) -> Any:
    """Fit an engine; what else is known reaches one whose `fit` has a parameter of that name.

    `spread` is the position of the signal that tells how far the predictor's members disagree,
    `class_law` is what the second opinion on a class says of the loss, and `clusters` are codes of
    the clusters of the rows, for engines that leave rows out.
    """
    known = {"errors": errors, "spread": spread, "class_law": class_law, "clusters": clusters}
    told = {
        name: value
        for name, value in known.items()
        if value is not None and has_fit_parameter(engine, name)
    }
    return engine.fit(S, z, **told)
