"""What a command says: text for people, or one JSON object; notes and progress on stderr."""

import json
import sys
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from locuscore._shared.progress import progress_bar, spinner
from locuscore.cli._options import Debug, Json, Quiet


@dataclass(frozen=True)
class Terminal:
    """Where a command prints: results on stdout, everything else on stderr."""

    as_json: Json = False
    quiet: Quiet = False
    debug: Debug = False

    def show(self, figures: Mapping[str, Any], draw: Callable[[Console], None]) -> None:
        """Print the result, as JSON or drawn; --quiet hides the drawing only."""
        if self.as_json:
            sys.stdout.write(as_json(figures) + "\n")
        elif not self.quiet:
            draw(Console(highlight=False))

    def note(self, text: str) -> None:
        """Print a remark on stderr."""
        if not self.quiet:
            sys.stderr.write(text + "\n")

    def error(self, text: str) -> None:
        """Print an error on stderr, also with --quiet."""
        sys.stderr.write(f"error: {text}\n")

    def working(self, text: str) -> AbstractContextManager[Any]:
        """Show that something takes a while, on a terminal."""
        return spinner(text, hidden=self.quiet)

    def progress(
        self, total: int | None, done: int
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Give a function that counts further rows; draws a bar on a terminal."""
        return progress_bar(total, done, of="rows", hidden=self.quiet)


def printable(text: str) -> str:
    """Return text without control characters, with which a file could steer the terminal."""
    return "".join(c if c == "\n" or unicodedata.category(c) != "Cc" else "\ufffd" for c in text)


def print_plain(console: Console, text: str) -> None:
    """Print text as it is: no colours, no wrapping."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def print_card(console: Console, card: str) -> None:
    """Print a guarantee card, which may be one long sentence, within the width of the console."""
    console.print(printable(card), markup=False, highlight=False)


def two_columns(entries: Mapping[str, str]) -> Table:
    """Names on the left, values on the right."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in entries.items():
        table.add_row(name, Text(printable(value)))
    return table


def as_json(value: Any) -> str:
    """Return JSON; numbers that it does not have are the texts "inf", "-inf" and "nan"."""
    from locuscore._shared.json_values import to_json  # noqa: PLC0415 - numpy, when first used

    return json.dumps(to_json(value), indent=1, allow_nan=False)


def size_text(n_bytes: float) -> str:
    """Return a file's size in the unit that suits it."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.4g} GB"
