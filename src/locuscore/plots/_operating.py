"""How much is accepted and how much of it is bad, against acceptance, tau or the threshold."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from locuscore import OperatingCurve, operating_curve
from locuscore._protocols import FloatArray
from locuscore._shared.checks import check_numbers, check_share, one_alpha, one_tau
from locuscore._shared.metric_arrays import losses_and
from locuscore.metrics import ExceedanceCurve, exceedance_curve
from locuscore.plots import _style as look
from locuscore.plots._line_names import name_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

COMPARED_AT = 0.7  # acceptance at which rankings are compared in the title
N_TAUS = 400  # tolerances at which a curve is evaluated
SHADE: look.Style = {"color": look.BLUE, "alpha": 0.18, "linewidth": 0}


def exceedance_curves(
    scores: Mapping[str, ArrayLike],
    losses: ArrayLike,
    tau: float,
    *,
    unit: str = "",
    delta: float | None = 0.05,
    from_acceptance: float = 0.02,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share of losses above tau among the accepted rows against the share accepted.

    `scores` maps a name to one score per row. Small scores are accepted first, and a lower curve
    means a better ranking. The first curve has a band that holds with confidence ``1 - delta`` at
    all thresholds at once (`operating_curve`); None for no band. Nothing is drawn below the share
    `from_acceptance`, where a rate comes from few rows and is mostly noise.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import plots
    >>> z = np.arange(100.0)
    >>> ax = plots.exceedance_curves({"good": z, "useless": z % 7}, z, tau=80, unit="dollars")
    >>> ax.get_ylabel()
    'losses above 80 dollars among the accepted'
    """
    if not isinstance(scores, Mapping) or not scores:
        raise ValueError("scores must map at least one name to one score per row.")
    tau, least = one_tau(tau), check_share(from_acceptance, "from_acceptance")
    curves: list[OperatingCurve | ExceedanceCurve] = [
        exceedance_curve(score, losses, tau)
        if delta is None or place
        else operating_curve(score, losses, tau, delta)
        for place, score in enumerate(scores.values())
    ]
    ax, top = look.new_axes(ax), 0.0
    lines, note = [], ""
    for name, curve, style in zip(scores, curves, look.series_styles(len(curves)), strict=True):
        enough = curve.acceptance >= least
        x, y = curve.acceptance[enough], curve.exceedance[enough]
        lines += ax.plot(x, y, label=look.literal(name), **style)
        top = max(top, float(y.max(initial=0.0)))
        if isinstance(curve, OperatingCurve):
            note = f"band: {1 - curve.delta:.0%}, at all thresholds at once"
            ax.fill_between(x, curve.low[enough], curve.high[enough], **SHADE)
    ylabel = f"losses above {_amount(tau, unit)} among the accepted"
    xlabel = look.label("rows accepted, lowest scores first", "", note)
    ax.set(xlim=(0, 1.01), xlabel=xlabel, ylabel=ylabel)
    look.shares_on(ax.xaxis, ax.yaxis)
    ax.grid(alpha=0.25)
    look.say(ax, _ranking(dict(zip(scores, curves, strict=True)), _amount(tau, unit)))
    name_lines(ax, lines, 0.0, 1.04 * top if top > 0 else 1.0)
    return ax


def _ranking(curves: Mapping[str, OperatingCurve | ExceedanceCurve], amount: str) -> str:
    """What the first score does at an acceptance of 70 %, and the best of the others."""
    shares = {}
    for name, curve in curves.items():
        place = int(np.searchsorted(curve.acceptance, COMPARED_AT, side="right")) - 1
        shares[name] = float(curve.exceedance[place]) if place >= 0 else float("nan")
    first, *others = shares.items()
    if np.isnan(first[1]):
        return f"{look.literal(first[0])}: no threshold accepts {COMPARED_AT:.0%} of the rows"
    said = f"Accepting {COMPARED_AT:.0%} by {look.literal(first[0])} leaves "
    said += f"{look.percent(first[1])} above {amount}"
    known = [(share, name) for name, share in others if not np.isnan(share)]
    if not known:
        return said
    share, name = min(known)
    return f"{said}; by {look.literal(name)}, {look.percent(share)}"


