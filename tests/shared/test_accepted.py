"""Accepted scores and their counts, against counting one by one."""

import numpy as np
import pytest

from locuscore._shared.accepted import count_up_to, distinct_counts, is_accepted, sorted_finite


def test_infinity_is_accepted_at_no_threshold():
    score = np.array([0.0, 1.0, np.inf])
    assert is_accepted(score, np.inf).tolist() == [True, True, False]
    assert is_accepted(score, 0.5).tolist() == [True, False, False]
    assert sorted_finite(score[::-1]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("n_values", "n_edges"), [(0, 3), (3, 0), (5, 40), (40, 5), (20, 20)])
def test_counts_are_those_of_counting(side, n_values, n_edges, rng):
    for _ in range(20):
        values, edges = (np.sort(rng.integers(0, 9, size=n)) / 3.0 for n in (n_values, n_edges))
        edges = np.append(edges, np.inf) if n_edges else edges
        reached = values[:, None] <= edges if side == "right" else values[:, None] < edges
        assert count_up_to(values, edges, side).tolist() == reached.sum(axis=0).tolist()


def test_distinct_values_have_the_count_up_to_their_last():
    values, count = distinct_counts(np.array([1.0, 1.0, 2.0, np.inf, np.inf]))
    assert (values.tolist(), count.tolist()) == ([1.0, 2.0, np.inf], [2, 3, 5])
    values, count = distinct_counts(np.array([1.0, 2.0]))
    assert (values.tolist(), count.tolist()) == ([1.0, 2.0], [1, 2])
    values, count = distinct_counts(np.empty(0))
    assert len(values) == len(count) == 0
