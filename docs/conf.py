"""The site: `make docs` reads README's neighbours as they are, from the root of the repository.

The root is the source folder, so that links between docs/, benchmarks/ and the root, which a code
host follows too, work unchanged. Nothing is fetched: neither in the build nor by the pages.
"""

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sphinx.util.typing import stringify_annotation

import locuscore
from locuscore._protocols import BoolArray, FloatArray

project = "locuscore"
author = "the locuscore developers"
copyright = author
version = release = locuscore.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/*.md",
    "changes/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [".*", "build", "dist", "src", "tests", "docs/_*"]

myst_heading_anchors = 3
default_role = "py:obj"  # docstrings write names in single backticks
highlight_language = "text"

autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of classes lists them
numpydoc_xref_param_type = False
templates_path = [str(Path(__file__).parent / "_templates")]  # autosummary looks from the root

html_theme = "pydata_sphinx_theme"
html_title = "locuscore"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_redirect"]
html_favicon = "_static/icon.svg"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"docs/index": [], "docs/gallery/**": []}
html_theme_options: dict[str, Any] = {
    "logo": {
        "text": "locuscore",
        "image_light": "_static/icon.svg",
        "image_dark": "_static/icon.svg",
    },
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}

ROOT = Path(__file__).parents[1]
BENCHMARKS = sorted(page.stem for page in (ROOT / "benchmarks").glob("*.md"))

# What the site is made of. It stands here and not in the pages, which stay plain Markdown.
CONTENTS = {
    "docs/index": {
        "Start": ["quickstart", "concepts", "guarantees"],
        "Guide": [
            "choosing",
            "engines",
            "rules",
            "batch_and_planning",
            "classification",
            "report",
            "production",
            "coming_from",
        ],
        "More": [
            "gallery/index",
            "reference/index",
            "evidence",
            "/CHANGELOG",
            "/CONTRIBUTING",
        ],
    },
    "docs/reference/index": {
        "Modules": [
            "locuscore",
            "engines",
            "draws",
            "metrics",
            "plots",
            "report",
            "service",
            "spark",
            "datasets",
            "testing",
        ]
    },
    "docs/choosing": {"Measurements": ["figures/consistency"]},
    "docs/evidence": {"Tables": [f"/benchmarks/{name}" for name in BENCHMARKS]},
    "CONTRIBUTING": {"Notes": ["/changes/README"]},
}


def _toctrees(docname: str) -> str:
    return "".join(
        f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in CONTENTS.get(docname, {}).items()
    )


def _unreleased() -> str:
    notes = sorted(page for page in (ROOT / "changes").glob("*.md") if page.stem != "README")
    return "\n".join("* " + " ".join(note.read_text().split()) for note in notes)


def _complete(app: Any, docname: str, source: list[str]) -> None:
    """Add what only the site needs: the contents, and the notes of the next release."""
    if docname == "CHANGELOG":
        source[0] += "\n" + _unreleased()
    source[0] += _toctrees(docname)


# Types as the source names them; what they are made of is long and tells a reader nothing.
NAMED = {"ArrayLike": ArrayLike, "FloatArray": FloatArray, "BoolArray": BoolArray}
ALIASES = {stringify_annotation(kind, "smart"): name for name, kind in NAMED.items()}


def _short_types(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: Any, returns: Any
) -> tuple[Any, Any]:
    for long, short in ALIASES.items():
        signature = signature and signature.replace(long, short)
        returns = returns and returns.replace(long, short)
    return signature, returns


def setup(app: Any) -> None:
    """Register the above with Sphinx."""
    app.connect("source-read", _complete)
    app.connect("autodoc-process-signature", _short_types)
