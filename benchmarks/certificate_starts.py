"""Where should a certificate start? Mean acceptance over ten shapes of the risk; prints a table.

The default starts of `certify_threshold` were chosen from this: the mean, over the shapes, of the
accepted share relative to the best single start of each shape and size, which needs the truth.
Run ``python benchmarks/certificate_starts.py``; about ten minutes on one core.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

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


if __name__ == "__main__":
    main()
