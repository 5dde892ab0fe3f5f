"""A first look on real data: diamond prices, a random forest, and a bound for every error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from locuscore import Scorer, plots
from locuscore._shared.optional import require
from locuscore._shared.progress import live_console, spinner
from locuscore.demo._measure import (
    STEPS,
    Measured,
    Setting,
    example_rows,
    measure,
    reason_row,
    summary,
)
from locuscore.report import report

__all__ = [
    "Measured",
    "Setting",
    "draw",
    "example_rows",
    "measure",
    "next_commands",
    "run",
    "save",
    "show",
    "summary",
    "write_report",
]

ARCHIVE, NEW_ROWS, MOST_NEW = "diamonds.locus", "new.csv", 5_000


def run(
    setting: Setting | None = None, *, folder: str | Path = "demo_output", console: Any = None
) -> Measured:
    """Measure, save picture, report and scorer in `folder`, and print what a new user sees."""
    setting = Setting() if setting is None else setting
    for package in ("pandas", "matplotlib", "rich", "skops"):
        require(package, extra="demo")
    console = require("rich.console", extra="demo").Console() if console is None else console
    if live_console(console) is None:
        console.print("Fitting the forests and Locus takes about half a minute.\n")
    steps, folder = iter(enumerate(STEPS, start=1)), Path(folder)
    with spinner("", console) as show_step:

        def step() -> None:
            number, text = next(steps)
            show_step(f"{number} of {len(STEPS)}: {text}")

        measured = measure(setting, step)
        step()
        picture = draw(measured, folder / "diamonds.png")
        save(measured, folder)
        step()
        page = write_report(measured, folder / "report.html")
    show(measured, console)
    for name, path in (("Picture", picture), ("Report", page)):
        console.print(f"{name}: {path}", highlight=False, soft_wrap=True)
    console.print()
    console.rule("What next", characters="-")
    for command, what in next_commands(folder):
        console.print(f"# {what}", style="dim", highlight=False)
        console.print(command, highlight=False, soft_wrap=True)
    return measured


def next_commands(folder: Path) -> list[tuple[str, str]]:
    """Three commands that work after the demonstration, and what each does."""
    scorer, rows = folder / ARCHIVE, folder / NEW_ROWS
    score = f"locuscore score {scorer} {rows} \\\n  -o {folder / 'scored.csv'}"
    certify = (
        f"locuscore certify {scorer} {rows} \\\n"
        f"  --tau 1000 --eta 0.05 -o {folder / 'strict.locus'}"
    )
    return [
        (f"locuscore inspect {scorer}", "what the saved scorer promises"),
        (score, "score new diamonds"),
        (certify, "a stricter rule: at most 5 % of the accepted are off by more than $1,000"),
    ]


def save(m: Measured, folder: Path) -> None:
    """Save the scorer, and some of the diamonds that it has not seen."""
    folder.mkdir(parents=True, exist_ok=True)
    _scorer(m).save(folder / ARCHIVE)
    n = min(MOST_NEW, len(m.loss))
    m.rows.iloc[:n].assign(price=m.truth[:n]).to_csv(folder / NEW_ROWS, index=False)


def show(m: Measured, console: Any) -> None:
    """Print the table, a reason, the guarantee and the figures."""
    figures, alpha = summary(m), m.setting.alpha
    name, share, tolerance = f"U_{alpha:g}", f"{alpha:.0%}", f"${m.setting.tau:,.0f}"
    low, high = figures["interval"]
    outside = "[bold red]outside[/] (chance alone does that to one split in 20)"
    verdict = "[bold green]inside[/]" if figures["inside"] else outside
    console.rule("How wrong can this one price be?", characters="-")
    _say(
        console,
        f"A price model in use knows weight and measures of a diamond, not colour and clarity. "
        f"From {m.n_fit:,} sold diamonds Locus learned where its prices go wrong, and "
        f"{m.n_calibration:,} more calibrated that. Below are {len(m.loss):,} that neither has "
        "seen.",
    )
    console.print(_example_table(m))
    _say(
        console,
        f"{name} bounds the error: about {share} of all errors exceed theirs. Locus flags where "
        f"{name} > {tolerance}. Two other scores flag equally many: an isolation forest (is the "
        f"stone unusual?) and sd(Y|x) (do such prices vary?). Of each mix of flags, the row at the "
        f"{1 - alpha:.0%} point of the errors is shown.",
    )
    _say_why(m, console)
    console.rule("Guarantee", characters="-")
    _say(
        console,
        f"For a new diamond drawn like these, the chance of an error above its {name} is at most "
        f"{share}, and so is the chance that it is accepted and yet wrong by more than "
        f"{tolerance}: whatever the predictor, the model of its errors and the data. Here "
        f"{figures['coverage']:.2%} of the {len(m.loss):,} test errors are within their {name}; "
        f"95 of 100 random splits give {low:.2%} to {high:.2%}: this one is {verdict}.",
    )
    console.rule("Flags", characters="-")
    console.print(_rule_table(m, figures))


def _say(console: Any, text: str) -> None:
    console.print(text, "\n", highlight=False, sep="")


def _say_why(m: Measured, console: Any) -> None:
    """Print what the second opinion says of a flagged diamond."""
    found = reason_row(m)
    if found is None:
        return
    row, said = found
    stone = m.rows.iloc[row]
    console.rule("Why flagged?", characters="-")
    _say(
        console,
        f"A diamond of {stone['carat']:.2f} carat, colour {stone['color']}, clarity "
        f"{stone['clarity']}: {said} (g is the model in use). So its error may be "
        f"[bold]${m.bound[row]:,.0f}[/], and a person looks at it. It sold for "
        f"${m.truth[row]:,.0f}: the error would have been [bold red]${m.loss[row]:,.0f}[/].",
    )


def _scorer(m: Measured) -> Scorer:
    alpha = m.setting.alpha
    return Scorer(m.locus, m.locus.tau_rule(m.setting.tau, alpha), (alpha, 0.5))


def write_report(m: Measured, path: Path) -> Path:
    """Save the page that a scorer of these errors would be judged by."""
    found = report(_scorer(m), m.rows, m.truth, groups="cut", title="Errors of diamond prices")
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
    scores = {
        "Locus": m.exceedance,
        "spread of the trees": m.spread,
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
        xytext=(-36, 72),
        textcoords="offset points",
        ha="right",
        arrowprops={"arrowstyle": "-", "color": "black"},
    )
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
