"""Theorem 1 with the default signals: a second opinion is a function of D1, so nothing changes."""

import numpy as np
import pytest

from experiment import GAUSSIAN, Outcome, Repetitions, check_theorem, pool_of, run
from helpers import assert_binomial
from locuscore._laws.calibration import conformal_rank
from locuscore.engines import Auto, Forest
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


@pytest.mark.parametrize("kind", EXPECTED)
@pytest.mark.parametrize("engine", [FEW_TREES, Auto([Forest(n_trees=5), GAUSSIAN], cv=2)])
def test_nothing_is_learned_from_the_labels_of_d2(kind, engine):
    """With other labels there, all signals and laws are the same to the last bit."""
    X, y = waves(300)
    locus = KINDS[kind](X, y, engine=engine)
    other = y.copy()
    other[locus.calibration_rows_] = y[locus.calibration_rows_][::-1]
    again = KINDS[kind](X, other, engine=engine)
    assert np.array_equal(again.fit_signals_, locus.fit_signals_)
    new, _ = waves(50, seed=2)
    assert np.array_equal(again.row_signals(new), locus.row_signals(new))
    assert np.array_equal(again.loss_dist(new).isf(0.1), locus.loss_dist(new).isf(0.1))
    assert not np.array_equal(again.tails_, locus.tails_)


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
