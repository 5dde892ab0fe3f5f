"""What a command says: text for people, or one JSON object; notes and progress on stderr."""

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from locuscore._shared.json_values import to_json


@dataclass(frozen=True)
class Terminal:
    """Where a command prints: results on stdout, everything else on stderr."""

    as_json: bool = False
    quiet: bool = False

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

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show that something takes a while, on a terminal."""
        console = self._live()
        if console is None:
            yield
            return
        with console.status(text, spinner="line"):
            yield

    @contextmanager
    def progress(self, total: int | None, done: int) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts further rows; draws a bar on a terminal."""
        console = self._live()
        with Progress(
            SpinnerColumn("line"),
            BarColumn(24),
            RowsDone(),
            TimeRemainingColumn(compact=True),
            console=console or Console(stderr=True),
            transient=True,
            disable=console is None,
        ) as bar:
            task = bar.add_task("score", total=total, completed=done)
            yield lambda n: bar.advance(task, n)

    def _live(self) -> Console | None:
        console = Console(stderr=True)
        shown = console.is_terminal and not console.is_dumb_terminal and not self.quiet
        return console if shown else None


class RowsDone(ProgressColumn):
    """Rows so far, of how many where that is known, and speed over the last seconds."""

    def render(self, task: Task) -> Text:
        """Return all that as text."""
        total = "" if task.total is None else f" of {task.total:,.0f}"
        speed = "" if task.speed is None else f", {task.speed:,.0f} rows/s"
        return Text(f"{task.completed:,.0f}{total} rows{speed}")


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
    return json.dumps(to_json(value), indent=1, allow_nan=False)


def size_text(n_bytes: float) -> str:
    """Return a file's size in the unit that suits it."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.4g} GB"
