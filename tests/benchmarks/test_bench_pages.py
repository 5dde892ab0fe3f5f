"""Pages and commands of the benchmarks."""

import re
from pathlib import Path

import pytest

from benchmarks.pages import write_section

ROOT = Path(__file__).parents[2]
FOLDERS = {"bench": "paper", "choices": "choices", "costs": "costs"}
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "benchmarks").rglob("*.md"),
    *(ROOT / "benchmarks").rglob("*.py"),
]


def test_a_script_replaces_its_own_section(tmp_path):
    page = tmp_path / "RESULTS.md"
    page.write_text("# Page\n\nBy hand.\n\n## One\n\n1\n\n### Part\n\n## Two\n\n2\n")
    write_section(page, ["## One", "", "new"])
    assert page.read_text() == "# Page\n\nBy hand.\n\n## One\n\nnew\n\n## Two\n\n2\n"
    write_section(page, ["## Three", "", "3", ""])
    assert page.read_text().endswith("## Two\n\n2\n\n## Three\n\n3\n")


def test_a_section_can_go_to_a_new_page(tmp_path):
    write_section(tmp_path / "new.md", ["## One", "", "1"])
    assert (tmp_path / "new.md").read_text() == "## One\n\n1\n"


def commands(text):
    return set(re.findall(r"`make ([a-z0-9-]+)", text))


def exists(command):
    """Whether the Makefile names the target, or the script of its pattern is there."""
    targets = re.findall(r"^([a-z0-9 -]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    if command in " ".join(targets).split():
        return True
    folder, _, script = command.partition("-")
    path = ROOT / "benchmarks" / FOLDERS.get(folder, folder) / f"{script.replace('-', '_')}.py"
    return bool(script) and path.exists()


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(text):
    assert [command for command in commands(text.read_text()) if not exists(command)] == []


def test_a_wrong_command_would_be_noticed():
    found = commands("`make bench-oracle` `make costs-nothing` ``make gamma``; `make bench`")
    assert {command for command in found if not exists(command)} == {"costs-nothing", "gamma"}


@pytest.mark.parametrize("folder", ["choices", "costs"])
def test_every_section_has_its_script(folder):
    """A section whose title no script writes any more would stay for ever."""
    scripts = "".join(path.read_text() for path in (ROOT / "benchmarks" / folder).glob("*.py"))
    page = (ROOT / "benchmarks" / folder / "RESULTS.md").read_text()
    titles = re.findall(r"^## .*$", page, re.MULTILINE)
    assert titles
    assert [title for title in titles if title not in scripts] == []
