"""The page of a folder: an introduction by hand, then one section for each script that writes."""

import re
from collections.abc import Iterable
from pathlib import Path


def write_section(page: Path, lines: Iterable[str]) -> None:
    """Put a section where the page has one of its title, else at the end.

    The first line is ``## title``; headings inside the section are deeper.
    """
    section = "\n".join(lines)
    title = section.partition("\n")[0]
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    introduction, *parts = re.split(r"^(?=## )", text, flags=re.M)
    titles = [part.partition("\n")[0] for part in parts]
    if title in titles:
        parts[titles.index(title)] = section
    else:
        parts.append(section)
    text = "\n\n".join(part.strip() for part in [introduction, *parts])
    page.write_text(text.lstrip() + "\n", encoding="utf-8")
