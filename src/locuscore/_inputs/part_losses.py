"""Losses of answers that have parts: outputs of several numbers, masks, texts, sets, rankings.

Each takes one value per row and returns one number per row. A row with nothing to get wrong, such
as two empty masks, has loss 0.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from locuscore._protocols import FloatArray
from locuscore._shared.checks import as_floats, without_single_axis

NORMS = ("euclidean", "max", "sum")


def norm_of_errors(y: FloatArray, g: FloatArray, kind: str, weights: FloatArray | None) -> Any:
    """Norm of ``weights * (y - g)`` over the outputs of each row."""
    if y.shape != g.shape or y.ndim > 2:
        raise ValueError(
            f"the loss {kind!r} compares numbers of one shape, (rows, outputs); y has shape "
            f"{y.shape}, and the predictor returned {g.shape}."
        )
    error = np.abs(y - g).reshape(len(y), -1)
    if weights is not None:
        if len(weights) != error.shape[1]:
            raise ValueError(
                f"norm({kind!r}) has {len(weights)} weights, but there are {error.shape[1]} "
                "outputs; give one weight for each."
            )
        error = error * weights
    if kind == "euclidean":
        return np.linalg.norm(error, axis=1)
    return error.max(axis=1) if kind == "max" else error.sum(axis=1)


def relative_error(y: FloatArray, g: FloatArray, floor: float) -> FloatArray:
    """``|y - g| / max(|y|, floor)``; without a floor, a true value of 0 is refused."""
    size = np.maximum(np.abs(y), floor)
    n_zero = int(np.sum(size == 0))
    if n_zero:
        raise ValueError(
            f"the relative error divides by y, and y is 0 in {n_zero} rows out of {len(y)}; leave "
            "them out, or name the smallest size that counts, such as relative(floor=1.0)."
        )
    return np.abs(y - g) / size


def censored_error(y: Any, g: Any) -> FloatArray:
    """``|time - g|`` where the event was seen, else ``max(time - g, 0)``: at least that is lost."""
    pairs, g = as_floats(y, "y"), as_floats(without_single_axis(g), "the predictor's output")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or g.shape != (len(pairs),):
        raise ValueError(
            "the loss 'censored' needs y of shape (rows, 2), the time and whether the event was "
            f"seen, and one predicted time per row; got y {pairs.shape} and predictions {g.shape}. "
            "Make y with np.column_stack([time, event])."
        )
    time, event = pairs.T
    if not np.isin(event, (0, 1)).all():
        raise ValueError(
            "the second column of y says whether the event was seen, 1 or 0; got "
            f"{np.setdiff1d(event, (0, 1))[0]:g}."
        )
    return np.where(event == 1, np.abs(time - g), np.maximum(time - g, 0.0))


def graded(y: Any, g: Any) -> FloatArray:
    """Return y itself: the loss that somebody has given each answer."""
    grades = without_single_axis(np.asarray(y))
    if grades.ndim != 1:
        raise ValueError(
            f"the loss 'graded' takes one grade per row as y; got an array of shape {grades.shape}."
        )
    return as_floats(grades, "y, the grades of the loss 'graded',")


def one_minus_iou(y: Any, g: Any) -> FloatArray:
    """``1 - |A and B| / |A or B|`` of the true and the predicted mask of each row."""
    return _rows(y, g, _iou_of_row) if _is_ragged(y, g) else _iou_of_rows(y, g)


def _iou_of_row(one: Any, other: Any) -> float:
    return float(_iou_of_rows(np.asarray(one)[None], np.asarray(other)[None])[0])


def _iou_of_rows(y: np.ndarray, g: np.ndarray) -> FloatArray:
    if y.shape != g.shape:
        raise ValueError(
            f"the loss 'iou' compares masks of one shape; those of y have shape {y.shape[1:]}, "
            f"the predicted ones {g.shape[1:]}."
        )
    true, said = (_as_masks(part, name) for part, name in ((y, "y"), (g, "the predictor")))
    both, either = np.sum(true & said, axis=1), np.sum(true | said, axis=1)
    return 1.0 - np.where(either > 0, both / np.maximum(either, 1), 1.0)


def _as_masks(values: np.ndarray, name: str) -> np.ndarray:
    flat = values.reshape(len(values), -1)
    if flat.dtype != bool:
        if flat.dtype.kind not in "biuf" or not ((flat == 0) | (flat == 1)).all():
            raise ValueError(
                f"the loss 'iou' needs masks of 0 and 1, or of truth values, but {name} has "
                f"others ({flat.dtype}); threshold them first, such as lambda X: net(X) > 0.5."
            )
        flat = flat.astype(bool)
    return flat


def edit_distance(y: Any, g: Any) -> FloatArray:
    """Levenshtein distance of two texts, or lists of tokens, over the length of the longer."""
    return _rows(y, g, _edit_of_row)


def _edit_of_row(one: Any, other: Any) -> float:
    a, b = _tokens(one, other, "edit", split=False), _tokens(other, one, "edit", split=False)
    return levenshtein(a, b) / max(len(a), len(b), 1)


def levenshtein(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Fewest insertions, deletions and replacements that turn one sequence into the other.

    The columns of the usual table are the bits of whole numbers, of any length (Myers, 1999, in the
    form of Hyyro, 2003): `more` and `less` say where the next cell of the column is one more or
    less.
    """
    if not a or not b:
        return len(a) or len(b)
    places: dict[Any, int] = {}
    for i, token in enumerate(a):
        places[token] = places.get(token, 0) | 1 << i
    last, every = 1 << (len(a) - 1), (1 << len(a)) - 1
    more, less, distance = every, 0, len(a)
    for token in b:
        equal = places.get(token, 0)
        down = equal | less
        across = (((equal & more) + more) ^ more) | equal
        right_more = less | ~(across | more)
        right_less = more & across
        distance += bool(right_more & last) - bool(right_less & last)
        right_more, right_less = right_more << 1 | 1, right_less << 1
        more = (right_less | ~(down | right_more)) & every
        less = right_more & down & every
    return distance


