import pytest
from hypothesis import given
from hypothesis import strategies as st

from locuscore._shared import blocks
from locuscore._shared.blocks import row_blocks


@given(st.integers(0, 500), st.integers(0, 50), st.none() | st.integers(1, 40))
def test_row_blocks_cover_every_row_once_and_stay_small(n, width, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_FLOATS", 100)
        found = list(row_blocks(n, width, most))
    rows = [row for block in found for row in range(block.start, block.stop)]
    assert rows == list(range(n))
    for block in found:
        size = block.stop - block.start
        assert size == 1 or size * width <= 100
        assert most is None or size <= most
