"""A sign of life during long work: drawn by Rich on a terminal, nothing elsewhere."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")


def live_console(console: Any = None) -> Any:
    """Return a Rich console that can redraw its lines, one on stderr by default.

    None where nobody is watching a terminal, or Rich is not installed.
    """
    try:
        from rich.console import Console  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return None
    console = Console(stderr=True) if console is None else console
    return console if console.is_terminal and not console.is_dumb_terminal else None


@contextmanager
def spinner(
    text: str, console: Any = None, *, hidden: bool = False
) -> Iterator[Callable[[str], None]]:
    """Show what takes a while; yields a function that changes the text."""
    console = None if hidden else live_console(console)
    if console is None:
        yield lambda text: None
        return
    with console.status(text, spinner="line") as shown:
        yield shown.update


def tracked(items: Sequence[Item], text: str) -> Iterable[Item]:
    """Show a bar while somebody goes through these."""
    console = live_console()
    if console is None:
        return items
    from rich.progress import track  # noqa: PLC0415 - optional

    return track(items, text, console=console, transient=True)


@contextmanager
def progress_bar(
    total: int | None, done: int = 0, console: Any = None, *, of: str, hidden: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts further things, which `of` names in the plural."""
    console = None if hidden else live_console(console)
    if console is None:
        yield lambda n: None
        return
    from rich import progress  # noqa: PLC0415 - optional

    with progress.Progress(
        progress.SpinnerColumn("line"),
        progress.BarColumn(24),
        progress.TextColumn("{task.description}"),
        progress.TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task(_count(done, total, None, of), total=total, completed=done)

        def advance(n: int) -> None:
            bar.advance(task, n)
            now = bar.tasks[0]
            bar.update(task, description=_count(now.completed, total, now.speed, of))

        yield advance


def _count(done: float, total: int | None, speed: float | None, of: str) -> str:
    whole = "" if total is None else f" of {total:,}"
    pace = "" if speed is None else f", {speed:,.0f} {of}/s"
    return f"{done:,.0f}{whole} {of}{pace}"
