"""README.md and docs/: code runs, commands and links are real, every public name is there.

Blocks of `python` run in order, page by page, and so do the commands of `sh` blocks. Blocks of `py`
are shown only: those of the service, of Spark and of MLflow's runs run in the tests of these, and
NannyML and Ray are not among the packages that the tests have.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from locuscore.__main__ import main

pytestmark = pytest.mark.extra

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
REFERENCE = ROOT / "docs" / "reference"
LINKED = [
    *PAGES,
    *sorted(REFERENCE.glob("*.md")),
    *sorted((ROOT / "docs" / "figures").glob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "changes/README.md")),
    *(ROOT / name for name in ("SECURITY.md", "deploy/README.md")),
]
MODULES = (
    "locuscore",
    "locuscore.arrow",
    "locuscore.calibration",
    "locuscore.datasets",
    "locuscore.draws",
    "locuscore.engines",
    "locuscore.metrics",
    "locuscore.mlflow",
    "locuscore.plots",
    "locuscore.report",
    "locuscore.service",
    "locuscore.spark",
    "locuscore.testing",
    "locuscore.torch",
    "locuscore.watch",
)
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page):
    return str(page.relative_to(ROOT))


def code(text):
    """Return language and text of each block, behind as many empty lines as precede it.

    So errors name the right line.
    """
    return [
        (m.group(1), "\n" * text[: m.start(2)].count("\n") + m.group(2))
        for m in BLOCK.finditer(text)
    ]


def blocks(text, wanted="python"):
    return [block for language, block in code(text) if language == wanted]


def command_lines(block):
    """Return the arguments of every command of the block."""
    lines = (shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines())
    return [words for words in lines if words]


def run_commands(block):
    for name, *arguments in command_lines(block):
        assert name == "locuscore"
        assert main(arguments) == 0, arguments


@pytest.mark.parametrize("page", PAGES[1:], ids=name_of)  # README has a test of its own
def test_code_runs(page, monkeypatch, tmp_path):
    module = ModuleType("docs")  # a module, so that classes defined on a page can be pickled
    monkeypatch.setitem(sys.modules, "docs", module)
    monkeypatch.chdir(tmp_path)
    for language, block in code(page.read_text(encoding="utf-8")):
        if language == "sh":
            run_commands(block)
        elif language == "python":
            exec(compile(block, str(page), "exec"), module.__dict__)


def test_the_commands_of_readme_run(monkeypatch, tmp_path):
    """They name files of the reader's; here are some, with the columns that the commands name."""
    from locuscore.datasets import load_diamonds

    frame, price = load_diamonds()
    frame = frame.assign(quoted=5000 * frame["carat"], price=price).sample(3000, random_state=0)
    monkeypatch.chdir(tmp_path)
    frame[:1500].to_parquet("rows.parquet")
    frame[1500:].drop(columns="price").to_parquet("new.parquet")
    frame[1500:].to_parquet("test.parquet")
    (block,) = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "text")
    *finite, last = block.strip().splitlines()
    assert last.startswith("locuscore serve")  # runs until it is stopped
    run_commands("\n".join(finite))
    assert {"guard.locus", "scored.parquet", "report.html"} <= {p.name for p in tmp_path.iterdir()}


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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_of_a_known_kind(page):
    languages = {language for language, _ in code(page.read_text(encoding="utf-8"))}
    assert languages <= {"python", "py", "sh", "text", ""}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_that_is_only_shown_is_python(page):
    for block in blocks(page.read_text(encoding="utf-8"), "py"):
        ast.parse(block)


def parse_command(arguments):
    """Look up command and options as the command line would, without running anything."""
    import typer

    from locuscore.cli._app import app

    command = typer.main.get_command(app)
    context = command.make_context("locuscore", [], resilient_parsing=True)
    while hasattr(command, "commands"):
        name, *arguments = arguments
        assert name in command.commands, f"no command {name}"
        command = getattr(command.commands[name], "loaded", command.commands[name])
    context = command.make_context(name, [], resilient_parsing=True)
    context.resilient_parsing = False  # so that unknown options are errors
    given, left, _ = command.make_parser(context).parse_args(args=list(arguments))
    assert not left, f"not understood: {left}"
    needed = [part for part in command.params if part.required and not part.envvar]
    missing = [part.name for part in needed if not given.get(part.name)]
    assert not missing, f"missing: {missing}"


