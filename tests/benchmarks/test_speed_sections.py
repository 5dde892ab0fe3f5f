"""Every section of the page on speed can be run: `make speed` measures them one after the other."""

import ast
from pathlib import Path

import pytest

from benchmarks.speed import run

FOLDER = Path(run.__file__).parent


def defined(source):
    """Names that a module defines; it is not imported, since the rivals may not be installed."""
    nodes = ast.parse(source).body
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    targets = [part for node in nodes if isinstance(node, ast.Assign) for part in node.targets]
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("name", run.NAMES)
def test_a_section_has_what_the_page_needs(name):
    source = (FOLDER / f"{name}.py").read_text()
    assert {"TITLE", "ABOUT", "figures"} <= defined(source)


def test_all_sections_are_there():
    assert set(run.NAMES) == set(run.SECTIONS)
