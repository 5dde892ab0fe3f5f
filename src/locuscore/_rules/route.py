"""Split a batch into rows to accept and rows to review: by a budget, or by costs."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray
from locuscore._shared.accepted import is_accepted
from locuscore._shared.checks import (
    LocusWarning,
    check_between,
    check_losses,
    check_numbers,
    check_same_length,
    check_scores,
    one_tau,
)
from locuscore._shared.readable import as_typed
from locuscore._shared.share_interval import share_interval
from locuscore._shared.shown import Shown


@dataclass(frozen=True, repr=False)
class ExceedanceInterval(Shown):
    """Share of losses above tau among accepted labelled rows, with an exact interval.

    ``[low, high]`` (Clopper-Pearson) contains ``P(Z > tau | accepted)`` with probability at least
    1 - delta. Without accepted rows `estimate` is NaN and the interval is [0, 1].

    Examples
    --------
    >>> from locuscore import exceedance_interval
    >>> found = exceedance_interval([1.0, 2.0, 9.0, 1.0], [True, True, True, False], tau=5)
    >>> found.n_accepted, found.n_bad
    (3, 1)
    >>> found.low < found.estimate < found.high
    True
    """

    n_accepted: int
    n_bad: int
    tau: float
    delta: float
    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        seen = (
            f"estimate {self.estimate:.3g} from {self.n_bad} of {self.n_accepted} accepted "
            "labelled rows"
            if self.n_accepted
            else "no labelled row is accepted, so nothing is known"
        )
        return (
            f"P(loss > {as_typed(self.tau)} | accepted) lies in [{self.low:.3g}, {self.high:.3g}] "
            f"with probability at least {1 - self.delta:g} over the labelled rows (theorem, for "
            f"this one split if they had no part in choosing it); {seen}."
        )


@dataclass(frozen=True, repr=False)
class Routing(Shown):
    """Which rows are accepted; the others are for review.

    `threshold` is the largest accepted score (one number per row where costs are); a row is
    accepted when its score is at most that. `expected_exceedance` and `expected_cost` (the whole
    batch) are the model's own expectations, `exceedance` comes from labelled rows.

    Examples
    --------
    >>> from locuscore import route
    >>> routing = route([0.3, 0.1, 0.9, 0.2], review_budget=0.25)
    >>> routing.accepted
    array([ True,  True, False,  True])
    >>> routing.threshold
    0.3
    """

    accepted: np.ndarray
    threshold: float | FloatArray
    exceedance: ExceedanceInterval | None = None
    expected_exceedance: float | None = None
    expected_cost: float | None = None

    @property
    def n_reviewed(self) -> int:
        """Number of rows for review."""
        return int(np.count_nonzero(~self.accepted))

    def __str__(self) -> str:
        parts = [f"{self.n_reviewed} of {len(self.accepted)} rows for review, the rest accepted."]
        if self.expected_exceedance is not None:
            share = f"{self.expected_exceedance:.3g} of the accepted exceed the tolerance, and "
            said = share if self.accepted.any() else ""
            parts.append(f"Estimate, by the model: {said}the batch costs {self.expected_cost:.6g}.")
        if self.exceedance is not None:
            parts.append(str(self.exceedance))
        if len(parts) == 1:
            parts.append("Nothing is guaranteed about the accepted ones: no labelled rows given.")
        return " ".join(parts)


def exceedance_interval(
    losses: ArrayLike, accepted: ArrayLike, tau: float, delta: float = 0.05
) -> ExceedanceInterval:
    """Exact interval of level 1 - delta for ``P(Z > tau | accepted)`` from labelled rows.

    For independent rows and a rule that was fixed without their losses the number of bad rows
    among the accepted is binomial; the interval is Clopper and Pearson's. One rule, one interval:
    for a choice among many rules see `operating_curve`.

    Examples
    --------
    >>> from locuscore import exceedance_interval
    >>> found = exceedance_interval([0.0] * 95 + [9.0] * 5, [True] * 100, tau=5)
    >>> found.estimate
    0.05
    >>> round(found.low, 3), round(found.high, 3)
    (0.016, 0.113)
    """
    z, taken = check_same_length(losses=losses, accepted=accepted)
    z = check_losses(z, len(z), "losses")
    if not np.isin(taken, (0.0, 1.0)).all():
        raise ValueError("accepted must hold True or False for each row.")
    tau = one_tau(tau)
    delta = check_between(delta, "delta")
    n, k = int(taken.sum()), int(np.count_nonzero((z > tau) & (taken == 1)))
    low, high = (float(end) for end in share_interval(k, n, delta))
    return ExceedanceInterval(n, k, tau, delta, k / n if n else float("nan"), low, high)


def route(
    score: ArrayLike,
    review_budget: float,
    *,
    score_cal: ArrayLike | None = None,
    losses_cal: ArrayLike | None = None,
    tau: float | None = None,
    delta: float = 0.05,
) -> Routing:
    """Send the riskiest rows to review, as many as the budget allows, and accept the rest.

    Equal scores are treated alike, so a group of ties that does not fit the budget as a whole is
    accepted and part of the budget stays unused; if all scores are equal nothing is reviewed. An
    infinite score, of either sign, is always reviewed; a warning says when those alone exceed the
    budget.

    Parameters
    ----------
    score
        One number per row, small where safe.
    review_budget
        Number of rows (an int) or share of the batch (a float from 0 to 1) that may be reviewed.
    score_cal, losses_cal, tau, delta
        Labelled rows, drawn like the batch, from which the bad among the accepted are
        estimated, with an exact interval of level 1 - delta. The cut comes from the batch alone.

    Examples
    --------
    >>> from locuscore import route
    >>> route([0.3, 0.1, 0.9, 0.2], review_budget=0.25).accepted.tolist()
    [True, True, False, True]
    """
    (s,) = check_scores(score=score)
    budget = _budget(review_budget, len(s))
    threshold = -np.inf if budget == len(s) else float(np.partition(s, -budget - 1)[-budget - 1])
    accepted = is_accepted(s, threshold)
    never = int(np.count_nonzero(s == np.inf))
    if never > budget:
        warnings.warn(
            f"{never} rows have an infinite score and are never accepted: more than the budget of "
            f"{budget} rows.",
            LocusWarning,
            stacklevel=2,
        )
    return Routing(accepted, threshold, _observed(threshold, score_cal, losses_cal, tau, delta))


def route_by_cost(
    probability: ArrayLike,
    review_cost: ArrayLike,
    exceedance_cost: ArrayLike,
    *,
    probability_cal: ArrayLike | None = None,
    losses_cal: ArrayLike | None = None,
    tau: float | None = None,
    delta: float = 0.05,
) -> Routing:
    """Review a row where accepting it is expected to cost more than reviewing it.

    Accept exactly when ``probability * exceedance_cost <= review_cost``; equality accepts. This
    minimises the expected cost if the probabilities are right, and is an estimate otherwise.

    Parameters
    ----------
    probability
        ``P(Z > tau | x)`` per row, a probability: `Locus.probability`, which `Locus.route_by_cost`
        passes on. Not `Locus.exceedance`, a level that may be far below it.
    review_cost, exceedance_cost
        Cost of looking at a row, and of accepting one whose loss exceeds tau: numbers, or one
        each per row.
    probability_cal, losses_cal, tau, delta
        Labelled rows for an exact interval, as in `route`; with costs per row, decide on the
        labelled rows by their own costs and use `exceedance_interval`.

    Examples
    --------
    >>> from locuscore import route_by_cost
    >>> routing = route_by_cost([0.01, 0.2, 0.6], review_cost=1, exceedance_cost=10)
    >>> routing.accepted
    array([ True, False, False])
    >>> round(routing.expected_cost, 2)  # one row accepted, two reviewed
    2.1
    """
    (p,) = check_same_length(probability=probability)
    if np.any((p < 0) | (p > 1)):
        raise ValueError(f"probability must lie from 0 to 1; got {p.min():g} to {p.max():g}.")
    review = _costs(review_cost, len(p), "review_cost")
    exceed = _costs(exceedance_cost, len(p), "exceedance_cost")
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = np.where(exceed > 0, review / exceed, np.inf)
    accepted = p <= threshold
    if threshold.ndim and probability_cal is not None:
        raise ValueError(
            "with costs per row the labelled rows need their own: call route_by_cost on them, and "
            "exceedance_interval(losses, accepted, tau) with its decisions."
        )
    observed = _observed(threshold, probability_cal, losses_cal, tau, delta)
    mean = float(p[accepted].mean()) if accepted.any() else float("nan")
    cost = float(np.where(accepted, p * exceed, review).sum())
    at = threshold if threshold.ndim else float(threshold)
    return Routing(accepted, at, observed, mean, cost)


def _observed(
    threshold: float | FloatArray,
    score: ArrayLike | None,
    losses: ArrayLike | None,
    tau: float | None,
    delta: float,
) -> ExceedanceInterval | None:
    """Interval for the rows at or below the threshold, where labelled rows are given."""
    if score is None and losses is None and tau is None:
        return None
    if score is None or losses is None or tau is None:
        raise ValueError("labelled rows need all three: their scores, their losses and tau.")
    s, z = check_scores(score_cal=score, losses_cal=losses)
    return exceedance_interval(z, is_accepted(s, threshold), tau, delta)


def _budget(value: float, n: int) -> int:
    """Largest number of rows that may be reviewed; a share is rounded down."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0:
        return min(int(value), n)
    if isinstance(value, float | np.floating) and 0 <= value <= 1:
        return min(n, int(value * n * (1 + 1e-12)))  # 0.29 * 100 is below 29 in floating point
    raise ValueError(
        f"review_budget must be a number of rows (int) or a share from 0 to 1; got {value!r}."
    )


def _costs(value: ArrayLike, n: int, name: str) -> FloatArray:
    """Return one cost or one per row, none negative."""
    costs = check_numbers(value, name)
    if costs.shape not in ((), (n,)) or not np.all(np.isfinite(costs) & (costs >= 0)):
        raise ValueError(
            f"{name} must be one finite non-negative number, or {n} of them, one per row."
        )
    return costs
