"""``locuscore demo``: a first look on real data."""

from pathlib import Path
from typing import Annotated

from rich.console import Console

from locuscore import demo as demonstration
from locuscore.cli._options import Debug, Json, Quiet, option
from locuscore.cli._terminal import Terminal


def demo(
    output: Annotated[
        Path, option("--output", "-o", metavar="FOLDER", text="Folder of picture and report.")
    ] = Path("demo_output"),
    seed: Annotated[int, option("--seed", metavar="N", text="Another random split.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Bound a forest's errors on diamond prices; under a minute."""
    silent = as_json or quiet
    measured = demonstration.run(
        demonstration.Setting(seed=seed), folder=output, console=Console(quiet=silent)
    )
    if as_json:
        Terminal(as_json).show(demonstration.summary(measured), lambda _: None)
