"""A summary as one self-contained page."""

import html
from collections.abc import Mapping
from typing import Any

from locuscore._shared.page import self_contained

# In this order, after those that pages share; together they are one script.
SCRIPTS = (
    *("intervals.js", "explorer.js", "commands.js", "rows.js", "sections.js", "banner.js"),
    *("committee.js", "main.js"),
)
STYLES = ("committee.css",)
COMPARISON = ("banner.js", "compare.js")


def page(summary: Mapping[str, Any]) -> str:
    """Return the page that shows a summary."""
    guarantee = summary["guarantee"]
    texts = {
        "title": html.escape(str(summary["title"])),
        "verdict": html.escape(summary["verdict"]["sentence"]),
        "sentences": "".join(f"<li>{html.escape(s)}</li>" for s in guarantee["sentences"]),
        "card": html.escape(guarantee["card"]),
    }
    return self_contained("locuscore.report", "report", SCRIPTS, summary, texts, STYLES)


def comparison_page(summary: Mapping[str, Any]) -> str:
    """Return the page that shows two reports side by side."""
    texts = {
        "title": html.escape(str(summary["title"])),
        "headline": html.escape(summary["headline"]),
        "sentences": "".join(f"<li>{html.escape(s['sentence'])}</li>" for s in summary["shares"]),
    }
    return self_contained("locuscore.report", "compare", COMPARISON, summary, texts, STYLES)
