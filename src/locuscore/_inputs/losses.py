"""Losses: functions ``(y_true, y_pred) -> z``, and what each reads from the predictor."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from locuscore._laws.distribution import Support
from locuscore._laws.signed_errors import ErrorLoss
from locuscore._protocols import FloatArray
from locuscore._shared.checks import holds_text

PROBABILITY_ROUNDING = 1e-3  # single-precision models add up to 1 only roughly

Reads = Literal["numbers", "labels", "codes", "probabilities", "anything"]


@dataclass(frozen=True)
class Loss:
    """A loss function with the support of its values and what it reads.

    `reads` says what `function` is given: numbers, labels as they are, class codes (positions in
    `classes` or, without them, in the predictor's ``classes_``), a code and a matrix of
    probabilities, or the values unchanged.
    """

    name: str
    function: Callable[[Any, Any], Any] = field(repr=False)
    support: Support = field(repr=False)
    reads: Reads = field(repr=False)
    classes: tuple[Any, ...] | None = field(default=None, repr=False)
    n_classes: int | None = field(default=None, repr=False)
    is_default: bool = field(default=False, repr=False)  # the user has chosen no loss
    of_error: ErrorLoss | None = field(default=None, repr=False)  # where y - g(x) is all it reads

    def __call__(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


def pinball(level: float) -> Loss:
    """Pinball loss of a quantile prediction: ``max(level * (y - q), (level - 1) * (y - q))``."""
    if not 0 < level < 1:
        raise ValueError(
            f"the level of a pinball loss lies strictly between 0 and 1; got {level!r}."
        )
    return Loss(
        f"pinball({level})",
        partial(_pinball, level=level),
        _NON_NEGATIVE,
        "numbers",
        of_error=ErrorLoss(above=level, below=1.0 - level),
    )


def cost(matrix: ArrayLike, classes: Sequence[Any] | None = None) -> Loss:
    """Cost of predicting class j (column) when the class is i (row), ``matrix[i, j]``.

    Rows and columns follow `classes`, else the predictor's ``classes_``, else 0, 1, 2, ...
    """
    costs = np.array(matrix, dtype=np.float64)
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or not np.isfinite(costs).all():
        raise ValueError(f"a cost matrix is square and finite; got {matrix!r}.")
    if classes is not None and len(classes) != len(costs):
        raise ValueError(
            f"the cost matrix has {len(costs)} classes, but `classes` has {len(classes)} names."
        )
    support, known = finite_support(costs.ravel()), None if classes is None else tuple(classes)
    return Loss("cost", partial(_cost, costs=costs), support, "codes", known, len(costs))


def finite_support(values: Iterable[float]) -> Support:
    """Return the support that consists of these values."""
    points = np.unique(np.asarray(list(values), dtype=np.float64))
    if not len(points) or not np.isfinite(points).all():
        raise ValueError(f"a finite support holds at least one value, all finite; got {points}.")
    return Support(float(points[0]), float(points[-1]), points)


def _absolute(y: FloatArray, prediction: FloatArray) -> FloatArray:
    return np.abs(y - prediction)


def _squared(y: FloatArray, prediction: FloatArray) -> FloatArray:
    return (y - prediction) ** 2


def _pinball(y: FloatArray, q: FloatArray, level: float) -> FloatArray:
    return np.maximum(level * (y - q), (level - 1) * (y - q))


def _zero_one(y: np.ndarray, label: np.ndarray) -> FloatArray:
    if holds_text(y) != holds_text(label):
        raise ValueError(
            f"y and the predicted labels cannot be compared: one is text, the other is not (y: "
            f"{y.dtype}, predictions: {label.dtype})."
        )
    return np.asarray(y != label, dtype=np.float64)


def _cost(y: np.ndarray, label: np.ndarray, costs: FloatArray) -> FloatArray:
    largest = max(y.max(initial=0), label.max(initial=0))
    if largest >= len(costs):
        raise ValueError(
            f"the cost matrix has {len(costs)} classes, but class number {largest} occurs "
            "(classes are counted from 0)."
        )
    return costs[y, label]


def _log(code: np.ndarray, probabilities: FloatArray) -> FloatArray:
    chosen = _check_probabilities(code, probabilities)[np.arange(len(code)), code]
    return 0.0 - np.log(np.maximum(chosen, np.finfo(np.float64).eps))  # never a negative zero


def _brier(code: np.ndarray, probabilities: FloatArray) -> FloatArray:
    truth = np.zeros_like(probabilities)
    values = _check_probabilities(code, probabilities)
    truth[np.arange(len(code)), code] = 1.0
    return np.minimum(((values - truth) ** 2).sum(axis=1), 2.0)


def _check_probabilities(code: np.ndarray, probabilities: FloatArray) -> FloatArray:
    """Return probabilities without the rounding that would leave [0, 1]."""
    n_classes = probabilities.shape[1]
    if code.max(initial=0) >= n_classes:
        raise ValueError(
            f"the predictor gives probabilities of {n_classes} classes, but class number "
            f"{code.max()} occurs in y (classes are counted from 0)."
        )
    off = np.abs(probabilities.sum(axis=1) - 1.0)
    if not (probabilities >= 0).all() or not (off <= PROBABILITY_ROUNDING).all():
        raise ValueError(
            "class probabilities must be non-negative and add up to 1 in every row; the "
            "predictor's do not. Does it return scores instead?"
        )
    return np.minimum(probabilities, 1.0)


_NON_NEGATIVE = Support(low=0.0)
_NAMED = {
    loss.name: loss
    for loss in (
        Loss("absolute", _absolute, _NON_NEGATIVE, "numbers", of_error=ErrorLoss()),
        Loss("squared", _squared, _NON_NEGATIVE, "numbers", of_error=ErrorLoss(power=2)),
        Loss("zero_one", _zero_one, finite_support([0.0, 1.0]), "labels"),
        Loss("log", _log, _NON_NEGATIVE, "probabilities"),
        Loss("brier", _brier, Support(0.0, 2.0), "probabilities"),
    )
}


def resolve_loss(loss: str | Loss | Callable[[Any, Any], Any] | None) -> Loss:
    """Return the loss of this name, or the given function as a loss; None for the default."""
    if loss is None:
        return replace(_NAMED["absolute"], is_default=True)
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss not in _NAMED:
            raise ValueError(
                f"unknown loss {loss!r}; expected one of {sorted(_NAMED)}, pinball(level), "
                "cost(matrix), or a function (y_true, y_pred) -> z."
            )
        return _NAMED[loss]
    if not callable(loss):
        raise TypeError(f"loss must be a name or a function (y_true, y_pred) -> z; got {loss!r}.")
    return Loss(getattr(loss, "__name__", "custom"), loss, Support(), "anything")


def resolve_support(support: Any, default: Support) -> Support:
    """Return a declared support: a tuple (low, high), a set or list of values, or the default."""
    if support is None:
        return default
    if isinstance(support, set | frozenset | list | range | np.ndarray):
        return finite_support(support)
    try:
        low, high = (float(end) for end in support)
    except (TypeError, ValueError):
        raise ValueError(
            "support must be a tuple (low, high), or a set or list of the values the loss can "
            f"take; got {support!r}."
        ) from None
    if not low < high:
        raise ValueError(f"support must be a tuple with low < high; got {support!r}.")
    return Support(low, high)
