"""Rows as 64-bit cells and digests, the same whatever library or file the rows come from.

A number is its float64 to 11 digits, with one zero and one NaN, because parsers of text may miss
the nearest float (`pandas.read_csv` by 1e-12 relative). A boolean is 0 or 1. A time is its seconds
since 1970 in UTC, and so accurate to about 0.02 s. Text is a digest of its UTF-8, unless it reads
as a number or as a missing value, since a file without types cannot tell them apart. A category is
its text. A column that was float32 in `fit` is rounded to float32 first. An image is the row of its
numbers. Rows of the caller's own kind have no digests: nothing is known of what they hold.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from locuscore._inputs.encoder import known_floats
from locuscore._protocols import Rows
from locuscore._shared.blocks import row_blocks
from locuscore._shared.checks import is_missing
from locuscore._shared.frames import as_frame, n_rows, table_of, take_rows
from locuscore._shared.rows import MOST_DENSE_COLUMNS, RowKind, floats_per_row, kind_of_rows

Cells = NDArray[np.uint64]
CELL = np.dtype("<u8")
FLOAT = np.dtype("<f8")
DIGEST_BYTES = 8
UTF_8 = ("utf-8", "surrogatepass")
# The last 16 of the 52 bits of a fraction are rounded away. Half of the last kept bit is added to
# the 64 bits as a whole, so that a carry moves into the exponent; then the rest is masked.
ROUNDED_BITS = 16
HALF, KEPT = 1 << (ROUNDED_BITS - 1), (1 << 64) - (1 << ROUNDED_BITS)
MOST_ROWS_AT_ONCE = 65_536
# What readers of CSV files treat as missing.
MISSING_TEXT = {"", "#N/A", "#NA", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"}
TRUTH = {"true": 1.0, "false": 0.0}
HASHABLE = (str, bytes, Real, date, type(None))


def row_digests(
    X: Rows, labels: np.ndarray | None, types: Sequence[str], salt: bytes
) -> tuple[Cells, Cells]:
    """Return a digest of each row of X, and one of each row with its label.

    `types` are those of X's columns in `fit`, then that of the labels. Without labels the second
    is empty.
    """
    given = [] if labels is None else [(labels, types[-1])]
    inputs, *labelled = digests_with(X, given, types[:-1], salt)
    return inputs, labelled[0] if labelled else _digests(bytearray())


def digests_with(
    X: Rows, given: Sequence[tuple[np.ndarray, str]], types: Sequence[str], salt: bytes
) -> list[Cells]:
    """Return a digest of each row of X, and one of each row with each of its labels.

    Labels are given with their type in `fit`; `types` are those of X's columns there.
    """
    start = blake2b(salt, digest_size=DIGEST_BYTES)
    inputs, labelled = bytearray(), [bytearray() for _ in given]
    width = floats_per_row(X) + sum(math.prod(values.shape[1:]) for values, _ in given)
    for part in row_blocks(n_rows(X), width, MOST_ROWS_AT_ONCE):
        rows = _rows_of_cells(take_rows(X, part), types)
        labels = [_label_cells(values[part], name) for values, name in given]
        for i, row in enumerate(rows):
            digest = start.copy()  # salted once
            digest.update(row.data)
            inputs += digest.digest()
            for j, row_labels in enumerate(labels):
                both = digest.copy()
                both.update(row_labels[i])
                labelled[j] += both.digest()
    return [_digests(found) for found in (inputs, *labelled)]


def _rows_of_cells(X: Rows, types: Sequence[str]) -> Iterable[Cells]:
    """The cells of each row; an image is a row of numbers, and zeros of a wide row are left out."""
    if sparse.issparse(X) and X.shape[1] > MOST_DENSE_COLUMNS:
        return _sparse_cells(X.copy(), types[0])
    is_image = kind_of_rows(X) is RowKind.IMAGES
    table = X.reshape(len(X), -1) if is_image else table_of(X)
    return np.ascontiguousarray(cells(table, types))


def _sparse_cells(X: Any, type_name: str) -> Iterator[Cells]:
    X.sum_duplicates()  # sorts them as well
    X.eliminate_zeros()
    places, values = X.indices.astype(CELL), _number_cells(X.data, type_name)
    for start, stop in pairwise(X.indptr.tolist()):
        yield np.concatenate([places[start:stop], values[start:stop]])


def _digests(data: bytearray) -> Cells:
    return np.frombuffer(data, CELL).astype(np.uint64)


def _label_cells(labels: np.ndarray, type_name: str) -> Cells:
    matrix = labels.reshape(len(labels), -1)
    return np.ascontiguousarray(cells(matrix, [type_name] * matrix.shape[1]))


def cells(X: Rows, types: Sequence[str]) -> Cells:
    """Return one cell for each value of some rows; `types` are those of the columns in `fit`."""
    if sparse.issparse(X):
        X = X.toarray()
    frame = as_frame(X)
    if frame is None and X.dtype.kind in "biuf":
        return _number_cells(X, types[0] if types else "")
    out = np.empty((n_rows(X), X.shape[1]), dtype=CELL)
    for j, type_name in enumerate(types):
        values = X[:, j] if frame is None else frame[:, j]
        known = known_floats(values)
        out[:, j] = _listed_cells(values) if known is None else _number_cells(known, type_name)
    return out


def _number_cells(values: np.ndarray, type_name: str) -> Cells:
    if type_name.lower() in ("float32", "float16"):
        values = values.astype(np.float32)
    numbers = values.astype(FLOAT) + 0.0  # -0.0 becomes 0.0
    numbers[np.isnan(numbers)] = np.nan  # a NaN has many bit patterns
    return (numbers.view(CELL) + CELL.type(HALF)) & CELL.type(KEPT)


def _listed_cells(values: Any) -> list[int]:
    """Cells of a column of text, categories or objects; each distinct value is read once."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values.to_list()
    # The type tells an object from text that equals its repr.
    keys = [(type(v), v if isinstance(v, HASHABLE) else _text_of(v)) for v in listed]
    distinct = dict(zip(keys, listed, strict=True))
    known = {key: _value_cell(value) for key, value in distinct.items()}
    return [known[key] for key in keys]


def _value_cell(value: Any) -> int:
    number = _as_number(value)
    if number is None:
        data = value if isinstance(value, bytes) else _text_of(value).encode(*UTF_8)
        return int.from_bytes(blake2b(data, digest_size=DIGEST_BYTES).digest(), "little")
    plain = np.nan if np.isnan(number) else number + 0.0
    return (int.from_bytes(struct.pack("<d", plain), "little") + HALF) & KEPT


def _text_of(value: Any) -> str:
    """Text that tells a value from others, in every process: sets have no order of their own."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(repr, value)))}}}"
    if isinstance(value, np.ndarray):  # whose own text leaves out the middle
        return f"{value.shape} {value.tolist()}"
    return str(value)


def _as_number(value: Any) -> float | None:
    """Return the number that a value counts as; None for text and for values of other kinds."""
    if is_missing(value):
        return np.nan
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, Real | Decimal | np.bool_):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return _read_number(value) if isinstance(value, str) else None


def _read_number(text: str) -> float | None:
    if text in MISSING_TEXT:
        return np.nan
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    try:
        return float(text)
    except ValueError:
        return None
