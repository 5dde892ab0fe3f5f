"""A summary as one self-contained page: no network, no framework, data never becomes markup."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

# In this order; together they are one script.
SCRIPTS = (
    "numbers.js",
    "elements.js",
    "charts.js",
    "explorer.js",
    "commands.js",
    "rows.js",
    "sections.js",
    "main.js",
)
# Inside strings only, where these escapes mean the same; no markup can begin or end in the data.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def page(summary: Mapping[str, Any]) -> str:
    """Return the page that shows a summary; its script and style run by their digest only."""
    style, body = _template("report.css"), "\n".join(map(_template, SCRIPTS))
    script = f'(() => {{\n"use strict";\n{body}}})();\n'
    guarantee = summary["guarantee"]
    parts = {
        "policy": _policy(style, script),
        "title": html.escape(str(summary["title"])),
        "style": style,
        "script": script,
        "data": embedded(summary),
        "verdict": html.escape(summary["verdict"]["sentence"]),
        "sentences": "".join(f"<li>{html.escape(s)}</li>" for s in guarantee["sentences"]),
        "card": html.escape(guarantee["card"]),
    }
    # In one pass: what is put in is not looked at again.
    return PLACEHOLDER.sub(lambda found: parts[found[1]], _template("report.html"))


def embedded(summary: Mapping[str, Any]) -> str:
    """Return JSON that may stand inside a script element."""
    try:
        text = json.dumps(summary, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise ValueError(
            f"the summary must be plain JSON, with null for infinite and missing numbers: {error}"
        ) from error
    return re.sub("[<>&\u2028\u2029]", lambda found: UNSAFE[found[0]], text)


def _policy(style: str, script: str) -> str:
    """Forbid everything but this style, this script and the empty icon."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template(name: str) -> str:
    return files("locuscore.report").joinpath("templates", name).read_text(encoding="utf-8")