SHOWN = re.compile(r"`(locuscore [a-z][^`]*)`")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_commands_and_their_options_exist(page):
    text = page.read_text(encoding="utf-8")
    inline = SHOWN.findall(BLOCK.sub("", text))
    fenced = [block for language, block in code(text) if language in {"sh", "text", ""}]
    for block in [*inline, *fenced]:
        for name, *arguments in command_lines(block) if "locuscore " in block else []:
            if name == "locuscore":
                parse_command(arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        "fit rows.csv --targett y -o a.locus",
        "fitt rows.csv -t y -o a.locus",
        "fit rows.csv -o a.locus",
        "inspect a.locus b.locus",
    ],
)
def test_a_wrong_command_would_be_noticed(wrong):
    with pytest.raises(Exception, match=r"targett|fitt|missing|understood"):
        parse_command(wrong.split())


LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")


def anchors(page):
    """Return the anchors of a page's headings, as code hosts and the site make them."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def broken_links(page):
    for link in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_and_their_anchors_lead_somewhere(page):
    assert list(broken_links(page)) == []


def test_a_broken_link_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, two\n[a](#one-two) [b](#three) [c](none.md) [d](page.md#one-two)\n")
    assert list(broken_links(page)) == ["#three", "none.md"]


def listed_names(page):
    """Return the names in a page's tables of contents, where autodoc looks for them."""
    lists = blocks(page.read_text(encoding="utf-8"), "{eval-rst}")
    return [name for text in lists for name in re.findall(r"^   (\w+)$", text, re.MULTILINE)]


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_public_name_once(module):
    page = REFERENCE / f"{module.rpartition('.')[2]}.md"
    assert sorted(listed_names(page)) == sorted(importlib.import_module(module).__all__)
    assert f".. currentmodule:: {module}\n" in page.read_text(encoding="utf-8")


def shown_in_the_gallery():
    """Names of ours that a script of the gallery imports, each with its module."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "examples").glob("plot_*.py")]
    imports = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    return {(node.module, alias.name) for node in imports for alias in node.names}


def has_example(thing):
    return "\nExamples\n--------\n" in (inspect.getdoc(thing) or "")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_example(module):
    """In its docstring, or in a script of the gallery, which its page then shows."""
    found, gallery = importlib.import_module(module), shown_in_the_gallery()
    without = [name for name in found.__all__ if not has_example(getattr(found, name))]
    assert [name for name in without if (module, name) not in gallery] == []


def test_a_name_without_an_example_would_be_noticed():
    assert has_example(importlib.import_module("locuscore").Locus)
    assert not has_example(broken_links)
    assert ("locuscore", "Locus") in shown_in_the_gallery()


def guarantee_rows():
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if "(../tests/" in line]
    return [(row[0].strip(), row[-2], row[-1]) for row in rows if len(row) == 5]


@pytest.mark.parametrize(("name", "functions", "test"), guarantee_rows(), ids=lambda part: part)
def test_a_guarantee_names_its_function_and_its_test(name, functions, test):
    for function in re.findall(r"`([\w.]+)`", functions):
        assert callable(pkgutil.resolve_name(f"locuscore.{function}"))
    (path,) = re.findall(r"\(\.\./(tests/guarantees/\w+\.py)\)", test)
    assert (ROOT / path).exists()


def test_every_theorem_and_every_guarantee_test_has_a_row():
    names = [name for name, _, _ in guarantee_rows()]
    assert [name for name in names if name[0].isdigit()] == names[:6]
    named = "".join(test for _, _, test in guarantee_rows())
    kept = {path.name for path in (ROOT / "tests" / "guarantees").glob("test_*.py")}
    assert {name for name in kept if name not in named} == set()


def test_the_valuation_page_shows_lines_of_its_script():
    def plain(text):
        return "\n".join(line.strip() for line in text.strip().splitlines())

    script = plain((ROOT / "benchmarks" / "valuation" / "run.py").read_text())
    shown = blocks((ROOT / "docs" / "valuation.md").read_text(), wanted="py")
    assert len(shown) == 6
    assert all(plain(block) in script for block in shown)
