"""Measures of a bound, of a score and of a predictive distribution: functions of arrays.

A row is always accepted when ``score <= threshold``, and a loss is an exceedance when ``z > tau``.
Missing values, empty arrays and arrays of different lengths are refused. Losses are finite; scores
and bounds may be infinite.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, expit
from scipy.stats import ks_1samp, rankdata, uniform

from locuscore._protocols import BoolArray, FloatArray, IntArray, Rows
from locuscore._rolling import (
    Policy,
    adapted_bounds,
    recalibrated_bounds,
    replay,
    same_bounds,
)
from locuscore._shared.accepted import count_up_to, distinct_counts, is_accepted
from locuscore._shared.checks import (
    check_between,
    check_losses,
    check_numbers,
    check_same_length,
    check_same_order,
    check_scores,
    never_accepted,
    one_alpha,
    one_tau,
)
from locuscore._shared.cluster_coverage import cluster_p_values
from locuscore._shared.labels import label_codes

__all__ = [
    "ExceedanceCurve",
    "ExceedanceRates",
    "LocalCoverage",
    "PeriodScores",
    "Uniformity",
    "acceptance_rate",
    "adapted_bounds",
    "cluster_coverage_p_value",
    "coverage",
    "crps",
    "exceedance_area",
    "exceedance_curve",
    "exceedance_rates",
    "local_coverage",
    "pinball_loss",
    "pit_uniformity",
    "randomized_tails",
    "recalibrated_bounds",
    "rolling_origin",
    "same_bounds",
]


@dataclass(frozen=True)
class ExceedanceRates:
    """How often the loss exceeds tau: among all rows, with acceptance, and given acceptance."""

    marginal: float
    joint: float
    conditional: float


@dataclass(frozen=True)
class Uniformity:
    """A test of uniformity: the largest gap between the two distribution functions."""

    statistic: float
    p_value: float


@dataclass(frozen=True)
class LocalCoverage:
    """Coverage per group, one entry each; ``[low, high]`` is an exact interval for it."""

    group: np.ndarray
    n_rows: IntArray
    coverage: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class ExceedanceCurve:
    """Acceptance, and exceedance among the accepted, at ascending thresholds."""

    threshold: FloatArray
    acceptance: FloatArray
    exceedance: FloatArray


class Law(Protocol):
    """What `crps` needs from a predictive distribution; `LossDistribution` has it, and `knots`."""

    def sf(self, z: FloatArray, /) -> FloatArray:
        """``P(Z > z | x)``; an argument of shape (n, m) gives (n, m)."""

    def isf(self, level: FloatArray, /) -> FloatArray:
        """``sup{z : P(Z > z | x) >= level}``, shapes likewise."""


def coverage(losses: ArrayLike, bound: ArrayLike) -> float:
    """Share of rows with ``loss <= bound``."""
    z, u = losses_and(losses, bound=bound)
    return float(np.mean(z <= u))


def acceptance_rate(score: ArrayLike, threshold: float) -> float:
    """Share of rows with ``score <= threshold``; an infinite score is never accepted."""
    (s,) = check_scores(score=score)
    cut = check_numbers(threshold, "threshold")
    if cut.ndim or np.isnan(cut):
        raise ValueError(f"threshold must be one number here; got {threshold!r}.")
    return float(np.mean(is_accepted(s, float(cut))))


def exceedance_rates(losses: ArrayLike, accepted: ArrayLike, tau: float) -> ExceedanceRates:
    """How often a loss exceeds tau.

    ``P(Z > tau)``, ``P(Z > tau and accepted)`` and ``P(Z > tau | accepted)``; the last is NaN when
    nothing is accepted.
    """
    z, flags = losses_and(losses, accepted=accepted)
    exceeds, taken = z > one_tau(tau), check_flags(flags)
    joint = float(np.mean(exceeds & taken))
    conditional = float(np.mean(exceeds[taken])) if taken.any() else float("nan")
    return ExceedanceRates(float(np.mean(exceeds)), joint, conditional)


def pinball_loss(losses: ArrayLike, bound: ArrayLike, alpha: float) -> float:
    """Mean pinball loss of the bound as the ``1 - alpha`` quantile of the loss.

    ``max((1 - alpha) * (z - u), alpha * (u - z))``, smallest in expectation at the true quantile;
    inf if a bound is infinite.
    """
    z, u = losses_and(losses, bound=bound)
    return float(np.mean(pinball_by_row(z, u, one_alpha(alpha))))


def pinball_by_row(z: FloatArray, bound: FloatArray, alpha: float) -> FloatArray:
    """Pinball loss of each row; arguments as in `pinball_loss`, trusted."""
    return np.maximum((1.0 - alpha) * (z - bound), alpha * (bound - z))


def crps(losses: ArrayLike, dist: Law, n_levels: int = 100) -> float:
    """Mean continuous ranked probability score ``integral of (P(Z <= t | x) - 1{z <= t})^2 dt``.

    The integral runs over knots at quantiles of the row's own distribution (of the parts of a
    mixture): `n_levels` evenly spaced ones, and more in both tails. The survival function is taken
    as straight between them, from its value at one knot to its limit below the next. So the score
    is exact for step distributions whose jumps are at least ``1 / n_levels`` (a 0-1 loss, a small
    sample). Otherwise the error of a cell is at most twice the drop of the survival in it,
    ``1 / n_levels``, times its width. For smooth distributions the relative error of the whole
    score is below 5e-4 at 100 levels and 2e-5 at 1,000. It is inf if a distribution has mass at
    inf.
    """
    z = _losses(losses)
    if n_levels < 1:
        raise ValueError(f"n_levels must be at least 1; got {n_levels}.")
    return float(np.mean(crps_by_row(z, dist, n_levels)))


def crps_by_row(z: FloatArray, dist: Law, n_levels: int) -> FloatArray:
    """CRPS of each row; arguments as in `crps`, trusted."""
    # Logistic spacing reaches 1e-8 from either end, where the evenly spaced levels stop.
    levels = np.append(np.arange(1, n_levels) / n_levels, expit(np.arange(-18.0, 18.5, 0.5)))
    places = getattr(dist, "knots", dist.isf)(levels[None, :])
    places = np.broadcast_to(places, (len(z), places.shape[1]))
    if not np.isfinite(places).all():
        return np.full(len(z), np.inf)
    knots = np.sort(np.column_stack([places, z]), axis=1)
    right = dist.sf(knots)[:, :-1]
    left = dist.sf(np.nextafter(knots, -np.inf))[:, 1:]
    above = knots[:, :-1] >= z[:, None]
    a, b = np.where(above, right, 1.0 - right), np.where(above, left, 1.0 - left)
    # The integral of the square of a straight line from a to b.
    return np.sum(np.diff(knots, axis=1) * (a * a + a * b + b * b) / 3.0, axis=1)


def randomized_tails(tails: ArrayLike, survival: ArrayLike, random_state: Any = None) -> FloatArray:
    """Draw one number between ``P(Z > z | x)`` and ``P(Z >= z | x)`` per row.

    These numbers are uniform on (0, 1) whenever the distribution is right, atoms included. Pass
    them to `pit_uniformity` where distributions have atoms.
    """
    high, low = (check_probabilities(v) for v in check_same_length(tails=tails, survival=survival))
    if np.any(low > high):
        raise ValueError("survival P(Z > z) must not be larger than the tail P(Z >= z).")
    return low + (high - low) * np.random.default_rng(random_state).uniform(size=len(high))


def pit_uniformity(tails: ArrayLike) -> Uniformity:
    """Test whether the tails ``P(Z >= z | x)`` of independent rows are uniform on (0, 1).

    The test is Kolmogorov-Smirnov, two-sided. If the distribution is right and continuous, the
    p-value is uniform. At an atom the tail counts the whole atom and is too large even for the
    right distribution. So distributions with atoms (zero-inflated or 0-1 losses, and steps such as
    a forest's) are rejected for their atoms alone: pass `randomized_tails` for them. The test gives
    the same result for PIT values, ``1 - tail``.
    """
    (values,) = check_same_length(tails=tails)
    result = ks_1samp(check_probabilities(values), uniform.cdf)
    return Uniformity(float(result.statistic), float(result.pvalue))


def local_coverage(
    losses: ArrayLike,
    bound: ArrayLike,
    groups: ArrayLike,
    n_bins: int | None = None,
    delta: float = 0.05,
) -> LocalCoverage:
    """Coverage in each group of rows, with exact (Clopper-Pearson) intervals of level 1 - delta.

    `groups` holds one label per row. With `n_bins` it holds one score per row, and these are cut
    into at most that many bins of about equal size. Equal scores share a bin, and a bin is named
    after its largest score. Each interval is for one group, not for all groups together.
    """
    check_same_order(losses=losses, groups=groups)
    z, u = losses_and(losses, bound=bound)
    d = check_between(delta, "delta")
    names, member = _labels(groups, len(z)) if n_bins is None else _bins(groups, len(z), n_bins)
    n = np.bincount(member)
    k = np.bincount(member, weights=z <= u)
    return LocalCoverage(names, n, k / n, *share_interval(k, n, d))


def cluster_coverage_p_value(
    tails_cal: ArrayLike,
    clusters_cal: ArrayLike,
    tails: ArrayLike,
    clusters: ArrayLike,
    alpha: float,
    random_state: int = 0,
) -> float:
    """P-value of "new clusters are missed no more often than those that calibrated".

    Tails ``P(Z >= z | x)`` and one label per row, of the calibration rows and of new rows; they
    share no cluster. Rows are missed whose tail is below a level: the share alpha of all tails is,
    each cluster counting once. Whole clusters then change places between the two at random, 9,999
    times (fewer if there are more than 2,000 clusters), and the p-value is the share of these
    choices, with the one that came, in which the new clusters are missed at least as much. It is
    valid for every number and size of clusters if they are exchangeable, while a test that takes
    their rows for independent may be certain of nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore.metrics import cluster_coverage_p_value
    >>> rng = np.random.default_rng(0)
    >>> day = np.repeat(np.arange(100), 20)
    >>> tails = np.repeat(rng.uniform(size=100), 20) * rng.uniform(size=2000)
    >>> cal, new = day < 60, day >= 60
    >>> p = cluster_coverage_p_value(tails[cal], day[cal], tails[new], day[new], alpha=0.1)
    >>> 0.01 < p <= 1
    True
    """
    first, second = (check_same_length(tails=part)[0] for part in (tails_cal, tails))
    names_cal, codes_cal = label_codes(clusters_cal, len(first), "clusters_cal")
    names, codes = label_codes(clusters, len(second), "clusters")
    shared = len(set(names_cal) & set(names))
    if shared:
        raise ValueError(f"{shared} clusters are in clusters_cal and in clusters; none may be.")
    both = (check_probabilities(first), check_probabilities(second)), (codes_cal, codes)
    return cluster_p_values(*both, one_alpha(alpha), seed=random_state)[0]


def share_interval(k: Any, n: Any, delta: float) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's interval of level 1 - delta for a share, from k of n independent rows.

    Without rows it is from 0 to 1.
    """
    k, n = np.asarray(k), np.asarray(n)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, delta / 2), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - delta / 2), 1.0)
    return low, high


