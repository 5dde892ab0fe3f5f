"""What a bound of MDN costs: evaluations, time of one, ten alphas, memory.

Run ``make costs-mdn``; about five minutes on one core. Times are processor times, which other work
on the machine disturbs little.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

from benchmarks.pages import write_section
from benchmarks.speed.figures import MEGABYTE, peak_memory
from locuscore import KNNGamma, Locus
from locuscore.draws import EnvelopeDraws, MixtureDraws, NormalDraws
from locuscore.engines import MDN, Forest, Gaussian

PAGE = Path(__file__).with_name("RESULTS.md")
REPEATS = 5
N_NEW = 500
ALPHAS = np.linspace(0.05, 0.5, 10)


class ManyNormals(BaseEstimator):
    """Normal laws with 1,000 draws, as BART has them, from linear models with random weights."""

    def fit(self, S: np.ndarray, z: np.ndarray) -> "ManyNormals":
        """Draw weights around those of least squares."""
        rng = np.random.default_rng(0)
        basis = np.linalg.lstsq(np.column_stack([S, np.ones(len(S))]), z, rcond=None)[0]
        spread = 0.1 * z.std()
        self.location_ = basis[:, None] + spread * rng.normal(size=(len(basis), 1000))
        self.scale_ = z.std() * np.exp(0.2 * rng.normal(size=1000))
        return self

    def predict_draws(self, S: np.ndarray) -> NormalDraws:
        """One matrix product: nearly for free."""
        location = S @ self.location_[:-1] + self.location_[-1]
        return NormalDraws(location, np.broadcast_to(self.scale_, location.shape).copy())


# Engine, gamma, and the most that ten alphas may cost, of one. The normal draws come nearly for
# free, so theirs is the ratio of the inversion alone, for which nothing is asked.
ENGINES: dict[str, tuple[Any, Any, float | None]] = {
    "MDN": (MDN(random_state=0), None, 5.0),
    "MDN, gamma": (MDN(random_state=0), KNNGamma(), 5.0),
    "MDN, log scale": (MDN(transform="log", random_state=0), None, 5.0),
    "MDN, log scale, gamma": (MDN(transform="log", random_state=0), KNNGamma(), 5.0),
    "1,000 normal draws": (ManyNormals(), None, None),
    "1,000 normal draws, gamma": (ManyNormals(), KNNGamma(), None),
    "Forest": (Forest(random_state=0), None, 1.5),
    "Gaussian": (Gaussian(random_state=0), None, 1.5),
}


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 8))
    noise = rng.normal(size=n) + np.where(rng.uniform(size=n) < 0.1, rng.exponential(3.0, n), 0.0)
    return X, X[:, 0] + (0.1 + X[:, 1]) * noise


@contextmanager
def counted() -> Iterator[np.ndarray]:
    """Count how often the averaged law, or the stack of laws, of each new row is evaluated.

    Not by public names: what is counted is inside. A call evaluates the laws of the rows it names.
    """
    count = np.zeros(N_NEW)
    originals = (MixtureDraws._sf, EnvelopeDraws._ranked)

    def average(self: MixtureDraws, rows: np.ndarray, z: np.ndarray) -> np.ndarray:
        if self.shape == (N_NEW, 1) and self.repeats > 1:
            np.add.at(count, rows, 1)
        return originals[0](self, rows, z)

    def stack(self: EnvelopeDraws, rows: np.ndarray, *rest: np.ndarray) -> Any:
        np.add.at(count, rows, 1)
        return originals[1](self, rows, *rest)

    MixtureDraws._sf, EnvelopeDraws._ranked = average, stack
    try:
        yield count
    finally:
        MixtureDraws._sf, EnvelopeDraws._ranked = originals


def fitted(engine: Any, gamma: Any) -> tuple[Locus, np.ndarray]:
    X, y = sample(6_000 + N_NEW)
    g = LinearRegression().fit(X[:1000], y[:1000])
    locus = Locus(g, engine=engine, gamma=gamma, random_state=0).fit(X[1000:5000], y[1000:5000])
    return locus, X[-N_NEW:]


def bounds() -> list[str]:
    """Evaluations and time of one and of ten alphas, for each engine."""
    lines = [
        f"| engine ({N_NEW} rows) | evaluations per row, one alpha: mean | largest (target at most "
        "12) | per alpha, ten alphas | one alpha, ms per row | ten alphas, of one | target, at "
        "most |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (engine, gamma, most) in ENGINES.items():
        locus, X_new = fitted(engine, gamma)
        with counted() as count:
            locus.loss_bound(X_new, 0.1)
            one, largest = count.mean(), count.max()
            count[:] = 0
            locus.loss_bound(X_new, ALPHAS)
            ten = count.mean() / len(ALPHAS)
        pairs = []
        for _ in range(REPEATS):
            first = seconds(lambda: locus.loss_bound(X_new, 0.1))  # noqa: B023 - called at once
            pairs.append((first, seconds(lambda: locus.loss_bound(X_new, ALPHAS))))  # noqa: B023 - now
        evaluations = f"{one:.1f} | {largest:.0f} | {ten:.1f}" if one else "closed form | |"
        ratio = median(second / first for first, second in pairs)
        cost = 1e3 * median(first for first, _ in pairs) / N_NEW
        lines.append(f"| {name} | {evaluations} | {cost:.3f} | {ratio:.2f} | {most or ''} |")
        print(lines[-1], flush=True)
    return lines


def one_evaluation() -> list[str]:
    """An evaluation of the averaged law and of the stack, beside as many bare normal tails."""
    locus, X_new = fitted(MDN(random_state=0), None)
    draws = locus.loss_dist(X_new).draws
    mean = draws.average()
    rows, z = np.arange(N_NEW), locus.loss_bound(X_new, 0.1)
    standard = (draws.location - z[:, None, None]) / draws.scale
    rank = np.full(N_NEW, 250)
    kinds = {
        "averaged law": lambda: mean._sf(rows, z),
        "stack of laws, and the ranked one": lambda: EnvelopeDraws(draws, rank)._ranked(
            rows, z, np.zeros(N_NEW, dtype=np.int64)
        ),
    }
    lines = [
        f"| one evaluation, {N_NEW} rows x 500 passes x 5 components | of `scipy.special.ndtr` on "
        "an array of that size (median) | target, at most |",
        "|---|---|---|",
    ]
    for name, function in kinds.items():
        ratios = [seconds(function) / seconds(lambda: ndtr(standard)) for _ in range(2 * REPEATS)]
        lines.append(f"| {name} | {median(ratios):.2f} | 2 |")
    return lines


def many_rows() -> list[str]:
    """Growth of time and memory with the number of rows, at 500 passes."""
    locus, _ = fitted(MDN(random_state=0), None)
    X, _ = sample(1_000_000)
    locus.loss_bound(X[:2_000])  # warm up
    few = seconds(lambda: locus.loss_bound(X[:100_000]))
    with peak_memory() as peak:
        many = seconds(lambda: locus.loss_bound(X))
    return [
        "| `loss_bound`, MDN with 500 passes, linear g | 100,000 rows, s | 1,000,000 rows, s | "
        "ratio | peak above input, MB (target at most 1,000) |",
        "|---|---|---|---|---|",
        f"| average | {few:.1f} | {many:.1f} | {many / few:.1f} | {peak[0] / MEGABYTE:.0f} |",
    ]


def main() -> None:
    torch.set_num_threads(1)
    lines = [
        "## MDN",
        "",
        "Made by `make costs-mdn`; ratios are taken side by side in one run, in processor time. "
        "The normal draws stand for BART's, without the time BART takes to predict them: theirs is "
        "the ratio of the inversion alone.",
        "",
    ]
    for part in (one_evaluation, bounds, many_rows):
        print(f"{part.__name__} ...", flush=True)
        table = part()
        print("\n".join(table), flush=True)
        lines += [*table, ""]
    write_section(PAGE, lines)


if __name__ == "__main__":
    main()
