"""Replaying a stream: ways to keep bounds up to date, and what each would have given.

A policy sees a fitted `Locus` only through its methods, so this stands below it.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.checks import as_floats, check_count
from locuscore._shared.frames import as_array, as_rows, n_rows, take_rows
from locuscore._shared.labels import label_codes
from locuscore._shared.progress import tracked

# Bounds of a batch, given the rows before it whose labels are known, their losses, and the batch.
Policy = Callable[[Rows, FloatArray, Rows], ArrayLike]


def same_bounds(locus: Any, alpha: float = 0.1) -> Policy:
    """For `rolling_origin`: the bounds of a fitted `Locus`, never brought up to date.

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
    >>> run = rolling_origin(same_bounds(locus), X[200:], z, batches=days)
    >>> [period.n_rows for period in run]
    [50, 50, 50, 50]
    """
    return lambda X_past, losses_past, X: locus.loss_bound(X, alpha)


def recalibrated_bounds(
    locus: Any, alpha: float = 0.1, *, window: int, half_life: float | None = None
) -> Policy:
    """For `rolling_origin`: recalibrate for each batch on the newest `window` rows.

    `half_life` is that of `Locus.recalibrate`. Until so many labels are known, the bounds are those
    of the `Locus` itself.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.engines import Scale
    >>> from locuscore.metrics import recalibrated_bounds, rolling_origin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X[:200], y[:200])
    >>> z, days = locus.losses(X[200:], y[200:]), np.arange(200) // 50
    >>> run = rolling_origin(recalibrated_bounds(locus, window=100), X[200:], z, batches=days)
    >>> [period.n_rows for period in run]
    [50, 50, 50, 50]
    """
    n = check_count(window, "window")
    fading = {} if half_life is None else {"half_life": half_life, "alpha": alpha}

    def policy(X_past: Rows, losses_past: FloatArray, X: Rows) -> Any:
        if len(losses_past) < n:
            return locus.loss_bound(X, alpha)
        newest = np.arange(len(losses_past) - n, len(losses_past))
        rows, z = take_rows(X_past, newest), losses_past[newest]
        return locus.recalibrate_losses(rows, z, **fading).loss_bound(X, alpha)

    return policy


def adapted_bounds(locus: Any, alpha: float = 0.1, **settings: Any) -> Policy:
    """For `rolling_origin`: a stream of `Locus.adapt`, made with the settings of that.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.engines import Scale
    >>> from locuscore.metrics import adapted_bounds, rolling_origin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X[:200], y[:200])
    >>> z, days = locus.losses(X[200:], y[200:]), np.arange(200) // 50
    >>> run = rolling_origin(adapted_bounds(locus, alpha=0.1), X[200:], z, batches=days)
    >>> [period.n_rows for period in run]
    [50, 50, 50, 50]
    """
    stream = locus.adapt(alpha, **settings)
    waiting: list[tuple[int, int, int]] = []  # ticket and rows of each batch

    def policy(X_past: Rows, losses_past: FloatArray, X: Rows) -> Any:
        while waiting and waiting[0][2] <= len(losses_past):
            ticket, start, stop = waiting.pop(0)
            stream.update_losses(ticket, losses_past[start:stop])
        start, decision = stream.decided, stream.bound(X)
        waiting.append((decision.ticket, start, stream.decided))
        return decision.bound

    return policy


def replay(policy: Policy, X: Rows, z: FloatArray, batches: ArrayLike, delay: int) -> FloatArray:
    """Bounds of rows in the order of time, as `locuscore.metrics.rolling_origin` asks for them."""
    X = as_rows(X)
    if n_rows(X) != len(z):
        raise ValueError(f"X has {n_rows(X)} rows, and there are {len(z)} losses.")
    lag = check_count(delay, "delay")
    starts = _starts(batches, len(z))
    bound = np.empty(len(z))
    for place, (start, stop) in tracked(list(enumerate(pairwise(starts))), "batches"):
        known = np.arange(starts[max(0, place + 1 - lag)])
        batch = take_rows(X, np.arange(start, stop))
        found = as_floats(as_array(policy(take_rows(X, known), z[known], batch)), "the bounds")
        if found.shape != (stop - start,) or np.isnan(found).any():
            raise ValueError(
                f"a policy returns one bound for each of the {stop - start} rows of a batch, none "
                f"missing; got shape {found.shape}."
            )
        bound[start:stop] = found
    return bound


def _starts(batches: ArrayLike, n: int) -> IntArray:
    """Positions at which batches start, and the end."""
    names, codes = label_codes(batches, n, "batches")
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    if len(starts) > len(names):
        raise ValueError(
            f"the rows of a batch are consecutive, in the order of time; {len(names)} batches "
            f"come in {len(starts)} pieces. Sort the rows by time first."
        )
    return np.append(starts, n)
