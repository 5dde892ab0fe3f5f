"""Where should a certificate start? Acceptance over ten shapes of the risk; prints two tables.

Accepted shares are relative to the best single start of each shape and size, which needs the truth.
The second table is what the default starts of `certify_threshold` were chosen from. Its first two
shapes are generators A and B of certificates.py, and they counted: 0.45 has a higher mean than 0.4
at some sizes, and a larger part for the lower start would do as well on average, but cost A at
1,000 rows. So a further table, printed first, has the default on six shapes that were not looked at
before it was fixed.
Run ``make choices-certificate-starts``; about ten minutes on one core.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from locuscore import certify_threshold

ETA = DELTA = 0.1
SHAPES = {
    "rising": lambda u: 0.02 + 0.6 * u**2,
    "dip": lambda u: np.where(u < 0.3, 0.085, 0.02 + 0.6 * (u - 0.3)),
    "flat": lambda u: np.full_like(u, 0.05),
    "few safe": lambda u: np.where(u < 0.1, 0.03, 0.3),
    "steep": lambda u: 1 / (1 + np.exp(10 * (0.8 - u))),
    "straight": lambda u: 0.5 * u,
    "near eta": lambda u: np.where(u < 0.5, 0.09, 0.5),
    "mostly safe": lambda u: 0.001 + 0.3 * u**4,
    "gentle": lambda u: 0.15 * u,
    "bad first": lambda u: np.where(u < 0.05, 0.2, 0.02 + 0.4 * u**2),
}
HELD_OUT = {
    "square root": lambda u: 0.25 * np.sqrt(u),
    "two steps": lambda u: np.where(u < 0.25, 0.04, np.where(u < 0.6, 0.11, 0.4)),
    "late cliff": lambda u: np.where(u < 0.85, 0.06, 0.9),
    "sine": lambda u: 0.08 + 0.07 * np.sin(9 * u) + 0.1 * u,
    "cubic": lambda u: 0.04 + 0.5 * u**3,
    "few safe, rising": lambda u: np.minimum(0.01 + 1.2 * u, 0.6),
}
SIZES = {200: 2_000, 500: 2_000, 1_000: 1_500, 3_000: 400}
DESIGNS = {
    f"{first:g} and {lower:g} with {part:g}": ([lower, first], [part, 1 - part])
    for first in (0.35, 0.4, 0.45)
    for lower in (0.1, 0.2)
    for part in (0.1, 0.2, 0.3)
} | {f"{first:g} alone": ([first], [1.0]) for first in (0.25, 0.35, 0.4, 0.45)}


def ends(cumulative: np.ndarray, edge: np.ndarray, start: int, level: float) -> np.ndarray:
    """Accepted share of each repetition: one sequence over the ranks from `start` up."""
    n = np.arange(start, cumulative.shape[1])
    allowed = binom.ppf(level, n, ETA)
    allowed -= binom.cdf(allowed, n, ETA) > level  # the largest count whose p-value passes
    alive = np.logical_and.accumulate(cumulative[:, n] <= allowed, axis=1).sum(axis=1)
    return np.where(alive, edge[np.arange(len(edge)), start + np.maximum(alive, 1) - 1], 0.0)


def design(
    cumulative: np.ndarray, edge: np.ndarray, shares: Sequence[float], parts: Sequence[float]
) -> float:
    n = cumulative.shape[1]
    found = [
        ends(cumulative, edge, round(share * n), round(part * DELTA, 12))
        for share, part in zip(shares, parts, strict=True)
    ]
    return float(np.max(found, axis=0).mean())


def main() -> None:
    rng = np.random.default_rng(0)
    for n, repeats in SIZES.items():
        relative: dict[str, list[float]] = {name: [] for name in DESIGNS}
        for risk in SHAPES.values():
            u = np.sort(rng.uniform(size=(repeats, n)), axis=1)
            bad = rng.uniform(size=u.shape) < risk(u)
            cumulative = np.cumsum(bad, axis=1) - bad  # strictly below each row
            best = max(design(cumulative, u, [f], [1.0]) for f in np.geomspace(0.02, 0.95, 20))
            for name, (shares, parts) in DESIGNS.items():
                relative[name].append(design(cumulative, u, shares, parts) / best)
        for name, values in relative.items():
            cells = " ".join(f"{value:.2f}" for value in values)
            print(f"N = {n:5d}  {name:24s} {np.mean(values):.3f}   {cells}", flush=True)


def held_out() -> None:
    rng = np.random.default_rng(1)
    for n, repeats in SIZES.items():
        cells = []
        for name, risk in HELD_OUT.items():
            u = np.sort(rng.uniform(size=(repeats // 2, n)), axis=1)
            bad = rng.uniform(size=u.shape) < risk(u)
            below = np.cumsum(bad, axis=1) - bad
            best = max(design(below, u, [f], [1.0]) for f in np.geomspace(0.02, 0.95, 20))
            rules = [
                certify_threshold(*row, 0.5, ETA, DELTA) for row in zip(u, bad * 1.0, strict=True)
            ]
            share = np.mean([np.clip(rule.threshold, 0.0, 1.0) for rule in rules])
            cells.append(f"{name} {share:.3f} of {best:.3f} = {share / best:.2f}")
        print(f"N = {n:5d}  " + "; ".join(cells), flush=True)


if __name__ == "__main__":
    held_out()
    main()
