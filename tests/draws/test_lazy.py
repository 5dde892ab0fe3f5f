"""Laws that are made when they are asked for give what laws made at once give."""

from dataclasses import replace

import numpy as np
import pytest

from locuscore.draws import StepDraws, average, envelope, estimate
from locuscore.draws._lazy import LazyDraws

N, S, M = 23, 4, 16


@pytest.fixture
def both(rng):
    points = rng.exponential(size=(N, S, M))
    top, scale = points.max(axis=(1, 2)), 1.0 + rng.random(N)
    made = []

    def make(rows):
        made.append(rows)
        return StepDraws(points[rows], top[rows], scale[rows])

    return LazyDraws(make, rng.permutation(N), S, 5, 7), make(np.arange(N)), made


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_every_question_has_the_same_answer(both, rng, n_jobs):
    lazy, at_once, _ = both
    lazy = replace(lazy, n_jobs=n_jobs)
    assert lazy.shape == at_once.shape
    rank = rng.integers(1, S + 1, size=N)
    for argument in (np.array([[0.3]]), rng.random((N, 1)), rng.random((N, S)), rng.random((1, S))):
        assert np.array_equal(lazy.sf(argument), at_once.sf(argument))
        assert np.array_equal(lazy.isf(argument), at_once.isf(argument))
    for reduce in (average, estimate, lambda laws: envelope(laws, rank)):
        one, other = reduce(lazy), reduce(at_once)
        assert one.shape == other.shape == (N, 1)
        assert one.inverts_jointly == other.inverts_jointly
        for level in (np.array([0.5, 0.1, 0.001]), rng.random((N, 2))):
            assert np.array_equal(one.joint_isf(level), other.joint_isf(level))
            assert np.array_equal(one.knots(level), other.knots(level))
        assert np.array_equal(one.sf(np.ones((N, 1))), other.sf(np.ones((N, 1))))


def test_few_laws_are_in_memory_at_a_time(both):
    lazy, _, made = both
    assert not made[1:]
    lazy.average().joint_isf(np.array([0.1]))
    assert [len(rows) for rows in made[1:]] == [5, 5, 5, 5, 3]
    assert lazy.floats_per_row == 7
