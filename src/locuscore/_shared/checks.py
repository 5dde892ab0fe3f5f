"""Checks at the door: each raises with the value it saw and what to do about it."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray, IntArray

MOST_SHOWN = 10  # rows in an error message
LONGEST_UNIT = 40
SHORTEST_KEY = 32  # bytes, as many as SHA-256 gives

# The squares of a million losses add up to a float.
SMALLEST_LOSS, LARGEST_LOSS = 1e-150, 1e151


class LocusWarning(UserWarning):
    """Statistical trouble the user should know of; the result is still valid.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from locuscore import Locus, LocusWarning
    >>> X = np.arange(24.0).reshape(12, 2)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X, X[:, 1])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     bound = locus.loss_bound(X, alpha=0.01)
    ...
    >>> [issubclass(w.category, LocusWarning) for w in caught], bool(np.isinf(bound).all())
    ([True], True)
    """


class BadRowsError(ValueError):
    """Rows that cannot be scored, while others could; `rows` are their positions."""

    def __init__(self, trouble: str, rows: IntArray, remedy: str) -> None:
        super().__init__(trouble, rows, remedy)
        self.trouble, self.rows, self.remedy = trouble, rows, remedy

    def __str__(self) -> str:
        shown = ", ".join(str(row) for row in self.rows[:MOST_SHOWN])
        more = len(self.rows) - MOST_SHOWN
        listed = f"{shown} and {more} more" if more > 0 else shown
        return f"{self.trouble} (in row {listed}, counted from 0); {self.remedy}"

    def move(self, start: int) -> None:
        """Count rows from further up: these were part of more rows, from `start` on."""
        self.rows = self.rows + start


def check_alpha(alpha: float | Sequence[float] | FloatArray) -> FloatArray:
    """Return alpha as an array, each value strictly between 0 and 1."""
    values = check_numbers(alpha, "alpha")
    if not np.all((values > 0) & (values < 1)):
        raise ValueError(
            f"alpha is the share of losses allowed above their bound and lies strictly between "
            f"0 and 1; got {alpha!r}."
        )
    return values


def check_tau(tau: float | Sequence[float] | FloatArray) -> FloatArray:
    """Return tau as an array of finite tolerances."""
    values = check_numbers(tau, "tau")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"tau is a tolerance in loss units and must be finite; got {tau!r}.")
    return values


def one_alpha(alpha: Any) -> float:
    """Return one alpha as a number."""
    return _one(check_alpha(alpha), "alpha")


def one_tau(tau: Any) -> float:
    """Return one tau as a number."""
    return _one(check_tau(tau), "tau")


def _one(values: FloatArray, name: str) -> float:
    if values.ndim:
        raise ValueError(f"{name} must be one number here; got {values.tolist()!r}.")
    return float(values)


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return a whole number that is at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be a whole number from {least} on; got {value!r:.100}.")
    return int(value)


def check_between(value: Any, name: str, low: float = 0.0, high: float = 1.0) -> float:
    """Return one number strictly between low and high."""
    number = check_numbers(value, name)
    if number.ndim or not low < number < high:
        raise ValueError(
            f"{name} must be one number strictly between {low:g} and {high:g}; got {value!r}."
        )
    return float(number)


def check_share(value: float, name: str) -> float:
    """Return one number from 0 to 1, both allowed."""
    number = check_numbers(value, name)
    if number.ndim or not 0 <= number <= 1:
        raise ValueError(f"{name} is one share of rows, from 0 to 1; got {value!r}.")
    return float(number)


def check_numbers(value: ArrayLike, name: str) -> FloatArray:
    """Return a scalar or a sequence of numbers as a float array."""
    try:
        values = np.asarray(value, dtype=np.float64)
        is_text = np.asarray(value).dtype.kind in "US"
    except (TypeError, ValueError, OverflowError):
        is_text = True
    if is_text:
        raise TypeError(f"{name} must be a number or a sequence of numbers; got {value!r:.100}.")
    if values.ndim > 1 or values.size == 0:
        raise ValueError(
            f"{name} must be a number or a non-empty one-dimensional sequence; "
            f"got an array of shape {values.shape}."
        )
    return values


def is_missing(value: Any) -> bool:
    """Whether one value is None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither true nor false
        return True
    except ValueError:  # an array: not missing, whatever it is
        return False


