"""A sign of life during long work: by Rich on a terminal, by a small bar in a notebook.

Nothing is shown elsewhere (pipes, files, tests, other threads), without Rich on a terminal, with
the variable ``LOCUSCORE_PROGRESS=off``, nor for work that ends within a second. What is shown goes
when the work ends. Work inside other work has a line of its own below it.
"""

import html
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")

DELAY = 1.0  # seconds until something is shown
REFRESH = 0.2  # seconds between two pictures in a notebook
MANY = 65_536  # rows
SWITCH = "LOCUSCORE_PROGRESS"


@dataclass(eq=False)
class Line:
    """One piece of work: what it is, what it does now, and how much of it is done."""

    text: str
    detail: str = ""
    done: float = 0
    total: int | None = None
    of: str = ""
    start: float = field(default_factory=time.monotonic)

    def words(self) -> str:
        """The line in words."""
        if not self.of:
            return f"{self.text}: {self.detail}" if self.detail else self.text
        whole = "" if self.total is None else f" of {self.total:,}"
        seconds = time.monotonic() - self.start
        speed = self.done / seconds if seconds > DELAY else 0.0
        pace = f", {speed:,.0f} {self.of}/s" if speed >= 1 else ""
        return f"{self.done:,.0f}{whole} {self.of}{pace}"


class Display:
    """The lines of all work under way; `screen` draws them once the first has taken a while."""

    def __init__(self, screen: Any) -> None:
        self.lines: list[Line] = []
        self.screen, self.is_open, self._lock = screen, False, threading.RLock()
        # A notebook tells by its context which cell something is shown in.
        self._timer = threading.Timer(DELAY, copy_context().run, [self._open])
        self._timer.daemon = True

    def start(self) -> None:
        """Show the lines after a while."""
        if self.screen is not None:
            self._timer.start()

    def _open(self) -> None:
        with self._lock, suppress(Exception):  # a bar must not end the work
            if self.lines:
                self.is_open = True
                self.screen.open(self.lines)

    def changed(self) -> None:
        """Draw the lines again."""
        if self.is_open:
            with self._lock, suppress(Exception):
                self.screen.draw(self.lines)

    def close(self) -> None:
        """Take everything away."""
        if self.screen is not None:
            self._timer.cancel()
            with self._lock, suppress(Exception):
                if self.is_open:
                    self.is_open = False
                    self.screen.close()


class Terminal:
    """Lines drawn by Rich, which refreshes them by itself."""

    def __init__(self, console: Any) -> None:
        self.console = console

    def open(self, lines: Sequence[Line]) -> None:
        """Begin to draw."""
        from rich import progress  # noqa: PLC0415 - optional

        self.bars = progress.Progress(
            progress.SpinnerColumn("line"),
            progress.BarColumn(24),
            progress.TextColumn("{task.description}", markup=False),
            progress.TimeRemainingColumn(compact=True),
            console=self.console,
            transient=True,
        )
        self.tasks: dict[int, Any] = {}
        self.draw(lines)
        self.bars.start()

    def draw(self, lines: Sequence[Line]) -> None:
        """Bring the bars up to date."""
        for gone in set(self.tasks) - set(map(id, lines)):
            self.bars.remove_task(self.tasks.pop(gone))
        for line in lines:
            if id(line) not in self.tasks:
                self.tasks[id(line)] = self.bars.add_task("", total=line.total)
            said = line.words()
            self.bars.update(self.tasks[id(line)], completed=line.done, description=said)

    def close(self) -> None:
        """Take the bars away."""
        self.bars.stop()


class Notebook:
    """Lines as an output of the cell, which is replaced; no widgets are needed."""

    def open(self, lines: Sequence[Line]) -> None:
        """Show a new output."""
        from IPython import display  # noqa: PLC0415 - a notebook has it

        self.shown = display.display(_bundle(lines), raw=True, display_id=True)
        self.last = time.monotonic()

    def draw(self, lines: Sequence[Line]) -> None:
        """Replace the output, not too often."""
        if time.monotonic() - self.last >= REFRESH:
            self.last = time.monotonic()
            self.shown.update(_bundle(lines), raw=True)

    def close(self) -> None:
        """Leave an empty output."""
        self.shown.update({"text/html": "", "text/plain": ""}, raw=True)


def _bundle(lines: Sequence[Line]) -> dict[str, str]:
    words = [line.words() for line in lines]
    bars = [
        f'<div style="font-size: 13px"><progress style="vertical-align: middle"{_value(line)}>'
        f"</progress> {html.escape(said)}</div>"
        for line, said in zip(lines, words, strict=True)
    ]
    return {"text/html": "".join(bars), "text/plain": "\n".join(words)}


def _value(line: Line) -> str:
    return "" if line.total is None else f' max="{line.total}" value="{line.done:g}"'


_display: Display | None = None  # of the main thread, which alone shows anything


def live_console(console: Any = None) -> Any:
    """Return a Rich console that can redraw its lines, one on stderr by default.

    None where nobody is watching a terminal, or Rich is not installed.
    """
    if console is None and not (sys.stderr is not None and sys.stderr.isatty()):
        return None
    try:
        from rich.console import Console  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return None
    console = Console(stderr=True) if console is None else console
    return console if console.is_terminal and not console.is_dumb_terminal else None


def _screen(console: Any) -> Any:
    """Return what draws for whoever is watching; None if nobody is."""
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "no", "false"):
        return None
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is not None:
        return Notebook()
    console = live_console(console)
    return None if console is None else Terminal(console)


@contextmanager
def _shown(line: Line, console: Any, hidden: bool) -> Iterator[Callable[[], None]]:
    """Show a line below those of the work around it; yields what to call when it has changed."""
    global _display  # noqa: PLW0603 - there is one screen
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    is_first, display = _display is None, _display
    if display is None:
        _display = display = Display(None if hidden else _screen(console))
    display.lines.append(line)
    if is_first:
        display.start()
    display.changed()
    try:
        yield display.changed
    finally:
        if line in display.lines:  # with what is left of work inside it that an error ended
            del display.lines[display.lines.index(line) :]
        if is_first:
            _display = None
            display.close()
        else:
            display.changed()


def now(detail: str) -> None:
    """Say what the innermost work under way is doing."""
    is_ours = threading.current_thread() is threading.main_thread()
    if is_ours and _display is not None and _display.lines:
        _display.lines[-1].detail = detail
        _display.changed()


@contextmanager
def spinner(
    text: str, console: Any = None, *, hidden: bool = False
) -> Iterator[Callable[[str], None]]:
    """Show what takes a while; yields a function that changes the text."""
    line = Line(text)
    with _shown(line, console, hidden) as changed:

        def say(text: str) -> None:
            line.text = text
            changed()

        yield say


def tracked(items: Sequence[Item], text: str) -> Iterable[Item]:
    """Show a bar while somebody goes through these."""
    line = Line(text, total=len(items))
    with _shown(line, None, hidden=False) as changed:
        for item in items:
            yield item
            line.done += 1
            changed()


def many_rows(n: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show how many of n rows are scored, if they may take seconds; a few must not wait for it."""
    return progress_bar(n, of="rows") if n > MANY else nullcontext(_nothing)


def _nothing(n: int) -> None:
    """Count nothing."""


@contextmanager
def progress_bar(
    total: int | None, done: int = 0, console: Any = None, *, of: str, hidden: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts further things, which `of` names in the plural."""
    line = Line("", done=done, total=total, of=of)
    with _shown(line, console, hidden) as changed:

        def advance(n: int) -> None:
            line.done += n
            changed()

        yield advance
