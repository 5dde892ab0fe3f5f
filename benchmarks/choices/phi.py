"""Where `KNNGamma` should measure distances, under a shift of the rows.

Homes below the 60 % quantile of living area train g and fit `Locus`; those above are scored in four
bins of it, the last one farthest away. Each engine is fitted once per seed, and serves all choices
of phi. Run ``make choices-phi``; half an hour.
"""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks.choices.gamma import LIVING_AREA, N_BINS
from benchmarks.datasets import load
from benchmarks.pages import write_section
from locuscore import KNNGamma, Locus
from locuscore.engines import BART, MDN, BayesianMDN, Forest

PAGE = Path(__file__).with_name("RESULTS.md")
N_SEEDS = 5
N_FIT, N_INSIDE, N_OUTSIDE = 2_500, 2_000, 3_000
PHI = (None, "x", "signals", "engine")
ALPHA = 0.1


class BARTLocations(BART):
    """BART with an embedding: the location under each draw."""

    def embed(self, S: np.ndarray) -> np.ndarray:
        return self.predict_draws(S).isf(np.full((len(S), 1), 0.5))


class ForestTrees(Forest):
    """A forest with an embedding: what each tree predicts."""

    def embed(self, S: np.ndarray) -> np.ndarray:
        rows = np.asarray(S, dtype=np.float32)
        return np.column_stack([tree.predict(rows)[:, 0] for tree in self.forest_.estimators_])


ENGINES = {
    "BART": (BARTLocations, "locations of the draws"),
    "MDN": (lambda: MDN(n_draws=100), "hidden layer"),
    "BayesianMDN": (BayesianMDN, "hidden layer of one network"),
    "Forest": (ForestTrees, "predictions of the trees"),
}


class Once:
    """An engine that is fitted once; clones are itself."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.is_fitted = False

    def __sklearn_clone__(self) -> "Once":
        return self

    def fit(self, S: np.ndarray, z: np.ndarray) -> "Once":
        if not self.is_fitted:
            self.engine.fit(S, z)
            self.is_fitted = True
        return self

    def predict_draws(self, S: np.ndarray) -> Any:
        return self.engine.predict_draws(S)

    def embed(self, S: np.ndarray) -> np.ndarray:
        return self.engine.embed(S)


def measure(seed: int) -> dict[tuple[str, str | None], np.ndarray]:
    """Coverage of each part of the rows, then the median bound over that of the average."""
    X, y = load("homes")
    area = X[:, LIVING_AREA]
    cut = np.quantile(area, 0.6)
    rng = np.random.default_rng(seed)
    inside = rng.permutation(np.flatnonzero(area < cut))
    train, fit, held_out = np.split(inside[: 2 * N_FIT + N_INSIDE], [N_FIT, 2 * N_FIT])
    outside = rng.permutation(np.flatnonzero(area >= cut))[:N_OUTSIDE]
    bins = np.array_split(outside[np.argsort(area[outside], kind="stable")], N_BINS)
    g = RandomForestRegressor(100, random_state=seed).fit(X[train], y[train])
    found: dict[tuple[str, str | None], np.ndarray] = {}
    for name, (make, _) in ENGINES.items():
        engine, average = Once(make().set_params(random_state=seed)), None
        for phi in PHI:
            gamma = None if phi is None else KNNGamma(phi=phi)
            locus = Locus(g, engine=engine, gamma=gamma, random_state=seed).fit(X[fit], y[fit])
            parts = [held_out, *bins]
            bounds = [locus.loss_bound(X[rows], ALPHA) for rows in parts]
            losses = [locus.losses(X[rows], y[rows]) for rows in parts]
            average = bounds if average is None else average
            covered = [np.mean(z <= bound) for z, bound in zip(losses, bounds, strict=True)]
            width = [np.median(b / a) for b, a in zip(bounds, average, strict=True)]
            found[name, phi] = np.array([covered, width])
    return found


def table(results: list[dict[tuple[str, str | None], np.ndarray]]) -> list[str]:
    heads = " | ".join(f"{part} | bound" for part in ("like D1", "1", "2", "3", "4"))
    lines = [
        "## Where distances are measured under gamma",
        "",
        f"Made by `make choices-phi` with `KNNGamma(phi=...)`: {N_FIT:,} homes below the 60 % "
        "quantile of living area are fitted; others below it, and those above it in four bins, the "
        f"last one farthest away, are scored. Coverage at a target of {1 - ALPHA:g}, which is "
        "promised for rows like D1 only, and the median ratio of the bound to that of the average. "
        f"Repetitions: {len(results)}.",
        "",
        f"| engine | phi | {heads} |",
        "|" + "---|" * 12,
    ]
    for name, phi in results[0]:
        mean = np.mean([result[name, phi] for result in results], axis=0)
        cells = [f"{covered:.2f} | {width:.2f}" for covered, width in mean.T]
        what = {None: "average (no gamma)", "engine": f"engine: {ENGINES[name][1]}"}
        lines.append(f"| {name} | {what.get(phi, phi)} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    write_section(PAGE, table([measure(seed) for seed in range(N_SEEDS)]))


if __name__ == "__main__":
    main()
