"""One table, one predictor and one seed: what all methods share, and the measures of one method.

40 % of the rows are for g, 40 % are labelled rows for D1 and D2, 10 % are for choices and 10 % to
judge. The last two are measured in the same way; choices read the validation part alone.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.panel.predictors import PREDICTORS, Fit
from benchmarks.panel.tables import TABLES, load
from benchmarks.paper.protocol import (
    ACCEPTANCE,
    ALPHA,
    LARGE,
    Record,
    split_rows,
    stopwatch,
    tail_rates,
)
from benchmarks.rivals import Rival
from locuscore import Locus
from locuscore.metrics import coverage, pinball_loss

N_SEEDS = 5
DATASETS = [f"{table} {predictor}" for table in TABLES for predictor in PREDICTORS]
# Ours by name; a candidate for another default is one more line.
OURS, WITHOUT_OPINION = "Locus", "Locus without opinion"
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    OURS: {},
    WITHOUT_OPINION: {"signals": ["x", "predictor"]},
}
FRAME = "frame"  # shown to methods that read frames


@dataclass(frozen=True)
class Part:
    """Rows of one part: the frame as it is, target and loss of g."""

    X: pd.DataFrame
    y: np.ndarray
    z: np.ndarray


@dataclass(frozen=True)
class Task:
    """One dataset (a table and a predictor) and one seed."""

    dataset: str
    seed: int
    g: Any
    parts: dict[str, Part]  # labelled, validation, test
    g_seconds: float
    cache: dict[Any, tuple[Any, float]] = field(default_factory=dict)

    def locus(self, name: str) -> tuple[Locus, float]:
        """One of ours, fitted to the labelled rows, and the seconds it took."""
        if name not in self.cache:
            locus = Locus(self.g, random_state=self.seed, **CONFIGURATIONS[name])
            times: dict[str, float] = {}
            with stopwatch(times, "fit"):
                locus.fit(self.parts["labelled"].X, self.parts["labelled"].y)
            self.cache[name] = locus, times["fit"]
        return self.cache[name]

    def shown(self, seen: str, part: str) -> tuple[Any, float]:
        """What a method sees of a part, and the seconds to make it.

        `seen` is `FRAME`, or the name of one of ours whose signals are shown.
        """
        if seen == FRAME:
            return self.parts[part].X, 0.0
        if (seen, part) not in self.cache:
            locus, _ = self.locus(seen)
            times: dict[str, float] = {}
            with stopwatch(times, "ask"):
                signals = locus.row_signals(self.parts[part].X)
            self.cache[seen, part] = signals, times["ask"]
        return self.cache[seen, part]


@dataclass(frozen=True)
class Fitted:
    """A method after its fit, and what it is shown of new rows."""

    rival: Rival
    seen: str
    fit_seconds: float


def prepare(dataset: str, seed: int, most_rows: int | None = None) -> Task:
    """The task of one dataset and seed; fewer rows make it a quick one."""
    table, predictor = dataset.rsplit(" ", 1)
    return make_task(dataset, seed, *load(table), PREDICTORS[predictor], most_rows)


def make_task(
    dataset: str,
    seed: int,
    X: pd.DataFrame,
    y: np.ndarray,
    fit: Fit,
    most_rows: int | None = None,
) -> Task:
    """Shuffle, split, fit g once."""
    train, *others = split_rows(len(y), seed, most_rows)
    times: dict[str, float] = {}
    with stopwatch(times, "g"):
        g = fit(X.iloc[train], y[train], seed)
    parts = {
        name: Part(X.iloc[rows], y[rows], np.abs(y[rows] - g.predict(X.iloc[rows])))
        for name, rows in zip(("labelled", "validation", "test"), others, strict=True)
    }
    return Task(dataset, seed, g, parts, times["g"])


def measure(task: Task, method: str, fitted: Fitted) -> Record:
    """One flat record; measures of the two parts begin with their names."""
    record: Record = {
        "dataset": task.dataset,
        "seed": task.seed,
        "method": method,
        "p": task.parts["test"].X.shape[1],
        "n_labelled": len(task.parts["labelled"].y),
        "n_test": len(task.parts["test"].y),
        "fit_seconds": round(fitted.fit_seconds, 4),
        "g_seconds": round(task.g_seconds, 4),
    }
    for name in ("validation", "test"):
        measures, seconds = _measures(task, name, fitted)
        record |= {f"{name}_{key}": value for key, value in measures.items()}
        record["score_seconds"] = round(seconds, 4)  # of the test part, which comes last
    return record


def _measures(task: Task, name: str, fitted: Fitted) -> tuple[Record, float]:
    """Measures of one part, and the seconds to score it; tau is a quantile of its own losses."""
    z = task.parts[name].z
    rows, seconds = task.shown(fitted.seen, name)
    times: dict[str, float] = {}
    with stopwatch(times, "score"):
        score = fitted.rival.score(rows)
    tau, exceedance = float(np.quantile(z, LARGE)), fitted.rival.exceedance
    ranking = score if exceedance is None else exceedance(rows, tau)
    mean_loss = float(z.mean())
    found: Record = {
        "mean_loss": mean_loss,
        "tau": tau,
        "tail": tail_rates(ranking, z, tau, [ACCEPTANCE])[0],
    }
    if fitted.rival.is_bound:
        found["pinball"] = pinball_loss(z, score, ALPHA) / mean_loss
        found["coverage"] = coverage(z, score)
    return found, seconds + times["score"]
