"""Every Python block of README.md and docs/ runs, in order, one namespace per page."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.extra

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(text):
    """Return each block behind as many empty lines as precede it, so that errors name its line."""
    return ["\n" * text[: m.start(1)].count("\n") + m.group(1) for m in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs(page, monkeypatch):
    module = ModuleType("docs")  # a module, so that classes defined on a page can be pickled
    monkeypatch.setitem(sys.modules, "docs", module)
    for block in blocks(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), module.__dict__)


def test_pages_with_code_are_found():
    found = {page.name for page in PAGES if blocks(page.read_text(encoding="utf-8"))}
    assert {"README.md", "quickstart.md", "concepts.md", "engines.md"} <= found


def test_a_broken_block_would_be_noticed():
    (block,) = blocks("text\n\n```python\nraise KeyError('x')\n```\n")
    with pytest.raises(KeyError):
        exec(block)
    assert block.index("raise") == 3


LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
