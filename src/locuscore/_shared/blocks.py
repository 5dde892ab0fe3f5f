"""Blocks of rows small enough to bound memory."""

from collections.abc import Iterator

BLOCK_FLOATS = 4_000_000  # 32 MB: what one temporary array of a block may hold


def row_blocks(
    n: int, floats_per_row: int, most: int | None = None, floats: int | None = None
) -> Iterator[slice]:
    """Cut n rows into slices whose arrays of `floats_per_row` stay within a fixed size."""
    size = max(1, (floats or BLOCK_FLOATS) // max(1, floats_per_row))
    size = size if most is None else min(size, most)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
