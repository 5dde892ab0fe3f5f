"""Bounds against the losses they bound, their distribution, and what drives one of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray
from locuscore._shared.checks import check_count, check_same_length, one_alpha, one_tau
from locuscore._shared.metric_arrays import losses_and
from locuscore.plots import _style as look

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bound_against_loss(
    losses: ArrayLike,
    bound: ArrayLike,
    *,
    alpha: float | None = None,
    tau: float | None = None,
    unit: str = "",
    log: bool = False,
    max_points: int = 5_000,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw each row's realised loss against its bound; the diagonal separates covered from not.

    With `tau`, lines at the tolerance separate accepted rows (``bound <= tau``) from flagged ones,
    and the share accepted and yet above tau is given (Theorem 3). Shares are of all rows. Of more
    than `max_points` rows only a random sample is drawn, and the label says so. Infinite bounds are
    drawn at the right edge. `log=True` gives both axes about four decades.

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.bound_against_loss([1.0, 5.0], [2.0, 4.0], alpha=0.1, unit="dollars")
    >>> ax.get_ylabel()
    'realised loss (dollars)'
    """
    z, u = losses_and(losses, bound=bound)
    most = check_count(max_points, "max_points")
    tau = None if tau is None else one_tau(tau)
    floor = look.log_floor(z, u) if log else None
    ax = look.new_axes(ax)
    x, y = (u, z) if floor is None else (np.maximum(u, floor), np.maximum(z, floor))
    shown = _sample(len(z), most)
    within = round(float(np.mean(z <= u)), 3)  # rounded once, so that the two add up
    for rows, colour, marker, label in (
        (z <= u, look.BLUE, "o", f"within the bound ({look.percent(within)})"),
        (z > u, look.VERMILION, "^", f"above the bound ({look.percent(1 - within)})"),
    ):
        _points(ax, x, y, rows & shown, colour, marker)
        is_above = marker == "^"
        place, side = (
            ((0.02, 0.98), ("left", "top")) if is_above else ((0.98, 0.02), ("right", "bottom"))
        )
        look.beside(ax, *place, label, colour, ha=side[0], va=side[1])
    if tau is not None:
        _tolerance_lines(ax, z, u, tau, unit, alpha)
    _limits(ax, x, y, floor)
    promise = (
        "" if alpha is None else f", where {look.whole_percent(1 - one_alpha(alpha))} were promised"
    )
    look.say(ax, f"{look.percent(within)} of the losses are within their bound{promise}")
    sample = f"{most:,} of {len(z):,} rows drawn" if len(z) > most else ""
    notes = (look.infinity_note(u, "right edge"), sample, look.floor_note(floor, z, u))
    ax.set_xlabel(look.label(look.bound_name(alpha), unit, *notes))
    ax.set_ylabel(look.label("realised loss", unit))
    return ax


