"""The report's test under known weights: rows of the promised mix are rarely called worse."""

from itertools import combinations
from math import prod

import numpy as np
import pytest

from helpers import assert_binomial, assert_close, repeated
from locuscore._shared.weighted_coverage import (
    choice_probabilities,
    chosen_law,
    weighted_p_values,
)

LEVEL, REPEATS = 0.1, repeated(300)


def listed_law(weights, is_missed, m):
    """Law of the missed rows among m chosen ones, a choice being as likely as its product."""
    law = np.zeros(m + 1)
    for rows in combinations(range(len(weights)), m):
        law[sum(is_missed[i] for i in rows)] += prod(weights[i] for i in rows)
    return law / law.sum()


def test_the_law_of_the_missed_rows_is_that_of_all_choices(rng):
    for m in (1, 4, 8):
        weights = rng.exponential(size=9) ** 3
        weights[0] = 0.0  # a calibration row like no new one
        is_missed = rng.uniform(size=9) < 0.4
        expected = listed_law(weights, is_missed, m)
        counts, law = chosen_law(choice_probabilities(weights, m), is_missed, m)
        found = np.zeros(m + 1)
        found[counts] = law
        assert_close(found, expected, atol=1e-14)


def draw(rng, n, m):
    """Rows of D2 with x uniform, new rows of density 3 x^2, and tails that depend on x."""
    x = np.concatenate([rng.uniform(size=n), rng.uniform(size=m) ** (1 / 3)])
    tails = rng.uniform(size=n + m) ** (0.5 + 3 * x)  # small ones where new rows are
    return (tails[:n], tails[n:]), (5 * x[:n] ** 2, 5 * x[n:] ** 2)


def small_p_values(rng, weights_of, worse=1.0):
    found = 0
    for _ in range(REPEATS):
        (old, new), weights = draw(rng, 60, 40)
        p_value, _ = weighted_p_values((old, new**worse), weights_of(weights), 0.2)
        found += p_value <= LEVEL
    return found


def test_rows_of_the_promised_mix_are_rarely_called_worse(rng):
    found = small_p_values(rng, lambda weights: weights)
    assert_binomial(found, REPEATS, LEVEL, "greater")
    assert found > 0.3 * LEVEL * REPEATS
    assert small_p_values(rng, lambda weights: weights, worse=3.0) > 0.5 * REPEATS


def test_without_weights_they_would_be(rng):
    found = small_p_values(rng, lambda weights: tuple(np.ones(len(part)) for part in weights))
    with pytest.raises(AssertionError):
        assert_binomial(found, REPEATS, LEVEL, "greater")
