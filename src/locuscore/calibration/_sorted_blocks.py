"""Numbers in blocks, counted and ranked for many rows at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from locuscore._protocols import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SortedBlocks:
    """Numbers that ascend, each with the code of its block."""

    values: FloatArray
    codes: IntArray
    n_blocks: int

    @cached_property
    def sizes(self) -> IntArray:
        """Number of values in each block."""
        return np.bincount(self.codes, minlength=self.n_blocks)

    @cached_property
    def _order(self) -> IntArray:
        """Places of the values, one block after the other and ascending within each."""
        return np.argsort(self.codes, kind="stable")

    @cached_property
    def _starts(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def _keys(self) -> IntArray:
        return self.codes[self._order] * (len(self.values) + 1) + self._order

    def kth_largest(self, ranks: IntArray) -> FloatArray:
        """The value of this rank, from the top, in each block; 0 where a block has fewer."""
        places = np.clip(self._starts[1:] - ranks, 0, len(self.values) - 1)
        return np.where(ranks > self.sizes, 0.0, self.values[self._order[places]])

    def at_most(self, limit: FloatArray, codes: IntArray) -> IntArray:
        """How many values of a block are at most `limit`; `codes` broadcast against it."""
        # A value is known by its place among all. Ordered by block, then by place, one search in
        # whole numbers counts those of the block that stand before all above the limit.
        below = np.searchsorted(self.values, limit, side="right")
        found = np.searchsorted(self._keys, codes * (len(self.values) + 1) + below, side="left")
        return np.asarray(found - self._starts[codes], dtype=np.int64)