def holds_text(values: np.ndarray) -> bool:
    """Whether an array holds text, as text or among objects."""
    if values.dtype.kind == "O":
        return any(isinstance(value, str | bytes) for value in values.ravel().tolist())
    return values.dtype.kind in "US"


def check_numeric(values: np.ndarray, name: str) -> FloatArray:
    """Return values as floats; text is refused even where it could be read as numbers."""
    if values.dtype.kind in "biufO" and not holds_text(values):
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            pass
    kind = "text" if holds_text(values) else values.dtype
    raise ValueError(
        f"this loss needs numbers, but {name} holds {kind}; for class labels use "
        "'zero_one', 'log', 'brier' or cost(matrix)."
    )


def check_day(value: Any) -> str:
    """Return a day as text, such as 2027-06-30, or empty text for none."""
    try:
        if value == "" or date.fromisoformat(value).isoformat() == value:
            return str(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"a day is written as in 2027-06-30; got {value!r:.50}.")


def check_unit(unit: Any) -> str:
    """Return the unit of losses, such as dollars: one short line of text, empty for none."""
    if not isinstance(unit, str | None):
        raise TypeError(f"unit is the unit of the losses as text, such as 'dollars'; got {unit!r}.")
    text = unit or ""
    if len(text) > LONGEST_UNIT or not text.isprintable():
        raise ValueError(
            f"unit is one line of at most {LONGEST_UNIT} letters, such as 'dollars'; got "
            f"{text!r:.60}."
        )
    return text


def check_methods(value: Any, methods: Sequence[str], name: str) -> None:
    """Raise unless value is an object, not a class, with these methods."""
    if isinstance(value, type) or not all(callable(getattr(value, m, None)) for m in methods):
        raise TypeError(
            f"{name} must be an object with the methods {' and '.join(methods)}; got {value!r}."
        )


def without_single_axis(values: np.ndarray) -> np.ndarray:
    """Return values (n, 1) as (n,), any others as they are."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def check_losses(z: np.ndarray, n: int, name: str = "loss") -> FloatArray:
    """Return losses as a finite float array of length n."""
    values = without_single_axis(np.asarray(z))
    if values.shape != (n,):
        raise ValueError(
            f"{name} must give one number per row, an array of shape ({n},); got {values.shape}."
        )
    values = as_floats(values, name)
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise ValueError(
            f"{name} has {bad} non-finite values out of {n}; the bound needs finite losses. "
            "Check the targets and predictions, or pass a loss that handles missing ones."
        )
    return values


def one_per_row(values: ArrayLike, n: int, name: str) -> FloatArray:
    """Return numbers of shape (n,); any other shape would make arrays of n times n."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must give one number per row, {n} in all; got {array.shape}.")
    return array


def check_loss_size(z: FloatArray) -> FloatArray:
    """Return losses whose squares are neither infinite nor rounded away.

    Only the largest counts: small losses beside it are small.
    """
    largest = float(np.max(np.abs(z)))
    if largest and not SMALLEST_LOSS <= largest <= LARGEST_LOSS:
        raise ValueError(
            f"the largest loss is {largest:.3g}, and squares of losses do not fit into a float; "
            f"expected between {SMALLEST_LOSS:g} and {LARGEST_LOSS:g}. Measure the target and the "
            "prediction in another unit."
        )
    return z


def check_no_missing(S: FloatArray, engine: str) -> None:
    """Raise if signals are missing, for engines that would take NaN for a number."""
    missing = np.isnan(S)
    if missing.any():
        columns = np.flatnonzero(missing.any(axis=0)).tolist()
        shown = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
        raise ValueError(
            f"{engine} does not take missing values, but {int(missing.sum())} of the signals are "
            f"NaN, in {len(columns)} columns (by position, from 0: {shown}). Fill them in first, "
            "or use an engine that takes them, such as Forest."
        )


