"""How many rows are worth using: coverage against n2 (exact), sharpness against n1 (measured).

Coverage given the calibration rows is Beta(k, n2 + 1 - k). Sharpness is the pinball loss of the
bound on rows that neither g nor Locus has seen: diamonds (g a forest), and a generator with eight
features, from which more rows can be drawn (g the regression function; the best bound is known).
Prints; run ``make choices-rows-worth-using``.
"""

import time

import numpy as np
from scipy.stats import beta
from sklearn.ensemble import RandomForestRegressor

from locuscore import Locus, tau_rule
from locuscore.datasets import load_diamonds
from locuscore.metrics import pinball_loss

ALPHA = 0.1
N_CALIBRATION, N_TEST = 5_000, 20_000
SEEDS = range(3)


def coverage_table() -> None:
    print("n2, middle 95 % of the coverage at alpha = 0.1, at alpha = 0.01")
    for n in (100, 1_000, 10_000, 100_000, 1_000_000):
        parts = []
        for alpha in (0.1, 0.01):
            law = tau_rule(0.0, alpha, n_calibration=n).evidence["coverage_beta"]
            low, high = beta.ppf([0.025, 0.975], *law)
            parts.append(f"{low:.4f} to {high:.4f}")
        print(f"{n:,} | {' | '.join(parts)}", flush=True)


def sharpness(g, X, y, sizes, seed: int) -> list[tuple[float, float]]:
    """Pinball loss of the bound and seconds of the fit, for growing D1 and the same D2."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, calibration = order[:N_TEST], order[N_TEST : N_TEST + N_CALIBRATION]
    rest = order[N_TEST + N_CALIBRATION :]
    results = []
    for n in sizes:
        rows = np.concatenate([rest[:n], calibration])
        started = time.perf_counter()
        locus = Locus(g, calibration_size=np.arange(n, len(rows)), random_state=seed)
        locus.fit(X[rows], y[rows])
        seconds = time.perf_counter() - started
        z = locus.losses(X[test], y[test])
        bound = locus.loss_bound(X[test], ALPHA)
        results.append((float(pinball_loss(z, bound, ALPHA)), seconds))
    return results


def show(name: str, sizes, runs) -> None:
    print(f"\n{name}: n1, pinball loss of the bound (relative to the largest n1), seconds of fit")
    means = np.array(runs).mean(axis=0)
    for n, (loss, seconds) in zip(sizes, means, strict=True):
        print(f"{n:,} | {loss:.5g} | {loss / means[-1, 0]:.3f} | {seconds:.1f}", flush=True)


def diamonds() -> None:
    X, y = load_diamonds(as_frame=False)
    order = np.random.default_rng(0).permutation(len(y))
    train, rest = order[:4_000], order[4_000:]
    g = RandomForestRegressor(50, random_state=0).fit(X[train], y[train])
    sizes = (250, 1_000, 4_000, 16_000, 24_000)
    show("diamonds", sizes, [sharpness(g, X[rest], y[rest], sizes, seed) for seed in SEEDS])


def generated() -> None:
    rng = np.random.default_rng(0)
    sizes = (1_000, 4_000, 16_000, 64_000, 256_000)
    n = sizes[-1] + N_CALIBRATION + N_TEST
    X = rng.uniform(size=(n, 8))
    scale = 0.2 + X[:, 0] + (X[:, 1] > 0.5) * X[:, 2]
    y = X.sum(axis=1) + scale * rng.normal(size=n)
    runs = [sharpness(lambda X: X.sum(axis=1), X, y, sizes, seed) for seed in SEEDS[:1]]
    show("eight features", sizes, runs)
    test = np.random.default_rng(0).permutation(n)[:N_TEST]
    best = 1.6448536269514722 * scale[test]  # |noise| exceeds it for one row in ten
    loss = pinball_loss(np.abs(y - X.sum(axis=1))[test], best, ALPHA)
    print(f"best possible | {loss:.5g}")


if __name__ == "__main__":
    coverage_table()
    diamonds()
    generated()
