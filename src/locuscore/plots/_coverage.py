"""Does the bound hold as often as it says: along the bound, in groups, and in distribution."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from locuscore._shared.checks import check_count, check_same_length, one_alpha
from locuscore._shared.metric_arrays import check_probabilities, losses_and
from locuscore.metrics import LocalCoverage, local_coverage
from locuscore.plots import _style as look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHERS = "(others)"


def coverage_by_bound(
    losses: ArrayLike,
    bound: ArrayLike,
    *,
    alpha: float,
    unit: str = "",
    n_bins: int = 10,
    delta: float = 0.05,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share of losses within their bound, from the smallest bounds to the largest.

    Each bin has an exact interval of level ``1 - delta`` (see `metrics.local_coverage`); the line
    is at ``1 - alpha``. Theorem 1 is about all rows together. Single bins may lie off the line;
    they show where the bound is too tight or too loose.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import plots
    >>> bound = np.arange(100.0)
    >>> ax = plots.coverage_by_bound(0.9 * bound, bound, alpha=0.1, unit="dollars")
    >>> len(ax.get_xticks())
    10
    """
    z, u = losses_and(losses, bound=bound)
    target = 1 - one_alpha(alpha)
    local = local_coverage(z, u, u, n_bins=check_count(n_bins, "n_bins"), delta=delta)
    ax = look.new_axes(ax)
    places = np.arange(len(local.n_rows))
    _draw(ax, places, local, target, delta, along="y")
    names = [look.number(float(f"{top:.3g}")) for top in local.group]
    ax.set_xticks(places, names, rotation=45, ha="right", rotation_mode="anchor")
    note = f"{len(places)} bins of equal size, each up to the value shown"
    line = f"dashed: 1 - alpha = {target:.4g}"
    ax.set_xlabel(look.label(look.bound_name(alpha), unit, note, line))
    look.say(ax, _agreement(local, target, "bins"))
    return ax


def coverage_by_group(
    losses: ArrayLike,
    bound: ArrayLike,
    groups: ArrayLike,
    *,
    alpha: float,
    most: int = 30,
    delta: float = 0.05,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share of losses within their bound in each group, largest group on top.

    Each group has an exact interval of level ``1 - delta``; the line is at ``1 - alpha``. Groups
    beyond the `most` largest are drawn as one.

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.coverage_by_group([1, 5, 2], [2, 4, 3], ["a", "b", "b"], alpha=0.1)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['b (2 rows)', 'a (1 rows)']
    """
    z, u = losses_and(losses, bound=bound)
    target, n_most = 1 - one_alpha(alpha), check_count(most, "most")
    every = local_coverage(z, u, groups, delta=delta)
    size = np.argsort(-every.n_rows, kind="stable")
    place_of = np.empty(len(size), dtype=np.int64)
    place_of[size] = np.arange(len(size))
    rank = place_of[np.searchsorted(every.group, np.asarray(groups))]
    local = local_coverage(z, u, np.minimum(rank, n_most), delta=delta)
    names = [look.literal(every.group[i]) for i in size[:n_most]]
    names += [OTHERS] if len(size) > n_most else []
    ax = look.new_axes(ax)
    places = np.arange(len(names))
    _draw(ax, places, local, target, delta, along="x")
    labels = [f"{name} ({n:,} rows)" for name, n in zip(names, local.n_rows, strict=True)]
    ax.set_yticks(places, labels)
    ax.set_ylim(len(places) - 0.5, -0.5 - 0.1 * len(places))  # room for the name of the line
    look.say(ax, _agreement(local, target, "groups", names))
    return ax


def pit_histogram(tails: ArrayLike, *, n_bins: int = 20, ax: "Axes | None" = None) -> "Axes":
    """Draw a histogram of ``1 - P(Z >= z | x)``; it is flat if the distribution is right.

    The shaded band holds the height of one bar in 95 of 100 samples from the right distribution.
    High bars on the right mean that losses are larger than the distribution expects; high bars on
    both sides, that it is too narrow; high bars in the middle, that it is too wide. Calibration
    corrects the bound, not this picture. For distributions with atoms pass
    `metrics.randomized_tails`.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import plots
    >>> ax = plots.pit_histogram(np.linspace(0, 1, 101), n_bins=4)
    >>> ax.get_ylabel()
    'rows'
    """
    values = check_probabilities(*check_same_length(tails=tails))
    size = check_count(n_bins, "n_bins")
    counts, edges = np.histogram(1 - values, size, (0.0, 1.0))
    low, high = binom(len(values), 1 / size).ppf([0.025, 0.975])
    ax = look.new_axes(ax)
    ax.axhspan(low, high, color=look.PALE, alpha=0.6, linewidth=0)
    ax.stairs(counts, edges, fill=True, color=look.BLUE, alpha=0.75)
    expected = len(values) / size
    ax.axhline(expected, color=look.BLACK, linestyle="--", linewidth=1.2, label="the right law")
    ax.set(xlim=(0, 1), ylim=(0, 1.1 * max(counts.max(), high)))
    note = "dashed: the right distribution; shaded: where 95% of single bars would be"
    said = "probability transform $P(Z < z\\,|\\,x)$ of the realised loss"
    ax.set_xlabel(look.label(said, "", note))
    inside = int(np.sum((counts >= low) & (counts <= high)))
    look.say(ax, f"{inside} of {size} bars are where the right distribution has 95% of its own")
    ax.set_ylabel("rows")
    ax.yaxis.set_major_formatter(look.number)
    return ax


def _draw(
    ax: "Axes", places: np.ndarray, local: LocalCoverage, target: float, delta: float, along: str
) -> None:
    """Draw coverage as dots with their intervals along the x or the y axis, and its target.

    The axis is zoomed to where the intervals are; shares end at 1.
    """
    error = np.vstack([local.coverage - local.low, local.high - local.coverage])
    dots: look.Style = {"fmt": "o", "color": look.BLUE, "capsize": 3, "markersize": 5}
    name = f"1 - alpha = {target:.4g}"
    line: look.Style = {"color": look.GREY, "linestyle": "--", "linewidth": 1.2, "label": name}
    says = f"losses within their bound ({1 - delta:.0%} intervals)"
    lowest = min(float(local.low.min()), target)
    room = 0.08 * (1 - lowest) + 0.005
    if along == "y":
        ax.axhline(target, **line)
        ax.errorbar(places, local.coverage, yerr=error, **dots)
        ax.set(ylabel=says, ylim=(max(lowest - 3 * room, -0.02), 1 + room))
        look.shares_on(ax.yaxis)
    else:
        ax.axvline(target, **line)
        ax.errorbar(local.coverage, places, xerr=error, **dots)
        near: look.Style = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        near |= {"xytext": (-4, -2), "ha": "right", "va": "top", "color": look.GREY}
        ax.annotate(name, (target, 1), **near)
        ax.set(xlabel=says, xlim=(lowest - room, 1 + room))
        look.shares_on(ax.xaxis)


def _agreement(
    local: LocalCoverage, target: float, of: str, names: Sequence[str] | None = None
) -> str:
    """How many intervals reach the target, and the lowest coverage."""
    kept = int(np.sum(local.high >= target))
    worst = int(np.argmin(local.coverage))
    said = f"{kept} of {len(local.coverage)} {of} are compatible with a coverage of "
    lowest = f"lowest: {look.percent(local.coverage[worst])}"
    where = "" if names is None else f" ({names[worst]})"
    return f"{said}{look.whole_percent(target)} or more; {lowest}{where}"
