"""The command line: a shell over `Scorer`, which `run` starts."""

from locuscore.cli._app import run

__all__ = ["run"]
