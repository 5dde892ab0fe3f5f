"""`locuscore fit` with groups, clusters, target rows or folds, and what other commands do then."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cli_for_tests import assert_same, fails, homes, read, run, write
from locuscore import ClusterCertificate, GroupRule, Locus, Scorer, prediction_column
from locuscore.__main__ import main
from locuscore.calibration import ByGroup, ClusterRows, CrossFit, Shifted
from locuscore.engines import Scale
from locuscore.report import report
from locuscore.report._claims import Claim
from locuscore.report._verdict import judge

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


def test_small_groups_share_a_pool(tmp_path, capsys):
    frame = homes(400)
    frame["town"] = frame["town"].mask(frame["id"] % 5 == 0, "east").mask(frame["id"] < 40, "west")
    data, archive = write(frame, tmp_path / "rows.parquet"), tmp_path / "guard.locus"
    options = ["--groups", "town", "--pool-below", 100]
    said = run(capsys, "fit", data, *BY_COLUMN, *QUICK, *options, "-o", archive)
    expected = Scorer(by_hand(frame, ByGroup("town", pool_below=100)))
    assert said["card"] == expected.card
    assert Scorer.load(archive).locus.calibration_.groups.pool_below == 100
    assert_same(Scorer.load(archive)(frame[FEATURES]), expected(frame[FEATURES]))


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
        (["--pool-below", 20], ["--pool-below", "--groups"], 2),
        (["--groups", "town", "--pool-below", 1], ["--pool-below"], 2),
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


def test_a_half_life_counts_all_rows(tmp_path, capsys):
    data, old = write(homes(400), tmp_path / "r.csv"), tmp_path / "o.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", old)
    recent, new = write(homes(300, seed=1), tmp_path / "recent.csv"), tmp_path / "n.locus"
    options = ["--half-life", 50, "--max-rows", 100, "-o", new]
    assert main([*map(str, ["recalibrate", old, recent, *options])]) == 1
    assert "--max-rows to 300" in capsys.readouterr().err
    assert not new.exists()


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


@pytest.fixture
def clustered(tmp_path, capsys):
    """An archive calibrated by clusters, and fresh rows in clusters of other names."""
    archive = tmp_path / "days.locus"
    data = write(with_days(homes(900)), tmp_path / "rows.csv")
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--clusters", "day", "-o", archive)
    return archive, with_days(homes(600, seed=1)).assign(day=lambda f: f["day"] + 1000)


RULE = ["--tau", 1.5, "--eta", 0.3]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_certify_by_clusters(ending, clustered, tmp_path, capsys):
    archive, fresh = clustered
    data, safe = write(fresh, tmp_path / f"fresh.{ending}"), tmp_path / "safe.locus"
    run(capsys, "certify", archive, data, *RULE, "--clusters", "day", "-o", safe)
    locus, X = Scorer.load(archive).locus, fresh[FEATURES]
    rule = locus.certify(1.5, 0.3, 0.1, X, fresh["price"], clusters=fresh["day"])
    found = Scorer.load(safe).rule
    assert found == rule
    assert isinstance(found.certificate, ClusterCertificate)
    assert not found.accepts_nothing


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ([], ["--clusters COLUMN"]),
        (["--clusters", "week"], ["no column week"]),
        (["--clusters", "day", "--max-rows", 300], ["--max-rows to 600"]),
    ],
)
def test_certify_needs_the_clusters(options, facts, clustered, tmp_path, capsys):
    archive, fresh = clustered
    data, safe = write(fresh, tmp_path / "fresh.csv"), tmp_path / "safe.locus"
    arguments = [*map(str, ["certify", archive, data, *RULE, *options, "-o", safe, "--quiet"])]
    said = fails(capsys, *arguments)
    assert all(fact in said for fact in facts), said
    assert not safe.exists()


def test_recalibrate_needs_the_clusters(clustered, tmp_path, capsys):
    archive, fresh = clustered
    data, new = write(fresh, tmp_path / "fresh.csv"), tmp_path / "new.locus"
    assert "--clusters COLUMN" in fails(capsys, "recalibrate", archive, data, "-o", new)
    run(capsys, "recalibrate", archive, data, "--clusters", "day", "-o", new)
    expected = Scorer.load(archive).locus.recalibrate(
        fresh[FEATURES], fresh["price"], clusters=fresh["day"]
    )
    assert_same(Scorer.load(new)(fresh[FEATURES]), Scorer(expected)(fresh[FEATURES]))


def test_an_array_has_no_column_of_clusters(tmp_path, capsys):
    columns, archive = ["size", "age", "quoted"], tmp_path / "array.locus"
    frame, fresh = with_days(homes(600)), with_days(homes(400, seed=1))
    locus = Locus(prediction_column(2), engine=Scale(), random_state=0)
    locus.fit(frame[columns].to_numpy(), frame["price"], clusters=frame["day"])
    Scorer(locus).save(archive)
    data = write(fresh[[*columns, "price", "day"]], tmp_path / "fresh.csv")
    options = ["--clusters", "day", "-o"]
    run(capsys, "certify", archive, data, *RULE, *options, tmp_path / "safe.locus")
    said = run(capsys, "report", archive, data, *options, tmp_path / "page.html")
    assert said["verdict"]["claims"][0]["p_value"] is not None


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_report_by_clusters(ending, clustered, tmp_path, capsys, monkeypatch):
    from locuscore.cli import _report

    monkeypatch.setattr(_report, "BATCH_ROWS", 250)  # which cuts clusters
    archive, fresh = clustered
    data, page = write(fresh, tmp_path / f"fresh.{ending}"), tmp_path / "page.html"
    options = ["--clusters", "day", "--fail-if-broken", "-o", page]
    found = run(capsys, "report", archive, data, *options)["verdict"]
    X, y = fresh[FEATURES], fresh["price"]
    expected = report(Scorer.load(archive), X, y, clusters=fresh["day"]).summary["verdict"]
    assert found["claims"][0]["p_value"] == pytest.approx(expected["claims"][0]["p_value"])
    assert found["sentence"] == expected["sentence"]
    assert "60 clusters" in found["sentence"]
    assert found["kind"] == "good"
    wrong = ["--clusters", "week", "-o", page]
    assert "no column week" in fails(capsys, "report", archive, data, *wrong)


@pytest.mark.parametrize("certified", [False, True])
def test_a_report_without_the_clusters_tests_nothing(certified, clustered, tmp_path, capsys):
    archive, fresh = clustered
    data, page = write(fresh, tmp_path / "fresh.parquet"), tmp_path / "page.html"
    if certified:
        safe = tmp_path / "safe.locus"
        run(capsys, "certify", archive, data, *RULE, "--clusters", "day", "-o", safe)
        archive, data = safe, write(with_days(homes(300, seed=2)), tmp_path / "test.parquet")
    arguments = [*map(str, ["report", archive, data, "-o", page, "--json"])]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)["verdict"]
    assert {claim["verdict"] for claim in found["claims"]} == {"not tested"}
    assert found["sentence"].startswith("No claim could be tested")
    assert all("--clusters COLUMN" in claim["sentence"] for claim in found["claims"])
    assert "--clusters COLUMN" in found["sentence"]
    assert main([*arguments, "--fail-if-broken"]) == 4
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == found
    assert "could be tested" in err


def test_a_check_of_what_has_no_exact_test_fails(tmp_path, capsys):
    data, archive = write(homes(90), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--cross-fit", 3, "--tau", 1.0, "-o", archive)
    test, page = write(homes(200, seed=1), tmp_path / "test.csv"), tmp_path / "page.html"
    arguments = [*map(str, ["report", archive, test, "-o", page])]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith(
        "No claim could be tested: there is no exact test of the share of all rows"
    )
    said = fails(capsys, *arguments, "--fail-if-broken", "--quiet", code=4)
    assert "could be tested" in said
    assert page.exists()


def test_a_rule_for_each_group(tmp_path, capsys):
    data, archive = write(homes(400), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", archive)
    fresh, certified = homes(600, seed=1), tmp_path / "certified.locus"
    arguments = ["certify", archive, write(fresh, tmp_path / "fresh.csv"), "-o", certified]
    arguments += ["--tau", 2.0, "--eta", 0.5, "--groups"]
    said = run(capsys, *arguments, "town")
    locus, rule = Scorer.load(archive).locus, Scorer.load(certified).rule
    assert isinstance(rule, GroupRule)
    expected = locus.certify_groups("town", 2.0, 0.5, 0.1, fresh[FEATURES], fresh["price"])
    assert rule.to_dict() == expected.to_dict()
    assert "town" in said["card"]
    assert "features are" in fails(capsys, *arguments, "price")
    assert "--starts" in fails(capsys, *arguments, "town", "--starts", 0.5, code=2)
    assert "--clusters" in fails(capsys, *arguments, "town", "--clusters", "id", code=2)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (["--clusters", "price"], ["--clusters price", "true values"]),
        (["--groups", "town", "--groups", "town"], ["--groups town", "more than once"]),
        (["--largest-cluster", 5], ["--largest-cluster", "--clusters"]),
        (["--out-of-bag", "--cross-fit", 3], ["--out-of-bag", "--cross-fit"]),
    ],
)
def test_options_that_make_no_calibration(options, facts, tmp_path, capsys):
    data, archive = write(homes(90), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    said = fails(capsys, "fit", data, *BY_COLUMN, *QUICK, *options, "-o", archive, code=2)
    assert all(fact in " ".join(said.split()) for fact in facts)


def test_the_target_is_no_cluster_later_either(tmp_path, capsys):
    frame = with_days(homes(400))
    data, archive = write(frame, tmp_path / "rows.csv"), tmp_path / "guard.locus"
    options = ["--clusters", "day", "--largest-cluster", 12]
    said = run(capsys, "fit", data, *BY_COLUMN, *QUICK, *options, "-o", archive)
    assert said["card"] == Scorer(by_hand(frame, ClusterRows(12), clusters=frame["day"])).card
    made, new = ["-o", tmp_path / "new"], write(with_days(homes(99, seed=1)), tmp_path / "new.csv")
    for command in (["certify", "--tau", 1, "--eta", 0.5], ["recalibrate"], ["report"]):
        name, *more = command
        said = fails(capsys, name, archive, new, *made, *more, "--clusters", "price", code=2)
        assert "--clusters price" in said


def test_one_forest_out_of_bag(tmp_path, capsys):
    data, archive = write(homes(90), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    said = run(capsys, "fit", data, *BY_COLUMN, "--out-of-bag", "-o", archive)
    assert "Heuristic, nothing is promised" in said["card"]


def test_a_report_reads_weights_from_a_column(tmp_path, capsys):
    frame = homes(400).assign(w=lambda f: 1.0 + f["size"])
    archive = tmp_path / "guard.locus"
    Scorer(by_hand(frame, Shifted(frame["w"]))).save(archive)
    test, figures = write(frame.assign(price=1e6), tmp_path / "test.csv"), tmp_path / "figures.json"
    arguments = ["report", archive, test, "-o", tmp_path / "page.html", "--summary", figures]
    assert "weights=" in fails(capsys, *arguments)
    assert "no column v" in fails(capsys, *arguments, "--weights", "v")
    run(capsys, *arguments, "--weights", "w")
    (claim,) = json.loads(figures.read_text())["verdict"]["claims"]
    assert claim["verdict"] == "contradicted"
    assert "weighted calibration rows" in claim["sentence"]


def test_the_verdict_counts_what_has_no_exact_test():
    tested = Claim("coverage", "share", "theorem", 0.1, 0.1, 100, "seen", 0.5, 0.0, alpha=0.1)
    untested = replace(tested, p_value=None, is_testable=False)
    for n, said in [
        (1, "1 of 3 claims has no exact test"),
        (2, "2 of 3 claims have no exact test"),
        (3, "No claim could be tested: there is no exact test of the share; the share; the share."),
    ]:
        verdict = judge([*[untested] * n, *[tested] * (3 - n)])
        assert said in verdict["sentence"]
        assert verdict["kind"] == "plain"


def test_few_rows_are_no_reason_to_fail(tmp_path, capsys):
    data, archive = write(homes(300), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", archive)
    test = write(homes(5, seed=1), tmp_path / "test.csv")
    options = ["--fail-if-broken", "-o", tmp_path / "page.html"]
    (claim,) = run(capsys, "report", archive, test, *options)["verdict"]["claims"]
    assert claim["verdict"] == "too few rows to tell"


@pytest.mark.parametrize(
    ("n", "said"),
    [(1, "in 1 row: there are too few calibration rows for it,"), (2, "in 2 rows: there are too")],
)
def test_infinite_bounds_are_explained(n, said, tmp_path, capsys):
    data, archive = write(homes(400), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--groups", "town", "-o", archive)
    new = homes(20, seed=1)
    new.loc[: n - 1, "town"] = "east"
    scored = tmp_path / "scored.csv"
    arguments = ["score", archive, write(new, tmp_path / "new.csv"), "-o", scored]
    assert main([*map(str, arguments)]) == 0
    out = capsys.readouterr().out
    assert f"bound_0.1 is infinite {said}" in out
    assert "unknown" in out
    assert np.isinf(read(scored)["bound_0.1"]).sum() == n


@pytest.mark.parametrize("command", ["fit", "recalibrate", "certify", "report"])
def test_paragraphs_of_help_fill_the_lines(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out.split("Usage:")[1].split("Arguments")[0]
    lines = [line.strip() for line in text.splitlines()[1:-1]]
    for line, after in pairwise(lines):
        if line and after:  # a line ends where the next word has no room
            assert len(line) + 1 + len(after.split()[0]) > 78, line
