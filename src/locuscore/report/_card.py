"""A report in a notebook: the verdict, and where the page is."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from locuscore._shared.cards import Card, Kind, Table

UNWRITTEN = 'The page has the details: write("report.html") makes it.'


def report_card(summary: Mapping[str, Any], written: Path | None) -> str:
    """The verdict with its claims as a card, with a link to the page if it was written."""
    verdict = summary["verdict"]
    rows = [(claim["claim"], claim["verdict"], claim["sentence"]) for claim in verdict["claims"]]
    found = {claim["verdict"] for claim in verdict["claims"]}
    told: Kind = "bad" if verdict["broken"] else "good" if found == {"kept"} else "warn"
    link = None if written is None else (f"Open the page {written.name}", _address(written))
    return Card(
        str(summary["title"]),
        f"{summary['n_rows']:,} test rows",
        told,
        [verdict["sentence"], *([UNWRITTEN] if link is None else [])],
        table=Table(("claim", "verdict", "what was seen"), rows, is_text=True) if rows else None,
        link=link,
    ).html()


def _address(path: Path) -> str:
    """Relative to where the notebook runs, which its browser can open; else the file itself."""
    try:
        return quote(Path(os.path.relpath(path)).as_posix())  # a name may look like an address
    except ValueError:  # another drive
        return path.as_uri()
