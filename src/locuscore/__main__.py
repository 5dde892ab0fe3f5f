"""The command: ``locuscore --version`` needs the core alone, all else the extra ``cli``."""

import sys
from collections.abc import Sequence

from locuscore import __version__
from locuscore._shared.optional import check_installed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        sys.stdout.write(f"locuscore {__version__}\n")
        return 0
    try:
        check_installed(("typer", "rich", "pyarrow", "pandas"), extra="cli")
    except ModuleNotFoundError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    from locuscore.cli import run  # noqa: PLC0415 - needs an extra

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
