"""Labels of rows below a ceiling: their certificate is wrong at most as often as delta."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import assert_binomial
from locuscore import plan_labels
from locuscore._rules import labels as module
from locuscore._rules.binomial_tests import binomial_p_value

ETA, DELTA, BUDGET, CEILING = 0.2, 0.2, 80, 0.5


def risk(score):
    """Of rows up to t, ``0.1 + 0.2 t`` are bad, so every t above 0.5 breaks eta."""
    return 0.1 + 0.4 * score


@pytest.fixture(scope="module")
def plan():
    """Three thresholds, of which the last breaks eta a little."""
    rng = np.random.default_rng(0)
    known = rng.uniform(size=2_000)
    losses = rng.uniform(size=2_000) < risk(known)
    found = plan_labels(known, BUDGET, 0.5, ETA, DELTA, reference=known, reference_losses=losses)
    return replace(found, ceiling=0.51, thresholds=np.array([0.4, 0.505, 0.51]), start=1)


def certificates(plan, repeats, seed, chance=None):
    """How many certificates are wrong; rows of the pool are drawn alike, or by a chance."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(repeats):
        pool = np.round(rng.uniform(size=600), 3)  # with ties
        pool[:5] = [np.inf, -np.inf, np.inf, -np.inf, 0.505]
        below = np.flatnonzero((pool <= plan.ceiling) & (pool > -np.inf))
        p = None if chance is None else chance(pool[below])
        at = rng.choice(below, BUDGET, replace=False, p=None if p is None else p / p.sum())
        losses = rng.uniform(size=BUDGET) < risk(pool[at])
        wrong += replace(plan, pool=pool, rows=at).certify(losses).threshold > CEILING
    return wrong


def test_certificates_are_rarely_wrong(plan):
    assert_binomial(certificates(plan, 600, 1), 600, DELTA, "greater")


def test_preferring_rows_with_low_scores_is_noticed(plan):
    wrong = certificates(plan, 600, 1, lambda score: np.exp(-8 * score))
    with pytest.raises(AssertionError):
        assert_binomial(wrong, 600, DELTA, "greater")


def test_the_sample_below_the_ceiling_has_the_rates_of_all_rows():
    """Exactly: counts below t are binomial with the rate of all rows below t, whatever the rest."""
    n, rate = 30, 0.2
    chances = [
        np.exp(sum(np.log(np.arange(n - k + 1, n + 1))) - sum(np.log(np.arange(1, k + 1))))
        * rate**k
        * (1 - rate) ** (n - k)
        for k in range(n + 1)
    ]
    passed = binomial_p_value(np.arange(n + 1), np.full(n + 1, n), rate) <= DELTA
    assert np.dot(chances, passed) <= DELTA
    # One bad row more allowed would be too many.
    assert np.dot(chances[: int(passed.sum()) + 1], np.ones(int(passed.sum()) + 1)) > DELTA


def test_the_plan_draws_every_row_below_the_ceiling_alike(monkeypatch):
    monkeypatch.setattr(module._Bins.best, "__defaults__", (2,))
    monkeypatch.setattr(module, "CEILINGS", 1)
    rng = np.random.default_rng(3)
    known, pool = rng.uniform(size=100), np.sort(rng.uniform(size=40))
    losses = rng.uniform(size=100) < 0.3
    count = np.zeros(40)
    for seed in range(300):
        found = plan_labels(
            pool, 3, 0.5, 0.4, 0.4, reference=known, reference_losses=losses, random_state=seed
        )
        count[found.rows] += 1
    below = count[pool <= found.ceiling]
    assert len(below) > 20
    assert_binomial(below[: len(below) // 2].sum(), below.sum(), len(below) // 2 / len(below))
    assert below.min() > 0
