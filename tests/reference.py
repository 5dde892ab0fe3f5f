"""The paper's formulas, transcribed loop by loop: slow and obvious, the oracle of the tests.

A law is a plain function F(z) of one number. Nothing here imports the library.
"""

import math
from fractions import Fraction
from statistics import NormalDist


def normal_cdf(location, scale):
    return NormalDist(location, scale).cdf


def grid_cdf(quantiles, probabilities, scale, tail_index):
    """Straight lines through the quantiles, a power tail beyond the last (no equal quantiles)."""

    def cdf(z):
        if z <= quantiles[0]:
            return probabilities[0]
        for i in range(1, len(quantiles)):
            if z <= quantiles[i]:
                share = (z - quantiles[i - 1]) / (quantiles[i] - quantiles[i - 1])
                return probabilities[i - 1] + share * (probabilities[i] - probabilities[i - 1])
        beyond = (1.0 + (z - quantiles[-1]) / scale) ** -tail_index
        return 1.0 - (1.0 - probabilities[-1]) * beyond

    return cdf


def average(cdfs):
    """Posterior average of the draws' CDFs (the paper's first F-tilde)."""

    def cdf(z):
        total = 0.0
        for draw in cdfs:
            total += draw(z)
        return total / len(cdfs)

    return cdf


def envelope(cdfs, gamma):
    """gamma-quantile of the draws' CDFs at each z (the paper's second F-tilde).

    The quantile is the smallest value that at least a share gamma of the draws do not exceed.
    """

    def cdf(z):
        values = sorted(draw(z) for draw in cdfs)
        for rank, value in enumerate(values, start=1):
            if rank >= gamma * len(values):
                return value
        raise ValueError(gamma)

    return cdf


def pit_values(cdfs, z):
    """W_i = F(Z_i | X_i)."""
    return [cdf(value) for cdf, value in zip(cdfs, z, strict=True)]


def rank(n, alpha):
    """k = ceil((1 - alpha)(n + 1)), alpha an exact fraction."""
    return math.ceil((1 - Fraction(alpha)) * (n + 1))


def calibrated_t(pits, alpha):
    """t_{1 - alpha}: the k-th smallest PIT value, or 1 where there is none."""
    k = rank(len(pits), alpha)
    return sorted(pits)[k - 1] if k <= len(pits) else 1.0


def inverse(cdf, t, low, high):
    """F^{-1}(t) = inf{z : F(z) >= t} in [low, high] by plain bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        if cdf(middle) >= t:
            high = middle
        else:
            low = middle
    return high


def loss_bound(cdf, pits, alpha, low, high):
    """U_alpha(x) = F^{-1}(t_{1 - alpha} | x)."""
    t = calibrated_t(pits, alpha)
    return math.inf if t >= 1.0 else inverse(cdf, t, low, high)


def exceedance(cdf, pits, tau, low, high):
    """Smallest alpha = j / (n + 1) with U_alpha(x) <= tau, by trying one after the other."""
    n = len(pits)
    for j in range(1, n + 1):
        if loss_bound(cdf, pits, Fraction(j, n + 1), low, high) <= tau:
            return j / (n + 1)
    return 1.0


def distance(a, b):
    return math.sqrt(sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))


def quantile(values, probability):
    """Linear interpolation between order statistics."""
    ordered = sorted(values)
    place = probability * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def standardised(rows, by):
    """Each column minus the mean of `by`, divided by its (population) standard deviation."""
    columns = []
    for j in range(len(by[0])):
        values = [row[j] for row in by]
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        columns.append([(row[j] - mean) / spread for row in rows])
    return [list(row) for row in zip(*columns, strict=True)]


def knn_gamma(rows, fit_rows, k, gamma_min, gamma_max, midpoint, slope, epsilon):
    """gamma(x) by the kNN radius; a row of D1 is no neighbour of itself."""
    design = standardised(fit_rows, fit_rows)
    radii = []
    for i, point in enumerate(design):
        others = [distance(point, other) for j, other in enumerate(design) if j != i]
        radii.append(sorted(others)[k - 1])
    q_lo, q_hi = quantile(radii, 0.5), quantile(radii, 0.9)
    gammas = []
    for point in standardised(rows, fit_rows):
        radius = sorted(distance(point, other) for other in design)[k - 1]
        scarcity = (radius - q_lo) / (q_hi - q_lo + epsilon)
        share = 1.0 / (1.0 + math.exp(-(scarcity - midpoint) / slope))
        gammas.append(gamma_max - (gamma_max - gamma_min) * share)
    return gammas
