"""Several threads give what one gives."""

import threading

import pytest

from helpers import raises
from locuscore._shared.threads import in_threads


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5, -1])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_results_are_in_the_order_of_the_items(n, n_jobs):
    assert in_threads(lambda x: x * x, range(n), n_jobs) == [x * x for x in range(n)]


def test_two_items_are_worked_on_at_once():
    both = threading.Barrier(2, timeout=30)
    places = in_threads(lambda _: both.wait(), range(2), 2)
    assert sorted(places) == [0, 1]


def test_an_error_of_one_item_is_raised():
    def refuse(x):
        if x == 7:
            raise ValueError("not seven")
        return x

    with raises(ValueError, "not seven"):
        in_threads(refuse, range(20), 2)
