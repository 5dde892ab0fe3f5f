"""The page on which the service can be tried: one file of ours, which asks nobody else."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from starlette.responses import HTMLResponse

HOME = "locuscore.service"


@cache
def _page() -> tuple[str, str]:
    """The page, and the policy that lets its own script and style run and nothing else."""
    parts = files(HOME) / "templates"
    html, script, style = (
        (parts / f"docs.{kind}").read_text(encoding="utf-8") for kind in ("html", "js", "css")
    )
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html.replace("{{style}}", style).replace("{{script}}", script), policy


def _digest(text: str) -> str:
    found = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{found}'"


def docs_page() -> HTMLResponse:
    """Return the page; what the model takes it reads from ``openapi.json`` when it is opened."""
    page, policy = _page()
    headers = {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return HTMLResponse(page, 200, headers)
