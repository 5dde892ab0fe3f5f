"""The command line: ``locuscore demo``, ``locuscore --version``."""

import argparse
import sys
from collections.abc import Sequence

from locuscore import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="locuscore", description="How bad can this one prediction be?"
    )
    parser.add_argument("--version", action="version", version=f"locuscore {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands")
    demo = commands.add_parser("demo", help="bound a forest's errors on diamond prices")
    demo.add_argument("--output", default="demo_output", help="folder of the picture")
    demo.add_argument("--seed", type=int, default=0, help="another random split")
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help()
        return 2
    # Imported here: `--version` should not wait for it.
    from locuscore import demo as demonstration  # noqa: PLC0415 - needs an extra

    try:
        demonstration.run(demonstration.Setting(seed=options.seed), folder=options.output)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
