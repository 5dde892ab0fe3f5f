"""Weighted calibration: coverage under known weights, exactly, over every sample that there is."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from locuscore._laws.calibration import MarginalCalibration
from locuscore.calibration._weighted import WeightedCalibration

# Finite populations: how often each kind of row comes in D2, its weight, and its tails with their
# shares. New rows come with frequency times weight; tails given the kind are distributed alike.
HALF = Fraction(1, 2)
POPULATIONS = {
    "two kinds": ([(3, 1, {0.8: HALF, 0.6: HALF}), (1, 4, {0.1: HALF, 0.3: HALF})]),
    "ties": ([(2, 1, {0.5: Fraction(1)}), (1, 3, {0.5: HALF, 0.2: HALF})]),
    "a kind that no new row is of": (
        [(2, 0, {0.9: Fraction(1)}), (1, 1, {0.7: HALF, 0.4: HALF}), (1, 2, {0.2: Fraction(1)})]
    ),
    "equal weights": ([(2, 1, {0.8: Fraction(1)}), (3, 1, {0.3: HALF, 0.6: HALF})]),
}


def rows_of(kinds):
    """Weight, tail, share in D2 and share among new rows, of each kind of row and tail."""
    found = []
    all_old = sum(often for often, _, _ in kinds)
    all_new = sum(often * weight for often, weight, _ in kinds)
    for often, weight, tails in kinds:
        for tail, share in tails.items():
            old, new = Fraction(often, all_old) * share, Fraction(often * weight, all_new) * share
            found.append((weight, tail, old, new))
    return found


def by_weights(sample, weight, alpha):
    """The level as it is: the slow transcription is in tests/laws/test_weighted.py."""
    tails, weights = np.array([row[1] for row in sample]), np.array([float(r[0]) for r in sample])
    if not weights.any():
        return 0.0  # no row of D2 counts: `fit` refuses, and no bound is none that fails
    order = np.argsort(tails, kind="stable")
    found = WeightedCalibration(tails[order], weights[order]).level(alpha, np.array([weight]))
    return found[0]


def without_weights(sample, weight, alpha):
    return float(MarginalCalibration(np.sort([row[1] for row in sample])).level(alpha))


def without_its_own_weight(sample, weight, alpha):
    return by_weights(sample, 1e-9, alpha)


def coverage(kinds, n, alpha, level):
    """P(tail of the new row >= level), added up over all ordered samples and new rows."""
    rows = rows_of(kinds)
    total = Fraction(0)
    for sample in product([row for row in rows if row[2]], repeat=n):
        chance = np.prod([row[2] for row in sample])
        for weight in {row[0] for row in rows if row[3]}:
            limit = level(sample, float(weight), float(alpha))
            total += chance * sum(
                row[3] for row in rows if row[0] == weight and row[3] and row[1] >= limit
            )
    return total


ALPHAS = [Fraction(1, 10), Fraction(1, 4), Fraction(2, 5), Fraction(7, 10)]


@pytest.mark.parametrize("alpha", ALPHAS, ids=str)
@pytest.mark.parametrize("name", POPULATIONS)
def test_coverage_under_known_weights(name, alpha):
    for n in (1, 2, 4):
        assert coverage(POPULATIONS[name], n, alpha, by_weights) >= 1 - alpha


@pytest.mark.parametrize(
    ("wrong", "name", "alpha"),
    [
        (without_weights, "a kind that no new row is of", Fraction(2, 5)),
        (without_its_own_weight, "two kinds", Fraction(1, 10)),
    ],
)
def test_wrong_levels_are_noticed(wrong, name, alpha):
    """D2's weights matter, and so does the new row's own."""
    assert coverage(POPULATIONS[name], 4, alpha, by_weights) >= 1 - alpha
    assert coverage(POPULATIONS[name], 4, alpha, wrong) < 1 - alpha - Fraction(1, 20)


def missed(tails, weights, alpha, level):
    """P(tail < level) given which rows there are: each is the new one with its share of weight."""
    total, found = sum(weights), Fraction(0)
    for j, (tail, weight) in enumerate(zip(tails, weights, strict=True)):
        others = [(w, t) for i, (t, w) in enumerate(zip(tails, weights, strict=True)) if i != j]
        if tail < level(others, float(weight), float(alpha)):
            found += Fraction(weight, total)
    return found


def test_from_both_sides_without_ties(rng):
    """The share that is missed is the largest sum of weights, from below, that alpha allows."""
    for _ in range(300):
        n = int(rng.integers(2, 9))
        weights = [int(w) for w in rng.integers(1, 12, size=n)]
        tails = rng.permutation(np.arange(1, n + 1) / (n + 1))
        alpha = Fraction(int(rng.integers(1, 100)), 100)
        sums = np.cumsum([weights[i] for i in np.argsort(tails)]).tolist()
        reached = [Fraction(one, sums[-1]) for one in sums]
        allowed = max([one for one in reached if one <= alpha], default=Fraction(0))
        assert missed(tails, weights, alpha, by_weights) == allowed


def test_wrong_weights_cost_at_most_half_of_their_distance():
    """With weights v: at least 1 - alpha - E|v - w| / 2, both of mean one in D2."""
    kinds, alpha = POPULATIONS["a kind that no new row is of"], Fraction(2, 5)
    often, right, _ = zip(*kinds, strict=True)

    def normed(weights):
        mean = Fraction(sum(np.multiply(often, weights).tolist()), sum(often))
        return [one / mean for one in weights]

    fell_below = False
    for wrong in product((1, 2, 7), repeat=len(kinds)):
        differences = np.abs(np.subtract(normed(wrong), normed(right)))
        gap = Fraction(np.dot(often, differences), sum(often))
        believed = dict(zip(right, wrong, strict=True))

        def by_wrong_weights(sample, weight, alpha, believed=believed):
            rows = [(believed[w], *rest) for w, *rest in sample]
            return by_weights(rows, float(believed[int(weight)]), alpha)

        found = coverage(kinds, 3, alpha, by_wrong_weights)
        assert found >= 1 - alpha - gap / 2
        fell_below |= found < 1 - alpha
    assert fell_below
