"""``locuscore demo``: a first look on real data."""

from pathlib import Path
from typing import Annotated

from rich.console import Console

from locuscore import demo as demonstration
from locuscore.cli._options import option
from locuscore.cli._terminal import Terminal


def demo(
    *,
    output: Annotated[
        Path, option("--output -o", "FOLDER", "Folder of picture and report.")
    ] = Path("demo_output"),
    seed: Annotated[int, option("--seed", "N", "Another random split.")] = 0,
    terminal: Terminal,
) -> None:
    """Bound a forest's errors on diamond prices; under a minute."""
    console = Console(quiet=terminal.as_json or terminal.quiet)
    measured = demonstration.run(demonstration.Setting(seed=seed), folder=output, console=console)
    terminal.show(demonstration.summary(measured), lambda _: None)
