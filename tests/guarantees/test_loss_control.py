"""Theorem 3: ``P(Z > tau and accepted) <= alpha`` where rows with ``U <= tau`` are accepted."""

import numpy as np
import pytest

from experiment import CASES, LOSSES, Repetitions, accepted, make_pool, run
from helpers import assert_binomial

SIZES_AND_ALPHAS = ((9, 0.1), (19, 0.3), (39, 0.05))
QUANTILES_OF_TAU = (0.5, 0.7, 0.9)


def check_theorem(bad, is_accepted, alpha):
    both = np.count_nonzero(bad & is_accepted)
    assert_binomial(both, len(bad), alpha, "greater")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", CASES)
def test_loss_control(case, loss, rng):
    pool = make_pool(case, loss, rng, size=20_000)
    taus = np.unique([np.quantile(pool.z, q, method="lower") for q in QUANTILES_OF_TAU])
    for n, alpha in SIZES_AND_ALPHAS:
        rows = Repetitions.cut(pool, n).test_rows
        for tau in taus:
            check_theorem(pool.z[rows] > tau, accepted(pool, n, alpha, tau), alpha)


def test_control_is_not_empty(rng):
    """Rows are accepted at all, and more of them where tau is larger."""
    pool = make_pool("Gaussian", "continuous", rng, size=20_000)
    shares = [accepted(pool, 39, 0.1, tau).mean() for tau in np.quantile(pool.z, QUANTILES_OF_TAU)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.5


def test_accepted_by_exceedance_is_accepted_by_the_bound(rng):
    pool = make_pool("Forest", "zero-inflated", rng, size=20_000)
    n, alpha = 19, 0.3
    bound = run(pool, n, alpha).bound
    for tau in (0.0, 0.2, 1.0):
        assert ((bound <= tau) == accepted(pool, n, alpha, tau)).all()


def test_accepting_everything_is_noticed(rng):
    pool = make_pool("Gaussian", "continuous", rng, size=20_000)
    bad = pool.z > np.quantile(pool.z, 0.7)
    with pytest.raises(AssertionError):
        check_theorem(bad, np.ones(len(bad), dtype=bool), 0.1)


def test_accepting_at_a_larger_alpha_is_noticed(rng):
    pool = make_pool("Gaussian", "continuous", rng, size=20_000)
    n, tau = 19, np.quantile(pool.z, 0.7)
    bad = pool.z[Repetitions.cut(pool, n).test_rows] > tau
    check_theorem(bad, accepted(pool, n, 0.1, tau), 0.1)
    with pytest.raises(AssertionError):
        check_theorem(bad, accepted(pool, n, 0.7, tau), 0.1)
