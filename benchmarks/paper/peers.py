"""Methods that learn the loss, each in its best variant, on the paper's splits.

Columns "x" is what the paper's engines see; "x g" adds g(x), "all" also the spread of g's trees,
"opinion" also the second opinion of our default.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.paper.protocol import Part, Scores, Task, stopwatch
from benchmarks.rivals import Rival


def calibrated(task: Task, fit: Callable[..., Rival], columns: str) -> Scores:
    """Learn from D1 and calibrate on D2."""
    d1, d2 = task.with_opinion()[:2] if columns == "opinion" else task.split(columns)
    rows = choose(d1, columns), d1.z, choose(d2, columns), d2.z
    return _scores(task, lambda: fit(*rows, task.seed), columns)


def uncalibrated(task: Task, fit: Callable[..., Rival], columns: str) -> Scores:
    """Learn from D1 and D2: nothing is left for calibration.

    Who sees the opinion learns from D1 alone, where it is out of fold as on new rows.
    """
    learned = task.with_opinion()[0] if columns == "opinion" else task.calibration
    rows = choose(learned, columns), learned.z
    return _scores(task, lambda: fit(*rows, task.seed), columns)


def choose(part: Part, columns: str) -> np.ndarray:
    """Columns a model may see: "x", "x g" (with g(x)), "all" (the spread too), or "opinion"."""
    if columns == "opinion":
        return np.hstack([part.all, part.opinion])
    return {"x": part.x, "x g": np.hstack([part.x, part.own[:, :1]]), "all": part.all}[columns]


def _scores(task: Task, fit: Callable[[], Rival], columns: str) -> Scores:
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        rival = fit()
    shown = task.with_opinion()[2:] if columns == "opinion" else (task.validation, task.test)
    rows = [choose(part, columns) for part in shown]
    with stopwatch(times, "score"):
        bound = tuple(rival.score(part) for part in rows)
    exceedance = rival.exceedance and tuple(
        np.column_stack([rival.exceedance(part, tau) for tau in task.taus]) for part in rows
    )
    return Scores(
        bound,
        exceedance,
        is_bound=rival.is_bound,
        fit_seconds=times["fit"],
        score_seconds=times["score"],
    )
