"""All commands, and what becomes of their errors and warnings."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Annotated, Any

import typer

from locuscore import __version__
from locuscore.cli._certify import certify
from locuscore.cli._codes import FAILED, INTERRUPTED, OK, WRONG_USAGE
from locuscore.cli._demo import demo
from locuscore.cli._fit import fit
from locuscore.cli._inspect import inspect
from locuscore.cli._plan import plan
from locuscore.cli._report import report
from locuscore.cli._score import score
from locuscore.cli._serve import serve
from locuscore.cli._terminal import as_json, printable

# What the library tells callers in Python, told to those at a terminal.
AS_OPTIONS = {
    "Scorer.tolerate(batch)": "--bad-rows flag",
    "Scorer.load(path, predictor=g)": "--predictor MODEL",
    "Scorer.load(path, trusted=[...])": "--trust TYPE",
    "Scorer.load(path, loss=...)": "--loss module:object",
}
SAY_WHAT_THEY_ARE = (ValueError, TypeError, OSError, RuntimeError, ImportError)

app = typer.Typer(
    name="locuscore",
    help="How bad can this one prediction be? A calibrated bound on the loss of every prediction.",
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)
EXAMPLES: dict[Callable[..., None], list[str]] = {
    demo: ["demo"],
    fit: [
        "fit rows.parquet -t price --prediction quoted --tau 500 -o guard.locus",
        "fit rows.csv -t price -p model.skops --alpha 0.05 -o guard.locus",
    ],
    certify: ["certify guard.locus fresh.csv --tau 500 --eta 0.05 -o safe.locus"],
    score: [
        "score guard.locus rows.parquet --keep id -o scored.parquet",
        "score guard.locus rows.csv --keep-all -o scored.csv",
    ],
    inspect: ["inspect guard.locus"],
    report: ["report guard.locus test.parquet --unit dollars -o report.html"],
    serve: ["serve guard.locus --port 8000"],
}


def _heard(command: Callable[..., None]) -> Callable[..., None]:
    """Let an interrupted command say what it leaves, which Typer would drop."""

    @wraps(command)
    def heard(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as error:
            sys.stderr.writelines(f"{note}\n" for note in getattr(error, "__notes__", ()))
            raise

    return heard


for command, examples in EXAMPLES.items():
    lines = [f"locuscore {example}" for example in examples]
    app.command(epilog="\n\n".join(["[bold]Examples[/]", *lines]))(_heard(command))
app.add_typer(plan, name="plan")


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
    """Run a command and return its exit code, one of `_codes`."""
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
    given = set(arguments)
    asks_nothing = not arguments or list(arguments) == ["plan"]
    if asks_nothing:
        arguments = [*arguments, "--help"]
    try:
        with warnings.catch_warnings():
            _print_warnings(hidden=bool(given & {"--quiet", "-q"}))
            code = app(args=list(arguments), prog_name="locuscore", standalone_mode=False)
        return WRONG_USAGE if asks_nothing else int(code or OK)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # every error becomes one line
        if "--debug" in given:
            traceback.print_exc()
        message, code = _one_line(error)
        sys.stderr.write(f"error: {message}\n")
        if "--json" in given:
            with suppress(OSError):  # it may be stdout that fails
                sys.stdout.write(as_json({"error": message}) + "\n")
        return code


def _one_line(error: Exception) -> tuple[str, int]:
    usage: Any = error
    if hasattr(error, "format_message"):  # of Typer: the options are wrong
        where = getattr(getattr(usage, "ctx", None), "command_path", "locuscore")
        text = f"{usage.format_message().rstrip('.')} (see {where} --help)"
        return " ".join(text.split()), WRONG_USAGE
    text = str(error) if isinstance(error, SAY_WHAT_THEY_ARE) and str(error) else repr(error)
    notes = [text.rstrip(".") + ".", *error.__notes__] if hasattr(error, "__notes__") else [text]
    return _in_options(" ".join(notes)), FAILED


def _in_options(text: str) -> str:
    for call, words in AS_OPTIONS.items():
        text = text.replace(call, words)
    return printable(" ".join(text.split()))


def _print_warnings(*, hidden: bool) -> None:
    """Show each warning in one line, once, and none that a user of files cannot mind."""

    def show(message: Warning | str, *_: Any) -> None:
        if not hidden:
            sys.stderr.write(f"warning: {_in_options(str(message))}\n")

    warnings.showwarning = show  # type: ignore[assignment]
    warnings.simplefilter("once")
    # A model fitted on an array is given columns by name, in the order of fit.
    warnings.filterwarnings("ignore", message="X has feature names, but")