def exceedance_curve(score: ArrayLike, losses: ArrayLike, tau: float) -> ExceedanceCurve:
    """Acceptance and conditional exceedance at every threshold that changes them.

    The thresholds are the distinct scores, ascending; rows with equal scores enter together. Rows
    with a score of inf are never accepted, so the curve ends at the share of the other rows, and is
    empty if there are no others.
    """
    threshold, accepted, exceeding = _counts_by_score(score, losses, tau)
    usable = threshold < np.inf
    acceptance = accepted / accepted[-1]
    return ExceedanceCurve(threshold[usable], acceptance[usable], (exceeding / accepted)[usable])


def exceedance_area(score: ArrayLike, losses: ArrayLike, tau: float) -> float:
    """Mean exceedance among the accepted over all acceptance levels: how well a score ranks.

    ``(1/n) * sum_k (exceedances among the k smallest scores) / k`` over k = 1..n, the area under
    the step curve. For rows with equal scores, the exact expectation over a random order is
    returned; a score of inf comes last. A constant score gives the marginal rate. The smallest
    possible value belongs to a score that puts all exceedances last.
    """
    _, accepted, exceeding = _counts_by_score(score, losses, tau)
    k = np.arange(1, accepted[-1] + 1)
    # Within a block of ties the expected count grows linearly.
    expected = np.interp(k, np.append(0, accepted), np.append(0, exceeding))
    return float(np.mean(expected / k))


