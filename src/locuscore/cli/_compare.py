"""``locuscore compare``: two reports side by side, as one page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from locuscore.cli._exit_codes import BROKEN
from locuscore.cli._option_values import check_file, check_output
from locuscore.cli._options import OUTPUT, argument, option, switch
from locuscore.cli._terminal import Terminal, print_plain, size_text
from locuscore.report import compare as compare_reports

FILE = "page or summary (JSON) of a report"
Before = Annotated[Path, argument("BEFORE", f"The earlier one: {FILE}.")]
After = Annotated[Path, argument("AFTER", f"The later one: {FILE}.")]
Page = Annotated[Path, option("--output -o", "FILE", "HTML file to write.")]
Title = Annotated[str, option("--title", "TEXT", "Title.")]
FailIfWorse = Annotated[
    bool,
    switch("--fail-if-worse", "Exit with code 4 if a share got worse, beyond chance.", OUTPUT),
]


def compare(
    *,
    before: Before,
    after: After,
    output: Page,
    title: Title = "Locus reports compared",
    fail_if_worse: FailIfWorse = False,
    terminal: Terminal,
) -> None:
    """Compare two reports in one page: what changed by more than chance explains?

    Such as last quarter's and this quarter's. Each share is compared by Fisher's exact test.
    """
    for path in (before, after):
        check_file(path)
    check_output(output, before, after)
    found = compare_reports(before, after, title=title)
    found.write(output)
    told = found.summary
    figures = {key: told[key] for key in ("headline", "kind", "n_differences", "notes", "shares")}

    def draw(console: Console) -> None:
        for line in str(found).splitlines():
            print_plain(console, line)
        for note in told["notes"]:
            print_plain(console, note)
        print_plain(console, f"Wrote {output} ({size_text(output.stat().st_size)}).")

    terminal.show({"output": str(output), **figures}, draw)
    if fail_if_worse and told["kind"] == "bad":
        raise typer.Exit(BROKEN)
