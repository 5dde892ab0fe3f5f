"""All commands, as the list shows them; the module of one is imported when it runs.

Nothing here imports scikit-learn, pandas or pyarrow, so that help and completion are quick.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from locuscore.cli._environment import check_variables, name_variables
from locuscore.cli._messages import reported


@dataclass(frozen=True)
class Entry:
    """A command: what the list says of it, and the examples below its help.

    The command itself is what the module `_<name>` calls `name`, a function or a group of others.
    With a `prefix` each option may also be a variable of the environment, ``<prefix>_<OPTION>``.
    """

    summary: str
    examples: tuple[str, ...] = ()
    prefix: str | None = None


ENTRIES = {
    "demo": Entry("Bound a forest's errors on diamond prices; under a minute.", ("demo",)),
    "fit": Entry(
        "Model and calibrate the loss of a predictor; write an archive, print its guarantee.",
        (
            "fit rows.parquet -t price --prediction quoted --tau 500 -o guard.locus",
            "fit rows.csv -t price -p model.skops --alpha 0.05 -o guard.locus",
            "fit rows.parquet -t price --prediction quoted --groups region -o guard.locus",
        ),
    ),
    "certify": Entry(
        "Certify a rule on fresh labelled rows; write a new archive, print its guarantee.",
        ("certify guard.locus fresh.csv --tau 500 --eta 0.05 -o safe.locus",),
    ),
    "score": Entry(
        "Score a file or folder of any size; a run that was killed resumes where it stopped.",
        (
            "score guard.locus rows.parquet --keep id -o scored.parquet",
            "score guard.locus rows.csv --keep-all -o scored.csv",
        ),
    ),
    "recalibrate": Entry(
        "Calibrate an archive anew on recent labelled rows; write a new archive.",
        ("recalibrate guard.locus recent.parquet -o newer.locus",),
    ),
    "inspect": Entry(
        "Show what an archive says it holds and guarantees, without building any of it.",
        ("inspect guard.locus",),
    ),
    "report": Entry(
        "Report how a scorer does on labelled rows, in one page that needs no network.",
        (
            "report guard.locus test.parquet --unit dollars -o report.html",
            "report guard.locus test.parquet --groups region --time sold --noun homes "
            "-o report.html",
        ),
    ),
    "compare": Entry(
        "Compare two reports in one page: what changed by more than chance explains?",
        ("compare last.html this.html -o comparison.html",),
    ),
    "serve": Entry(
        "Score rows over HTTP until interrupted; SIGHUP loads the archive again.",
        ("serve guard.locus --port 8000",),
        prefix="LOCUSCORE",
    ),
    "plan": Entry("How many labelled rows are needed; exact, not asymptotic."),
    "watch": Entry("Is the promise still kept? Decisions and labels in a ledger, and alarms."),
}


class Command(TyperCommand):
    """A command in the list of all; whatever it does, the one in its module does."""

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        assert self.name is not None
        found = getattr(import_module(f"locuscore.cli._{self.name}"), self.name)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        entry = ENTRIES[self.name]
        lines = [f"locuscore {example}" for example in entry.examples]
        app = typer.Typer(rich_markup_mode="rich", add_completion=False)
        app.command(epilog="\n\n".join(["[bold]Examples[/]", *lines]))(reported(found))
        command = typer.main.get_command(app)
        if entry.prefix is not None:
            name_variables(command, entry.prefix)
        return command

    def make_context(self, info_name: Any, args: list[str], *given: Any, **more: Any) -> Any:
        """Parse the words after the name of the command."""
        assert self.name is not None
        prefix = ENTRIES[self.name].prefix
        only_asks = "--help" in args or more.get("resilient_parsing")
        if prefix is not None and not only_asks:
            check_variables(self.loaded, prefix)
        return self.loaded.make_context(info_name, args, *given, **more)


def add_commands(app: typer.Typer) -> None:
    """Put all commands into an application."""
    for name, entry in ENTRIES.items():
        app.command(name, cls=Command, help=entry.summary)(_run_elsewhere)


def _run_elsewhere() -> None:
    raise AssertionError("the context of a command is that of the loaded one")
