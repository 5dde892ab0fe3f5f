"""All commands, and the code with which each ends."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from locuscore import __version__
from locuscore.cli._commands import add_commands
from locuscore.cli._exit_codes import FAILED, INTERRUPTED, OK, WRONG_USAGE
from locuscore.cli._messages import one_line
from locuscore.cli._terminal import as_json

app = typer.Typer(
    name="locuscore",
    help="How bad can this one prediction be? A calibrated bound on the loss of every prediction.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
add_commands(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"locuscore {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            is_eager=True,
            callback=_print_version,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code, one of `_exit_codes`."""
    code = _run(arguments)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if code == OK:
            sys.stderr.write(
                f"error: the work is done, but its result cannot be printed: {error}.\n"
            )
        # Python would try again at its end, and exit with a code of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or FAILED
    return code


def _run(arguments: Sequence[str]) -> int:
    asks_nothing = list(arguments) in ([], ["plan"], ["watch"])
    given = [*arguments, "--help"] if asks_nothing else list(arguments)
    try:
        code = app(args=given, prog_name="locuscore", standalone_mode=False)
        return WRONG_USAGE if asks_nothing else int(code or OK)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # every error becomes one line
        message, code = one_line(error)
        sys.stderr.write(f"error: {message}\n")
        # Asked of the words themselves: options that cannot be parsed have no values.
        if "--json" in given:
            with suppress(OSError):  # it may be stdout that fails
                sys.stdout.write(as_json({"error": message}) + "\n")
        return code
