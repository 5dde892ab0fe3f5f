"""Theorem 6: a conditionally valid bound keeps exceedance among the accepted at alpha."""

import numpy as np
import pytest

from helpers import assert_close
from locuscore.testing._generators import GENERATORS

EVERY = pytest.mark.parametrize("name", GENERATORS)
SHARES = (0.01, 0.1, 0.5, 0.9)  # of rows accepted, which set the tolerances
ROUNDING = 1e-12


def shifted(X):
    """A predictor that misses, so that the zero-inflated loss has its atom inside the law."""
    return 0.4 + 0.9 * X[:, 0]


def accepted_exceedance(generator, predictor, X, alpha):
    """Exact exceedance among the rows that the oracle bound at `alpha` accepts, per tau."""
    bound = generator.loss_quantile(X, predictor, alpha)
    for tau in np.quantile(bound, SHARES):
        accepted = bound <= tau
        assert accepted.any()
        yield generator.exceedance(X, predictor, tau)[accepted]


@EVERY
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_the_oracle_bound_keeps_exceedance_among_the_accepted(name, alpha, rng):
    generator = GENERATORS[name]
    X, _ = generator.sample(20_000, rng)
    for predictor in (generator.predictor, shifted):
        for exceedance in accepted_exceedance(generator, predictor, X, alpha):
            assert exceedance.mean() <= alpha + ROUNDING
            assert exceedance.max() <= alpha + ROUNDING  # the proof works row by row


@EVERY
def test_a_bound_at_twice_alpha_breaks_it(name, rng):
    generator = GENERATORS[name]
    X, _ = generator.sample(20_000, rng)
    found = accepted_exceedance(generator, generator.predictor, X, 0.2)
    assert max(exceedance.mean() for exceedance in found) > 0.1


@EVERY
def test_accepting_by_the_bound_is_accepting_by_the_exceedance(name, rng):
    generator = GENERATORS[name]
    X, _ = generator.sample(20_000, rng)
    bound = generator.loss_quantile(X, generator.predictor, 0.1)
    tau = float(np.median(bound))
    assert_close(generator.exceedance(X, generator.predictor, tau) <= 0.1, bound <= tau)