def one_minus_f1(y: Any, g: Any) -> FloatArray:
    """``1 - 2 |A and B| / (|A| + |B|)`` of two sets, bags of tokens, or masks of truth values."""
    return _rows(y, g, _f1_of_row)


def _f1_of_row(one: Any, other: Any) -> float:
    if all(isinstance(part, np.ndarray) and part.dtype == bool for part in (one, other)):
        if one.shape != other.shape:
            raise ValueError(
                f"the loss 'f1' compares masks of one shape; got {one.shape} and {other.shape}."
            )
        both, total = int(np.sum(one & other)), int(one.sum() + other.sum())
    else:
        a, b = (Counter(_tokens(*pair, "f1", split=True)) for pair in ((one, other), (other, one)))
        both, total = (a & b).total(), a.total() + b.total()
    return 1.0 - (2.0 * both / total if total else 1.0)


def _tokens(value: Any, other: Any, loss: str, *, split: bool) -> Sequence[Any]:
    """Return the tokens of a text, list or set; the other value must be of the same kind."""
    if isinstance(value, str) and isinstance(other, str):
        return value.split() if split else value
    values = value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
    is_set = isinstance(values, set | frozenset)
    if isinstance(values, str | bytes) or not (isinstance(values, list | tuple) or is_set):
        raise ValueError(
            f"the loss {loss!r} compares two texts or two lists of tokens"
            f"{', or two sets' if split else ''} in each row; got {_kind(value)} beside "
            f"{_kind(other)}."
        )
    if is_set and not split:
        raise ValueError(
            f"the loss {loss!r} needs tokens in their order, and a set has none; use 'f1'."
        )
    return list(values)


def _kind(value: Any) -> str:
    shape = f" of shape {value.shape}" if isinstance(value, np.ndarray) else ""
    return f"{type(value).__name__}{shape}"


def one_minus_ndcg(y: Any, g: Any, top: int | None) -> FloatArray:
    """``1 - DCG / largest DCG`` of the documents of each query, ordered by their scores.

    ``DCG = sum of gain / log2(1 + rank)`` over the `top` ranks. Documents with equal scores share
    the mean of the places they take.
    """
    return _rows(y, g, lambda gain, score: _ndcg_of_row(*_query(gain, score, "ndcg"), top))


def _ndcg_of_row(gain: FloatArray, score: FloatArray, top: int | None) -> float:
    if gain.min(initial=0.0) < 0:
        raise ValueError(f"the loss 'ndcg' needs gains of at least 0 as y; got {gain.min():g}.")
    discount = 1.0 / np.log2(np.arange(len(gain)) + 2.0)
    discount[len(gain) if top is None else top :] = 0.0
    best = float(np.sort(gain)[::-1] @ discount)
    if best == 0.0:
        return 0.0
    _, place, size = np.unique(-score, return_inverse=True, return_counts=True)
    shared = np.add.reduceat(discount, np.cumsum(size) - size) / size
    # Rounding must not leave the support.
    return min(max(1.0 - float(gain @ shared[place]) / best, 0.0), 1.0)


def inverted_pairs(y: Any, g: Any) -> FloatArray:
    """Share of the pairs of unequal gain that the scores put in the wrong order; a tie is half."""
    return _rows(y, g, lambda gain, score: _inverted(*_query(gain, score, "inversions")))


def _inverted(gain: FloatArray, score: FloatArray) -> float:
    better = gain[:, None] > gain[None, :]
    n = int(better.sum())
    below = np.sum(better & (score[:, None] < score[None, :]))
    ties = np.sum(better & (score[:, None] == score[None, :]))
    return float(below + 0.5 * ties) / n if n else 0.0


def _query(gain: Any, score: Any, loss: str) -> tuple[FloatArray, FloatArray]:
    gains, scores = as_floats(gain, "y"), as_floats(score, "the predictor's output")
    if gains.ndim != 1 or gains.shape != scores.shape:
        raise ValueError(
            f"the loss {loss!r} needs one gain in y and one score for each document of a query, "
            f"shape (rows, documents); a row has {gains.shape} and {scores.shape}."
        )
    if not np.isfinite(gains).all() or not np.isfinite(scores).all():
        raise ValueError(f"the loss {loss!r} needs finite gains and scores; some are not.")
    return gains, scores


def _is_ragged(*parts: Any) -> bool:
    return any(part.dtype == object for part in parts)


def _rows(y: Any, g: Any, loss: Any) -> FloatArray:
    return np.fromiter((loss(*pair) for pair in _pairs(y, g)), dtype=np.float64, count=len(y))


def _pairs(y: Any, g: Any) -> Iterator[tuple[Any, Any]]:
    return zip(_listed(y), _listed(g), strict=True)


def _listed(values: np.ndarray) -> list[Any]:
    """One value per row: a text or number as Python has it, an array as it is."""
    return values.tolist() if values.ndim == 1 else list(values)
