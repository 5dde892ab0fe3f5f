"""What all pictures share: a new Axes, colours that are easy to tell apart, labels and notes."""

import re
import textwrap
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from locuscore._protocols import FloatArray
from locuscore._shared.checks import check_same_length
from locuscore._shared.optional import require
from locuscore._shared.page import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _light(name: str) -> str:
    """A colour of our pages on a light ground, so that pictures and reports look alike."""
    found = re.search(rf"--{name}: light-dark\((#\w+)", palette())
    assert found is not None, name
    return found[1]


# Okabe and Ito's palette, safe for colour-blind readers, dark enough to be read as text.
BLUE, VERMILION, GREEN, PURPLE = map(_light, ("blue", "red", "green", "purple"))
ORANGE, BLACK, GREY, EDGE = map(_light, ("orange", "ink", "soft", "control"))
SKY, PALE = "#56B4E9", "#BBBBBB"
LONGEST_TITLE = 54  # letters in a line of a title
LINE = 0.06  # height of a line of a legend, as a share of that of the picture
DECADES = 4  # of a logarithmic axis; smaller values are drawn at its lower end

Style = dict[str, Any]  # keyword arguments of a matplotlib call

# Seven colours and five dashes: 35 series differ, and neighbours differ without colour too.
_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, BLACK, ORANGE, SKY)
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def new_axes(ax: "Axes | None") -> "Axes":
    """Return the given Axes, or those of a new figure that pyplot knows."""
    if ax is None:
        _, ax = require("matplotlib.pyplot", extra="plot").subplots(layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(EDGE)
    ax.tick_params(color=EDGE, labelcolor=GREY)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(BLACK)
    return ax


def say(ax: "Axes", finding: str) -> None:
    """Say as the title what the picture shows; a title that is there already stays."""
    if not ax.get_title():
        title = textwrap.fill(finding, LONGEST_TITLE)
        ax.set_title(title, fontsize="medium", fontweight="bold", color=BLACK)


def series_styles(n: int) -> list[Style]:
    """Colour, dash and width of n lines; the first stands out."""
    pairs = islice(zip(cycle(_COLOURS), cycle(_DASHES), strict=False), n)
    styles: list[Style] = [{"color": c, "linestyle": d, "linewidth": 1.5} for c, d in pairs]
    styles[0] |= {"linewidth": 2.2, "zorder": 2.5}
    return styles


def finite(**arrays: ArrayLike) -> list[FloatArray]:
    """Return arrays of one length without missing or infinite values."""
    values = check_same_length(**arrays)
    for name, array in zip(arrays, values, strict=True):
        if not np.isfinite(array).all():
            raise ValueError(
                f"{name} has {int(np.isinf(array).sum())} infinite values; remove them first."
            )
    return values


def literal(text: Any) -> str:
    """Return text in which a dollar sign is a dollar sign, not the start of a formula."""
    return str(text).replace("$", r"\$")


def label(text: str, unit: str, *notes: str) -> str:
    """Return text with the unit of the loss behind it, and each note on a line of its own."""
    first = f"{text} ({literal(unit)})" if unit else text
    return "\n".join([first, *filter(None, notes)])


def bound_name(alpha: float | None) -> str:
    """Return what a bound is called, with its alpha if that is known."""
    return "bound $U(x)$" if alpha is None else f"bound $U_{{{alpha:g}}}(x)$"


def number(value: float, _: float | None = None) -> str:
    """Return a number as people write it: 1,250 and 0.05."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{share:.1%}"


def whole_percent(share: float) -> str:
    """Return a share that somebody chose in percent, as it was written."""
    return f"{100 * share:.6g}%"


def beside(ax: "Axes", x: float, y: float, text: str, colour: str, **where: Any) -> None:
    """Write into the picture, at a place in shares of its width and height."""
    ground: Style = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5}
    ax.text(x, y, text, transform=ax.transAxes, color=colour, bbox=ground, zorder=5, **where)


def shares_on(*axes: Any) -> None:
    """Label axes of shares in percent."""
    for axis in axes:
        axis.set_major_formatter(lambda share, _: f"{100 * share:.4g}%")


def tolerance(tau: float, unit: str = "") -> str:
    """Return a tolerance by its name, with its unit."""
    return f"tau = {number(tau)}{f' {literal(unit)}' if unit else ''}"


def legend_above(ax: "Axes", bottom: float, top: float, title: str | None = None) -> None:
    """Put the legend into the picture, and extend the y axis so that it covers no data.

    A legend outside would cover a title that is set later.
    """
    n_lines = len(ax.get_legend_handles_labels()[0]) + (title is not None)
    stretch = 1 / (1 - LINE * (n_lines + 0.5))
    if ax.get_yscale() == "log":
        ax.set_ylim(bottom, bottom * (top / bottom) ** stretch)
    else:
        ax.set_ylim(bottom, bottom + (top - bottom) * stretch)
    place: Style = {"framealpha": 0.9, "edgecolor": "white", "alignment": "left"}
    ax.legend(title=title, loc="upper left", **place)


def log_floor(*values: FloatArray) -> float:
    """Lower end of a logarithmic axis: the power of ten about four decades below the top."""
    top = max((float(v[np.isfinite(v)].max(initial=0.0)) for v in values), default=0.0)
    if not top > 0:
        raise ValueError("log=True needs at least one positive finite value; leave it out.")
    return float(10.0 ** np.round(np.log10(top) - DECADES))


def floor_note(floor: float | None, *values: FloatArray) -> str:
    """Say that small values were moved up to the end of the axis; nothing if there are none."""
    moved = floor is not None and any((v < floor).any() for v in values)
    return f"values below {number(floor)} drawn there" if floor is not None and moved else ""


def infinity_note(bound: FloatArray, where: str) -> str:
    """Say how many bounds are infinite and where they are drawn; nothing if there are none."""
    n = int(np.isinf(bound).sum())
    return f"{n:,} of {len(bound):,} bounds are infinite: {where}" if n else ""
