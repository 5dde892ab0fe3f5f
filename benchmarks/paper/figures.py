"""Pictures of RESULTS.md: a dot plot per table, and exceedance against acceptance per dataset."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.datasets import DATASETS, NOT_AVAILABLE, PAPER, STAND_INS, label
from benchmarks.paper.comparisons import best_of_paper
from benchmarks.paper.protocol import CURVE
from benchmarks.paper.summary import OURS, Summary, paper

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D

# Colours that stay apart for colour-blind readers (Okabe and Ito).
COLOURS = {
    "IFlag": "#999999",
    "VARNet": "#E69F00",
    "LOCUS BART": "#0072B2",
    "LOCUS BART gamma": "#56B4E9",
    "LOCUS MDN": "#009E73",
    "LOCUS MDN gamma": "#8FD4B8",
    OURS: "#D55E00",
    "peers": "#CC79A7",
}
CURVES = {
    "spread of g": ("#000000", ":"),
    "IFlag": ("#999999", "-"),
    "forest mean loss+": ("#999999", "--"),
    "MAPIE CQR+": ("#CC79A7", "-"),
    "crepes Mondrian+": ("#CC79A7", "--"),
    "quantile-forest+": ("#CC79A7", ":"),
    "LOCUS BART": ("#0072B2", "-"),
    "LOCUS MDN": ("#009E73", "-"),
    OURS: ("#D55E00", "-"),
}
PLAIN_PEERS = ["MAPIE CQR", "crepes Mondrian", "quantile-forest", "LightGBM mean loss"]
PEERS = ["MAPIE CQR+", "crepes Mondrian+", "quantile-forest+", "LightGBM mean loss+"]
SHOWN_ALL = [*PEERS, "forest mean loss+", "spread of g"]  # all that see what our default sees


def draw(summary: Summary, folder: Path) -> list[str]:
    """Draw everything; returns the names of the pictures that belong to no table."""
    folder.mkdir(parents=True, exist_ok=True)
    for key in paper()["tables"]:
        dot_plot(summary, key, folder / f"{key}.png")
    overview(summary, folder / "overview.png")
    curves(summary, folder / "curves.png")
    return ["curves.png", *(["figure1.png"] if (folder / "figure1.png").exists() else [])]


def dot_plot(summary: Summary, key: str, path: Path) -> None:
    """Medians with their 5-95 % range: the paper's hollow, ours filled."""
    printed = paper()["tables"][key]
    names = [name for name in [*PAPER, *STAND_INS] if name not in NOT_AVAILABLE]
    series = [*printed["columns"], OURS]
    height = 0.84 / (len(series) + 1)
    figure, axes = plt.subplots(figsize=(9, 0.9 * len(names) + 1.3))
    for row, dataset in enumerate(names):
        for place, name in enumerate(series):
            y = row - 0.42 + (place + 0.5) * height
            theirs = printed["rows"].get(dataset, {}).get(name)
            if theirs is not None and theirs[0] is not None:
                _dot(axes, theirs, y - height / 5, COLOURS[name], filled=False)
            _dot(axes, _ours(summary, dataset, name, key), y + height / 5, COLOURS[name])
        if key.endswith("rate") and not key.startswith("tau"):
            found = [
                summary.quantiles(dataset, name, _key(summary, name, key)) for name in SHOWN_ALL
            ]
            best = min((q for q in found if q is not None), default=None)
            _dot(axes, best, row + 0.42 - height / 2, COLOURS["peers"])
        if row:
            axes.axhline(row - 0.5, color="0.9", lw=0.8, zorder=0)
    axes.set_yticks(range(len(names)), [_two_lines(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("percent")
    axes.set_title(printed["title"], loc="left")
    axes.grid(axis="x", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    _legend(figure, series, peers=key.endswith("rate") and not key.startswith("tau"))
    _save(figure, path)


def overview(summary: Summary, path: Path) -> None:
    """The whole benchmark in one picture: our default, the paper's best, the peers."""
    names = summary.datasets
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(names) + 1.4))
    found = {
        "isolation forest": [_median(summary, name, "IFlag") for name in names],
        "best LOCUS cell of the paper": [
            best_of_paper(name)[0] if name in PAPER else None for name in names
        ],
        "best of six methods with the same signals": [
            min((m for peer in SHOWN_ALL if (m := _median(summary, name, peer))), default=None)
            for name in names
        ],
        "locuscore, default": [_median(summary, name, OURS) for name in names],
    }
    marks = {
        "isolation forest": {"marker": "x", "color": "#777777"},
        "best LOCUS cell of the paper": {"marker": "s", "mfc": "white", "color": "#0072B2"},
        "best of six methods with the same signals": {
            "marker": "D",
            "ms": 5,
            "mfc": "white",
            "color": "#CC79A7",
        },
        "locuscore, default": {"marker": "o", "ms": 8, "color": "#D55E00"},
    }
    peers = [[_median(summary, name, peer) for peer in PLAIN_PEERS] for name in names]
    known = [[m for m in values if m is not None] or [np.nan] for values in peers]
    ends = [min(values) for values in known], [max(values) for values in known]
    text = "four peers as documented, best to worst"
    axes.hlines(range(len(names)), *ends, color="#CC79A7", lw=5, alpha=0.6, label=text)
    for title, values in found.items():
        axes.plot(values, range(len(names)), ls="", label=title, zorder=3, **marks[title])
    axes.axvline(30, color="0.6", lw=0.8, ls="--")
    axes.text(30.2, len(names) - 0.5, "no ranking", fontsize=8, color="0.4", va="bottom")
    axes.set_yticks(range(len(names)), [label(name) for name in names], fontsize=9)
    axes.set_ylim(len(names) - 0.4, -0.7)
    axes.set_xlabel("large losses among the accepted 70 %, in percent (median; lower is better)")
    axes.grid(color="0.93")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    _save(figure, path)


def curves(summary: Summary, path: Path) -> None:
    """Share of large losses among the accepted, against the share accepted."""
    names = summary.datasets
    n_columns = min(4, len(names))
    n_rows = -(-len(names) // n_columns)
    size = (3.1 * n_columns + 0.3, 2.7 * n_rows + 1.1)
    figure, grid = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False, sharex=True)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    for axes, dataset in zip(grid.flat, names, strict=False):
        for name, (colour, style) in CURVES.items():
            found = summary.records(dataset, name).values()
            kind = f"{summary.kind(name)}_curve" if found else ""
            if found:
                mean = np.mean([record[kind] for record in found], axis=0)
                width = 2.2 if name == OURS else 1.2
                axes.plot(100 * CURVE, 100 * mean, style, color=colour, lw=width, label=name)
        axes.axhline(30, color="0.8", lw=0.8, zorder=0)
        axes.set_title(label(dataset), fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=8, labelbottom=True)
    handles = [
        Line2D([], [], color=c, ls=s, lw=2.2 if n == OURS else 1.2, label=n)
        for n, (c, s) in CURVES.items()
    ]
    figure.supxlabel("accepted, %", fontsize=9)
    figure.supylabel("losses above tau among the accepted, %", fontsize=9)
    figure.legend(handles=handles, loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    _save(figure, path)


def _median(summary: Summary, dataset: str, name: str) -> float | None:
    quantiles = summary.quantiles(dataset, name, f"{summary.kind(name)}_rate")
    return None if quantiles is None else quantiles[0]


def _ours(summary: Summary, dataset: str, name: str, key: str) -> list[float] | None:
    return summary.quantiles(dataset, name, _key(summary, name, key))


def _key(summary: Summary, name: str, key: str) -> str:
    """Methods without an exceedance of their own are ranked by their score in both tables."""
    no_alpha = not any(summary.values(d, name, "alpha_rate") for d in summary.datasets)
    return key.replace("alpha_", "lambda_") if no_alpha else key


def _dot(
    axes: plt.Axes, quantiles: list[float] | None, y: float, colour: str, filled: bool = True
) -> None:
    if quantiles is None:
        return
    median, low, high = quantiles
    axes.plot([low, high], [y, y], color=colour, lw=1.4 if filled else 0.8, alpha=0.7)
    face = colour if filled else "white"
    axes.plot(median, y, "o", ms=4, mfc=face, mec=colour, mew=1.1)


def _two_lines(name: str) -> str:
    other = DATASETS[name].stands_for
    return name if other is None else f"{name}\n(stand-in for {other})"


def _legend(figure: plt.Figure, series: list[str], peers: bool) -> None:
    def entry(text: str, colour: str, face: str) -> Line2D:
        return Line2D([], [], marker="o", ls="", ms=5, mec=colour, mfc=face, label=text)

    handles = [entry(name, COLOURS[name], COLOURS[name]) for name in series]
    if peers:
        handles.append(entry("best other method", COLOURS["peers"], COLOURS["peers"]))
    handles.append(entry("hollow: the paper", "0.3", "white"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)


def _save(figure: plt.Figure, path: Path) -> None:
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=110)
    plt.close(figure)
