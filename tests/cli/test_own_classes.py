"""An archive with an engine of somebody else, at the command line and behind HTTP."""

from functools import partial

import pytest

from archives_for_tests import rows, small_scorer
from calibrations_for_tests import LevelPerRow
from cli_for_tests import assert_same, fails, homes, read, run, write
from locuscore import Locus, Scorer, prediction_column
from locuscore.engines import Forest
from own_classes import Constant

pytestmark = pytest.mark.extra

NAMES = ["size", "age", "quoted"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    frame = homes(200)
    locus = Locus(prediction_column("quoted"), engine=Constant(2.0), random_state=0)
    scorer = Scorer(locus.fit(frame[NAMES], frame["price"]))
    scorer.save(folder / "x.locus")
    write(homes(300, seed=1), folder / "new.parquet")
    return scorer, folder


def test_the_operator_names_the_class(saved, tmp_path, capsys):
    scorer, folder = saved
    paths = [folder / "x.locus", folder / "new.parquet"]
    output = tmp_path / "out.parquet"
    said = fails(capsys, "score", *paths, "-o", output)
    assert "'Constant'" in said
    assert "--class" in said
    run(capsys, "score", *paths, "-o", output, "--class", "own_classes:Constant")
    assert_same(read(output), scorer(homes(300, seed=1)[NAMES]))


def test_levels_per_row_reach_the_output(tmp_path, capsys):
    frame, new = homes(200), homes(300, seed=1)
    locus = Locus(prediction_column("quoted"), engine=Forest(n_trees=30), random_state=0)
    locus.fit(frame[NAMES], frame["price"])
    marginal = Scorer(locus)(new[NAMES])
    locus.calibration_ = LevelPerRow(locus.tails_, "size")
    scorer, archive, output = Scorer(locus), tmp_path / "x.locus", tmp_path / "out.csv"
    scorer.save(archive)
    data = write(new, tmp_path / "new.csv")
    run(
        capsys,
        "score",
        archive,
        data,
        "-o",
        output,
        "--class",
        "calibrations_for_tests:LevelPerRow",
    )
    assert_same(read(output), scorer(new[NAMES]))
    assert (read(output)["bound_0.1"] != marginal["bound_0.1"]).mean() > 0.5


def test_a_rule_is_certified_and_reported_with_it(saved, tmp_path, capsys):
    _, folder = saved
    paths = [folder / "x.locus", folder / "new.parquet"]
    own = ["-t", "price", "--class", "own_classes:Constant"]
    certified = tmp_path / "new.locus"
    run(capsys, "certify", *paths, "--tau", 3, "--eta", 0.5, "-o", certified, *own)
    assert Scorer.load(certified, classes=[Constant]).rule is not None
    run(capsys, "report", *paths, "-o", tmp_path / "page.html", *own)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("own_classes:Missing", "Missing"),
        ("no_such_module:Missing", "no_such_module"),
        ("own_classes:np", "says how it is kept"),
        ("own_classes:BaseEstimator", "says how it is kept"),
    ],
)
def test_a_class_that_is_none_is_said_in_one_line(saved, name, fact, tmp_path, capsys):
    _, folder = saved
    paths = [folder / "x.locus", folder / "new.parquet"]
    assert fact in fails(capsys, "score", *paths, "-o", tmp_path / "out.csv", "--class", name)


def test_a_service_is_told_how_to_load(tmp_path):
    from service_for_tests import running

    locus, path = small_scorer(engine=Constant()).locus, tmp_path / "x.locus"
    locus.calibration_ = LevelPerRow(locus.tails_, 2)
    scorer = Scorer(locus)
    scorer.save(path)
    X, _ = rows(3, seed=5)
    with running(path, load=partial(Scorer.load, classes=[Constant, LevelPerRow])) as client:
        answer = client.post("/score", json={"rows": X.tolist()}).json()["rows"]
    expected = scorer(X)["bound_0.1"]
    assert [row["bound_0.1"] for row in answer] == pytest.approx(expected, rel=1e-9)
