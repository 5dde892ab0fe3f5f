"""The picture of README and the home page, light and dark, and the social card; `make bench-hero`.

All are drawn from the committed records of the paper's protocol, so nothing is fitted here.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.paper import records
from benchmarks.paper.summary import OURS, Summary

mpl.use("Agg")
from matplotlib import font_manager
from matplotlib import pyplot as plt

DOCS = Path(__file__).resolve().parents[2] / "docs"
# What people use today, as each is documented: packages see x alone.
METHODS = {
    "IFlag": "isolation forest",
    "MAPIE CQR": "MAPIE",
    "crepes Mondrian": "crepes",
    "spread of g": "spread of the trees",
    "LightGBM mean loss": "LightGBM error model",
    OURS: "locuscore",
}
PANELS = {
    "electric": "power grid",
    "protein": "protein",
    "mean": "mean of 13 data sets",
}
TITLE = "Fewer badly wrong predictions among those you act on"
# tau is the 0.7 quantile of the losses, so 30 % of all rows are bad.
SUBTITLE = (
    "Large errors among the 70 % accepted, in percent;",
    "without a ranking it would be 30 %.",
)
DPI = 200  # 8 inches are 1600 pixels: sharp at a width of 800
INK = {"light": "#1f2328", "dark": "#f0f6fc"}
FAINT = {"light": "#59636e", "dark": "#b1bac4"}
BAR = {"light": "#b4bcc6", "dark": "#59636e"}
ACCENT = {"light": "#D55E00", "dark": "#ff9d5c"}
PAPER = {"light": "#ffffff", "dark": "#0d1117"}


def shares(summary: Summary) -> dict[str, dict[str, float]]:
    """Mean over seeds of the share of large losses among the accepted, %, by panel and method."""
    every = {
        name: [100 * summary.mean(d, name, f"{summary.kind(name)}_rate") for d in summary.datasets]
        for name in METHODS
    }
    return {
        panel: {
            name: float(np.mean(values) if panel == "mean" else values[_place(summary, panel)])
            for name, values in every.items()
        }
        for panel in PANELS
    }


def _place(summary: Summary, dataset: str) -> int:
    return summary.datasets.index(dataset)


def picture(found: dict[str, dict[str, float]], mode: str, path: Path) -> None:
    """One panel per data set, a bar per method; ours stands out."""
    with mpl.rc_context({"font.size": 12, "text.color": INK[mode], "font.family": "DejaVu Sans"}):
        figure, grid = plt.subplots(
            1, len(PANELS), figsize=(8, 3.7), sharey=True, facecolor=PAPER[mode]
        )
        figure.subplots_adjust(left=0.245, right=0.985, top=0.72, bottom=0.04, wspace=0.12)
        for axes, panel in zip(grid, PANELS, strict=True):
            _bars(axes, found[panel], PANELS[panel], mode)
        figure.text(0.015, 0.93, TITLE, fontsize=15.5, fontweight="bold", va="center")
        text = f"{SUBTITLE[0]} {SUBTITLE[1]}"
        figure.text(0.015, 0.855, text, fontsize=11.5, color=FAINT[mode], va="center")
        figure.savefig(path, dpi=DPI, facecolor=PAPER[mode], metadata={"Software": None})
        plt.close(figure)


def narrow_picture(found: dict[str, dict[str, float]], mode: str, path: Path) -> None:
    """The first and the last panel, one above the other, for telephones."""
    shown = [panel for panel in PANELS if panel != "protein"]
    with mpl.rc_context({"font.size": 12, "text.color": INK[mode], "font.family": "DejaVu Sans"}):
        figure, grid = plt.subplots(2, 1, figsize=(4.2, 5.4), facecolor=PAPER[mode])
        figure.subplots_adjust(left=0.46, right=0.98, top=0.77, bottom=0.02, hspace=0.25)
        for axes, panel in zip(grid, shown, strict=True):
            _bars(axes, found[panel], PANELS[panel], mode)
        first, second = TITLE.split(" among ")
        title = f"{first}\namong {second}"
        figure.text(0.03, 0.94, title, fontsize=13.5, fontweight="bold", va="center")
        text = "\n".join(SUBTITLE)
        figure.text(0.03, 0.865, text, fontsize=9.5, color=FAINT[mode], va="center")
        figure.savefig(path, dpi=DPI, facecolor=PAPER[mode], metadata={"Software": None})
        plt.close(figure)


def _bars(axes: plt.Axes, values: dict[str, float], title: str, mode: str) -> None:
    colours = [ACCENT[mode] if name == OURS else BAR[mode] for name in METHODS]
    places = range(len(METHODS))
    axes.barh(places, list(values.values()), color=colours, height=0.72)
    for place, (name, value) in enumerate(values.items()):
        weight = "bold" if name == OURS else "normal"
        colour = ACCENT[mode] if name == OURS else INK[mode]
        axes.text(
            value + 0.8, place, f"{value:.1f} %", va="center", fontweight=weight, color=colour
        )
    axes.set_yticks(list(places), list(METHODS.values()), color=INK[mode])
    for label in axes.get_yticklabels()[-1:]:  # none but in the first panel
        label.set(fontweight="bold", color=ACCENT[mode])
    axes.invert_yaxis()
    axes.set_xlim(0, 46)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.set_title(title, loc="left", fontsize=12.5, color=INK[mode])
    axes.set_facecolor(PAPER[mode])
    axes.spines[:].set_visible(False)


def card(found: dict[str, dict[str, float]], path: Path) -> None:
    """What a link to the site shows: 1200 by 630 pixels."""
    figure = plt.figure(figsize=(12, 6.3), facecolor="#0b4a8f")
    figure.text(0.06, 0.80, "locuscore", fontsize=60, fontweight="bold", color="white")
    figure.text(0.06, 0.665, "How wrong can this one prediction be?", fontsize=31, color="white")
    text = "A bound on its loss, in your units, with a finite-sample guarantee."
    figure.text(0.06, 0.575, text, fontsize=22, color="#cfe3f7")
    axes = figure.add_axes((0.34, 0.12, 0.6, 0.36), facecolor="#0b4a8f")
    rows = ["MAPIE CQR", "spread of g", OURS]
    values = [found["electric"][name] for name in rows]
    axes.barh(range(3), values, color=["#7fa8d1", "#7fa8d1", "#ff9d5c"], height=0.7)
    for place, value in enumerate(values):
        axes.text(value + 0.4, place, f"{value:.0f} %", va="center", fontsize=24, color="white")
    axes.set_yticks(range(3), [METHODS[name] for name in rows], fontsize=22, color="white")
    axes.invert_yaxis()
    axes.set_xlim(0, 30)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.text(
        0.06,
        0.04,
        "badly wrong among the 70 % accepted; power grid, 30 % without a ranking",
        fontsize=17,
        color="#cfe3f7",
    )
    figure.savefig(path, dpi=100, facecolor="#0b4a8f", metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    font_manager.findfont("DejaVu Sans", fallback_to_default=False)
    found = shares(Summary(records.read()))
    for mode in INK:
        picture(found, mode, DOCS / "figures" / f"ranking_{mode}.png")
        narrow_picture(found, mode, DOCS / "figures" / f"ranking_narrow_{mode}.png")
    card(found, DOCS / "_static" / "social.png")
    for panel, values in found.items():
        print(panel, {METHODS[name]: round(value, 1) for name, value in values.items()})


if __name__ == "__main__":
    main()
