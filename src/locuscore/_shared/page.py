"""Pages complete in themselves: no network, no framework, data never becomes markup."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

# What pages share; their own scripts and style follow it.
SCRIPTS = ("numbers.js", "elements.js", "charts.js", "frame.js")
STYLE = "page.css"
HOME = "locuscore._shared"
# Inside strings only, where these escapes mean the same; no markup can begin or end in the data.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def self_contained(
    home: str,
    name: str,
    scripts: Sequence[str],
    data: Mapping[str, Any],
    texts: Mapping[str, str],
    styles: Sequence[str] = (),
) -> str:
    """Fill ``templates/<name>.html`` of the package `home`.

    The page has `styles`, its own ``<name>.css`` and `scripts` as one, which run by their digest
    only; the data stand beside them as JSON. `texts` are put in as they are: markup, or escaped
    text.
    """
    own = [template(home, part) for part in (*styles, f"{name}.css")]
    style = "".join([f":root {{\n{palette()}}}\n", template(HOME, STYLE), *own])
    parts = [template(HOME, script) for script in SCRIPTS]
    body = "\n".join(parts + [template(home, script) for script in scripts])
    script = f'(() => {{\n"use strict";\n{body}}})();\n'
    filled = {
        **texts,
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "data": embedded(data),
    }
    # In one pass: what is put in is not looked at again.
    return PLACEHOLDER.sub(lambda found: filled[found[1]], template(home, f"{name}.html"))


def embedded(data: Mapping[str, Any]) -> str:
    """Return JSON that may stand inside a script element."""
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise ValueError(
            "the data of a page must be plain JSON, with null for infinite and missing numbers: "
            f"{error}"
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


def palette() -> str:
    """Return the colours of all pages, light and dark, as properties of a rule."""
    return template(HOME, "palette.css")


@cache
def template(home: str, name: str) -> str:
    """Return the text of a template of a package."""
    return files(home).joinpath("templates", name).read_text(encoding="utf-8")