@dataclass(frozen=True)
class PeriodScores:
    """How bounds did in one period: `mean_bound` and `pinball` are those of finite bounds.

    `infinite` is the share of the others; means of no bound are NaN.
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
    z, share = _losses(losses), one_alpha(alpha)
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


def _counts_by_score(
    score: ArrayLike, losses: ArrayLike, tau: float
) -> tuple[FloatArray, IntArray, IntArray]:
    """Distinct scores, and the numbers of rows and of exceedances up to each."""
    z, s = losses_and(losses, score=score)
    s = never_accepted(s)
    threshold, accepted = distinct_counts(np.sort(s))
    return threshold, accepted, count_up_to(np.sort(s[z > one_tau(tau)]), threshold)


def _labels(groups: ArrayLike, n: int) -> tuple[np.ndarray, IntArray]:
    """Return the distinct labels, ascending, and each row's position among them."""
    _, codes = label_codes(groups, n)
    labels = np.asarray(groups)
    if labels.ndim > 1:  # tuples, say, which have no order in numpy
        raise ValueError(f"groups must hold one label per row, {n} in all; got {labels.shape}.")
    _, first = np.unique(codes, return_index=True)
    names, place = np.unique(labels[first], return_inverse=True)
    return names, place[codes]


def _bins(score: ArrayLike, n: int, n_bins: int) -> tuple[FloatArray, IntArray]:
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1; got {n_bins}.")
    s, _ = check_same_length(score=score, losses=np.zeros(n))
    # The middle rank of tied scores decides, so that they stay together.
    position = np.floor(n_bins * (rankdata(s) - 0.5) / n).astype(np.int64)
    _, member = np.unique(position, return_inverse=True)
    largest = np.full(member.max() + 1, -np.inf)
    np.maximum.at(largest, member, s)
    return largest, member


def _losses(losses: ArrayLike) -> FloatArray:
    (z,) = check_same_length(losses=losses)
    return check_losses(z, len(z), "losses")


def losses_and(losses: ArrayLike, **other: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return finite losses, and one other array of their length, which may hold infinities."""
    z, values = check_same_length(losses=losses, **other)
    return _losses(z), values


def check_flags(accepted: FloatArray) -> BoolArray:
    """Return what holds 0 and 1 as flags."""
    if not np.isin(accepted, (0.0, 1.0)).all():
        raise ValueError(
            "accepted must hold True or False for each row; pass score <= threshold, not the score."
        )
    return accepted == 1.0


def check_probabilities(values: FloatArray) -> FloatArray:
    """Return tails as they are; raise unless all lie between 0 and 1."""
    if np.any((values < 0) | (values > 1)):
        raise ValueError(
            f"tails are probabilities; got values from {values.min()} to {values.max()}."
        )
    return values
