"""What becomes of the warnings and errors of a command: one line each, on stderr."""

import sys
import traceback
import warnings
from collections.abc import Callable
from functools import wraps
from inspect import cleandoc
from typing import Any

from locuscore._shared.readable import said
from locuscore.cli._exit_codes import FAILED, WRONG_USAGE
from locuscore.cli._groups import with_groups
from locuscore.cli._terminal import printable

SAY_WHAT_THEY_ARE = (ValueError, TypeError, OSError, RuntimeError, ImportError)


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Expand a command's groups, print its warnings and what its options say of its errors.

    ``--quiet`` hides warnings and ``--debug`` shows the traceback of an error. An interrupted
    command says what it leaves behind, which Typer would drop.
    """
    flat = with_groups(command)

    @wraps(flat)
    def run(**options: Any) -> None:
        with warnings.catch_warnings():
            _print_warnings(hidden=options["quiet"])
            try:
                flat(**options)
            except KeyboardInterrupt as error:
                sys.stderr.writelines(f"{note}\n" for note in getattr(error, "__notes__", ()))
                raise
            except Exception:
                if options["debug"]:
                    traceback.print_exc()
                raise

    run.__doc__ = _unwrapped(flat.__doc__ or "")  # the help text
    return run


def _unwrapped(text: str) -> str:
    """Return each paragraph in one line, since Typer would keep the line breaks of a docstring."""
    return "\n\n".join(_joined(part) for part in cleandoc(text).split("\n\n"))


def one_line(error: Exception) -> tuple[str, int]:
    """Return an error in one line, and the exit code that it means."""
    usage: Any = error
    if hasattr(error, "format_message"):  # of Typer: the options are wrong
        where = getattr(getattr(usage, "ctx", None), "command_path", "locuscore")
        text = f"{usage.format_message().rstrip('.')} (see {where} --help)"
        return _joined(text), WRONG_USAGE
    text = said(error) if isinstance(error, SAY_WHAT_THEY_ARE) and str(error) else repr(error)
    notes = [text.rstrip(".") + ".", *error.__notes__] if hasattr(error, "__notes__") else [text]
    return printable(_joined(" ".join(notes))), FAILED


def _joined(text: str) -> str:
    return " ".join(text.split())


def _print_warnings(*, hidden: bool) -> None:
    """Show each warning once, in one line, but none that means nothing to a user of files."""

    def show(message: Warning | str, *_: Any) -> None:
        if not hidden:
            sys.stderr.write(f"warning: {printable(_joined(str(message)))}\n")

    warnings.showwarning = show  # type: ignore[assignment]  # what is shown needs no place
    warnings.simplefilter("once")
    # A model fitted on an array is given columns by name, in the order of fit.
    warnings.filterwarnings("ignore", message="X has feature names, but")
