"""Theorem 1 with the default signals: a second opinion is a function of D1, so nothing changes."""

import numpy as np
import pytest

from experiment import GAUSSIAN, Outcome, Repetitions, check_theorem, pool_of, run
from helpers import assert_binomial
from locuscore._laws.calibration import conformal_rank
from locuscore.engines import Forest
from opinions_for_tests import KINDS, first, kind_of, labels, waves

SIZES_AND_ALPHAS = ((9, 0.3), (39, 0.1))
POOL = 20_000
FEW_TREES = Forest(n_trees=15)
# The losses of rows that had no part in the fit, where they are not y and g(x).
LOGGED = {"size": lambda X, y: np.abs(y - first(X))}
EXPECTED = {"error": "ErrorOpinion", "class, log": "ClassOpinion", "size": "SizeOpinion"}


def opinion_pool(kind, engine=FEW_TREES, n=POOL):
    locus = KINDS[kind](*waves(400), engine=engine)
    assert kind_of(locus) == EXPECTED[kind]
    X, y = waves(n, seed=1)
    target = labels(y) if kind.startswith("class") else y
    z = LOGGED[kind](X, y) if kind in LOGGED else locus.losses(X, target)
    return pool_of(locus, X, z)


@pytest.mark.parametrize("kind", EXPECTED)
def test_marginal_validity_with_an_opinion(kind):
    pool = opinion_pool(kind)
    for n, alpha in SIZES_AND_ALPHAS:
        outcome = run(pool, n, alpha)
        check_theorem(outcome, n, alpha)
        outcome.assert_one_event()


@pytest.mark.parametrize("kind", ["error", "class, log"])
def test_it_is_exact_where_nothing_ties(kind):
    pool = opinion_pool(kind, engine=GAUSSIAN)
    for n, alpha in SIZES_AND_ALPHAS:
        outcome = run(pool, n, alpha)
        probability = conformal_rank(n, alpha) / (n + 1)
        assert_binomial(outcome.covered.sum(), len(outcome.covered), probability)


def test_a_rank_one_too_low_is_noticed():
    pool = opinion_pool("error")
    n, alpha = 9, 0.3
    repetitions = Repetitions.cut(pool, n)
    levels = np.sort(repetitions.cal_tail, axis=1)[:, n - conformal_rank(n, alpha) + 1]
    rows = repetitions.test_rows
    with pytest.raises(AssertionError):
        check_theorem(
            Outcome(pool.z[rows], pool.tail[rows], levels, pool.law(rows).isf(levels)), n, alpha
        )
