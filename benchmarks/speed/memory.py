"""How large a fitted default is, in memory and in its archive."""

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from quantile_forest import RandomForestQuantileRegressor
from sklearn.linear_model import LinearRegression

from benchmarks.speed.batches import TREES
from benchmarks.speed.figures import MEGABYTE, Figure
from locuscore import Locus, Scorer

TITLE = "Size"
ABOUT = (
    "The default on 200,000 labelled rows of nine features, linear g: what a pickle of the fitted "
    "`Locus` holds, and the archive of its `Scorer`. quantile-forest has learned the same losses. "
    "The memory of a call on ten million rows is measured by the section `growth`."
)
N_LABELLED, N_FEATURES = 200_000, 9


def sample(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, N_FEATURES))
    return X, X.sum(axis=1) + np.sin(6 * X[:, 0]) + (0.1 + X[:, 1]) * rng.normal(size=n)


def megabytes(fitted: object) -> float:
    return len(pickle.dumps(fitted, protocol=5)) / MEGABYTE


def figures() -> Iterator[Figure]:
    g = LinearRegression().fit(*sample(1000, seed=0))
    X, y = sample(N_LABELLED, seed=1)
    locus = Locus(g, random_state=0).fit(X, y)
    yield Figure("fitted `Locus`", (megabytes(locus),), most=150, unit="MB")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.locus"
        Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1)).save(path)
        yield Figure("its archive", (path.stat().st_size / MEGABYTE,), most=150, unit="MB")
    rival = RandomForestQuantileRegressor(**TREES).fit(X, np.abs(y - g.predict(X)))
    yield Figure("fitted quantile-forest", (megabytes(rival),), unit="MB")
