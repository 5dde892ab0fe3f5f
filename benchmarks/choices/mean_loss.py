"""What one answer without a seed costs: power and width of the mean-loss test.

The test averages capital over orders that the losses themselves fix. It is compared with one random
order, the largest capital so far, as the first version did, on settings that had no part in the
choice of its constants. Run ``make choices-mean-loss``; about three minutes.
"""

from pathlib import Path

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from benchmarks.pages import write_section
from locuscore import mean_loss_bound
from locuscore._rules.betting import FIRST, ORDERS, SHARE, Games, rejected

PAGE = Path(__file__).with_name("RESULTS.md")
REPEATS, SHOPPED, SEEDS = 1_000, 200, 20
WIDTH_REPEATS = 10
AIM = 1.1

LAWS = {
    "0-1": lambda rng, mean, size: (rng.uniform(size=size) < mean).astype(float),
    "uniform": lambda rng, mean, size: 2 * mean * rng.uniform(size=size),
    "Beta, sum 3": lambda rng, mean, size: rng.beta(3 * mean, 3 * (1 - mean), size=size),
    "Beta, sum 0.7": lambda rng, mean, size: rng.beta(0.7 * mean, 0.7 * (1 - mean), size=size),
    "Beta, sum 60": lambda rng, mean, size: rng.beta(60 * mean, 60 * (1 - mean), size=size),
}
# Law, rows, eta, mean, delta.
SETTINGS = [
    ("0-1", 60, 0.1, 0.03, 0.1),
    ("0-1", 100, 0.25, 0.16, 0.1),
    ("0-1", 200, 0.15, 0.1, 0.05),
    ("0-1", 350, 0.05, 0.03, 0.1),
    ("uniform", 70, 0.2, 0.175, 0.1),
    ("uniform", 220, 0.4, 0.37, 0.05),
    ("Beta, sum 3", 90, 0.15, 0.11, 0.1),
    ("Beta, sum 3", 320, 0.25, 0.22, 0.05),
    ("Beta, sum 0.7", 130, 0.15, 0.08, 0.1),
    ("Beta, sum 0.7", 280, 0.3, 0.25, 0.2),
    ("Beta, sum 60", 120, 0.05, 0.025, 0.1),
    ("Beta, sum 60", 250, 0.04, 0.027, 0.1),
]
WIDTHS = {"Beta(1, 4), mean 0.2": (1, 4), "Beta(2, 98), mean 0.02": (2, 98)}
SIZES = (100, 300, 1_000, 3_000)


def one_order(x: np.ndarray, m: np.ndarray | float, delta: float) -> np.ndarray:
    """Whether one order, that of the rows of `x`, rejects at its largest capital so far."""
    n = x.shape[1]
    shape = np.broadcast_shapes(np.shape(m), x.shape[:1])
    v = most = np.full(shape, delta / AIM)
    first, second = np.zeros(len(x)), np.zeros(len(x))
    for i, loss in enumerate(x.T):
        variance = (0.5 + second) / (i + 1) - ((0.5 + first) / (i + 1)) ** 2
        hedge = np.exp(-0.5 * ndtri(np.maximum(v, 1e-300)) ** 2) / np.sqrt(
            2 * np.pi * variance * (n - i)
        )
        bet = np.minimum(hedge, np.minimum(v / (1 - m), (1 - v) / m))
        v = np.clip(v + bet * (m - loss), 0.0, 1.0)
        most = np.maximum(most, v)
        first, second = first + loss, second + loss**2
    return np.asarray(most >= 1 / AIM)


def power(setting: tuple[str, int, float, float, float]) -> list[str]:
    """One row of the table: power of one order, of the test, and of the binomial test."""
    law, n, eta, mean, delta = setting
    rng = np.random.default_rng(0)
    x = LAWS[law](rng, mean, (REPEATS, n))
    single = one_order(x, eta, delta).mean()
    found = rejected(Games.of(x), eta, np.array(delta)).mean()
    best = "-"
    if law == "0-1":
        k = np.arange(n + 1)
        most = k[binom.cdf(k, n, eta) <= delta].max(initial=-1)
        best = f"{np.mean(x.sum(axis=1) <= most):.3f}"
    wrong, shopped = false_rates(law, n, eta, delta)
    cells = [f"{single:.3f}", f"{found:.3f}", f"{single - found:+.3f}", best]
    cells += [f"{wrong / delta:.2f}", f"{shopped / delta:.2f}"]
    return [law, str(n), f"{eta:g}", f"{mean:g}", f"{delta:g}", *cells]


