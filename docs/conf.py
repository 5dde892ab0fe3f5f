"""The site: `make docs` reads README's neighbours as they are, from the root of the repository.

The root is the source folder, so that links between docs/, benchmarks/ and the root, which a code
host follows too, work unchanged. Nothing is fetched: neither in the build nor by the pages.
"""

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from PIL import Image, ImageOps
from sphinx.errors import ExtensionError
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
    "sphinx_gallery.gen_gallery",
]

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/**.md",
    "changes/README.md",
    "deploy/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "dist", "src", "tests", "docs/_*"]
exclude_patterns += ["benchmarks/paper/NOTES.md"]  # part of RESULTS.md

myst_heading_anchors = 3
default_role = "py:obj"  # docstrings write names in single backticks
highlight_language = "text"

autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80
numpydoc_show_class_members = False  # the template of classes lists them
numpydoc_xref_param_type = False
templates_path = [str(Path(__file__).parent / "_templates")]  # autosummary looks from the root

THUMBNAIL = (480, 336)
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": "plot_",
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": THUMBNAIL,
    "abort_on_example_error": True,
    "backreferences_dir": "docs/gallery/backreferences",  # pages of names show their examples
    "doc_module": ("locuscore",),
    "download_all_examples": False,
    "min_reported_time": float("inf"),
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "locuscore"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_redirect"]
html_favicon = "_static/icon.svg"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {
    page: [] for page in ("docs/index", "docs/quickstart", "docs/gallery/**", "CHANGELOG")
}
html_theme_options: dict[str, Any] = {
    "logo": {
        "text": "locuscore",
        "image_light": "_static/icon.svg",
        "image_dark": "_static/icon.svg",
    },
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "show_prev_next": True,
    # Wide tables get the room of the menu on the right.
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        "docs/index": [],
        "docs/guarantees": [],
        "docs/guide": [],
    },
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {
    "default_mode": "auto",
    "site_description": "How wrong can this one prediction be? A calibrated bound on the loss of "
    "every prediction, in your own units, with a finite-sample guarantee.",
    # Where the site is published, with a slash at the end: social cards need the full address.
    "site_url": os.environ.get("SITE_URL", ""),
}

ROOT = Path(__file__).parents[1]

# What the site is made of. It stands here and not in the pages, which stay plain Markdown.
CONTENTS: dict[str, list[str] | dict[str, list[str]]] = {
    "docs/index": [
        "quickstart",
        "guide",
        "faq",
        "gallery/index",
        "reference/index",
        "installation",
        "evidence",
        "versions",
        "/CHANGELOG",
        "architecture",
        "/CONTRIBUTING",
        "/SECURITY",
    ],
    "docs/guide": {
        "Understand": ["concepts", "guarantees", "glossary", "coming_from"],
        "Decide": [
            "choosing",
            "rules",
            "batch_and_planning",
            "labels",
            "calibration",
            "report",
            "valuation",
        ],
        "Losses, rows and models": [
            "losses",
            "classification",
            "llm",
            "inputs",
            "torch",
            "engines",
        ],
        "Deploy": [
            "production",
            "archives",
            "archive_checks",
            "command_line",
            "http",
            "service",
            "deploy",
            "scoring_jobs",
            "mlflow",
        ],
        "Watch": ["late_labels", "watch", "watch_tutorial", "watch_shells", "monitoring"],
        "From your desk": ["for_data_scientists", "for_operators", "for_auditors"],
    },
    "docs/reference/index": [
        "locuscore",
        "arrow",
        "calibration",
        "engines",
        "draws",
        "metrics",
        "mlflow",
        "plots",
        "report",
        "service",
        "spark",
        "datasets",
        "testing",
        "torch",
        "watch",
    ],
    "docs/evidence": [
        "/benchmarks/paper/RESULTS",
        "/benchmarks/panel/RESULTS",
        "/benchmarks/classes/RESULTS",
        "/benchmarks/small/RESULTS",
        "/benchmarks/groups/RESULTS",
        "/benchmarks/valuation/RESULTS",
        "/benchmarks/llm/RESULTS",
        "/benchmarks/watch/RESULTS",
        "/benchmarks/watch/POWER",
        "/benchmarks/certificates/RESULTS",
        "/benchmarks/labels/RESULTS",
        "/benchmarks/choices/RESULTS",
        "/benchmarks/costs/RESULTS",
        "/benchmarks/speed/RESULTS",
        "figures/consistency",
        "/benchmarks/README",
    ],
    "CONTRIBUTING": ["/changes/README"],
    "docs/deploy": ["/deploy/README"],
}


def _toctree(docname: str) -> str:
    contents = CONTENTS.get(docname, {})
    groups = contents if isinstance(contents, dict) else {"": contents}
    trees = []
    for caption, pages in groups.items():
        title = f":caption: {caption}\n" if caption else ""
        listed = "\n".join(pages)
        trees.append(f"\n\n```{{toctree}}\n:hidden:\n{title}\n{listed}\n```\n")
    return "".join(trees)


# Marks of the home page, comments elsewhere, and the boxes that they open or close here.
BOXES = {
    "<!-- hero -->": "``````{div} hero",
    "<!-- column -->": "`````{div} column",
    "<!-- doors -->": "````{div} doors",
    "<!-- end doors -->": "````",
    "<!-- end hero -->": "`````\n``````",
}
PICTURE = re.compile(
    r'<picture>.*?<img alt="([^"]+)" src="([^"]+)_light\.png">\s*</picture>', re.DOTALL
)


def _boxes(text: str) -> str:
    """Turn the marks into boxes; a column ends where the next begins."""
    first, *others = text.split("<!-- column -->")
    text = "<!-- column -->".join([first, "`````\n\n<!-- column -->".join(others)])
    for mark, box in BOXES.items():
        text = text.replace(mark, box)
    return text


def _themed(match: re.Match[str]) -> str:
    """A picture for each mode and width: the mode is the reader's choice here, not the system's."""
    text, stem = match.groups()
    return "\n".join(
        f"```{{image}} {stem}{width}_{mode}.png\n:alt: {text}\n:class: only-{mode} {screen}\n```\n"
        for mode in ("light", "dark")
        for width, screen in (("", "wide-screen"), ("_narrow", "narrow-screen"))
    )


def _unreleased() -> str:
    notes = sorted(page for page in (ROOT / "changes").glob("*.md") if page.stem != "README")
    return "\n".join(f"* {line}" for note in notes for line in note.read_text().splitlines())


def _complete(app: Any, docname: str, source: list[str]) -> None:
    """Add what only the site needs: the contents, and the notes of the next release."""
    if docname == "CHANGELOG":
        head, unreleased, *released = re.split(r"^(?=## )", source[0], flags=re.MULTILINE)
        source[0] = "".join([head, unreleased, _unreleased(), "\n\n", *released])
    if docname == "docs/index":
        source[0] = PICTURE.sub(_themed, _boxes(source[0]))
    source[0] += _toctree(docname)


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


def _first_panels(app: Any) -> None:
    """Make thumbnails of the first panel where a picture has several, so that it can be seen."""
    for thumbnail in (ROOT / "docs" / "gallery" / "images" / "thumb").glob("*_thumb.png"):
        whole = thumbnail.parents[1] / thumbnail.name.replace("_thumb", "_001")
        with Image.open(whole) as picture:
            width, height = picture.size
            if width > 1.9 * height:
                width //= 2
            elif height > 1.1 * width:
                height //= 2
            panel = picture.convert("RGB").crop((0, 0, width, height))
        ImageOps.pad(panel, THUMBNAIL, color="white").save(thumbnail)


WIDE = 4  # columns; a telephone shows three

FETCHED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//""")


def _nothing_is_fetched(app: Any, exception: Exception | None) -> None:
    """Fail if a page would load anything from elsewhere: the site works without a network."""
    pages = () if exception else Path(app.outdir).rglob("*.html")
    guilty = [str(page) for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))]
    if guilty:
        raise ExtensionError(f"these pages load something from elsewhere: {guilty}")


SUMMARY = '<summary><span class="toctree-toggle" role="presentation">'
NAMED_SUMMARY = SUMMARY.replace("<summary>", '<summary aria-label="Pages below this one">')
LINES_OF_SIGNATURE = re.compile(r'(<span class="sig-paren">\(</span>\s*)<dl>(.*?)</dl>', re.DOTALL)


def _for_screen_readers(text: str) -> str:
    """Name what has no name, and make lists of what only looks like one plain boxes."""
    text = text.replace(SUMMARY, NAMED_SUMMARY)
    return LINES_OF_SIGNATURE.sub(_plain_lines, text)


def _plain_lines(match: re.Match[str]) -> str:
    opening, lines = match.groups()
    lines = lines.replace("<dd>", '<div class="sig-line">').replace("</dd>", "</div>")
    return f"{opening}<div>{lines}</div>"


def _repair_pages(app: Any, exception: Exception | None) -> None:
    """Repair in the pages what the theme and Sphinx leave to screen readers to guess."""
    for page in () if exception else Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        repaired = _for_screen_readers(text)
        if repaired != text:
            page.write_text(repaired, encoding="utf-8")


def _label_cells(app: Any, doctree: nodes.document, docname: str) -> None:
    """Give cells of tables with four columns or more their heading, for narrow screens."""
    for table in doctree.findall(nodes.table):
        heads = [
            e.astext() for e in table.findall(nodes.entry) if e.parent.parent.tagname == "thead"
        ]
        if len(heads) < WIDE:
            continue
        table["classes"].append("wide")
        for row in (r for body in table.findall(nodes.tbody) for r in body.findall(nodes.row)):
            for head, entry in zip(heads, row.children, strict=False):
                if head and entry.children:
                    entry[0].insert(0, nodes.inline(text=f"{head}: ", classes=["cell-label"]))


def _skip_inherited(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> Any:
    """Leave out what scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Any) -> None:
    """Register the above with Sphinx."""
    app.connect("autodoc-skip-member", _skip_inherited)
    app.connect("builder-inited", _first_panels, priority=900)  # the gallery is made by then
    app.connect("build-finished", _nothing_is_fetched)
    app.connect("build-finished", _repair_pages)
    app.connect("source-read", _complete)
    app.connect("doctree-resolved", _label_cells)
    app.connect("autodoc-process-signature", _short_types)
