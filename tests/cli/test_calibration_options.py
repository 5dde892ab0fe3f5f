"""`locuscore fit` with groups, clusters, target rows or folds, and `locuscore recalibrate`."""

import numpy as np
import pytest

from cli_for_tests import assert_same, fails, homes, read, run, write
from locuscore import Locus, Scorer, prediction_column
from locuscore.__main__ import main
from locuscore.calibration import ByGroup, CrossFit, Shifted
from locuscore.engines import Scale

pytestmark = pytest.mark.extra

BY_COLUMN = ["--target", "price", "--prediction", "quoted", "--drop", "id"]
QUICK = ["--engine", "scale"]
FEATURES = ["size", "age", "town", "quoted"]


def by_hand(frame, calibration=None, **given):
    locus = Locus(
        prediction_column("quoted"), engine=Scale(), calibration=calibration, random_state=0
    )
    return locus.fit(frame[FEATURES], frame["price"], **given)


def with_days(frame):
    return frame.assign(day=np.arange(len(frame)) // 10)


@pytest.mark.parametrize("columns", [["town"], ["town", "age"]])
def test_groups(columns, tmp_path, capsys):
    frame = homes(800).assign(age=lambda f: f["age"] // 25)
    data, archive = write(frame, tmp_path / "rows.parquet"), tmp_path / "guard.locus"
    options = [part for name in columns for part in ("--groups", name)]
    said = run(capsys, "fit", data, *BY_COLUMN, *QUICK, *options, "-o", archive)
    by = columns[0] if len(columns) == 1 else columns
    expected = Scorer(by_hand(frame, ByGroup(by)))
    assert_same(Scorer.load(archive)(frame[FEATURES]), expected(frame[FEATURES]))
    assert said["card"] == expected.card
    scored = tmp_path / "scored.csv"
    run(capsys, "score", archive, write(frame, tmp_path / "new.csv"), "-o", scored)
    assert_same(read(scored), expected(frame[FEATURES]))


def test_clusters_are_no_feature(tmp_path, capsys):
    frame = with_days(homes(600))
    data, archive = write(frame, tmp_path / "rows.csv"), tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--clusters", "day", "-o", archive)
    loaded = Scorer.load(archive)
    assert list(loaded.schema.names) == FEATURES
    expected = Scorer(by_hand(frame, clusters=frame["day"]))
    assert_same(loaded(frame[FEATURES]), expected(frame[FEATURES]))


def test_clusters_need_all_rows(tmp_path, capsys):
    data = write(with_days(homes(600)), tmp_path / "rows.csv")
    options = [*BY_COLUMN, *QUICK, "--clusters", "day", "--max-rows", 300]
    code = main([*map(str, ["fit", data, *options, "-o", tmp_path / "guard.locus"])])
    assert code == 1
    assert "--max-rows to 600" in capsys.readouterr().err
    assert not (tmp_path / "guard.locus").exists()


def test_target_rows(tmp_path, capsys):
    frame, new = homes(800), homes(500, seed=5)
    new = new[new["size"] > 0.3]
    data, target = write(frame, tmp_path / "rows.parquet"), write(new, tmp_path / "new.parquet")
    archive = tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--target-rows", target, "-o", archive)
    expected = Scorer(by_hand(frame, Shifted(), target=new[FEATURES]))
    assert_same(Scorer.load(archive)(new[FEATURES]), expected(new[FEATURES]))


def test_folds(tmp_path, capsys):
    frame = homes(90)
    data, archive = write(frame, tmp_path / "rows.csv"), tmp_path / "guard.locus"
    said = run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--cross-fit", 3, "-o", archive)
    expected = Scorer(by_hand(frame, CrossFit(3)))
    assert_same(Scorer.load(archive)(frame[FEATURES]), expected(frame[FEATURES]))
    assert said["card"] == expected.card
    assert said["n_calibration"] == 90


@pytest.mark.parametrize(
    ("options", "facts", "code"),
    [
        (["--groups", "village"], ["no column village"], 1),
        (["--clusters", "day"], ["no column day"], 1),
        (["--groups", "town", "--cross-fit", 5], ["--groups", "--cross-fit", "choose one"], 2),
        (["--groups", "id"], ["id", "--feature"], 1),
        (["--cross-fit", 1], ["--cross-fit"], 2),
        (["--target-rows", "absent.csv"], ["absent.csv"], 1),
    ],
)
def test_what_fit_refuses(options, facts, code, tmp_path, capsys):
    data, archive = write(homes(200), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    said = fails(capsys, "fit", data, *BY_COLUMN, *QUICK, *options, "-o", archive, code=code)
    assert all(fact in said for fact in facts), said
    assert not archive.exists()


def test_recalibrate_makes_the_rule_anew(tmp_path, capsys):
    frame, recent = homes(600), homes(300, seed=1)
    data, old, new = write(frame, tmp_path / "r.csv"), tmp_path / "o.locus", tmp_path / "n.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--tau", 1.0, "-o", old)
    later = write(recent, tmp_path / "recent.csv")
    run(capsys, "recalibrate", old, later, "-o", new)
    locus = by_hand(frame).recalibrate(recent[FEATURES], recent["price"])
    expected = Scorer(locus, locus.tau_rule(1.0, 0.1))
    loaded = Scorer.load(new)
    assert_same(loaded(recent[FEATURES]), expected(recent[FEATURES]))
    assert loaded.rule == expected.rule
    run(capsys, "recalibrate", old, later, "--half-life", 100, "--drop-rule", "-o", new)
    assert Scorer.load(new).rule is None


def test_recalibrate_refuses_rows_of_the_loss_model_and_void_rules(tmp_path, capsys):
    frame, fresh = homes(800), homes(400, seed=1)
    data, old = write(frame, tmp_path / "r.csv"), tmp_path / "o.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", old)
    said = fails(capsys, "recalibrate", old, data, "-o", tmp_path / "n.locus")
    assert "fit" in said
    certified, later = tmp_path / "c.locus", write(fresh, tmp_path / "fresh.csv")
    rule = ["--tau", 1.0, "--eta", 0.3, "--score", "exceedance"]
    run(capsys, "certify", old, later, *rule, "-o", certified)
    recent = write(homes(300, seed=2), tmp_path / "recent.csv")
    said = fails(capsys, "recalibrate", certified, recent, "-o", tmp_path / "n.locus")
    assert "--drop-rule" in said
    assert not (tmp_path / "n.locus").exists()


def test_inspect_names_the_calibration(tmp_path, capsys):
    data, archive = write(homes(400), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--groups", "town", "--tau", 1.0, "-o", archive)
    facts = run(capsys, "inspect", archive)
    assert "2 groups by 'town'" in facts["promise"]
    assert facts["promise"] == Scorer.load(archive).locus.calibration_.sentence([0.1])
    assert main(["inspect", str(archive)]) == 0
    assert "town" in capsys.readouterr().out
