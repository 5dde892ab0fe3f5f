"""Recognise a wrong predictor: some rows of D1 with g's answers, to compare with later."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from locuscore._inputs.outputs import Outputs
from locuscore._inputs.predictor import PredictionColumn
from locuscore._protocols import Rows
from locuscore._shared.checks import LocusWarning
from locuscore._shared.frames import n_rows

PROBE_ROWS = 32
TOLERANCE = 1e-6  # relative
HOW_TO_ALLOW = (
    "To go on without any guarantee, pass allow_another_predictor=True (--allow-another-predictor)."
)


class PredictorChangedError(ValueError):
    """The predictor does not answer as the one in `fit` did."""


@dataclass(frozen=True, eq=False, repr=False)
class Probe:
    """A few rows of D1, and g's answers: predictions, then class probabilities if g has any.

    `is_replaced` says that the answers come from another predictor than that of `fit`, which the
    user allowed.
    """

    rows: Rows
    answers: tuple[np.ndarray, ...]
    is_replaced: bool = False

    @classmethod
    def of(cls, outputs: Outputs) -> "Probe | None":
        """Keep what the predictor said of some rows; None where there is nothing to ask."""
        if outputs.predictor is None or isinstance(outputs.predictor, PredictionColumn):
            return None
        return cls(outputs.X, _answers(outputs))

    def replaced(self, predictor: Any) -> "Probe":
        """Return the same rows with the answers of another predictor, which was allowed."""
        return Probe(self.rows, _answers(Outputs(predictor, self.rows)), is_replaced=True)

    def compare(self, predictor: Any) -> "Comparison":
        """Ask a predictor about the same rows; if it answers differently, ask it once more."""
        try:
            first = _answers(Outputs(predictor, self.rows))
            difference = _difference(self.answers, first)
            if difference is None:
                return Comparison("same")
            again = _difference(first, _answers(Outputs(predictor, self.rows)))
        except Exception as error:  # a predictor may raise anything, with values in its message
            return Comparison("other", f"it fails on them ({type(error).__name__})")
        if again is not None:
            return Comparison("unsteady", again)
        return Comparison("other", f"it now gives {difference}")

    def check(self, predictor: Any) -> None:
        """Raise if a predictor answers differently; warn if it does not even agree with itself."""
        found, n = self.compare(predictor), n_rows(self.rows)
        if found.outcome == "other":
            raise PredictorChangedError(
                f"the predictor is not the one of fit: asked about {n} rows that fit kept, "
                f"{found.text}. Bounds and rules hold for the predictor of fit only: pass that "
                f"one, or fit again. {HOW_TO_ALLOW}"
            )
        if found.outcome == "unsteady":
            warnings.warn(
                f"the predictor disagrees with itself: the same {n} rows asked twice give "
                f"{found.text}. Whether it is the one of fit cannot be checked.",
                LocusWarning,
                stacklevel=4,
            )


@dataclass(frozen=True)
class Comparison:
    """How a predictor's answers compare with those of `fit`; no value of any row is in the text."""

    outcome: Literal["same", "other", "unsteady"]
    text: str = ""


def _answers(outputs: Outputs) -> tuple[np.ndarray, ...]:
    return (outputs.predictions, *outputs.raw_probabilities)


def _difference(expected: tuple[np.ndarray, ...], found: tuple[np.ndarray, ...]) -> str | None:
    """Say how two answers differ; None if they agree."""
    names = ["predictions"] + ["probabilities"] * (len(expected) - 1)
    if len(found) < len(expected):
        return "no class probabilities"
    for name, a, b in zip(names, expected, found, strict=False):
        if a.shape != b.shape:
            return f"{name} of shape {b.shape} instead of {a.shape}"
        text = _numbers(name, a, b) if _is_numeric(a) and _is_numeric(b) else _labels(a, b)
        if text is not None:
            return text
    return None


def _is_numeric(values: np.ndarray) -> bool:
    return values.dtype.kind in "biuf"


def _numbers(name: str, a: np.ndarray, b: np.ndarray) -> str | None:
    one, other = a.astype(np.float64), b.astype(np.float64)
    gap = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.abs(one - other))
    # Near zero a relative difference means nothing, so the usual size of an answer is used.
    finite = np.where(np.isfinite(one), np.abs(one), 0.0)
    scale = np.maximum(finite, finite.mean(axis=0))
    # Single precision rounds by the size of a batch, and these rows were part of a larger one.
    kinds = [v.dtype for v in (a, b) if v.dtype.kind == "f"]
    tolerance = max([TOLERANCE, *(min(1e3 * np.finfo(kind).eps, 0.1) for kind in kinds)])
    if np.all(gap <= tolerance * scale):
        return None
    where = "another value in place of a missing one" if np.isnan(gap).any() else ""
    return f"other {name}: largest difference {where or f'{np.nanmax(gap):.6g}'}"


def _labels(a: np.ndarray, b: np.ndarray) -> str | None:
    pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    n = sum(not _is_same(*pair) for pair in pairs)
    return None if not n else f"{n} of {a.size} labels that differ"


def _is_same(one: Any, other: Any) -> bool:
    """Whether two labels, lists or arrays are equal; a missing one equals itself."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other or (one != one and other != other))
