"""Loops over trees and points as numba compiles them: what numpy gives, in less time.

Only `machine_code` imports this module. Compiled code checks no index, so callers pass arrays that
have been checked: those of `FlatTrees`, and places within the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import config, from_dtype, njit, types

from locuscore._shared.flat_trees import node_type

BUCKETS = 2048
OCTAVES = 16  # that buckets tell apart below the largest point of a row
MANTISSA = 52  # bits of a float of 64
FEW = 128  # points that are sorted by insertion: most of them are often ties


def _array(kind: Any, ndim: int = 2, layout: str = "C", *, is_filled: bool = False) -> Any:
    return types.Array(kind, ndim, layout, readonly=not is_filled)


# What the loops take and nothing else, so that nothing is compiled later on.
_FOLLOW = [
    types.void(
        _array(kind),
        _array(from_dtype(node_type(name)), 1),
        missing,
        _array(types.int32, is_filled=True),
    )
    for kind, name in ((types.float32, np.float32), (types.float64, np.float64))
    for missing in (types.none, _array(types.boolean, 1))
]
_SELECT = types.void(
    _array(types.float64), _array(types.int64, layout="A"), _array(types.float64, is_filled=True)
)


def _inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = njit(function, inline="always")
    return made


def _follow(rows: Any, nodes: Any, missing: Any, ends: Any) -> None:
    """Fill `ends`, (n, trees), with the leaves of `FlatTrees`; `missing` is None without NaN.

    Eight rows go down a tree together: while one waits for its next node, the others move on.
    Beyond the last row, it is followed again.
    """
    (n, n_trees), last = ends.shape, len(rows) - 1
    for tree in range(n_trees):
        root = np.int32(tree)
        for i in range(0, n, 8):
            these = (
                *(i, min(i + 1, last), min(i + 2, last), min(i + 3, last)),
                *(min(i + 4, last), min(i + 5, last), min(i + 6, last), min(i + 7, last)),
            )
            at = (root, root, root, root, root, root, root, root)
            while True:
                below = _below_all(at, these, rows, nodes, missing)
                if below == at:
                    break
                at = below
            for j in range(8):
                ends[these[j], tree] = at[j]


@_inlined
def _below_all(at: Any, these: Any, rows: Any, nodes: Any, missing: Any) -> Any:
    """The nodes that follow for each of eight rows."""
    return (
        _below(at[0], rows[these[0]], nodes, missing),
        _below(at[1], rows[these[1]], nodes, missing),
        _below(at[2], rows[these[2]], nodes, missing),
        _below(at[3], rows[these[3]], nodes, missing),
        _below(at[4], rows[these[4]], nodes, missing),
        _below(at[5], rows[these[5]], nodes, missing),
        _below(at[6], rows[these[6]], nodes, missing),
        _below(at[7], rows[these[7]], nodes, missing),
    )


@_inlined
def _below(at: Any, row: Any, nodes: Any, missing: Any) -> Any:
    """The node that follows `at` for a row; a leaf is followed by itself."""
    node = nodes[at]
    value = row[node.feature]
    if missing is None:
        return np.int32(node.left + (value > node.threshold))
    return np.int32(node.left + ((value > node.threshold) | (np.isnan(value) & missing[at])))


def _select(points: Any, place: Any, values: Any) -> None:
    """Fill `values`, (n, k), with the points of each row at places of its ascending order.

    The bits of floats from zero on, read as whole numbers, are in the order of the floats. Their
    range is cut into buckets, and only those that hold a wanted point are sorted. Points below zero
    share the first.
    """
    (n, m), n_wanted = points.shape, place.shape[1]
    bucket, by_bucket = np.empty(m, np.int32), np.empty(m)
    end = np.empty(BUCKETS + 1, np.int32)  # of each bucket in `by_bucket`, once it is filled
    for i in range(n):
        bits = points[i].view(np.int64)
        low = high = bits[0]
        for j in range(m):  # numbers without NaN: the machine compares several at once
            low, high = min(low, bits[j]), max(high, bits[j])
        first = max(low, high - (np.int64(OCTAVES) << MANTISSA), 0)
        width = np.uint64(0)  # of a bucket, in bits
        while np.uint64(max(high - first, 0)) >> width >= np.uint64(BUCKETS):
            width += np.uint64(1)
        end[:] = 0
        for j in range(m):
            bucket[j] = _bucket_of(bits[j], first, width)
        for j in range(m):
            end[bucket[j] + 1] += 1
        for one in range(1, BUCKETS):
            end[one] += end[one - 1]
        for j in range(m):  # these are the starts of the buckets, until they are filled
            by_bucket[end[bucket[j]]] = points[i, j]
            end[bucket[j]] += 1
        stop = 0
        for q in range(n_wanted):
            at = place[i, q]
            one = _bucket_of(by_bucket[at : at + 1].view(np.int64)[0], first, width)
            if end[one] != stop:
                start, stop = end[one - 1] if one > 0 else 0, end[one]
                _sort(by_bucket[start:stop])
            values[i, q] = by_bucket[at]


@_inlined
def _bucket_of(bits: Any, first: Any, width: Any) -> Any:
    return np.int32(np.uint64(max(bits, first) - first) >> width)


@_inlined
def _sort(values: Any) -> None:
    """Sort numbers; a few by insertion."""
    if len(values) > FEW:
        values.sort()
        return
    for i in range(1, len(values)):
        value, j = values[i], i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@dataclass(frozen=True)
class Loops:
    """The loops as machine code."""

    follow: Callable[..., None]
    select: Callable[..., None]


def compiled(*, cache: bool) -> Loops | None:
    """Compile the loops, or read them from the files where they are kept; None if numba may not."""
    if config.DISABLE_JIT:  # a setting of numba's, for debugging
        return None
    return Loops(
        njit(_FOLLOW, nogil=True, cache=cache)(_follow),
        njit(_SELECT, nogil=True, cache=cache)(_select),
    )
