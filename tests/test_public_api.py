import re
import tomllib
from pathlib import Path

import pytest

import locuscore
from locuscore import engines

ROOT = Path(__file__).parents[1]


def capitals_first(name):
    return not name.isupper(), not name[0].isupper(), name


def test_exports_are_sorted_and_complete():
    assert locuscore.__all__ == sorted(locuscore.__all__, key=capitals_first)
    for name in locuscore.__all__:
        assert getattr(locuscore, name).__doc__


def test_engines_are_listed_and_loaded_lazily():
    assert engines.__all__ == sorted(engines.__all__, key=capitals_first)
    assert set(engines.__all__) == set(engines._MODULES) | {"default_engine"}
    for name in set(engines.__all__) - set(engines._EXTRAS):
        assert getattr(engines, name).__doc__


@pytest.mark.extra
def test_engines_of_an_extra_are_loaded_lazily():
    for name in set(engines.__all__) & set(engines._EXTRAS):
        assert getattr(engines, name).__doc__


def test_the_version_has_one_source_and_other_files_agree():
    """The changelog opens with the version under way; people cite the last release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": "src/locuscore/__init__.py"}
    notes = re.findall(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest, state = notes[0]
    suffix = ".dev0" if state == "unreleased" else ""
    assert locuscore.__version__ == newest + suffix
    released = next(version for version, state in notes if state != "unreleased")
    assert f"\nversion: {released}\n" in (ROOT / "CITATION.cff").read_text()
    image = f" image: locuscore:{newest}\n"
    assert image in (ROOT / "deploy" / "kubernetes" / "deployment.yaml").read_text()
