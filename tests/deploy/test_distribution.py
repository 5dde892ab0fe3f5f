"""What a release is made of: the wheel, the sdist, and that one gives the other."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import locuscore

pytestmark = pytest.mark.extra  # needs hatchling

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "locuscore"
DATE = {"SOURCE_DATE_EPOCH": "1700000000"}


def built(source, kind, folder):
    """Build as `python -m build --no-isolation` does, and return the file."""
    hook = f"import hatchling.build as b, sys; print(b.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", hook, str(folder)]
    done = subprocess.run(
        command, cwd=source, capture_output=True, text=True, check=True, env=os.environ | DATE
    )
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    return built(ROOT, "wheel", folder), built(ROOT, "sdist", folder)


def members(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_the_package_and_nothing_else(distributions):
    wheel, _ = distributions
    here = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = f"locuscore-{locuscore.__version__}.dist-info/"
    found = set(members(wheel))
    assert {name for name in found if not name.startswith(about)} == here
    assert {name.removeprefix(about) for name in found - here} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }


def test_the_wheel_has_what_is_no_python(distributions):
    """Types, templates of the pages and data; a list of modules alone would forget them."""
    found = set(members(distributions[0]))
    assert "locuscore/py.typed" in found
    assert "locuscore/data/diamonds.npz" in found
    assert "locuscore/report/templates/report.html" in found
    assert "locuscore/watch/templates/watch.html" in found
    assert "locuscore/_shared/templates/page.css" in found


def test_the_sdist_has_the_sources_and_no_tests_or_records(distributions):
    with tarfile.open(distributions[1]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    tops = {name.split("/", 1)[0] for name in names}
    assert tops == {
        *("src", "pyproject.toml", "PKG-INFO", ".gitignore", "LICENSE", "README.md"),
        *("CHANGELOG.md", "CITATION.cff", "SECURITY.md"),
    }
    assert not [name for name in names if "__pycache__" in name]


def test_the_sdist_gives_the_same_wheel(distributions, tmp_path):
    wheel, sdist = distributions
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    again = built(source, "wheel", tmp_path)
    assert members(again) == members(wheel)
    assert again.read_bytes() == wheel.read_bytes()


def test_metadata_say_the_version_of_the_package(distributions):
    wheel, sdist = distributions
    (about,) = [text for name, text in members(wheel).items() if name.endswith("/METADATA")]
    lines = about.decode().splitlines()
    assert f"Version: {locuscore.__version__}" in lines
    assert "License-Expression: MIT" in lines
    assert sdist.name == f"locuscore-{locuscore.__version__}.tar.gz"
