"""Bisection over whole numbers, against trying them all."""

import pytest

from locuscore._shared.bisect import first_above, first_between


@pytest.mark.parametrize("first", range(1, 40))
def test_the_first_number_is_found(first):
    assert first_between(lambda n: n >= first, 0, 40) == first
    assert first_above(lambda n: n >= first, 0, 1) == first
    assert first_above(lambda n: n >= first, 0, 17) == first


def test_the_end_that_is_known_to_hold_is_not_asked():
    def never(n):
        assert n < 5
        return False

    assert first_between(never, -1, 5) == 5
