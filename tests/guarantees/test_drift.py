"""Rows that look different, though all are exchangeable with D2: ever with chance at most delta."""

import numpy as np
import pytest

from helpers import assert_binomial

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch._drift import ScoreDrift  # noqa: E402
from locuscore.watch._evidence.both_ways import BothWays  # noqa: E402

DELTA, STREAMS, N2, N = 0.2, 200, 30, 300


def moved(reference, values):
    test = ScoreDrift(reference, DELTA)
    test.see(values, np.arange(len(values)))
    return test.moved_at is not None


def streams(draw, seed=0, many=STREAMS, n=N):
    rng = np.random.default_rng(seed)
    for _ in range(many):
        values = draw(rng, N2 + n)
        yield values[:N2], values[N2:]


def normal(rng, n):
    return rng.normal(size=n)


def tied(rng, n):
    return rng.binomial(4, rng.uniform(), size=n).astype(float)


@pytest.mark.parametrize("draw", [normal, tied])
def test_exchangeable_rows_look_different_with_chance_at_most_delta(draw):
    found = [moved(*one) for one in streams(draw)]
    assert_binomial(sum(found), STREAMS, DELTA, alternative="greater")


class ReferenceAsTruth(BothWays):
    """The twin: D2 is taken for the distribution itself, so its luck counts against new rows."""

    def log_factors(self, values, labelled):
        counts, at = self.down.counts, values.astype(int)
        down, up = np.cumsum(counts), np.cumsum(counts[::-1])[::-1]
        p_values = [(1 + one[at]) / (1 + counts.sum()) for one in (down, up)]
        return np.hstack([self.down.log_bets(p) for p in p_values])


def test_a_reference_taken_for_the_truth_is_caught(monkeypatch):
    monkeypatch.setattr("locuscore.watch._drift.BothWays", ReferenceAsTruth)
    found = [moved(*one) for one in streams(normal, many=150, n=1_500)]
    with pytest.raises(AssertionError, match="against"):
        assert_binomial(sum(found), 150, DELTA, alternative="greater")


def test_a_shift_is_seen():
    late = np.where(np.arange(N) < 150, 0.0, 1.0)
    found = [moved(one, values + late) for one, values in streams(normal, seed=1, many=60)]
    assert np.mean(found) > 0.8
