"""docs/architecture.md is true: what it names exists, and additions go where it says."""

import re
from pathlib import Path

import numpy as np
import pytest

import locuscore
from engines_for_tests import ConstantNormal
from helpers import assert_close
from locuscore import Locus, Scorer
from locuscore._inputs import losses

PACKAGE = Path(locuscore.__file__).parent
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def table(heading):
    """Rows of the first table below a heading, as lists of cells."""
    text = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def paths(text):
    """Files and folders of the package that a cell names."""
    return re.findall(r"`([\w/]+(?:\.py|/))`", text)


def test_every_folder_is_described_and_exists():
    named = {name.strip("/") for row in table("Folders") for name in paths(row[0])}
    present = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    usual = {"__init__.py", "__main__.py", "__pycache__"}
    assert named == present - usual


def test_the_eight_names_are_where_the_page_says():
    rows = table("Eight names")
    assert len(rows) == 8
    for name, _, home in rows:
        for place in paths(home):
            assert (PACKAGE / place).exists(), place
        word = name.strip("`*")
        sources = [p for place in paths(home) for p in found_files(PACKAGE / place)]
        assert any(word in path.read_text() for path in sources), name


def found_files(place):
    return [place] if place.is_file() else sorted(place.glob("*.py"))


@pytest.mark.parametrize("row", table("Where does it go"), ids=lambda row: row[0])
def test_an_addition_touches_three_files_at_most(row):
    _, touched, tests = row
    files = paths(touched)
    assert 1 <= len(files) <= 3
    assert all((PACKAGE / name).exists() or "yours" in name for name in files)
    assert all((ROOT / name).exists() for name in re.findall(r"`(tests/[\w/.]+)`", tests))


@pytest.mark.extra
def test_a_named_loss_needs_no_other_file(monkeypatch, tmp_path, rng):
    """A line in the table of losses is enough to fit, to certify, to save and to load."""

    def halved(y, prediction):
        return np.abs(y - prediction) / 2

    of_error = losses.ErrorLoss(above=0.5, below=0.5)
    own = losses.Loss("halved", halved, losses._NON_NEGATIVE, "numbers", of_error=of_error)
    monkeypatch.setitem(losses._NAMED, "halved", own)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200)
    half, whole = (
        Locus(lambda X: X[:, 0], loss=loss, random_state=0).fit(X, y) for loss in ("halved", None)
    )
    assert_close(2 * half.loss_bound(X), whole.loss_bound(X), rtol=1e-9)
    with pytest.warns(locuscore.LocusWarning, match="predictor"):
        Scorer(half).save(tmp_path / "half.locus")
    again = Scorer.load(tmp_path / "half.locus", predictor=lambda X: X[:, 0])
    assert_close(again.locus.losses(X, y), half.losses(X, y))


def test_a_column_needs_no_change_in_the_shells():
    """Shells ask for the role of a column: no source outside the scorer knows how names begin."""
    shells = ["cli", "service", "report", "plots", "demo"]
    sources = [path for shell in shells for path in (PACKAGE / shell).rglob("*.py")]
    for path in [*sources, PACKAGE / "spark.py"]:
        found = re.findall(r'startswith\(\s*f?"(?:bound|prediction|score|flag)', path.read_text())
        assert not found, path


def test_an_engine_that_only_keeps_the_protocol_is_enough(rng):
    X = rng.normal(size=(100, 2))
    locus = Locus(lambda X: X[:, 0], engine=ConstantNormal(), random_state=0).fit(X, X[:, 1])
    assert np.isfinite(locus.loss_bound(X)).all()