def bound_distribution(
    bound: ArrayLike,
    *,
    alpha: float | None = None,
    tau: float | None = None,
    unit: str = "",
    log: bool = False,
    n_bins: int = 40,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a histogram of the bounds; infinite ones are a hatched bar at the right end.

    With `tau`, a line marks the tolerance, and the share of rows below it is given.

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.bound_distribution([1.0, 2.0, 4.0], tau=3.0, unit="dollars")
    >>> ax.get_xlabel()
    'bound $U(x)$ (dollars)'
    """
    (u,) = check_same_length(bound=bound)
    size = check_count(n_bins, "n_bins")
    tau = None if tau is None else one_tau(tau)
    known, n_infinite = u[np.isfinite(u)], int(np.isinf(u).sum())
    floor = look.log_floor(u) if log else None
    edges = _edges(known, size, floor)
    ax = look.new_axes(ax)
    counts, _ = np.histogram(known if floor is None else np.maximum(known, floor), edges)
    ax.stairs(counts, edges, fill=True, color=look.BLUE, alpha=0.75)
    if floor is not None:
        ax.set_xscale("log")
    if n_infinite:
        last = edges[-1] - edges[-2] if floor is None else edges[-1] * (edges[-1] / edges[-2] - 1)
        left, width = edges[-1] + last, 2 * last
        hatched: look.Style = {"color": "white", "edgecolor": look.GREY, "hatch": "///"}
        ax.bar(left, n_infinite, width, align="edge", **hatched)
    if tau is not None:
        share = look.percent(float(np.mean(u <= tau)))
        ax.axvline(tau, color=look.BLACK, linestyle="--", linewidth=1.2)
        top = 1.12 * max(int(counts.max()), n_infinite)
        ax.set_ylim(0.0, top)
        low, high = ax.get_xlim()
        is_right = ax.transLimits.transform(ax.transScale.transform((tau, 0)))[0] > 0.6
        ax.annotate(
            look.tolerance(tau, unit),
            (min(max(tau, low), high), top),
            xytext=(-4 if is_right else 4, -2),
            textcoords="offset points",
            ha="right" if is_right else "left",
            va="top",
        )
        look.say(ax, f"{share} of the bounds are at or below {look.tolerance(tau, unit)}")
    elif len(known):
        middle = look.number(float(f"{np.median(u):.3g}"))
        look.say(
            ax, f"Half of the bounds are at most {middle}{f' {look.literal(unit)}' if unit else ''}"
        )
    notes = (look.infinity_note(u, "hatched bar"), look.floor_note(floor, known))
    ax.set(xlabel=look.label(look.bound_name(alpha), unit, *notes), ylabel="rows")
    ax.xaxis.set_major_formatter(look.number)
    ax.yaxis.set_major_formatter(look.number)
    return ax


def reasons(
    names: Sequence[Any],
    factors: ArrayLike,
    *,
    most: int = 10,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the factor by which each signal raises or lowers one row's bound, largest effect on top.

    A factor of 1.8 raises the bound by 80 %, and one of 0.5 halves it. The `most` strongest are
    drawn one by one, the others together as their product.

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.reasons(["carat", "prediction"], [1.8, 0.6])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['carat', 'prediction']
    """
    (values,) = look.finite(factors=factors)
    if len(names) != len(values):
        raise ValueError(f"one name per factor: got {len(names)} names, {len(values)} factors.")
    if not (values > 0).all():
        raise ValueError(f"factors multiply a bound and are positive; got {values.min():g}.")
    top = check_count(most, "most")
    order = np.argsort(-np.abs(np.log(values)), kind="stable")
    chosen, rest = order[:top], order[top:]
    shown = [float(values[i]) for i in chosen]
    labels = [look.literal(names[i]) for i in chosen]
    if len(rest):
        shown.append(float(np.exp(np.log(values[rest]).sum())))
        labels.append(f"({len(rest)} others)")
    ax = look.new_axes(ax)
    for place, factor in enumerate(shown):
        raised = factor >= 1
        colour, hatch = (look.VERMILION, "") if raised else (look.BLUE, "///")
        style: look.Style = {"facecolor": colour, "edgecolor": "white", "hatch": hatch}
        ax.barh(place, factor - 1, left=1.0, height=0.7, **style)
        offset, side = (4, "left") if raised else (-4, "right")
        place_text: look.Style = {
            "xytext": (offset, 0),
            "textcoords": "offset points",
            "va": "center",
        }
        ax.annotate(f"×{factor:.3g}", (factor, place), ha=side, **place_text)  # noqa: RUF001  # the sign of multiplication is meant
    ax.axvline(1.0, color=look.BLACK, linewidth=1)
    ax.set_xscale("log")
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.margins(x=0.25)  # room for the numbers
    _factor_ticks(ax, np.array([*shown, 1.0]))
    ax.set_xlabel("factor on the bound (1 = no effect)")
    what = "raises" if shown[0] > 1 else "lowers"
    says = f"{labels[0]} {what} the bound most, by a factor of {shown[0]:.3g}"
    look.say(ax, says if shown[0] != 1 else "No signal changes the bound")
    return ax


def _factor_ticks(ax: "Axes", shown: FloatArray) -> None:
    """Put a few round factors on the axis; a short logarithmic axis would have none of its own."""
    low, high = np.log2(shown.min()), np.log2(shown.max())
    step = 1.0 if high - low > 1 else 0.5 if high - low > 0.4 else 0.125
    step = max(step, np.ceil((high - low) / 6))
    ticks = 2.0 ** (step * np.arange(np.floor(low / step), np.ceil(high / step) + 1))
    low_end, high_end = ax.get_xlim()
    kept = [float(tick) for tick in ticks if low_end <= tick <= high_end]
    ax.set_xticks(kept, [f"{tick:.3g}" for tick in kept])
    ax.set_xticks([], minor=True)


def _sample(n: int, most: int) -> np.ndarray:
    """Mark all rows, or a random sample of them that is the same every time."""
    shown = np.zeros(n, dtype=bool)
    shown[np.random.default_rng(0).choice(n, min(n, most), replace=False)] = True
    return shown


def _points(
    ax: "Axes", x: FloatArray, y: FloatArray, rows: np.ndarray, colour: str, marker: str
) -> None:
    """Scatter rows; those with an infinite x stand on the edge of the picture."""
    style: look.Style = {
        "s": 8 if marker == "o" else 12,
        "marker": marker,
        "color": colour,
        "alpha": 0.45,
        "linewidths": 0,
        "rasterized": True,  # thousands of points would make a vector file slow
    }
    known = rows & np.isfinite(x)
    ax.scatter(x[known], y[known], **style)
    edge = rows & np.isinf(x)
    if edge.any():
        place = np.where(x[edge] > 0, 1.0, 0.0)  # in shares of the width
        style |= {"clip_on": False, "zorder": 4}
        ax.scatter(place, y[edge], transform=ax.get_yaxis_transform(), **style)


def _tolerance_lines(
    ax: "Axes", z: FloatArray, u: FloatArray, tau: float, unit: str, alpha: float | None
) -> None:
    style: look.Style = {"color": look.GREY, "linestyle": "--", "linewidth": 1.2}
    ax.axhline(tau, **style)
    ax.axvline(tau, **style)
    joint = float(np.mean((z > tau) & (u <= tau)))
    promise = "" if alpha is None else f" (at most {100 * alpha:g}%)"
    told = f"accepted, yet above tau: {look.percent(joint)}{promise}"
    told = f"dashed: {look.tolerance(tau, unit)}\n{told}"
    look.beside(ax, 0.02, 0.91, told, look.GREY, ha="left", va="top")


def _limits(ax: "Axes", x: FloatArray, y: FloatArray, floor: float | None) -> None:
    """Scale both axes and draw the diagonal across the whole picture."""
    known = x[np.isfinite(x)] if np.isfinite(x).any() else y
    left, right, bottom, top = (float(v) for v in (known.min(), known.max(), y.min(), y.max()))
    if floor is None:
        wide, high = 0.04 * (right - left) or 1.0, 0.04 * (top - bottom) or 1.0
        ax.set_xlim(left - wide, right + wide)
        ax.axline((0, 0), slope=1, color=look.BLACK, linewidth=1, zorder=3)
        ax.set_ylim(bottom - high, top + 4 * high)
    else:
        ax.set(xscale="log", yscale="log", xlim=(left / 1.3, right * 1.3))
        ends = (floor / 10, 100 * max(right, top))
        ax.plot(ends, ends, color=look.BLACK, linewidth=1, zorder=3, scalex=False, scaley=False)
        ax.set_ylim(bottom / 1.3, top * 3)
    ax.xaxis.set_major_formatter(look.number)
    ax.yaxis.set_major_formatter(look.number)


def _edges(known: FloatArray, n_bins: int, floor: float | None) -> FloatArray:
    """Bin edges over the finite bounds; a unit wide where there are none, or only one value."""
    if not len(known):
        return np.linspace(0.0, 1.0, n_bins + 1)
    if floor is None:
        return np.asarray(np.histogram_bin_edges(known, n_bins))
    low, high = max(float(known.min()), floor), float(known.max())
    return np.geomspace(low, high if high > low else 2 * low, n_bins + 1)
