"""Losses: functions ``(y_true, y_pred) -> z``, and what each reads from the predictor."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from locuscore._inputs import part_losses as parts
from locuscore._laws.distribution import Support
from locuscore._laws.signed_errors import ErrorLoss
from locuscore._protocols import FloatArray
from locuscore._shared.checks import check_count, check_numbers, holds_text

MOST_SHOWN = 6  # weights in the name of a loss
PROBABILITY_ROUNDING = 1e-3  # single-precision models add up to 1 only roughly

Reads = Literal["numbers", "vectors", "labels", "codes", "probabilities", "values", "anything"]


@dataclass(frozen=True)
class Loss:
    """A loss function with the support of its values and what it reads.

    `reads` says what `function` is given: one number per row, numbers of any shape, labels as they
    are, class codes (positions in `classes` or, without them, in the predictor's ``classes_``), a
    code and a matrix of probabilities, or the values unchanged: in a loss of this library, or in a
    function of the caller's own (anything). `made_by` has the function that made a loss with
    parameters, and these.
    """

    name: str
    function: Callable[[Any, Any], Any] = field(repr=False)
    support: Support = field(repr=False)
    reads: Reads = field(repr=False)
    classes: tuple[Any, ...] | None = field(default=None, repr=False)
    n_classes: int | None = field(default=None, repr=False)
    is_default: bool = field(default=False, repr=False)  # the user has chosen no loss
    of_error: ErrorLoss | None = field(default=None, repr=False)  # where y - g(x) is all it reads
    made_by: tuple[str, dict[str, Any]] | None = field(default=None, repr=False)

    def __call__(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


def pinball(level: float) -> Loss:
    """Pinball loss of a quantile prediction: ``max(level * (y - q), (level - 1) * (y - q))``.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import pinball
    >>> loss = pinball(0.9)
    >>> loss(np.array([10.0, 10.0]), np.array([8.0, 12.0])).round(3)
    array([1.8, 0.2])
    """
    number = check_numbers(level, "the level of a pinball loss")
    if number.ndim or not 0 < number < 1:
        raise ValueError(
            f"the level of a pinball loss lies strictly between 0 and 1; got {level!r:.100}."
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
    try:
        costs = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        costs = np.empty(0)
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or not np.isfinite(costs).all():
        raise ValueError(f"a cost matrix is square and finite; got {matrix!r:.100}.")
    if classes is not None and len(classes) != len(costs):
        raise ValueError(
            f"the cost matrix has {len(costs)} classes, but `classes` has {len(classes)} names."
        )
    support, known = finite_support(costs.ravel()), None if classes is None else tuple(classes)
    return Loss("cost", partial(_cost, costs=costs), support, "codes", known, len(costs))


def cost_per_unit(over: float, under: float) -> Loss:
    """Money lost by a number: ``over * (g - y)`` if g is too high, ``under * (y - g)`` if too low.

    For a stock, `over` is what an unsold piece costs, and `under` what a missing one does.

    Examples
    --------
    >>> from locuscore import cost_per_unit
    >>> float(cost_per_unit(over=2, under=10)(y_true=100, y_pred=97))
    30.0
    """
    costs = check_numbers([over, under], "a cost per unit")
    if not np.isfinite(costs).all() or costs.min() < 0 or not costs.max():
        raise ValueError(
            "the costs per unit are finite and not negative, and one of them is positive; got "
            f"over={over!r:.40} and under={under!r:.40}."
        )
    of_error = ErrorLoss(above=float(under), below=float(over))
    return Loss(
        f"cost_per_unit(over={over:g}, under={under:g})",
        partial(_cost_per_unit, of_error=of_error),
        _NON_NEGATIVE,
        "numbers",
        of_error=of_error,
        made_by=("cost_per_unit", {"over": float(over), "under": float(under)}),
    )


def relative(floor: float) -> Loss:
    """Relative error ``|y - g| / max(|y|, floor)``.

    The loss ``"relative"`` has no floor, and refuses rows whose true value is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import relative
    >>> loss = relative(floor=1.0)
    >>> loss(np.array([10.0, 0.0]), np.array([9.0, 0.5])).round(3)
    array([0.1, 0.5])
    """
    size = check_numbers(floor, "floor")
    if size.ndim or not 0 < size < np.inf:
        raise ValueError(f"floor is the smallest size that counts, above 0; got {floor!r:.100}.")
    return Loss(
        f"relative(floor={floor:g})",
        partial(parts.relative_error, floor=float(floor)),
        _NON_NEGATIVE,
        "numbers",
        made_by=("relative", {"floor": float(floor)}),
    )


def norm(kind: str, weights: ArrayLike | None = None) -> Loss:
    """Norm over several outputs of the errors ``weights * (y - g)``.

    `kind` is ``"euclidean"``, ``"max"`` or ``"sum"`` (of sizes). Weights, one for each output, give
    outputs one unit: ``norm("max", [1, 1000])`` for metres and kilometres is in metres. Without
    weights the name of the kind is enough as `loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import norm
    >>> loss = norm("max", [1, 1000])  # metres and kilometres, in metres
    >>> loss(np.array([[10.0, 2.0]]), np.array([[13.0, 2.001]])).round(3)
    array([3.])
    """
    if not isinstance(kind, str) or kind not in parts.NORMS:
        raise ValueError(f"a norm is one of {parts.NORMS}; got {kind!r:.100}.")
    if weights is None:
        return _NAMED[kind]
    values = np.atleast_1d(check_numbers(weights, "weights"))
    if not np.isfinite(values).all() or values.min() <= 0:
        raise ValueError(f"the weights of a norm are positive and finite; got {weights!r:.100}.")
    shown = ", ".join([f"{value:g}" for value in values[:MOST_SHOWN]])
    shown += ", ..." if len(values) > MOST_SHOWN else ""
    return Loss(
        f"norm({kind!r}, [{shown}])",
        partial(parts.norm_of_errors, kind=kind, weights=values),
        _NON_NEGATIVE,
        "vectors",
        made_by=("norm", {"kind": kind, "weights": values.tolist()}),
    )


def ndcg(top: int) -> Loss:
    """Ranking loss ``1 - NDCG`` of each query over its `top` ranks.

    ``DCG = sum of gain / log2(1 + rank)``, and NDCG is it over the largest there is. y has the gain
    of each document, g its score. The loss ``"ndcg"`` has all ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import ndcg
    >>> loss = ndcg(top=2)
    >>> loss(np.array([[3.0, 0.0, 1.0]]), np.array([[0.9, 0.5, 0.1]])).round(3)
    array([0.174])
    """
    ranks = check_count(top, "top")
    return Loss(
        f"ndcg(top={ranks})",
        partial(parts.one_minus_ndcg, top=ranks),
        _SHARE,
        "values",
        made_by=("ndcg", {"top": ranks}),
    )


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


def _cost_per_unit(y: FloatArray, g: FloatArray, of_error: ErrorLoss) -> FloatArray:
    return of_error(np.subtract(y, g))


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


_NON_NEGATIVE, _SHARE = Support(low=0.0), Support(0.0, 1.0)
_NAMED = {
    loss.name: loss
    for loss in (
        Loss("absolute", _absolute, _NON_NEGATIVE, "numbers", of_error=ErrorLoss()),
        Loss("squared", _squared, _NON_NEGATIVE, "numbers", of_error=ErrorLoss(power=2)),
        Loss("zero_one", _zero_one, finite_support([0.0, 1.0]), "labels"),
        Loss("log", _log, _NON_NEGATIVE, "probabilities"),
        Loss("brier", _brier, Support(0.0, 2.0), "probabilities"),
        Loss("relative", partial(parts.relative_error, floor=0.0), _NON_NEGATIVE, "numbers"),
        *(
            Loss(
                kind,
                partial(parts.norm_of_errors, kind=kind, weights=None),
                _NON_NEGATIVE,
                "vectors",
            )
            for kind in parts.NORMS
        ),
        Loss("iou", parts.one_minus_iou, _SHARE, "values"),
        Loss("f1", parts.one_minus_f1, _SHARE, "values"),
        Loss("edit", parts.edit_distance, _SHARE, "values"),
        Loss("ndcg", partial(parts.one_minus_ndcg, top=None), _SHARE, "values"),
        Loss("inversions", parts.inverted_pairs, _SHARE, "values"),
        Loss("censored", parts.censored_error, _NON_NEGATIVE, "values"),
        Loss("graded", parts.graded, _NON_NEGATIVE, "values"),
    )
}
# What an archive names a loss with parameters by, and what makes it.
MAKERS: dict[str, Callable[..., Loss]] = {
    maker.__name__: maker for maker in (cost_per_unit, relative, norm, ndcg)
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
                f"unknown loss {loss!r:.40}; expected one of {sorted(_NAMED)}, pinball(level), "
                "cost(matrix), cost_per_unit(over, under), relative(floor), norm(kind, weights), "
                "ndcg(top), or a function (y_true, y_pred) -> z."
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
