"""Repeat one try and show what came of it.

PYTHONPATH=tests python -m fuzz --target boosted --seed 17
"""

import argparse
import sys
import tempfile
from pathlib import Path

from fuzz.server import MEANING, Server, forged
from fuzz.targets import TARGETS, read_target, write_target


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", required=True, choices=TARGETS)
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--keep", type=Path, help="write the forged archive here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        target = write_target(options.target, folder)
        if options.keep:
            options.keep.write_bytes(forged(read_target(target), options.seed))
        (outcome,) = server.outcomes(target, [options.seed], is_shown=True)
    sys.stdout.write(MEANING[outcome] + "\n")


if __name__ == "__main__":
    main()
