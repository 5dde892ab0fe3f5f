"""A first look on real data: diamond prices, a random forest, and a bound for every error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from locuscore import Scorer, plots
from locuscore._shared.optional import require
from locuscore._shared.progress import live_console, spinner
from locuscore.demo._measure import STEPS, Measured, Setting, example_rows, measure, summary
from locuscore.report import report

__all__ = [
    "Measured",
    "Setting",
    "draw",
    "example_rows",
    "measure",
    "run",
    "show",
    "summary",
    "write_report",
]


def run(
    setting: Setting | None = None, *, folder: str | Path = "demo_output", console: Any = None
) -> Measured:
    """Measure, save picture and report in `folder`, and print what a new user should see."""
    setting = Setting() if setting is None else setting
    for package in ("pandas", "matplotlib", "rich"):
        require(package, extra="demo")
    console = require("rich.console", extra="demo").Console() if console is None else console
    if live_console(console) is None:
        console.print("Fitting the forests and Locus takes about half a minute.\n")
    steps = iter(enumerate(STEPS, start=1))
    with spinner("", console) as show_step:

        def step() -> None:
            number, text = next(steps)
            show_step(f"{number} of {len(STEPS)}: {text}")

        measured = measure(setting, step)
        step()
        path = draw(measured, Path(folder) / "diamonds.png")
        step()
        page = write_report(measured, Path(folder) / "report.html")
    show(measured, console, path)
    console.print(f"Report: {page}", highlight=False, soft_wrap=True)
    return measured


def show(m: Measured, console: Any, path: Path) -> None:
    """Print the table, the guarantee and the figures."""
    figures, alpha = summary(m), m.setting.alpha
    name, share, tolerance = f"U_{alpha:g}", f"{alpha:.0%}", f"${m.setting.tau:,.0f}"
    low, high = figures["interval"]
    outside = "[bold red]outside[/] (chance alone does that to one split in 20)"
    verdict = "[bold green]inside[/]" if figures["inside"] else outside
    paragraphs = {
        "opening": f"A random forest learned prices from {m.setting.n_train:,} diamonds. Locus "
        f"learned the forest's errors |predicted - true| from {m.n_fit:,} others and was "
        f"calibrated on {m.n_calibration:,} more. Below are {len(m.loss):,} that neither has seen. "
        "(Random parts of 53,940 diamonds.)",
        "legend": f"U_0.5 and {name} bound the error: about half, and about {share}, of all errors "
        f"exceed theirs. Locus flags where {name} > {tolerance}. For comparison, two scores that "
        "flag equally many diamonds: an isolation forest (is the stone unusual?) and sd(Y | x) "
        "(do prices of such stones vary?), from a forest with 10 or more stones in a leaf that "
        "averages y and y^2.",
        "choice": "How the rows were chosen: one for each mix of flags; among the diamonds with "
        f"that mix, the one at the {1 - alpha:.0%} point of the errors, so {share} did worse.",
        "guarantee": f"For a new diamond drawn like these, the chance of an error above its {name} "
        f"is at most {share}, and so is the chance that it is accepted and yet wrong by more than "
        f"{tolerance}: whatever the predictor, the model of its errors and the data. (The chance "
        "counts the draw of the calibration diamonds; a single draw gives a little more or less.)",
        "coverage": f"{figures['coverage']:.2%} of the {len(m.loss):,} test errors are within "
        f"their {name}. Of 100 random splits, 95 fall between {low:.2%} and {high:.2%} "
        f"(beta-binomial law of the coverage): this one is {verdict}.",
    }
    console.rule("How wrong can this one price be?", characters="-")
    console.print(paragraphs["opening"], "\n", highlight=False, sep="")
    console.print(_example_table(m))
    console.print(paragraphs["legend"], highlight=False)
    console.print(paragraphs["choice"], "\n", highlight=False, sep="")
    for title in ("guarantee", "coverage"):
        console.rule(title.capitalize(), characters="-")
        console.print(paragraphs[title], "\n", highlight=False, sep="")
    console.rule("Flags", characters="-")
    console.print(_rule_table(m, figures))
    console.print(f"Picture: {path}", highlight=False, soft_wrap=True)


def write_report(m: Measured, path: Path) -> Path:
    """Save the page that a scorer of these errors would be judged by."""
    tau, alpha, title = m.setting.tau, m.setting.alpha, "Errors of diamond prices"
    scorer = Scorer(m.locus, m.locus.tau_rule(tau, alpha), (alpha, 0.5))
    found = report(scorer, m.rows, m.truth, groups="cut", title=title, unit="dollars")
    path.parent.mkdir(parents=True, exist_ok=True)
    found.write(path)
    return path


def draw(m: Measured, path: Path) -> Path:
    """Save two panels: bound against error, and errors above tau against share accepted."""
    new_figure = require("matplotlib.figure", extra="demo").Figure
    figure = new_figure(figsize=(12, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    alpha, tau, unit = m.setting.alpha, m.setting.tau, "dollars"
    about: dict[str, Any] = {"alpha": alpha, "tau": tau, "unit": unit}
    # So few points that the file stays small; it is the README's picture too.
    plots.bound_against_loss(m.loss, m.bound, **about, log=True, max_points=3_000, ax=left)
    left.set_title("Every diamond has its own bound")
    scores = {
        "Locus, exceedance": m.exceedance,
        "spread of the forest's trees": m.spread,
        "sd(Y | x)": m.label_sd,
        "isolation forest": m.outlier,
    }
    plots.exceedance_curves(scores, m.loss, tau, unit=unit, ax=right)
    figures = summary(m)
    point = figures["accepted"], figures["conditional"]["locus"]
    right.plot(*point, "o", color="black", zorder=4)
    right.annotate(
        f"$U_{{{alpha:g}}}$ at most {tau:,.0f} dollars",
        point,
        xytext=(-24, 36),
        textcoords="offset points",
        ha="right",
        arrowprops={"arrowstyle": "-", "color": "black"},
    )
    right.set_title("Which predictions to trust: lower is better")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _table(title: str, **columns: Sequence[str]) -> Any:
    """A table without rows; its columns by the side that they are aligned to."""
    tables, box = (require(f"rich.{part}", extra="demo") for part in ("table", "box"))
    # Narrow padding: the widest table must fit into 80 columns.
    table = tables.Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False, title=title)
    for side, names in columns.items():
        for name in names:
            table.add_column(name, justify=side, no_wrap=True)
    return table


def _example_table(m: Measured) -> Any:
    table = _table(
        "Test diamonds: flags on the left, dollars on the right",
        center=("Locus", "Isol.\nforest", "sd\n(Y|x)"),
        right=("Predicted", "True", "Error", "U_0.5", f"U_{m.setting.alpha:g}", "sd(Y|x)"),
    )
    rows = example_rows(m)
    n_flagged = sum(bool(m.flags["locus"][i]) for i in rows)
    for position, i in enumerate(rows):
        loss = f"${m.loss[i]:,.0f}"
        table.add_row(
            *("[bold red]flag[/]" if m.flags[name][i] else "ok" for name in m.flags),
            f"${m.prediction[i]:,.0f}",
            f"${m.truth[i]:,.0f}",
            f"[bold red]{loss}[/]" if m.bad[i] else loss,
            f"${m.bound_half[i]:,.0f}",
            f"[bold]${m.bound[i]:,.0f}[/]",
            f"${m.label_sd[i]:,.0f}",
            end_section=position == n_flagged - 1,
        )
    return table


def _rule_table(m: Measured, figures: dict[str, Any]) -> Any:
    tolerance = f"${m.setting.tau:,.0f}"
    shares = ("Accepted", f"Accepted and\nabove {tolerance}", f"Above {tolerance}\nif accepted")
    title = f"Errors above {tolerance} among the predictions we act on"
    table = _table(title, left=("Act on",), right=shares)
    everything = f"{figures['bad']:.1%}"
    table.add_row("everything", "100.0%", everything, everything)
    names = {
        "locus": f"U_{m.setting.alpha:g} <= {tolerance} (Locus)",
        "outlier": "as many, by isolation forest",
        "label_sd": "as many, by sd(Y|x)",
    }
    for key, name in names.items():
        promise = f"at most {m.setting.alpha:.0%}: " if key == "locus" else ""
        table.add_row(
            name,
            f"{figures['accepted']:.1%}",
            f"{promise}{figures['joint'][key]:.1%}",
            f"{figures['conditional'][key]:.1%}",
            style="bold" if key == "locus" else None,
        )
    return table
