"""One table, classifier, loss and seed: the parts, what g says of them, and how scores are judged.

40 % of the rows train g, 40 % are labelled rows that a method may learn from (D1 and D2), 20 %
judge it. A score is small where a row is safe.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.classes.tables import CLASSES, MOST_ROWS, Table, cost_matrix, load_table
from locuscore import cost

ALPHA = 0.1
ACCEPTANCE = 0.7
CURVE = np.round(np.arange(0.1, 1.01, 0.1), 1)  # acceptances at which curves are recorded
TRAIN, LABELLED = 0.4, 0.4
N_TREES = 300
MOST_ITERATIONS = 1_000
DIGITS = 12  # of a score; what differs by rounding is a tie
CLASSIFIERS = ("forest", "boosting", "logistic")
LOSSES = ("0-1", "cost")
Record = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """Rows of one part: features, g's probabilities and class, the true class and the loss."""

    x: np.ndarray
    p: np.ndarray
    said: np.ndarray
    y: np.ndarray
    z: np.ndarray

    @property
    def own(self) -> np.ndarray:
        """All that g says: probabilities, class, margin between the two likeliest, entropy."""
        top = np.sort(self.p, axis=1)
        entropy = -np.sum(self.p * np.log(np.where(self.p > 0, self.p, 1.0)), axis=1)
        return np.column_stack([self.p, self.said, top[:, -1] - top[:, -2], entropy])


@dataclass(frozen=True)
class Task:
    """What all methods share; `matrix` has the loss of each true and predicted class."""

    dataset: str
    seed: int
    loss: str
    matrix: np.ndarray
    g: Any
    train_x: np.ndarray
    labelled: Part
    test: Part
    g_seconds: float
    cache: dict[str, Any] = field(default_factory=dict)

    @property
    def locus_loss(self) -> Any:
        return "zero_one" if self.loss == "0-1" else cost(self.matrix)

    def expected(self, p: np.ndarray) -> np.ndarray:
        """Expected loss of g's class on the test rows under probabilities of the classes."""
        return np.sum(p * self.matrix.T[self.test.said], axis=1)


@dataclass(frozen=True)
class Scores:
    """Scores of the test rows, and processor seconds; `bound` where a method has one."""

    values: np.ndarray
    bound: np.ndarray | None = None
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    extra: Record = field(default_factory=dict)


@contextmanager
def stopwatch(times: dict[str, float], name: str) -> Iterator[None]:
    """Processor time of a block: with one thread, what it would take on an idle machine."""
    start = time.process_time()
    yield
    times[name] = time.process_time() - start


def key(table: str, classifier: str, loss: str) -> str:
    """Name of a dataset in the records."""
    return f"{table} {classifier} {loss}"


DATASETS = {
    key(table, classifier, loss): (table, classifier, loss)
    for table in CLASSES
    for classifier in CLASSIFIERS
    for loss in LOSSES
}


def classifier(name: str, seed: int, n_trees: int = N_TREES) -> Any:
    """A classifier as its users would take it; none is tuned."""
    if name == "forest":
        return RandomForestClassifier(n_trees, n_jobs=1, random_state=seed)
    if name == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=MOST_ITERATIONS))


def prepare(dataset: str, seed: int) -> Task:
    """The task of one dataset of the records and one seed."""
    table, name, loss = DATASETS[dataset]
    return make_task(dataset, seed, load_table(table), classifier(name, seed), loss)


def make_task(dataset: str, seed: int, table: Table, g: Any, loss: str) -> Task:
    """Draw and shuffle the rows, split them, fit g once."""
    rows = np.random.default_rng(seed).permutation(len(table.y))[:MOST_ROWS]
    first, second = round(TRAIN * len(rows)), round((TRAIN + LABELLED) * len(rows))
    train, labelled, test = np.split(rows, [first, second])
    times: dict[str, float] = {}
    with stopwatch(times, "g"):
        g.fit(table.X[train], table.y[train])
    if len(g.classes_) != table.n_classes:
        raise ValueError(f"{dataset}, seed {seed}: g has seen {len(g.classes_)} classes only.")
    k = table.n_classes
    matrix = 1.0 - np.eye(k) if loss == "0-1" else cost_matrix(table)

    def part(rows: np.ndarray) -> Part:
        x, y = table.X[rows], table.y[rows]
        said = g.predict(x)
        return Part(x, g.predict_proba(x), said, y, matrix[y, said])

    parts = table.X[train], part(labelled), part(test)
    return Task(dataset, seed, loss, matrix, g, *parts, g_seconds=times["g"])


def mean_losses(values: np.ndarray, z: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Mean loss of the rows with the smallest scores, so many; ties in random order."""
    _, block = np.unique(np.round(values, DIGITS), return_inverse=True)
    accepted = np.append(0, np.cumsum(np.bincount(block)))
    total = np.append(0.0, np.cumsum(np.bincount(block, weights=z)))
    # Within a block of ties the expected sum grows linearly.
    return np.interp(kept, accepted, total) / kept


def measure(task: Task, method: str, scores: Scores) -> Record:
    """One flat record."""
    z, values = task.test.z, scores.values
    if values.shape != z.shape or np.isnan(values).any():
        raise ValueError(f"{method} gave scores of shape {values.shape}, or NaN.")
    at = np.maximum(np.round(np.append(ACCEPTANCE, CURVE) * len(z)), 1)
    error, *curve = mean_losses(values, z, at)
    record: Record = {
        "dataset": task.dataset,
        "seed": task.seed,
        "method": method,
        "n_labelled": len(task.labelled.y),
        "n_test": len(z),
        "n_classes": len(task.matrix),
        "error70": float(error),
        "aurc": float(np.mean(mean_losses(values, z, np.arange(1, len(z) + 1)))),
        "mean_loss": float(z.mean()),
        "curve": [round(float(value), 6) for value in curve],
        "fit_seconds": round(scores.fit_seconds, 4),
        "score_seconds": round(scores.score_seconds, 4),
        "g_seconds": round(task.g_seconds, 4),
    }
    if scores.bound is not None:
        record |= {
            "alpha": ALPHA,
            "coverage": float(np.mean(z <= scores.bound)),
            "mean_bound": float(np.mean(scores.bound)),
        }
    return record | scores.extra
