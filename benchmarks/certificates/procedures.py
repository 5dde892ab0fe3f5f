"""Procedures beyond a sequence from one start, all valid without a monotone risk; docs/rules.md.

Each is planned on the pilot like the start that ships, on the same samples of it, and tested at the
same ranks. Ties are broken by position for all of them, so only differences between them count.
"""

from functools import lru_cache

import numpy as np

from benchmarks.certificates.methods import DELTA, Certified, Sample, allowed
from benchmarks.certificates.risks import Risk
from locuscore._rules.binomial_tests import binomial_p_value

ONE, FALLBACK = "one start", "two starts, level passed up (fallback)"
WINDOW, STEP_DOWN = "all ranks of a stretch at once", "a stretch at once, then a sequence"
SKIP, HOLM = "sequence that may skip one failure", "weighted Holm on 12 ranks"
N_RANKS, N_PLACES, N_PILOT, N_WALKS = 250, 12, 100, 2_000
SPLITS = (0.1, 0.3, 0.5)


@lru_cache
def ranks_of(n: int, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Ranks at which counts are looked at, and the positions among them that a plan may choose."""
    levels = (DELTA, DELTA / 2, DELTA / 4, DELTA / 8)
    steps = [np.flatnonzero(np.diff(allowed(n, eta, level)) > 0) + 1 for level in levels]
    ranks = np.unique(np.concatenate([*steps, [n]]))
    kept = np.unique(np.linspace(0, len(ranks) - 1, N_RANKS).round().astype(int))
    ranks = ranks[kept]
    places = np.searchsorted(ranks, np.geomspace(ranks[0], n, N_PLACES))
    return ranks, np.unique(np.minimum(places, len(ranks) - 1))


@lru_cache
def stretch_levels(n: int, eta: float) -> dict[tuple[int, int], float]:
    """Levels at which a walk with steps of rate eta passes anywhere on a stretch with delta."""
    ranks, places = ranks_of(n, eta)
    steps = np.random.default_rng(5).binomial(np.diff(ranks, prepend=0), eta, (N_WALKS, len(ranks)))
    p = binomial_p_value(np.cumsum(steps, axis=1), ranks, eta)
    found = {}
    for i, low in enumerate(places):
        smallest = np.minimum.accumulate(p[:, low:], axis=1)
        for high in places[i:]:
            level = np.quantile(smallest[:, high - low], DELTA, method="lower") * (1 - 1e-9)
            found[int(low), int(high)] = DELTA if low == high else float(level)
    return found


class Tests:
    """p-values of samples at the ranks, (samples, ranks)."""

    def __init__(self, p: np.ndarray) -> None:
        self.p = p
        self.ends: dict[float, np.ndarray] = {}

    def from_start(self, at: int, level: float) -> np.ndarray:
        """Last position that a sequence reaches; -1 if it fails at once."""
        if level not in self.ends:
            size = self.p.shape[1]
            end = np.where(self.p > level, np.arange(size), size)
            self.ends[level] = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]
        end = self.ends[level][:, at]
        return np.where(end > at, end - 1, -1)


def last_true(passed: np.ndarray) -> np.ndarray:
    """Last position that passed in each sample; -1 if none did."""
    return np.where(passed.any(axis=1), passed.shape[1] - 1 - passed[:, ::-1].argmax(axis=1), -1)


def fallback(tests: Tests, low: int, high: int, part: float) -> np.ndarray:
    """Two starts; a sequence that comes to the second from below has both levels from there on."""
    first = tests.from_start(low, part * DELTA)
    return np.where(
        first >= high,
        np.maximum(tests.from_start(high, DELTA), first),
        np.maximum(tests.from_start(high, (1 - part) * DELTA), first),
    )


def stretch(tests: Tests, low: int, high: int, level: float, *, go_on: bool) -> np.ndarray:
    """The last rank of a stretch that passes at its level; if all do, a sequence goes on."""
    inside = tests.p[:, low : high + 1] <= level
    found = np.where(inside.any(axis=1), low + last_true(inside), -1)
    if not go_on or high + 1 == tests.p.shape[1]:
        return found
    return np.where(inside.all(axis=1), np.maximum(tests.from_start(high + 1, DELTA), found), found)


def skipping(tests: Tests, at: int, places: np.ndarray) -> np.ndarray:
    """Half of delta at each of few ranks, up to the second failure."""
    chosen = places[places >= at]
    failed = tests.p[:, chosen] > DELTA / 2
    passed = ~failed & (np.cumsum(failed, axis=1) < 2)
    last = last_true(passed)
    return np.where(last >= 0, chosen[np.maximum(last, 0)], -1)


def weighted_holm(tests: Tests, weights: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Bonferroni-Holm with weights: what is rejected leaves its weight to the rest."""
    rejected = np.zeros((len(tests.p), len(places)), dtype=bool)
    while True:
        left = np.where(rejected, 0.0, weights).sum(axis=1, keepdims=True)
        new = ~rejected & (tests.p[:, places] * left <= DELTA * weights)
        if not new.any():
            break
        rejected |= new
    last = last_true(rejected)
    return np.where(last >= 0, places[np.maximum(last, 0)], -1)


def procedures(risk: Risk, n: int, samples: list[Sample]) -> Certified:
    """Plan every procedure on the pilot, and apply it to the samples."""
    eta = risk.eta
    ranks, places = ranks_of(n, eta)
    levels = stretch_levels(n, eta)
    pilot = Tests(binomial_p_value(_pilot_counts(risk, n, ranks), ranks, eta))
    weights = (pilot.p[:, places] <= DELTA).mean(axis=0) + 0.01
    pairs = [(a, b, part) for a in places for b in places if a < b for part in SPLITS]
    choices = {
        ONE: [lambda p, a=a: p.from_start(a, DELTA) for a in places],
        FALLBACK: [lambda p, c=c: fallback(p, *c) for c in pairs],
        WINDOW: [lambda p, k=k, v=v: stretch(p, *k, v, go_on=False) for k, v in levels.items()],
        STEP_DOWN: [lambda p, k=k, v=v: stretch(p, *k, v, go_on=True) for k, v in levels.items()],
        SKIP: [lambda p, a=a: skipping(p, a, places) for a in places],
        HOLM: [lambda p: weighted_holm(p, weights, places)],
    }
    counts = np.array([np.append(0, np.cumsum(bad))[ranks] for _, bad in samples])
    edges = np.array([np.append(score, np.inf)[ranks] for score, _ in samples])
    tests, rows, found = Tests(binomial_p_value(counts, ranks, eta)), np.arange(len(samples)), {}
    for name, options in choices.items():
        mean = [np.where((at := run(pilot)) >= 0, ranks[at], 0).mean() for run in options]
        at = options[int(np.argmax(mean))](tests)
        found[name] = np.where(at >= 0, np.nextafter(edges[rows, at], -np.inf), -np.inf)
    return found


def _pilot_counts(risk: Risk, n: int, ranks: np.ndarray) -> np.ndarray:
    """Bad rows among the lowest of samples of the pilot, as `planned_starts` draws them."""
    bad, rng = np.append(True, risk.pilot.bad), np.random.default_rng(0)
    counts = []
    for _ in range(N_PILOT):
        again = np.sort(rng.integers(len(bad), size=len(bad)))
        rows = again[np.sort(rng.integers(len(bad), size=n))]
        counts.append(np.append(0, np.cumsum(bad[rows]))[ranks])
    return np.array(counts)


PROCEDURES = {"procedures": (procedures, 2)}
