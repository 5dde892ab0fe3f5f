"""Risks with known truth: scores of real tables, and simulated ones.

A predictor g is fitted to some rows of a table and a default `Locus` to 1,500 others, its D1. All
rows that are left, with their tails and whether their losses are above tau, are the population:
certifying rows are drawn from it with replacement, so what a threshold accepts and how many of
those are bad is known exactly. Fits are kept in build/, so that certificates are cheap.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks.datasets import load
from locuscore import Locus, Score
from locuscore._rules.planned_starts import Pilot

CACHE = Path("build/certificates")
JUDGED = ("bike", "homes", "protein")
CLAIMS = ((0.7, 0.1), (0.5, 0.2), (0.8, 0.05), (0.5, 0.1), (0.9, 0.05))  # quantile of tau, eta
SIMULATED = {
    "rising": lambda u: 0.02 + 0.6 * u**2,
    "dip": lambda u: np.where(u < 0.3, 0.085, 0.02 + 0.6 * (u - 0.3)),
}
N_FIT, N_PREDICTOR, MOST_POPULATION = 1_500, 4_000, 12_000
PARTS = ("score", "bad", "left", "left bad", "known")
DRAWS = 3  # of D1 for each table


@dataclass(frozen=True, eq=False)
class Risk:
    """A population of scores and bad rows, and what D1 knows of it."""

    table: str
    draw: int
    quantile: float
    eta: float
    score: np.ndarray
    bad: np.ndarray
    pilot: Pilot
    reference: np.ndarray

    @cached_property
    def truth(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Distinct scores, the share accepted up to each, and the share of bad rows among them."""
        order = np.argsort(self.score, kind="stable")
        ranked, total = self.score[order], np.cumsum(self.bad[order])
        last = np.flatnonzero(np.append(ranked[1:] > ranked[:-1], True))
        return ranked[last], (last + 1) / len(ranked), total[last] / (last + 1)

    @property
    def largest_valid(self) -> float:
        """The largest share that can be accepted at eta."""
        _, share, rate = self.truth
        return float(share[rate <= self.eta].max(initial=0.0))

    def outcome(self, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Share accepted at each threshold, and whether that breaks eta."""
        ranked, share, rate = self.truth
        at = np.searchsorted(ranked, thresholds, side="right") - 1
        is_some = at >= 0
        at = np.maximum(at, 0)
        return np.where(is_some, share[at], 0.0), is_some & (rate[at] > self.eta)

    def samples(self, n: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Certifying rows: scores in ascending order, and whether each row is bad."""
        order = np.argsort(self.score, kind="stable")
        score, bad = self.score[order], self.bad[order]
        rng = np.random.default_rng([self.draw, n])
        for _ in range(count):
            rows = np.sort(rng.integers(len(score), size=n))
            yield score[rows], bad[rows]


def risks(table: str, draw: int) -> Iterator[Risk]:
    """All claims on one table and one draw of D1."""
    if table in SIMULATED:
        yield _simulated(table, draw)
        return
    kept = CACHE / f"{table}-{draw}.npz"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **_fitted(table, draw))
    arrays = np.load(kept)
    for quantile, eta in CLAIMS:
        score, bad, left, left_bad, known = (arrays[f"{name} {quantile}"] for name in PARTS)
        pilot = Pilot.of(left, left_bad).with_ties_of(known)
        yield Risk(table, draw, quantile, eta, score, bad, pilot, known)


def _simulated(name: str, draw: int) -> Risk:
    rng = np.random.default_rng([draw, 22])
    u, known = rng.uniform(size=MOST_POPULATION), rng.uniform(size=N_FIT)
    bad, known_bad = (rng.uniform(size=len(x)) < SIMULATED[name](x) for x in (u, known))
    return Risk(name, draw, np.nan, 0.1, u, bad, Pilot.of(known, known_bad), known)


def _fitted(table: str, draw: int) -> dict[str, np.ndarray]:
    X, y = load(table)
    order = np.random.default_rng([draw, 22]).permutation(len(y))
    train, rest = order[:N_PREDICTOR], order[N_PREDICTOR:]
    g = RandomForestRegressor(100, random_state=draw).fit(X[train], y[train])
    # A Locus needs some rows of D2; they have no part in what follows.
    rows, population = rest[: N_FIT + 100], rest[N_FIT + 100 :][:MOST_POPULATION]
    held = np.arange(N_FIT, N_FIT + 100)
    locus = Locus(g, calibration_size=held, random_state=draw).fit(X[rows], y[rows])
    z = locus.losses(X[population], y[population])
    found = {}
    for quantile in {quantile for quantile, _ in CLAIMS}:
        tau = float(np.quantile(z, quantile))
        score = Score.tail(tau)
        held_out = locus._held_out(score)
        pairs = held_out.left_out()
        assert pairs is not None
        left = pairs[0], pairs[1] > tau
        parts = locus.scores(X[population], score), z > tau, *left, held_out.known
        for name, part in zip(PARTS, parts, strict=True):
            found[f"{name} {quantile}"] = np.asarray(part)
    return found
