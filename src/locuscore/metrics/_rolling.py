"""Replaying a stream: how bounds would have done, batch by batch, in the order of time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray, Rows
from locuscore._shared.checks import check_same_order, one_alpha
from locuscore._shared.labels import label_codes
from locuscore._shared.metric_arrays import finite_losses
from locuscore._shared.shown import Shown
from locuscore.metrics._bounds import pinball_by_row
from locuscore.metrics._policies import Policy, replay


@dataclass(frozen=True, repr=False)
class PeriodScores(Shown):
    """How bounds did in one period: `mean_bound` and `pinball` are those of finite bounds.

    `infinite` is the share of the others; means of no bound are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.engines import Scale
    >>> from locuscore.metrics import rolling_origin, same_bounds
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X[:200], y[:200])
    >>> z, days = locus.losses(X[200:], y[200:]), np.arange(200) // 50
    >>> period, *_ = rolling_origin(same_bounds(locus), X[200:], z, batches=days)
    >>> period.n_rows, period.infinite
    (50, 0.0)
    """

    period: Any
    n_rows: int
    coverage: float
    mean_bound: float
    pinball: float
    infinite: float


def rolling_origin(
    policy: Policy,
    X: Rows,
    losses: ArrayLike,
    *,
    batches: ArrayLike,
    periods: ArrayLike | None = None,
    alpha: float = 0.1,
    delay: int = 1,
) -> list[PeriodScores]:
    """Replay labelled rows in the order of time, as if bounds were given batch by batch.

    Run it once for each way to keep bounds up to date, on the same rows, and compare. The policy
    is called for each batch, as ``policy(X_past, losses_past, X_batch)``, and returns the bounds of
    the batch. It sees the losses of batches at least `delay` batches back, in the order of time:
    with 1, labels are there when the next batch comes. `same_bounds`, `recalibrated_bounds` and
    `adapted_bounds` make policies from a fitted `Locus`; a function of your own will do as well.

    `batches` and `periods` have one label per row, such as the day and the month. The rows of a
    batch are consecutive. There is one result per period, in the order of time; without `periods`
    one per batch. `alpha` is that of the bounds, for the pinball loss.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.metrics import adapted_bounds, rolling_origin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(3000, 2))
    >>> y = X[:, 0] + np.linspace(1, 3, 3000) * rng.normal(size=3000)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X[:1000], y[:1000])
    >>> z, days = locus.losses(X, y), np.arange(3000) // 100
    >>> run = rolling_origin(adapted_bounds(locus, 0.1), X[1000:], z[1000:], batches=days[1000:])
    >>> len(run), run[0].n_rows
    (20, 100)
    """
    check_same_order(X=X, losses=losses)
    z, share = finite_losses(losses), one_alpha(alpha)
    bound = replay(policy, X, z, batches, delay)
    names, member = label_codes(batches if periods is None else periods, len(z), "periods")
    return [
        _period(name, z[member == code], bound[member == code], share)
        for code, name in enumerate(names)
    ]


def _period(name: Any, z: FloatArray, bound: FloatArray, alpha: float) -> PeriodScores:
    usable = np.isfinite(bound)
    means = (float("nan"), float("nan"))
    if usable.any():
        pinball = pinball_by_row(z[usable], bound[usable], alpha)
        means = (float(np.mean(bound[usable])), float(np.mean(pinball)))
    covered, infinite = float(np.mean(z <= bound)), float(np.mean(~usable))
    return PeriodScores(name, len(z), covered, *means, infinite)
