"""Theorems 2 and 4: with more data the bound covers at every x and decides like the oracle.

A loose check at small sizes, the truth in closed form; `make guarantees` draws the whole picture.
"""

from functools import cache

import numpy as np
import pytest

from locuscore import Locus
from locuscore.testing._generators import GENERATORS

EVERY = pytest.mark.parametrize("name", GENERATORS)
ALPHA = 0.1
SEEDS = {300: range(6), 5000: range(2)}
CLEARLY_SMALLER = 0.8


def no_signal(X):
    return np.zeros((len(X), 1))


@cache
def errors(name, n, signals="x"):
    """Mean absolute error of conditional coverage, and share of decisions unlike the oracle's."""
    generator = GENERATORS[name]
    g = generator.predictor
    X, _ = generator.sample(2000, 123)
    oracle = generator.loss_quantile(X, g, ALPHA)
    tau = float(np.median(oracle))
    trusted = generator.exceedance(X, g, tau) <= ALPHA
    coverage_errors, different = [], []
    for seed in SEEDS[n]:
        locus = Locus(g, signals=signals, random_state=seed).fit(*generator.sample(n, seed))
        bound = locus.loss_bound(X, ALPHA)
        covered = 1.0 - generator.loss_sf(X, g, bound)
        coverage_errors.append(np.mean(np.abs(covered - (1.0 - ALPHA))))
        different.append(np.mean((bound <= tau) != trusted))
    return np.mean(coverage_errors), np.mean(different)


@EVERY
def test_conditional_coverage_and_decisions_approach_their_targets(name):
    """Both theorems in one test: with workers of their own the fits would be made twice."""
    few, many = errors(name, 300), errors(name, 5000)
    assert many[0] < CLEARLY_SMALLER * few[0]  # coverage given x
    assert many[1] < CLEARLY_SMALLER * few[1]  # decisions unlike the oracle's


@EVERY
def test_a_bound_that_ignores_x_does_neither(name):
    few, many = errors(name, 300, no_signal), errors(name, 5000, no_signal)
    assert many[0] > CLEARLY_SMALLER * few[0]
    assert many[1] > CLEARLY_SMALLER * few[1]
