"""How wide the bands of `operating_curve` are, and how often they are wrong, by construction.

Three constructions of an upper band of the exceedance that hold at all thresholds at once, for any
law: a union bound over ranks, as up to version 0.2; a box of equal local levels, with the exact
probability that an order statistic crosses its bound; and the martingale that is used. Run ``make
choices-operating-curve``; about ten minutes.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import betainccinv, betaincinv, gammaln

from benchmarks.pages import write_section
from locuscore import operating_curve

PAGE = Path(__file__).with_name("RESULTS.md")
DELTA, REPEATS = 0.1, 200
SIZES = (30, 100, 300, 1_000)
BOX_SHARE = 0.7  # of delta: for the mass of bad rows
LAWS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "0.02 + 0.6 u^2": (lambda u: 0.02 + 0.6 * u**2, lambda u: 0.02 + 0.2 * u**2),
    "0.6 - 0.5 u": (lambda u: 0.6 - 0.5 * u, lambda u: 0.6 - 0.25 * u),
    "0.1": (lambda u: 0.1 + 0 * u, lambda u: 0.1 + 0 * u),
}


def union_over_ranks(bad: np.ndarray, sides: int) -> np.ndarray:
    """Clopper and Pearson at ranks in even steps of the root, and the mass between two of them."""
    n = len(bad)
    roots = np.arange(np.sqrt(8), np.sqrt(n + 1), 0.35)
    inner = np.unique(np.round(roots**2).astype(np.int64))
    nodes = np.append(inner[inner <= n], n + 1)
    before = np.append(0, np.cumsum(bad))[nodes - 1]
    left = nodes - 1 - before
    part = 0.8 if sides == 2 else 1.0  # of delta; the rest was for the band of the acceptance
    level = 0.9 * part * DELTA / (sides * len(nodes))
    high = np.where(left > 0, betainccinv(before + 1, np.maximum(left, 1), level), 1.0)
    a, b = nodes[:-1], nodes[1:]
    q = betaincinv(a, b - a, 0.1 * part * DELTA / max(len(a), 1))
    cell = np.append(1.0, np.clip(np.minimum(high[1:] / q, 1 - (1 - high[:-1]) * q), 0.0, 1.0))
    return cell[np.searchsorted(nodes, np.arange(1, n + 1), side="right").clip(max=len(cell) - 1)]


def crossing(n: int, level: float) -> float:
    """P(some order statistic of n is above its quantile of that level), by its first one."""
    i = np.arange(1, n + 1)
    edge = betainccinv(i, n - i + 1, level)
    factorial = gammaln(np.arange(n + 2) + 1.0)

    def binomial(m: np.ndarray, k: np.ndarray, p: np.ndarray) -> np.ndarray:
        ways = factorial[m] - factorial[k] - factorial[m - k]
        return np.exp(ways + k * np.log(p) + (m - k) * np.log1p(-p))

    row, column = np.tril_indices(n, -1)
    renewal = np.eye(n)
    step = (edge[row] - edge[column]) / (1 - edge[column])
    renewal[row, column] = binomial(n - column, row - column, step)
    first = solve_triangular(renewal, binomial(np.full(n, n), i - 1, edge), lower=True)
    return float(first.sum())


@lru_cache
def local_level(n: int, delta: float) -> float:
    low, high = np.log(delta / 1000), np.log(delta)
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if crossing(n, np.exp(middle)) < delta else (low, middle)
    return float(np.exp(low))


def box(bad: np.ndarray) -> np.ndarray:
    """The mass of bad rows from above and that of good rows from below, each at equal levels."""
    n = len(bad)
    k, j = np.cumsum(bad), np.cumsum(1 - bad)
    up = local_level(n, BOX_SHARE * DELTA)
    down = local_level(n, (1 - BOX_SHARE) * DELTA)
    g = np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 1), up), 1.0)
    h = np.where(j > 0, betaincinv(np.maximum(j, 1), n - j + 1, down), 0.0)
    return np.asarray(g / (g + h))


def martingale(lower: bool) -> Callable[[np.ndarray], np.ndarray]:
    def high(bad: np.ndarray) -> np.ndarray:
        place = np.arange(len(bad), dtype=float)
        return operating_curve(place, bad, 0.5, DELTA, lower=lower).high

    return high


METHODS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "union over ranks, two sides and acceptance (before)": lambda bad: union_over_ranks(bad, 2),
    "union over ranks, upper": lambda bad: union_over_ranks(bad, 1),
    "box of equal local levels, upper": box,
    "martingale, two sides": martingale(True),
    "martingale, upper": martingale(False),
}


def measured(name: str, n: int, method: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Share of samples in which the upper band misses anywhere, and its mean height above r."""
    risk, share = LAWS[name]
    rng, wrong, height = np.random.default_rng(0), 0, 0.0
    for _ in range(REPEATS):
        u = np.sort(rng.uniform(size=n))
        high = method((rng.uniform(size=n) < risk(u)).astype(float))
        truth = np.maximum(share(u), share(np.append(u[1:], 1.0)))
        wrong += bool(np.any(truth > high + 1e-12))
        height += float(np.mean((high - share(u))[n // 4 :])) / REPEATS
    return wrong / REPEATS, height


def main() -> None:
    lines = []
    for label, method in METHODS.items():
        for n in SIZES:
            found = [measured(name, n, method) for name in LAWS]
            cells = " | ".join(f"{100 * wrong:.1f} % / {height:.3f}" for wrong, height in found)
            lines.append(f"| {label} | {n} | {cells} |")
            print(lines[-1], flush=True)
    about = (
        f"Share of {REPEATS} samples in which the upper band is below the exceedance anywhere, of "
        f"{100 * DELTA:g} % allowed, and its mean height above the exceedance over the upper three "
        "quarters of the thresholds; columns are the share of bad rows at score u, rows are n."
    )
    head = f"| upper band | n | {' | '.join(LAWS)} |"
    title = "## Operating curve: how wide the bands are"
    write_section(PAGE, [title, "", about, "", head, "|---" * (len(LAWS) + 2) + "|", *lines])


if __name__ == "__main__":
    main()
