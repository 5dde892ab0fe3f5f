"""Take the figures of some sections, print them and write the page from all that are kept.

``make speed`` runs every section, ``make speed BENCH="one_row batches"`` some of them and
``make speed BENCH=--page`` none. A section is a module of this folder with `TITLE`, `ABOUT` and a
function `figures`; its records are replaced when it has been run to its end.
"""

import argparse
import logging
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.speed.figures import keep, kept

PAGE = Path(__file__).with_name("RESULTS.md")
# In the order of the page; a module that is not there is left out.
NAMES = (
    "one_row",
    "batches",
    "fitting",
    "memory",
    "growth",
    "startup",
    "service",
    "spark",
    "engine",
    "engines",
)
SECTIONS = [name for name in NAMES if find_spec(f"benchmarks.speed.{name}")]
HEAD = ["| what | beside | median | range | target | met |", "|---|---|---|---|---|---|"]
INTRODUCTION = """\
# Speed

Written by `make speed`, one section for each module of this folder ([how](../README.md#speed)). A
ratio is taken side by side: in each round both times are measured within seconds, on one thread and
in processor time unless a line says otherwise. Median and range are over the rounds.
"""


def section(name: str) -> Any:
    return import_module(f"benchmarks.speed.{name}")


def measure(name: str) -> None:
    """Run a section, and keep its figures once all are there."""
    module, found = section(name), []
    print(f"\n## {module.TITLE} (load {os.getloadavg()[0]:.1f})\n")
    print("\n".join(HEAD), flush=True)
    for figure in module.figures():
        found.append(figure)
        print(figure.row(), flush=True)
    keep(name, found)


def write_page() -> None:
    """Write the page of all figures that are kept."""
    parts = [INTRODUCTION]
    for name in SECTIONS:
        figures = kept(name)
        if figures:
            module = section(name)
            lines = [f"## {module.TITLE}", "", module.ABOUT, "", *HEAD]
            parts.append("\n".join([*lines, *(figure.row() for figure in figures), ""]))
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"of {SECTIONS}; all if none is named")
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"there are no sections {sorted(unknown)}; there are {SECTIONS}.")
    logging.disable(logging.INFO)  # rivals tell what they do
    for name in [] if options.page else options.sections or SECTIONS:
        measure(name)
        write_page()
    write_page()


if __name__ == "__main__":
    main()