def false_rates(law: str, n: int, eta: float, delta: float) -> tuple[float, float]:
    """At the border: of the test, and if one could choose among several sets of orders."""
    rng = np.random.default_rng(1)
    x = LAWS[law](rng, eta, (SHOPPED, n))
    plain = Games.of(x)
    wrong = rejected(plain, eta, np.array(delta)).mean()
    best = np.zeros(SHOPPED, dtype=bool)
    for seed in range(SEEDS):
        # Losses moved by less than any test can see have other orders.
        moved = np.clip(x + 1e-9 * (seed + 1) * np.where(x < 0.5, 1, -1), 0, 1)
        best |= rejected(Games.of(moved), eta, np.array(delta))
    return float(wrong), float(best.mean())


def width_of_one_order(x: np.ndarray, delta: float) -> float:
    """Distance of the bound of one order from the mean."""
    below, above = float(x.mean()), 1.0
    for _ in range(5):
        m = np.linspace(below, above, 18)
        out = one_order(x[None, :], m[1:-1], delta)
        last = int(np.flatnonzero(~out)[-1]) + 1 if not out.all() else 0
        below, above = float(m[last]), float(m[last + 1])
    return above - float(x.mean())


def widths(n: int, a: float, b: float, delta: float = 0.1) -> tuple[float, float]:
    """Mean width of one order and of the test, relative to the normal approximation."""
    rng, found = np.random.default_rng(2), []
    for _ in range(WIDTH_REPEATS):
        x = rng.beta(a, b, size=n)
        normal = -ndtri(delta) * x.std() / np.sqrt(n)
        new = mean_loss_bound(x, delta, 0, 1) - x.mean()
        found.append((width_of_one_order(x, delta) / normal, new / normal))
    return tuple(np.mean(found, axis=0))


def atom(n: int, delta: float = 0.1, mean: float = 0.02) -> float:
    """What an atom at the top adds that is not seen with probability delta, on the same scale."""
    deviation = np.sqrt(mean * (1 - mean) / 101)
    return (1 - delta ** (1 / n)) * (1 - mean) / (-ndtri(delta) * deviation / np.sqrt(n))


def main() -> None:
    rows = [power(setting) for setting in SETTINGS]
    loss = np.array([float(row[7]) for row in rows])
    lines = [
        "## Mean loss: the cost of fixed orders",
        "",
        f"Made by `make choices-mean-loss`. The mean-loss test plays {ORDERS} orders, fixed by the "
        f"losses, and rejects when the mean stopped capital of the first k is {SHARE:g}, for any "
        f"k from {FIRST} on. One order: a random one, with the largest capital so far, as the "
        f"first version did. Power is the share of {REPEATS:,} samples that reject; these settings "
        "had no part in the choice of constants. Binomial: the most powerful test of 0-1 losses "
        "that does not look at their order. False: the share of rejections at the border, divided "
        f"by delta, of {SHOPPED} samples; best of {SEEDS}: if one moves the losses a billionth at "
        "a time for other orders, and takes the best.",
        "",
        f"Power lost: {loss.mean():.3f} on average, {loss.max():.3f} at most.",
        "",
        "| losses | n | eta | mean | delta | one order | the test | lost | binomial | false | "
        f"best of {SEEDS} |",
        "|" + "---|" * 11,
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "Width: the bound less the sample mean, relative to the normal approximation (`delta = "
        f"0.1`, {WIDTH_REPEATS} samples each). In brackets, one order, without blocks.",
        "",
        "| losses on a support from 0 to 1 | " + " | ".join(f"n = {n:,}" for n in SIZES) + " |",
        "|" + "---|" * (len(SIZES) + 1),
    ]
    for name, (a, b) in WIDTHS.items():
        cells = [f"{new:.1f} ({old:.1f})" for old, new in (widths(n, a, b) for n in SIZES)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    unseen = "an atom at 1 that shows in nine samples of ten, beside the mean 0.02"
    lines.append(f"| {unseen} | " + " | ".join(f"{atom(n):.1f}" for n in SIZES) + " |")
    write_section(PAGE, lines)


if __name__ == "__main__":
    main()
