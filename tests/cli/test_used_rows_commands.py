"""The commands refuse rows of fit and other predictors, and inspect says what an archive keeps."""

import shutil
from pathlib import Path

import pytest
from sklearn.linear_model import Ridge

from cli_for_tests import fails, homes, run, write
from locuscore.__main__ import main
from locuscore._archive.container import read_manifest

pytestmark = pytest.mark.extra
KEPT = Path(__file__).parents[1] / "archives" / "format_1" / "forest.locus"
RULE = ("--tau", 0.5, "--eta", 0.4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labelled rows as three kinds of files, an archive fitted on the first, and a model."""
    import skops.io

    place = tmp_path_factory.mktemp("used")
    old = homes(400)
    for name in ("old.parquet", "old.csv", "old.arrow"):
        write(old, place / name)
    write(homes(400, seed=1), place / "new.parquet")
    fit = ["fit", place / "old.parquet", "-t", "price", "--prediction", "quoted", "--quiet"]
    fit += ["--drop", "id"]
    assert main([*map(str, fit), "-o", str(place / "guard.locus")]) == 0
    assert main([*map(str, fit), "--no-rows", "-o", str(place / "bare.locus")]) == 0
    columns = ["size", "age"]
    for name, alpha in (("g", 0.0), ("other", 50.0)):
        model = Ridge(alpha=alpha).fit(old[columns], old["price"])
        skops.io.dump(model, place / f"{name}.skops")
    model = ["fit", place / "old.parquet", "-t", "price", "-p", place / "g.skops", "--quiet"]
    assert main([*map(str, model), "-o", str(place / "model.locus")]) == 0
    return place


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_certify_refuses_the_rows_of_fit_in_every_format(folder, capsys, ending, tmp_path):
    made = tmp_path / "made.locus"
    data = folder / f"old.{ending}"
    said = fails(capsys, "certify", folder / "guard.locus", data, *RULE, "-o", made)
    assert "400 of 400" in said
    assert "--allow-rows-used-in-fit" in said
    assert not made.exists()


def test_certify_can_be_made_to_go_on_and_its_card_says_so(folder, capsys, tmp_path):
    made = tmp_path / "made.locus"
    command = ["certify", folder / "guard.locus", folder / "old.csv", *RULE, "-o", made]
    said = run(capsys, *command, "--allow-rows-used-in-fit")
    assert said["rule"]["standing"] == "heuristic"
    assert "Nothing is guaranteed" in said["card"]


def test_certify_counts_what_new_rows_repeat(folder, capsys, tmp_path):
    made = tmp_path / "made.locus"
    data = folder / "new.parquet"
    said = run(capsys, "certify", folder / "guard.locus", data, *RULE, "-o", made, "--allow-empty")
    assert said["rule"]["evidence"]["rows_also_in_fit"] == 0
    assert read_manifest(made)["kept_rows"]["digests"] == 400


def test_without_digests_nothing_is_noticed(folder, capsys, tmp_path):
    command = ["certify", folder / "bare.locus", folder / "old.csv", *RULE, "--allow-empty"]
    said = run(capsys, *command, "-o", tmp_path / "made.locus")
    assert "rows_also_in_fit" not in said["rule"]["evidence"]


def test_report_judges_nothing_on_the_rows_of_fit(folder, capsys, tmp_path):
    page = tmp_path / "page.html"
    command = ["report", folder / "guard.locus", folder / "old.csv", "-o", page]
    said = run(capsys, *command)
    assert said["verdict"]["sentence"].startswith("These rows were used to fit: 400 of 400")
    assert "These rows were used to fit" in page.read_text()
    assert main([*map(str, command), "--fail-if-broken", "--quiet"]) == 4


@pytest.mark.parametrize("command", ["score", "certify", "report"])
def test_another_predictor_is_refused_unless_it_is_allowed(folder, capsys, command, tmp_path):
    rest = [*(RULE if command == "certify" else []), "-p", folder / "other.skops"]
    output = tmp_path / {"score": "o.csv", "certify": "o.locus", "report": "o.html"}[command]
    arguments = [command, folder / "model.locus", folder / "new.parquet", *rest, "-o", output]
    assert "largest difference" in fails(capsys, *arguments)
    assert not output.exists()
    allowed = [*arguments, "--allow-another-predictor", "--quiet"]
    allowed += ["--allow-empty"] if command == "certify" else []
    assert main([*map(str, allowed)]) == 0
    same = [folder / "g.skops" if part == folder / "other.skops" else part for part in arguments]
    same += ["--quiet", *(["--allow-empty"] if command == "certify" else [])]
    assert main([*map(str, same)]) == 0


def test_inspect_says_what_is_kept_and_shows_no_row(folder, capsys, tmp_path):
    shutil.copy(KEPT, tmp_path / "old.locus")
    wanted = {
        folder / "model.locus": "32, to recognise the predictor",
        folder / "guard.locus": "nothing to check: predictions are a column",
        folder / "bare.locus": "left out on demand",
        tmp_path / "old.locus": "none: the archive was written before",
    }
    for path, words in wanted.items():
        assert main(["inspect", str(path)]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert words in said
    kept = run(capsys, "inspect", folder / "model.locus")["kept_rows"]
    assert kept == {"digests": 400, "probe_rows": 32, "note": ""}
