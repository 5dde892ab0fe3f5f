"""Theorem 1 with texts as rows: their vectors are learned on D1, so nothing changes."""

import numpy as np
import pytest

from experiment import GAUSSIAN, Outcome, Repetitions, check_theorem, pool_of, run
from helpers import assert_binomial
from locuscore import Locus
from locuscore._laws.calibration import conformal_rank

WORDS = np.array(["good", "bad", "slow", "quick", "dull", "bright", "red", "blue"])
N, ALPHA = 9, 0.3


def rows(n, seed):
    rng = np.random.default_rng(seed)
    texts = np.array([" ".join(row) for row in rng.choice(WORDS, size=(n, 3))])
    return texts, (0.2 + np.char.count(texts, "bad")) * rng.exponential(size=n)


@pytest.fixture(scope="module")
def pool():
    locus = Locus(engine=GAUSSIAN, signals="x", random_state=0).fit_losses(*rows(300, 0))
    assert locus.fit_signals_.shape[1] > 1
    return pool_of(locus, *rows(8_000, 1))


def test_marginal_validity_of_texts(pool):
    outcome = run(pool, N, ALPHA)
    check_theorem(outcome, N, ALPHA)
    outcome.assert_one_event()
    # No ties: both sides of the theorem meet.
    assert_binomial(outcome.covered.sum(), len(outcome.covered), conformal_rank(N, ALPHA) / (N + 1))


def test_a_rank_one_too_low_is_noticed(pool):
    repetitions = Repetitions.cut(pool, N)
    levels = np.sort(repetitions.cal_tail, axis=1)[:, N - conformal_rank(N, ALPHA) + 1]
    test = repetitions.test_rows
    bound = pool.law(test).isf(levels)
    with pytest.raises(AssertionError):
        check_theorem(Outcome(pool.z[test], pool.tail[test], levels, bound), N, ALPHA)
