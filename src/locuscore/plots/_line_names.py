"""Names of lines beside them, where there is room for all; else in a legend."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from locuscore._protocols import FloatArray
from locuscore.plots import _style as look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

GAP = 0.015  # between a line and its name, in shares of the height
LETTER = 0.62  # width of a letter, in shares of its size
SIZE = 9.0  # of the letters, in points
PLACES = 0.5 + np.array([0.0, 0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 0.38, -0.38])


class Box(NamedTuple):
    """Where a name would stand, in shares of the picture."""

    left: float
    right: float
    bottom: float
    top: float

    def overlaps(self, other: "Box") -> bool:
        """Whether two names would touch."""
        apart = self.right < other.left or other.right < self.left
        return not (apart or self.top < other.bottom or other.top < self.bottom)


def name_lines(ax: "Axes", lines: Sequence["Line2D"], bottom: float, top: float) -> None:
    """Write the name of each line above or below it; into a legend if one of them has no room."""
    ax.set_ylim(bottom, top)
    boxes = _boxes(ax, lines)
    if boxes is None:
        look.legend_above(ax, bottom, top)
        return
    for line, box in zip(lines, boxes, strict=True):
        middle, up = (box.left + box.right) / 2, (box.bottom + box.top) / 2
        where: look.Style = {"ha": "center", "va": "center", "size": SIZE}
        look.beside(ax, middle, up, str(line.get_label()), str(line.get_color()), **where)


def _boxes(ax: "Axes", lines: Sequence["Line2D"]) -> list[Box] | None:
    """A free place for each name; None if there is none for one of them."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    size = ax.get_position().size * figure.get_size_inches() * 72  # points
    points = [_points(ax, line) for line in lines]
    found: list[Box] = []
    for line, own in zip(lines, points, strict=True):
        width = LETTER * SIZE * len(str(line.get_label())) / size[0]
        height = 1.25 * SIZE / size[1]
        free = (
            box
            for box in _candidates(own, width, height)
            if not any(box.overlaps(other) for other in found)
            and not any(_crosses(box, other) for other in points)
            and all(_is_apart(box, own, other) for other in points if other is not own)
        )
        box = next(free, None)
        if box is None:
            return None
        found.append(box)
    return found


def _candidates(own: FloatArray, width: float, height: float) -> Iterator[Box]:
    for middle in PLACES:
        left, right = middle - width / 2, middle + width / 2
        part = own[(own[:, 0] >= left) & (own[:, 0] <= right)]
        if left < 0.01 or right > 0.99 or not len(part):
            continue
        above, below = part[:, 1].max() + GAP, part[:, 1].min() - GAP
        for low in (above, below - height):
            if low >= 0.01 and low + height <= 0.99:
                yield Box(left, right, low, low + height)


def _crosses(box: Box, points: FloatArray) -> bool:
    part = points[(points[:, 0] >= box.left) & (points[:, 0] <= box.right), 1]
    return (
        bool(len(part))
        and bool(part.max() > box.bottom - GAP / 2)
        and bool(part.min() < box.top + GAP / 2)
    )


def _is_apart(box: Box, own: FloatArray, other: FloatArray) -> bool:
    """Whether it is clear which of two lines the name belongs to."""
    middle = (box.left + box.right) / 2
    here, there = (np.interp(middle, line[:, 0], line[:, 1]) for line in (own, other))
    return bool(abs(here - there) > 2 * GAP)


def _points(ax: "Axes", line: "Line2D") -> FloatArray:
    """Many points of a line, in shares of the picture."""
    xy = np.column_stack([np.asarray(part, dtype=np.float64) for part in line.get_data()])
    xy = xy[np.isfinite(xy).all(axis=1)]
    if not len(xy):
        return np.full((1, 2), -1.0)  # nowhere
    at = ax.transAxes.inverted().transform(ax.transData.transform(xy))
    across = np.linspace(at[0, 0], at[-1, 0], 400)
    return np.column_stack([across, np.interp(across, at[:, 0], at[:, 1])])
