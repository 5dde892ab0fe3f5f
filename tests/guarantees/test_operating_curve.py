"""The bands of the operating curve hold at every threshold at once."""

import numpy as np
import pytest
from scipy.special import betaincinv

from helpers import assert_binomial, repeated
from locuscore import operating_curve

REPEATS, DELTA = repeated(150), 0.1


class Continuous:
    """Uniform scores; the exceedance up to u in closed form."""

    def __init__(self, density, share):
        self.density, self.share = density, share

    def draw(self, n, rng):
        score = rng.uniform(size=n)
        return score, (rng.uniform(size=n) < self.density(score)).astype(float)

    def misses(self, threshold, low, high, acceptance_low, acceptance_high):
        # An entry holds up to the next threshold: look at both ends.
        end = np.append(threshold[1:], 1.0)
        share = np.array([self.share(threshold), self.share(end)])
        exceedance = np.any((share < low - 1e-12) | (share > high + 1e-12))
        acceptance = np.any((threshold < acceptance_low) | (end > acceptance_high))
        return exceedance, acceptance


class Tied:
    """Three scores only."""

    mass = np.array([0.2, 0.5, 0.3])
    bad = np.array([0.05, 0.1, 0.6])

    def draw(self, n, rng):
        score = rng.choice(3, size=n, p=self.mass)
        return score.astype(float), (rng.uniform(size=n) < self.bad[score]).astype(float)

    def misses(self, threshold, low, high, acceptance_low, acceptance_high):
        at = threshold.astype(int)
        accepted = np.cumsum(self.mass)[at]
        share = np.cumsum(self.mass * self.bad)[at] / accepted
        exceedance = np.any((share < low - 1e-12) | (share > high + 1e-12))
        return exceedance, np.any((accepted < acceptance_low) | (accepted > acceptance_high))


LAWS = {
    "rising": Continuous(lambda u: 0.02 + 0.6 * u**2, lambda u: 0.02 + 0.2 * u**2),
    "falling": Continuous(lambda u: 0.6 - 0.5 * u, lambda u: 0.6 - 0.25 * u),
    "flat": Continuous(lambda u: 0.1 + 0 * u, lambda u: 0.1 + 0 * u),
    "tied": Tied(),
}


def proper(score, losses):
    curve = operating_curve(score, losses, 0.5, DELTA)
    return curve, curve.low, curve.high


def upper(score, losses):
    """One side only, with all of delta."""
    curve = operating_curve(score, losses, 0.5, DELTA, lower=False)
    return curve, curve.low, curve.high


def pointwise(score, losses):
    """Each threshold by itself, as if it were the only one."""
    curve = operating_curve(score, losses, 0.5, DELTA, lower=False)
    n = np.round(curve.acceptance * len(score))
    k = np.round(curve.exceedance * n)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, DELTA / 2), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - DELTA / 2), 1.0)
    return curve, low, high


def count_misses(law, method, n, rng):
    """Repetitions in which either band misses, and those in which the exceedance band does."""
    either = exceedance = 0
    for _ in range(REPEATS):
        curve, low, high = method(*law.draw(n, rng))
        one, other = law.misses(
            curve.threshold, low, high, curve.acceptance_low, curve.acceptance_high
        )
        either, exceedance = either + (one or other), exceedance + one
    return either, exceedance


@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("name", LAWS)
def test_the_bands_hold_everywhere(name, n, rng):
    either, exceedance = count_misses(LAWS[name], proper, n, rng)
    assert_binomial(either, REPEATS, DELTA, "greater")
    assert_binomial(exceedance, REPEATS, 0.9 * DELTA, "greater")


@pytest.mark.parametrize("name", LAWS)
def test_the_upper_band_alone_holds_everywhere(name, rng):
    _, exceedance = count_misses(LAWS[name], upper, 100, rng)
    assert_binomial(exceedance, REPEATS, 0.9 * DELTA, "greater")


@pytest.mark.parametrize("name", ["rising", "falling", "flat"])
def test_pointwise_bands_are_noticed(name, rng):
    _, exceedance = count_misses(LAWS[name], pointwise, 200, rng)
    with pytest.raises(AssertionError):
        assert_binomial(exceedance, REPEATS, DELTA, "greater")


def test_a_threshold_chosen_by_the_band_is_certified(rng):
    """The largest threshold whose band is below eta: wrong in at most a share delta."""
    wrong = accepted = 0
    for _ in range(REPEATS):
        curve, _, high = proper(*LAWS["rising"].draw(400, rng))
        below = curve.threshold[high <= 0.18]
        if len(below):
            accepted += 1
            wrong += LAWS["rising"].share(below[-1]) > 0.18
    assert accepted > 0.9 * REPEATS
    assert_binomial(wrong, REPEATS, DELTA, "greater")
