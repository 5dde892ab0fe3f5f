"""``locuscore watch``: decisions and labels in, alarms out."""

from collections.abc import Callable

import typer

from locuscore.cli._messages import reported
from locuscore.cli._watch_log import label, log
from locuscore.cli._watch_views import export, forget, report, status

watch = typer.Typer(
    no_args_is_help=True,
    help="Is the promise still kept? Decisions and labels in a ledger, and alarms.",
    rich_markup_mode="rich",
    add_completion=False,
)
STORE = "--store sqlite:///decisions.db"
EXAMPLES: dict[Callable[..., None], str] = {
    log: f"log scored.parquet --scorer guard.locus {STORE}",
    label: f"label sold.csv --y price --scorer guard.locus {STORE}",
    status: f"status {STORE}",
    report: f"report watch.html {STORE}",
    export: f"export ledger {STORE}",
    forget: f"forget --before 2026-01-01 {STORE}",
}
for command, example in EXAMPLES.items():
    watch.command(epilog=f"[bold]Example[/]\n\nlocuscore watch {example}")(reported(command))
