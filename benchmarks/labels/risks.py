"""Real risks as populations of known truth: scores of rows that nothing was fitted on.

Of a table, g learns from one part and a loss model from D1 of 1,500 rows. The rows that are left
are the population: samples are drawn from them with replacement, so every risk is known. D1 itself
has out-of-fold pairs (score, bad), which any plan may use. Kept in ``build/labels``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

from benchmarks.datasets import load
from locuscore import Locus, Score

FOLDER = Path(__file__).parents[2] / "build" / "labels"
CELLS = ((0.7, 0.1), (0.5, 0.2), (0.8, 0.05), (0.5, 0.1), (0.9, 0.05))  # quantile that is tau, eta
ISSUE = ("bike", "homes", "protein")
OTHERS = ("superconductivity", "kin40k", "meps21", "electric", "cycle")
N_FIT, FOLDS, LARGEST_TRAIN = 1_500, 5, 4_000
LEAST_ACCEPTANCE = 0.05


@dataclass(frozen=True, eq=False)
class Risk:
    """One population of rows, ascending by score, and the pairs of D1 that a plan may use."""

    table: str
    quantile: float
    eta: float
    score: np.ndarray
    bad: np.ndarray
    score_fit: np.ndarray
    bad_fit: np.ndarray

    @property
    def name(self) -> str:
        return f"{self.table} q{self.quantile:g} eta {self.eta:g}"

    def accepted(self, threshold: float) -> float:
        """Share of the population that a threshold accepts."""
        return float(np.searchsorted(self.score, threshold, "right")) / len(self.score)

    def exceedance(self, threshold: float) -> float:
        """Share of bad rows among those."""
        n = int(np.searchsorted(self.score, threshold, "right"))
        return float(self.bad[:n].mean()) if n else 0.0

    @property
    def best(self) -> float:
        """The largest share that any valid threshold accepts."""
        rate = np.cumsum(self.bad) / np.arange(1, len(self.bad) + 1)
        last = np.append(self.score[1:] > self.score[:-1], True)  # thresholds accept whole ties
        valid = np.flatnonzero((rate <= self.eta) & last)
        return float(valid[-1] + 1) / len(self.score) if len(valid) else 0.0

    def sample(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        at = rng.integers(len(self.score), size=n)
        return self.score[at], self.bad[at]


def _locus(g: RandomForestRegressor, X: np.ndarray, y: np.ndarray, seed: int) -> Locus:
    return Locus(g, random_state=seed).fit(X, y)


def _made(table: str) -> dict[str, np.ndarray]:
    """Scores and losses of the population and of D1, out of fold, for each tau."""
    X, y = load(table)
    order = np.random.default_rng(0).permutation(len(y))
    n_train = min(LARGEST_TRAIN, len(y) // 3)
    train, fit, rest = np.split(order, [n_train, n_train + N_FIT])
    g = RandomForestRegressor(100, random_state=0, n_jobs=1).fit(X[train], y[train])
    locus = _locus(g, X[fit], y[fit], 0)
    losses_fit, losses = (np.abs(y[part] - g.predict(X[part])) for part in (fit, rest))
    taus = {q: float(np.quantile(losses_fit, q)) for q, _ in CELLS}
    found = {"losses": losses, "losses_fit": losses_fit}
    for q, tau in taus.items():
        found[f"score {q}"] = np.asarray(locus.scores(X[rest], Score.tail(tau)))
        found[f"score_fit {q}"] = np.empty(len(fit))
    for i, (inside, out) in enumerate(KFold(FOLDS, shuffle=True, random_state=0).split(fit)):
        other = _locus(g, X[fit[inside]], y[fit[inside]], 1 + i)
        for q, tau in taus.items():
            found[f"score_fit {q}"][out] = other.scores(X[fit[out]], Score.tail(tau))
    return found


def risks(tables: tuple[str, ...]) -> Iterator[Risk]:
    """The cells of some tables in which more than a twentieth can be accepted."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for table in tables:
        path = FOLDER / f"{table}.npz"
        if not path.exists():
            np.savez_compressed(path, **_made(table))
        kept = np.load(path)
        for q, eta in CELLS:
            tau = np.quantile(kept["losses_fit"], q)
            order = np.argsort(kept[f"score {q}"], kind="stable")
            risk = Risk(
                table,
                q,
                eta,
                kept[f"score {q}"][order],
                (kept["losses"] > tau)[order],
                kept[f"score_fit {q}"],
                kept["losses_fit"] > tau,
            )
            if risk.best > LEAST_ACCEPTANCE:
                yield risk
