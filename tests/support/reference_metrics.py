"""Slow metrics, one loop per definition: what `locuscore.metrics` must agree with."""

import itertools

import numpy as np
from scipy.integrate import quad


def coverage(losses, bound):
    return sum(z <= u for z, u in zip(losses, bound, strict=True)) / len(losses)


def exceedance_rates(losses, accepted, tau):
    n = len(losses)
    marginal = sum(z > tau for z in losses) / n
    joint = sum(z > tau and a for z, a in zip(losses, accepted, strict=True)) / n
    taken = [z for z, a in zip(losses, accepted, strict=True) if a]
    return marginal, joint, sum(z > tau for z in taken) / len(taken) if taken else float("nan")


def pinball_loss(losses, bound, alpha):
    total = 0.0
    for z, u in zip(losses, bound, strict=True):
        total += (1 - alpha) * (z - u) if z >= u else alpha * (u - z)
    return total / len(losses)


def crps_of_points(z, points, weights):
    """``E|Z - z| - E|Z - Z'| / 2`` of a law with finitely many points."""
    first = sum(w * abs(p - z) for p, w in zip(points, weights, strict=True))
    pairs = itertools.product(zip(points, weights, strict=True), repeat=2)
    return first - sum(v * w * abs(p - q) for (p, v), (q, w) in pairs) / 2


def crps_by_quadrature(z, cdf, low, high):
    below = quad(lambda t: cdf(t) ** 2, low, z, epsabs=1e-12)[0]
    return below + quad(lambda t: (1 - cdf(t)) ** 2, z, high, epsabs=1e-12)[0]


def exceedance_curve(score, losses, tau):
    points = []
    for threshold in sorted({s for s in score if s < np.inf}):
        taken = [z for s, z in zip(score, losses, strict=True) if s <= threshold]
        points.append(
            (threshold, len(taken) / len(score), sum(z > tau for z in taken) / len(taken))
        )
    return points


def area_of_order(exceeds):
    return sum(sum(exceeds[:k]) / k for k in range(1, len(exceeds) + 1)) / len(exceeds)


def exceedance_area(score, losses, tau):
    """Mean over all orders of the rows that are ascending in the score."""
    areas = []
    for order in itertools.permutations(range(len(score))):
        if all(score[i] <= score[j] for i, j in itertools.pairwise(order)):
            areas.append(area_of_order([losses[i] > tau for i in order]))
    return sum(areas) / len(areas)
