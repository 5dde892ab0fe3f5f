"""The examples in docstrings give what they show; those of the plots have a test of their own."""

import doctest
from pathlib import Path

import pytest

import locuscore

ROOT = Path(locuscore.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(("locuscore", *path.relative_to(ROOT).with_suffix("").parts))
    for path in ROOT.rglob("*.py")
    if path.parent.name != "plots" and ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_give_what_they_show(name):
    module = pytest.importorskip(name, exc_type=ImportError)
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
