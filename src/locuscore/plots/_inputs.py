"""Along the input: the four panels of the paper's Figure 1, and where gamma is small."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray
from locuscore._shared.checks import as_floats, check_same_length, one_tau
from locuscore._shared.metric_arrays import check_flags
from locuscore.plots import _style as look

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def fit_panel(
    x: ArrayLike,
    y: ArrayLike,
    grid: ArrayLike,
    prediction: ArrayLike,
    *,
    mean: ArrayLike | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the data, the prediction along a grid, and the true mean if known (Figure 1a).

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.fit_panel([0.1, 0.6], [1.0, 2.0], [0, 1], [1.0, 2.2], mean=[1.0, 2.0])
    >>> len(ax.lines)
    3
    """
    at, target = look.finite(x=x, y=y)
    along, g = look.finite(grid=grid, prediction=prediction)
    truth = None if mean is None else look.finite(grid=grid, mean=mean)[1]
    ax = look.new_axes(ax)
    _dots(ax, at, target)
    if truth is not None:
        ax.plot(along, truth, color=look.BLACK, linestyle="--", linewidth=1.2, label="true mean")
    ax.plot(along, g, color=look.VERMILION, linewidth=1.8, label="prediction $g(x)$")
    ax.set(xlabel="x", ylabel="target y")
    ax.legend(frameon=False)
    if truth is not None:
        worst = int(np.argmax(np.abs(g - truth)))
        off = look.number(float(f"{abs(g[worst] - truth[worst]):.2g}"))
        look.say(ax, f"The prediction is off by up to {off}, at x = {along[worst]:.2g}")
    return ax


def spread_panel(grid: ArrayLike, sd: ArrayLike, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the standard deviation of the target, which depends on no predictor (Figure 1b).

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.spread_panel([0, 1, 2], [0.5, 0.3, 0.4])
    >>> ax.get_ylabel()
    'sd(Y | x)'
    """
    along, spread = look.finite(grid=grid, sd=sd)
    ax = look.new_axes(ax)
    ax.plot(along, spread, color=look.GREEN, linewidth=1.8, label="standard deviation of Y given x")
    ax.set(xlabel="x", ylabel="sd(Y | x)")
    ax.set_ylim(0, 1.15 * float(spread.max()) or 1.0)
    look.say(ax, f"Y itself varies most at x = {along[int(np.argmax(spread))]:.2g}")
    return ax


def loss_panel(
    x: ArrayLike,
    losses: ArrayLike,
    grid: ArrayLike,
    bound: ArrayLike,
    *,
    quantile: ArrayLike | None = None,
    tau: float | None = None,
    alpha: float | None = None,
    unit: str = "",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw realised losses, the bound along a grid, its true value if known, and tau (Figure 1c).

    Where the bound is infinite the line is broken, and the label counts such places.

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.loss_panel([0.1, 0.6], [0.2, 1.0], [0, 1], [0.5, 1.5], tau=1, unit="minutes")
    >>> ax.get_ylabel()
    'loss (minutes)'
    """
    tau = None if tau is None else one_tau(tau)
    at, z = look.finite(x=x, losses=losses)
    look.finite(grid=grid)
    along, u = check_same_length(grid=grid, bound=bound)
    truth = None if quantile is None else look.finite(grid=grid, quantile=quantile)[1]
    ax = look.new_axes(ax)
    _dots(ax, at, z)
    if truth is not None:
        name = "true quantile" if alpha is None else f"true {1 - alpha:.0%} quantile"
        ax.plot(along, truth, color=look.BLACK, linestyle="--", linewidth=1.2, label=name)
    drawn = np.where(np.isfinite(u), u, np.nan)
    ax.plot(along, drawn, color=look.BLUE, linewidth=1.8, label=look.bound_name(alpha))
    if tau is not None:
        ax.axhline(tau, color=look.GREY, linestyle=":", linewidth=1.2, label=look.tolerance(tau))
    xlabel = look.label("x", "", look.infinity_note(u, "line broken"))
    ax.set(xlabel=xlabel, ylabel=look.label("loss", unit))
    ax.set_ylim(bottom=min(0.0, float(z.min())))
    ax.yaxis.set_major_formatter(look.number)
    ax.legend(frameon=False)
    if np.isfinite(u).any():
        look.say(ax, f"The loss may be largest at x = {along[int(np.nanargmax(drawn))]:.2g}")
    return ax


def rule_panel(
    x: ArrayLike, y: ArrayLike, accepted: ArrayLike, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw the data, accepted rows apart from flagged ones (Figure 1d).

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.rule_panel([0.1, 0.6], [1.0, 2.0], [True, False])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['accepted (50.0%)', 'flagged (50.0%)']
    """
    at, target, values = look.finite(x=x, y=y, accepted=accepted)
    is_accepted = check_flags(values)
    ax = look.new_axes(ax)
    share = round(float(is_accepted.mean()), 3)  # rounded once, so that the two add up
    for rows, colour, marker, label in (
        (is_accepted, look.BLUE, ".", f"accepted ({look.percent(share)})"),
        (~is_accepted, look.VERMILION, "x", f"flagged ({look.percent(1 - share)})"),
    ):
        ax.plot(at[rows], target[rows], marker, color=colour, markersize=4, label=label)
    ax.set(xlabel="x", ylabel="target y")
    ax.legend(frameon=False)
    look.say(ax, f"{look.percent(share)} of the rows are accepted")
    return ax


def gamma_map(
    first: ArrayLike,
    second: ArrayLike,
    gamma: ArrayLike,
    *,
    rows: ArrayLike | None = None,
    names: tuple[str, str] = ("first feature", "second feature"),
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw gamma over two features; where it is small, data are scarce and the bound is cautious.

    `first` and `second` are ascending grids, `gamma` has shape ``(len(second), len(first))``;
    `rows`, of shape (n, 2), are drawn as dots: the rows the loss model was fitted on.

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.gamma_map([0, 1], [0, 1, 2], [[0.9, 0.5], [0.8, 0.4], [0.7, 0.2]])
    >>> ax.get_xlabel()
    'first feature'
    """
    (a,), (b,) = look.finite(first=first), look.finite(second=second)
    values = as_floats(gamma, "gamma")
    if values.shape != (len(b), len(a)):
        raise ValueError(
            f"gamma must have one row per value of second and one column per value of first, "
            f"shape {(len(b), len(a))}; got {values.shape}."
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("gamma lies between 0 and 1 everywhere, without missing values.")
    dots = None if rows is None else as_floats(rows, "rows")
    if dots is not None and (dots.ndim != 2 or dots.shape[1] != 2):
        raise ValueError(f"rows must have shape (n, 2); got {dots.shape}.")
    ax = look.new_axes(ax)
    mesh = ax.pcolormesh(a, b, values, cmap="cividis", shading="nearest", rasterized=True)
    figure = ax.get_figure(root=False)
    if figure is not None:
        figure.colorbar(mesh, ax=ax, label=r"$\gamma(x)$: smaller is more cautious")
    if dots is not None:
        style: look.Style = {"markersize": 3, "markeredgecolor": "black", "markeredgewidth": 0.5}
        ax.plot(*dots.T, "o", color="white", label="rows the loss model was fitted on", **style)
        ax.legend(loc="upper right", framealpha=0.9)
    ax.set(xlabel=names[0], ylabel=names[1])
    look.say(ax, f"Gamma lies between {values.min():.2g} and {values.max():.2g}")
    return ax


def _dots(ax: "Axes", x: FloatArray, y: FloatArray) -> None:
    ax.plot(x, y, ".", color=look.PALE, markersize=4, rasterized=True)