def check_same_order(**parts: Any) -> None:
    """Raise where pandas objects have the same row labels in another order than the first has.

    Rows are paired by position, so such data are almost surely paired wrongly. An index that
    merely differs says nothing: those who call ``reset_index`` know their order.
    """
    (first, expected), *others = ((name, _row_labels(part)) for name, part in parts.items())
    for name, labels in others:
        if expected is None or labels is None or len(labels) != len(expected):
            continue
        if labels.equals(expected) or not _same_labels(labels, expected):
            continue
        moved = int(np.sum(np.asarray(labels) != np.asarray(expected)))
        align = f"{name}.loc[{first}.index]" if expected.is_unique else "the same sort for both"
        raise ValueError(
            f"{name} has the row labels of {first}, but {moved} of {len(labels)} stand in another "
            f"order, and rows are paired by position. Use {align}; if the rows do belong together "
            f"as they stand, pass {name}.to_numpy()."
        )


def _row_labels(part: Any) -> Any:
    """Return the index of a pandas object; None for anything else."""
    index = getattr(part, "index", None)
    return index if hasattr(index, "equals") else None


def _same_labels(first: Any, second: Any) -> bool:
    """Whether two indices of one length hold the same labels, each as often."""
    if not first.isin(second).all():
        return False
    unique = first.is_unique and second.is_unique
    return bool(unique or Counter(first.tolist()) == Counter(second.tolist()))


def check_same_length(**arrays: ArrayLike) -> list[FloatArray]:
    """Return the named one-dimensional arrays as floats, all of one non-zero length."""
    check_same_order(**arrays)
    values = {name: as_floats(a, name) for name, a in arrays.items()}
    shapes = {name: a.shape for name, a in values.items()}
    first = next(iter(shapes.values()))
    if len(first) != 1 or first[0] == 0 or len(set(shapes.values())) > 1:
        raise ValueError(f"expected one-dimensional arrays of one non-zero length; got {shapes}.")
    for name, a in values.items():
        if np.isnan(a.min()):  # a minimum is NaN if any value is, and needs no second array
            raise ValueError(
                f"{name} has {int(np.isnan(a).sum())} missing values; remove them first."
            )
    return list(values.values())


def check_scores(**arrays: ArrayLike) -> list[FloatArray]:
    """As `check_same_length`, for a score and what belongs to it; the score comes first.

    This is the one place that says what an infinite score means, of either sign: it is allowed and
    never accepted. So -inf becomes inf, which is above every threshold.
    """
    score, *others = check_same_length(**arrays)
    return [never_accepted(score), *others]


def never_accepted(score: FloatArray) -> FloatArray:
    """Return scores with -inf turned into inf; no copy where there is none."""
    return np.where(score == -np.inf, np.inf, score) if score.min() == -np.inf else score


def as_floats(values: ArrayLike, name: str) -> FloatArray:
    """Return numbers as a float array of any shape; missing ones are NaN, text is refused."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and not holds_text(array):
            flat = [np.nan if is_missing(value) else float(value) for value in array.ravel()]
            array = np.array(flat, dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError):  # ragged, or of a type that is no number
        raise TypeError(f"{name} must hold one number per row; got {values!r:.100}.") from None
    if array.dtype.kind not in "biuf":
        kind = "text" if holds_text(array) else array.dtype
        raise TypeError(f"{name} must hold one number per row; got {kind}.")
    return np.asarray(array, dtype=np.float64)


def check_targets(y: np.ndarray, n: int) -> np.ndarray:
    """Return n targets, none of them missing."""
    values = without_single_axis(y)
    if values.ndim == 0 or len(values) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n} rows, "
            f"y has shape {values.shape}."
        )
    if values.dtype.kind == "O":
        missing = np.array([is_missing(value) for value in values.ravel().tolist()], dtype=bool)
    else:
        missing = values != values
    if missing.any():
        raise ValueError(
            f"y contains NaN or missing values ({int(missing.sum())}); remove those rows."
        )
    return values


def check_key(key: bytes) -> bytes:
    """Return a key as it is used: without the newline that may end a key file.

    Raises if it is not of bytes, or too short to keep anybody from guessing it.
    """
    if not isinstance(key, bytes):
        raise TypeError(
            "a key is of bytes, such as Path('archive.key').read_bytes(); got "
            f"{type(key).__name__}."
        )
    bare = re.sub(rb"\r?\n\Z", b"", key)
    if len(bare) < SHORTEST_KEY:
        raise ValueError(
            f"a key has at least {SHORTEST_KEY} bytes, a newline at its end not counted; got "
            f"{len(bare)}. Make one with secrets.token_hex(32)."
        )
    return bare
