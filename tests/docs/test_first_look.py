"""What a newcomer sees first is true: badges, output and picture of README and home page."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOME = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def badge(name):
    path = ROOT / "docs" / "_static" / "badges" / f"{name}.svg"
    return re.search(r"<title>(.*)</title>", path.read_text(encoding="utf-8"))[1]


def test_badges_are_true():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tried = re.findall(r'"(3\.\d+)"', workflow)
    first = project["project"]["requires-python"].removeprefix(">=")
    last = max(tried, key=lambda version: int(version.partition(".")[2]))
    assert badge("python") == f"python: {first} to {last}"
    assert badge("licence") == f"licence: {project['project']['license']}"
    assert project["tool"]["mypy"]["strict"]
    assert badge("typed") == "typed: mypy strict"
    identifier = badge("paper").rpartition(" ")[2]
    for path in ("README.md", "CITATION.cff", "docs/versions.md"):
        assert f"arxiv.org/abs/{identifier}" in (ROOT / path).read_text(encoding="utf-8")


def shown(text, first_word):
    """The block whose text begins with a word."""
    (block,) = re.findall(rf"^```\w*\n({first_word} .*?)^```$", text, re.MULTILINE | re.DOTALL)
    return block


def test_the_home_page_shows_what_readme_runs():
    assert shown(HOME, "locus") == shown(README, "locus")
    assert len(shown(HOME, "locus").splitlines()) == 7
    assert shown(HOME, "bounds") == shown(README, "bounds")


@pytest.mark.extra
def test_the_picture_says_what_its_caption_says():
    """Captions have the figures of ours and the range of the others, for each panel."""
    from benchmarks.paper import hero, records
    from benchmarks.paper.summary import Summary

    found = hero.shares(Summary(records.read()))
    for text in (README, HOME):
        alt = re.search(r'<img alt="([^"]+)"', text)[1]
        for values in found.values():
            others = [value for name, value in values.items() if name != hero.OURS]
            ours = f"locuscore {values[hero.OURS]:.1f} %"
            assert f"{ours}, others {min(others):.1f} to {max(others):.1f} %" in alt


def numbers(text):
    return np.array([float(found.replace(",", "")) for found in NUMBER.findall(text)])


def same_output(printed, text):
    """The same words, and numbers that differ by a twentieth at most: machines round apart."""
    return NUMBER.sub("#", printed) == NUMBER.sub("#", text) and np.allclose(
        numbers(printed), numbers(text), rtol=0.05
    )


def test_other_output_would_be_noticed():
    assert same_output("60% of 5,952", "60% of 5,900")
    assert not same_output("60% of 5,952", "70% of 5,952")
    assert not same_output("60% of all", "60% of them")


@pytest.mark.extra
def test_readme_runs_and_prints_what_it_shows(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    space = {}
    for block in re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        exec(block, space)
    assert (tmp_path / "diamonds.locus").exists()
    assert same_output(capsys.readouterr().out, shown(README, "bounds"))
