"""Our default and what it is compared with: a name, a group and how to score a task.

A "+" means that a model sees all that g says besides x; "++" means that it also sees the columns
of our second opinion. Rivals learn from all labelled rows, D1 and D2, for they keep none to
calibrate a bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.classes import rivals
from benchmarks.classes.protocol import ALPHA, LOSSES, Scores, Task, stopwatch
from locuscore import Locus, Score

Run = Callable[[Task], Scores]
OURS = "Locus"
OWN = ("ours", "former")  # groups that are no rivals
WITHOUT_OPINION: Any = ("x", "predictor")


@dataclass(frozen=True)
class Method:
    """How a method is named, run and grouped, which losses it knows and which packages it needs."""

    name: str
    group: str
    run: Run
    losses: tuple[str, ...] = LOSSES
    needs: str | None = None

    @property
    def is_available(self) -> bool:
        return self.needs is None or find_spec(self.needs) is not None


def locus(task: Task, signals: Any = "all") -> Scores:
    """Rank by the loss model: the chance of an error, or the mean of the law of the cost."""
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        fitted = _fitted(task, signals)
    if signals == "all":
        task.cache["locus"] = fitted  # whose signals some rivals borrow
    with stopwatch(times, "score"):
        values = expected_loss(fitted, task)
    return Scores(
        values,
        fitted.loss_bound(task.test.x, ALPHA),
        fit_seconds=times["fit"],
        score_seconds=times["score"],
        extra={"n2": len(fitted.tails_)},
    )


def _fitted(task: Task, signals: Any) -> Locus:
    signals = list(signals) if isinstance(signals, tuple) else signals
    fitted = Locus(task.g, loss=task.locus_loss, signals=signals, random_state=task.seed)
    return fitted.fit(task.labelled.x, task.labelled.y)


def expected_loss(fitted: Locus, task: Task) -> np.ndarray:
    """``E[Z | x]`` as the sum of ``P(Z > v | x)`` times the step from v to the next cost.

    The mean loss of the accepted is what is measured, and the rows with the smallest means make it
    smallest. With a 0-1 loss this is the tail at 0.
    """
    if task.loss == "0-1":
        return fitted.scores(task.test.x, Score.tail(0.0))
    values = np.unique(task.matrix)
    return fitted.probability(task.test.x, values[:-1]) @ np.diff(values)


def shown_opinion(task: Task, learn: Callable[..., Scores]) -> Scores:
    """A rival that sees our signals too; it is not charged for their fit.

    The opinion is out of fold on D1, and D2 is new to it, so all labelled rows can be learned from.
    """
    if "locus" not in task.cache:
        task.cache["locus"] = _fitted(task, "all")
    fitted, part = task.cache["locus"], task.labelled
    order = np.concatenate([fitted.fit_rows_, fitted.calibration_rows_])
    signals = np.vstack([fitted.fit_signals_, fitted.row_signals(part.x[fitted.calibration_rows_])])
    labelled = np.empty_like(signals)
    labelled[order] = signals
    columns = (
        np.hstack([labelled, part.p]),
        np.hstack([fitted.row_signals(task.test.x), task.test.p]),
    )
    return learn(task, columns=columns)


def _registry() -> list[Method]:
    calibrated = {"isotonic": "isotonic", "Platt": "sigmoid", "temperature": "temperature"}
    direct = {"forest mean loss": rivals.forest_loss, "boosted mean loss": rivals.boosted_loss}
    return [
        Method(OURS, "ours", locus),
        Method("Locus without opinion", "former", partial(locus, signals=WITHOUT_OPINION)),
        Method("largest probability", "g alone", rivals.largest_probability),
        Method("margin", "g alone", rivals.margin),
        Method("entropy", "g alone", rivals.entropy),
        # With a 0-1 loss this is the largest probability.
        Method("expected cost", "g alone", rivals.expected_cost, ("cost",)),
        *(
            Method(name, "calibrated", partial(rivals.calibrated, kind=kind))
            for name, kind in calibrated.items()
        ),
        Method("MAPIE top-label", "calibrated", rivals.mapie_top_label, needs="mapie"),
        Method("MAPIE LAC", "packages", partial(rivals.mapie_sets, kind="lac"), needs="mapie"),
        Method("MAPIE APS", "packages", partial(rivals.mapie_sets, kind="aps"), needs="mapie"),
        Method("scikit-fallback anomaly", "packages", rivals.fallback_anomaly, needs="skfb"),
        *(Method(f"{name}+", "models", run) for name, run in direct.items()),
        Method("boosted classes+", "second classifier", rivals.boosted_classes),
        Method("logistic classes+", "second classifier", rivals.logistic_classes),
        *(
            Method(f"{name}++", "opinion", partial(shown_opinion, learn=run))
            for name, run in direct.items()
        ),
    ]


METHODS = {method.name: method for method in _registry()}


def methods_of(loss: str) -> list[str]:
    return [name for name, method in METHODS.items() if loss in method.losses]