def operating_by_tau(
    losses: ArrayLike,
    bound: ArrayLike,
    *,
    alpha: float,
    tau: float | None = None,
    unit: str = "",
    log: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what the rule ``bound <= tau`` accepts, and how much of it is bad, for every tau.

    It draws three shares: rows accepted; rows accepted with a loss above tau, at most alpha on
    average (Theorem 3); and losses above tau among the accepted, about which that theorem says
    nothing. A given `tau` is marked with its three figures. Infinite bounds are never accepted; the
    label counts them. `log=True` gives a logarithmic axis of at most four decades.

    Examples
    --------
    >>> from locuscore import plots
    >>> ax = plots.operating_by_tau([1, 5, 2], [2, 4, 3], alpha=0.1, tau=4, unit="dollars")
    >>> ax.get_xlabel()
    'tolerance tau (dollars)'
    """
    z, u = losses_and(losses, bound=bound)
    target, chosen = one_alpha(alpha), None if tau is None else one_tau(tau)
    taus = _taus(u, chosen, log)
    accepted, joint, given = _shares(z, u, taus)
    ax, lines = look.new_axes(ax), []
    at = int(np.searchsorted(taus, chosen)) if chosen is not None else _first_to_accept(accepted)
    for name, shares, colour, dash in (
        ("accepted", accepted, look.BLUE, "-"),
        ("above tau if accepted", given, look.VERMILION, "--"),
        ("accepted and above tau", joint, look.GREEN, "-."),
    ):
        note = ""
        if chosen is not None:
            note = ": none accepted" if np.isnan(shares[at]) else f": {look.percent(shares[at])}"
            ax.plot(chosen, shares[at], "o", color=colour, zorder=4)
        lines += ax.plot(taus, shares, color=colour, linestyle=dash, label=name + note)
    _mark(ax, chosen, f"alpha = {target:g}", target)
    note = look.infinity_note(u, "never accepted")
    ax.set_xlabel(look.label("tolerance tau", unit, note))
    told = look.tolerance(float(taus[at]), unit)
    bad = "none of them" if not joint[at] else f"{look.percent(given[at])} of them"
    finding = f"At {told}, {look.percent(accepted[at])} are accepted and {bad} above tau"
    look.say(ax, finding if accepted[at] else f"At {told} nothing is accepted")
    _finish_shares(ax, lines, log)
    return ax


def _first_to_accept(accepted: FloatArray) -> int:
    """Place of the smallest tau that accepts 70 % of the rows, or as many as can be accepted."""
    enough = accepted >= min(COMPARED_AT, float(accepted.max()))
    return int(np.argmax(enough))


def operating_by_threshold(
    curve: OperatingCurve,
    threshold: float | None = None,
    *,
    score: str = "score",
    eta: float | None = None,
    unit: str = "",
    log: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw acceptance, and bad among the accepted, with bands against the threshold of the score.

    `curve` comes from `operating_curve`. A given `threshold` is marked with its figures, and a line
    shows the tolerated share `eta`. `score` names the horizontal axis, and `unit` is the unit of
    the loss, in which tau is given. `log=True` needs positive scores.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import operating_curve, plots
    >>> z = np.arange(200.0)
    >>> ax = plots.operating_by_threshold(operating_curve(z, z, tau=150), 150, unit="dollars")
    >>> ax.get_ylabel()
    'share of rows'
    """
    _check_curve(curve, log)
    tolerated = None if eta is None else check_share(eta, "eta")
    place = None if threshold is None else _entry(curve, threshold)
    ax, lines = look.new_axes(ax), []
    accepted = (curve.acceptance, curve.acceptance_low, curve.acceptance_high)
    bad = (curve.exceedance, curve.low, curve.high)
    above_tau = f"above {_amount(curve.tau, unit)} if accepted"
    for name, (values, below, above), colour, dash in (
        ("accepted", accepted, look.BLUE, "-"),
        (above_tau, bad, look.VERMILION, "--"),
    ):
        ax.fill_between(curve.threshold, below, above, step="post", **SHADE | {"color": colour})
        note = ""
        if place is not None and threshold is not None:
            note = f": {values[place]:.1%} ({below[place]:.1%} to {above[place]:.1%})"
            ax.plot(threshold, values[place], "o", color=colour, zorder=4)
        style: look.Style = {"color": colour, "linestyle": dash, "drawstyle": "steps-post"}
        lines += ax.plot(curve.threshold, values, label=name + note, **style)
    _mark(ax, threshold, "" if tolerated is None else f"eta = {tolerated:g}", tolerated)
    note = f"bands hold at all thresholds with confidence {1 - curve.delta:g}"
    ax.set_xlabel(look.label(f"threshold of the {look.literal(score)}", "", note))
    at = _first_to_accept(curve.acceptance) if place is None else place
    look.say(
        ax,
        f"Accepting {look.percent(curve.acceptance[at])} keeps losses above "
        f"{_amount(curve.tau, unit)} at {look.percent(curve.exceedance[at])} of the accepted, "
        f"at most {look.percent(curve.high[at])} with confidence {1 - curve.delta:.0%}",
    )
    _finish_shares(ax, lines, log)
    return ax


def _check_curve(curve: OperatingCurve, log: bool) -> None:
    if not isinstance(curve, OperatingCurve):
        raise TypeError(f"curve must come from operating_curve; got {type(curve).__name__}.")
    if not len(curve.threshold):
        raise ValueError("the curve has no threshold: every score is infinite.")
    if log and not curve.threshold[0] > 0:
        raise ValueError(f"log=True needs positive scores; got {curve.threshold[0]:g}.")


def _entry(curve: OperatingCurve, threshold: float) -> int:
    """Position of the last threshold of the curve that is not above this one."""
    cut = float(check_numbers(threshold, "threshold"))
    if not cut >= curve.threshold[0]:
        raise ValueError(
            f"threshold {cut:g} accepts nothing; the curve starts at {curve.threshold[0]:g}."
        )
    return int(np.searchsorted(curve.threshold, cut, side="right")) - 1


def _mark(ax: "Axes", place: float | None, name: str, share: float | None) -> None:
    """Draw a line across at a share that has a name, and one upwards at the chosen place."""
    if share is not None:
        ax.axhline(share, color=look.GREY, linestyle=":", linewidth=1.2)
        style: look.Style = {"textcoords": "offset points", "xytext": (-2, 3), "ha": "right"}
        ax.annotate(name, (1, share), xycoords=("axes fraction", "data"), color=look.GREY, **style)
    if place is not None:
        ax.axvline(place, color=look.BLACK, linewidth=0.8)


def _shares(
    z: FloatArray, u: FloatArray, taus: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares at each tau: accepted; accepted and above tau; above tau given accepted."""
    finite = np.isfinite(u)
    accepted = np.searchsorted(np.sort(u[finite]), taus, side="right")
    # Accepted and good is where the larger of bound and loss is at most tau.
    good = np.searchsorted(np.sort(np.maximum(u, z)[finite]), taus, side="right")
    bad = accepted - good
    given = np.divide(bad, accepted, out=np.full(len(taus), np.nan), where=accepted > 0)
    return accepted / len(z), bad / len(z), given


def _taus(u: FloatArray, chosen: float | None, log: bool) -> FloatArray:
    """Tolerances over the range of the finite bounds, and the chosen one."""
    known = u[np.isfinite(u)]
    if not len(known):
        raise ValueError("all bounds are infinite, so no tau accepts a row; use a larger alpha.")
    if log and chosen is not None and chosen <= 0:
        raise ValueError(f"log=True needs a positive tau; got {chosen:g}.")
    low, high = float(known.min()), float(known.max())
    if log:
        taus = np.geomspace(max(low, look.log_floor(known)), high, N_TAUS)
    else:
        taus = np.linspace(min(0.0, low), high, N_TAUS)
    return taus if chosen is None else np.union1d(taus, chosen)


def _amount(tau: float, unit: str) -> str:
    return f"{look.number(tau)} {look.literal(unit)}" if unit else look.tolerance(tau)


def _finish_shares(ax: "Axes", lines: Sequence["Line2D"], log: bool) -> None:
    if log:
        ax.set_xscale("log")
    ax.set_yticks(np.linspace(0, 1, 6))
    look.shares_on(ax.yaxis)
    ax.xaxis.set_major_formatter(look.number)
    ax.set_ylabel("share of rows")
    ax.grid(alpha=0.25)
    name_lines(ax, lines, 0.0, 1.02)
