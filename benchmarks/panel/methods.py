"""The methods that are compared: ours, and rivals that are shown what ours see.

A "+" means x, g(x) and the spread of g's trees, a "++" the second opinion as well. The opinion has
learned from D1, so only its out-of-fold columns there are like those of new rows: rivals with "++"
learn from D1 alone. Rivals with "+" that need no calibration learn from D1 and D2.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks import rivals
from benchmarks.panel.protocol import CONFIGURATIONS, FRAME, OURS, WITHOUT_OPINION, Fitted, Task
from benchmarks.paper.protocol import ALPHA, stopwatch
from benchmarks.rivals import Rival
from locuscore import Score

Run = Callable[[Task], Fitted]


def ours(task: Task, name: str) -> Fitted:
    """One of our configurations, on frames as they are."""
    locus, seconds = task.locus(name)
    says = Rival(
        lambda X: np.asarray(locus.loss_bound(X, ALPHA)),
        lambda X, tau: np.asarray(locus.scores(X, Score.tail(tau))),
    )
    return Fitted(says, FRAME, seconds)


def calibrated(task: Task, seen: str, fit: Callable[..., Rival]) -> Fitted:
    """A rival that learns from D1 and calibrates on D2, split as ours."""
    *rows, seconds = _labelled(task, seen)
    return _fitted(task, seen, lambda: fit(*rows, task.seed), seconds)


def uncalibrated(task: Task, seen: str, fit: Callable[..., Rival]) -> Fitted:
    """A rival without calibration."""
    S1, z1, S2, z2, seconds = _labelled(task, seen)
    S, z = (S1, z1) if seen == OURS else (np.vstack([S1, S2]), np.append(z1, z2))
    return _fitted(task, seen, lambda: fit(S, z, task.seed), seconds)


def _labelled(
    task: Task, seen: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Signals and losses of D1 and D2, and the seconds to ask g about these rows.

    What the opinion costs to learn is part of our own fit, and is not charged to a rival.
    """
    locus, _ = task.locus(seen)
    S, seconds = task.shown(seen, "labelled")
    d1, d2 = locus.fit_rows_, locus.calibration_rows_
    z = task.parts["labelled"].z
    S1 = locus.fit_signals_ if seen == OURS else S[d1]
    return S1, z[d1], S[d2], z[d2], seconds


def _fitted(task: Task, seen: str, fit: Callable[[], Rival], seconds: float) -> Fitted:
    times: dict[str, float] = {}
    with stopwatch(times, "fit"):
        rival = fit()
    return Fitted(rival, seen, seconds + times["fit"])


RIVALS: dict[str, Callable[..., Fitted]] = {
    "quantile-forest": partial(uncalibrated, fit=rivals.quantile_forest),
    "forest mean loss": partial(uncalibrated, fit=rivals.forest_mean_loss),
    "LightGBM mean loss": partial(uncalibrated, fit=rivals.lightgbm_mean_loss),
    "MAPIE CQR": partial(calibrated, fit=rivals.mapie_quantiles),
    "crepes Mondrian": partial(calibrated, fit=rivals.crepes_mondrian),
}
PLUS: dict[str, Run] = {
    f"{name}+": partial(run, seen=WITHOUT_OPINION) for name, run in RIVALS.items()
}
PLUS_PLUS: dict[str, Run] = {f"{name}++": partial(run, seen=OURS) for name, run in RIVALS.items()}
METHODS: dict[str, Run] = {
    **{name: partial(ours, name=name) for name in CONFIGURATIONS},
    **PLUS,
    **PLUS_PLUS,
}
