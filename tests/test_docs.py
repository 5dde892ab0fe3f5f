"""Every Python block, and every command, of README.md and docs/ runs, in order, page by page."""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from locuscore.__main__ import main

pytestmark = pytest.mark.extra

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code(text):
    """Return language and text of each block, behind as many empty lines as precede it.

    So errors name the right line.
    """
    return [
        (m.group(1), "\n" * text[: m.start(2)].count("\n") + m.group(2))
        for m in BLOCK.finditer(text)
    ]


def blocks(text):
    return [block for language, block in code(text) if language == "python"]


def run_commands(block):
    for line in block.replace("\\\n", " ").splitlines():
        name, *arguments = shlex.split(line, comments=True) or [None]
        if name is not None:
            assert name == "locuscore"
            assert main(arguments) == 0, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs(page, monkeypatch, tmp_path):
    module = ModuleType("docs")  # a module, so that classes defined on a page can be pickled
    monkeypatch.setitem(sys.modules, "docs", module)
    monkeypatch.chdir(tmp_path)
    for language, block in code(page.read_text(encoding="utf-8")):
        if language == "sh":
            run_commands(block)
        else:
            exec(compile(block, str(page), "exec"), module.__dict__)


def test_pages_with_code_are_found():
    found = {page.name for page in PAGES if blocks(page.read_text(encoding="utf-8"))}
    assert {"README.md", "quickstart.md", "concepts.md", "engines.md"} <= found


def test_a_broken_block_would_be_noticed():
    (block,) = blocks("text\n\n```python\nraise KeyError('x')\n```\n")
    with pytest.raises(KeyError):
        exec(block)
    assert block.index("raise") == 3


def test_a_failing_command_would_be_noticed():
    (command,) = code("```sh\nlocuscore plan bound --alpha 7\n```\n")
    with pytest.raises(AssertionError):
        run_commands(command[1])


LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
