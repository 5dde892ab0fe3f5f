"""Archives written by earlier versions load, and score as they did."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from archives_for_tests import members_of
from helpers import assert_close, raises
from locuscore import ArchiveError, Scorer, engines
from locuscore._archive.container import FORMAT, read_manifest
from locuscore._archive.manifest import check_manifest

FOLDER = Path(__file__).parents[1] / "archives"
KEPT = sorted(FOLDER.glob("format_*/*.locus"))
NAMES = {
    "auto",
    "bart",
    "ensemble",
    "forest",
    "gaussian",
    "lightgbm",
    "mdn",
    "quantiles",
    "scale",
}

# Engines that no released version has: their archives are kept from the next one on.
LATER = {"BayesianMDN", "FlexCode", "Flow", "VariationalGP"}


def minor(text):
    return text.split(".")[:2]


FORMATS = range(1, FORMAT + 1)


@pytest.mark.parametrize("number", FORMATS)
def test_the_archives_of_every_format_are_kept_and_small(number):
    kept = [path for path in KEPT if path.parent.name == f"format_{number}"]
    assert {path.stem for path in kept} == NAMES
    assert all(path.stat().st_size < 100_000 for path in kept)
    assert {read_manifest(path)["format"] for path in kept} == {number}


@pytest.mark.parametrize("number", FORMATS)
def test_every_engine_is_in_a_kept_archive(number):
    found = set()
    for path in FOLDER.glob(f"format_{number}/*.locus"):
        text = members_of(path)["scorer.json"].decode()
        found |= set(re.findall(r'"(?:class|kind)": "(\w+)"', text))
    assert set(engines.KEPT) - LATER <= found


def test_no_module_is_named():
    for path in FOLDER.glob(f"format_{FORMAT}/*.locus"):
        assert "locuscore." not in members_of(path)["scorer.json"].decode()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_kept_manifest_is_read(path):
    manifest = read_manifest(path)
    assert "Guarantee card" in manifest["card"]
    assert manifest["columns"] == ["prediction", "bound_0.1", "bound_0.25", "score", "flag"]
    assert "signals" not in manifest  # later versions say what the signals are
    check_manifest(manifest)


@pytest.mark.extra
@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_kept_archive_scores_as_it_did(path):
    import pandas as pd

    manifest = read_manifest(path)
    has_parts = any(name.endswith(".skops") for name in manifest["members"])
    if has_parts and minor(manifest["written_by"]["scikit-learn"]) != minor(
        version("scikit-learn")
    ):
        with raises(ArchiveError, "scikit-learn=="):
            Scorer.load(path)
        return
    record = json.loads(path.with_suffix(".json").read_text())
    scores = Scorer.load(path)(pd.DataFrame(record["batch"]))
    for name, expected in record["scores"].items():
        if name == "flag":
            assert scores[name].to_list() == expected
        else:
            assert_close(scores[name], expected, rtol=1e-9)
