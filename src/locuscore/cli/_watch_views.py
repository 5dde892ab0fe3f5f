"""``locuscore watch status``, ``report``, ``export`` and ``forget``: what a ledger says."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from locuscore.cli._exit_codes import BROKEN
from locuscore.cli._option_values import ArchiveOptions, check_output
from locuscore.cli._options import argument, option, switch
from locuscore.cli._terminal import Terminal, print_plain
from locuscore.cli._watch_log import ScorerToo
from locuscore.cli._watch_options import Store, check_ledger, chosen_time, opened_for

if TYPE_CHECKING:
    from locuscore.watch import Watch

Page = Annotated[Path, argument("OUT", "HTML file to write.")]
Folder = Annotated[Path, argument("FOLDER", "Folder for the Parquet files.")]
Before = Annotated[str, option("--before", "DATE", "Day, in UTC, or time with its zone.")]
UntestedToo = Annotated[
    bool, switch("--untested-too", "Also rows that no test has seen yet; they never count then.")
]


def status(
    *, store: Store, scorer: ScorerToo = None, reading: ArchiveOptions, terminal: Terminal
) -> None:
    """Test the rows that have reached their age, and say how things stand.

    Exits with code 4 if a claim of the latest deployment has ever raised its alarm.
    """
    watch = _opened(store, scorer, reading)
    with terminal.working("testing"):
        found = watch.status()
    watch.close()
    terminal.show(found.to_dict(), lambda console: print_plain(console, str(found)))
    if found.alarm:
        raise typer.Exit(BROKEN)


def report(
    *,
    output: Page,
    store: Store,
    scorer: ScorerToo = None,
    reading: ArchiveOptions,
    terminal: Terminal,
) -> None:
    """Write the status as one page that needs no network."""
    check_output(output)
    watch = _opened(store, scorer, reading)
    with terminal.working("testing"):
        watch.report(output)
    watch.close()
    terminal.show({"output": str(output)}, lambda console: print_plain(console, f"Wrote {output}."))


def export(*, folder: Folder, store: Store, terminal: Terminal) -> None:
    """Write all decisions, labels, sums and events as Parquet files."""
    watch = _opened(store)
    with terminal.working("exporting"):
        files = [str(path) for path in watch.export(folder)]
    watch.close()
    text = f"Wrote {len(files)} files to {folder}."
    terminal.show({"files": files}, lambda console: print_plain(console, text))


def forget(
    *, before: Before, store: Store, untested_too: UntestedToo = False, terminal: Terminal
) -> None:
    """Delete decisions made before a day, with their labels; sums and alarms stay."""
    when = chosen_time(before)
    watch = _opened(store)
    gone = watch.forget(when, untested_too=untested_too)
    watch.close()
    figures = {"decisions": gone, "before": when.isoformat()}
    terminal.show(figures, lambda console: print_plain(console, f"Forgot {gone:,} decisions."))


def _opened(
    store: str, scorer: Path | None = None, reading: ArchiveOptions | None = None
) -> "Watch":
    from locuscore.watch import Watch  # noqa: PLC0415 - needs an extra

    check_ledger(store)
    if scorer is None or reading is None:
        return Watch(store)
    return opened_for(store, reading.load(scorer, given=("groups", "weights")))
