"""The experiment behind Theorems 1 and 3: one fit on D1, then many pairs of D2 and one test row.

An engine is fitted once on D1. A large pool of further rows is cut into repetitions of n2
calibration rows and one test row, so the repetitions are independent and binomial tests are exact.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from helpers import assert_binomial
from locuscore import KNNGamma, Locus
from locuscore._laws.calibration import calibrated_level, conformal_rank, smallest_alpha
from locuscore.engines import (
    Auto,
    Bagged,
    Ensemble,
    FlexCode,
    Forest,
    Gaussian,
    QuantileGrid,
    Scale,
)

POOL = 40_000
BLOCK = 4_000


def boosted(**parameters):
    return HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=8, **parameters)


GAUSSIAN = Gaussian(boosted(), boosted())
SCALE = Scale(boosted(loss="poisson"), cv=3)
GRID = QuantileGrid((0.3, 0.6, 0.8, 0.9, 0.97), boosted(loss="quantile", quantile=0.5))
CASES = {
    "Forest": (Forest(n_trees=15), None),
    "Forest, gamma": (Forest(n_trees=15), KNNGamma(k=20)),
    "Scale": (SCALE, None),
    "Gaussian": (GAUSSIAN, None),
    "QuantileGrid": (GRID, None),
    "FlexCode": (FlexCode(LinearRegression(), n_basis=4, cv=2), None),
    "Bagged Scale": (Bagged(SCALE, n_draws=3), None),
    "Bagged Scale, gamma": (Bagged(SCALE, n_draws=3), KNNGamma(k=20)),
    "Bagged Gaussian, gamma": (Bagged(GAUSSIAN, n_draws=3), KNNGamma(k=20)),
    "Bagged QuantileGrid, gamma": (Bagged(GRID, n_draws=3), KNNGamma(k=20)),
    "Ensemble": (Ensemble([Forest(n_trees=15), GRID]), None),
    "Ensemble, gamma": (Ensemble([Forest(n_trees=3), SCALE]), KNNGamma(k=20)),
    "Ensemble, stacked": (Ensemble([GRID, GAUSSIAN], weights="stacked", cv=2), None),
    "Auto": (Auto([Forest(n_trees=15), SCALE, GAUSSIAN], cv=2), None),
    "Auto, gamma": (Auto([Forest(n_trees=3), Bagged(SCALE, n_draws=3)], cv=2), KNNGamma(k=20)),
}
CONTINUOUS = (
    "Gaussian",
    "QuantileGrid",
    "FlexCode",
    "Bagged Gaussian, gamma",
    "Bagged QuantileGrid, gamma",
    "Ensemble, stacked",
)


def continuous(rng, S):
    return (0.2 + S[:, 0] ** 2) * rng.exponential(size=len(S))


def zero_inflated(rng, S):
    return np.where(rng.uniform(size=len(S)) < 0.3 + 0.4 * S[:, 1], 0.0, continuous(rng, S))


def zero_one(rng, S):
    """Twenty per cent of errors, most of them where the first signal is large."""
    return (rng.uniform(size=len(S)) < 0.6 * S[:, 0] ** 2).astype(float)


LOSSES = {
    "continuous": (continuous, (0.0, np.inf)),
    "zero-inflated": (zero_inflated, (0.0, np.inf)),
    "0-1": (zero_one, {0.0, 1.0}),
}


@dataclass
class Pool:
    """Rows with their losses and tails, and the laws to invert at the test rows."""

    locus: Locus
    S: np.ndarray
    z: np.ndarray
    tail: np.ndarray

    def law(self, rows):
        return self.locus.loss_dist(self.S[rows])


def make_pool(case, loss, rng, size=POOL):
    engine, gamma = CASES[case]
    generate, support = LOSSES[loss]
    S = rng.uniform(size=(400, 2))
    locus = Locus(
        lambda X: X[:, 0], engine=engine, gamma=gamma, support=support, signals="x", random_state=0
    ).fit_losses(S, generate(rng, S))
    S = rng.uniform(size=(size, 2))
    return pool_of(locus, S, generate(rng, S))


def pool_of(locus, S, z):
    """Rows that had no part in the fit, with their tails."""
    tail = [
        locus.loss_dist(S[start : start + BLOCK]).tail(z[start : start + BLOCK])
        for start in range(0, len(z), BLOCK)
    ]
    return Pool(locus, S, z, np.concatenate(tail))


@dataclass
class Repetitions:
    """One row of `cal_tail` per repetition, one test row each."""

    cal_tail: np.ndarray
    test_rows: np.ndarray

    @classmethod
    def cut(cls, pool, n):
        used = len(pool.z) // (n + 1) * (n + 1)
        rows = np.arange(used).reshape(-1, n + 1)
        return cls(pool.tail[rows[:, :-1]], rows[:, -1])

    def levels(self, alpha):
        return np.array([calibrated_level(tails, alpha) for tails in self.cal_tail])


@dataclass
class Outcome:
    """The test rows of all repetitions: losses, tails, and the levels and bounds of D2."""

    z: np.ndarray
    tail: np.ndarray
    level: np.ndarray
    bound: np.ndarray

    @property
    def covered(self):
        return self.z <= self.bound

    def assert_one_event(self):
        """The identity behind the proof: "tail >= s" and "Z <= U" are the same, up to rounding."""
        assert self.covered[self.tail >= self.level].all()
        rounding = 1e-12 * self.level
        assert not self.covered[self.tail < self.level - rounding].any()


def check_theorem(outcome, n, alpha):
    """Theorem 1 from both sides, by exact tests."""
    probability = conformal_rank(n, alpha) / (n + 1)
    above = outcome.tail > outcome.level
    assert_binomial(above.sum(), len(above), probability, "greater")
    assert_binomial(outcome.covered.sum(), len(above), probability, "less")


def run(pool, n, alpha):
    repetitions = Repetitions.cut(pool, n)
    levels, rows = repetitions.levels(alpha), repetitions.test_rows
    parts = np.array_split(np.arange(len(rows)), max(1, len(rows) // BLOCK))
    bounds = [pool.law(rows[part]).isf(levels[part]) for part in parts]
    return Outcome(pool.z[rows], pool.tail[rows], levels, np.concatenate(bounds))


def accepted(pool, n, alpha, tau=0.0):
    """Whether exceedance at tau is at most alpha, for the test row of each repetition."""
    repetitions = Repetitions.cut(pool, n)
    rows = repetitions.test_rows
    parts = np.array_split(rows, max(1, len(rows) // BLOCK))
    survival = np.concatenate([pool.law(part).sf(tau) for part in parts])
    pairs = zip(repetitions.cal_tail, survival, strict=True)
    return np.array([smallest_alpha(tails, s) <= alpha for tails, s in pairs])
