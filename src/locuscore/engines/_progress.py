"""A sign of life during long fits, where somebody is watching."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def status(text: str) -> AbstractContextManager[Any]:
    """Show a spinner with this text on a terminal that `rich` can draw on; elsewhere nothing."""
    if not sys.stderr.isatty():
        return nullcontext()
    try:
        from rich.console import Console  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return nullcontext()
    return Console(stderr=True).status(text)
