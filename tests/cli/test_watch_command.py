"""The commands of `watch`: files in, the ledger of memory, one code for an alarm."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from cli_for_tests import fails, homes, read, run, write
from locuscore import Scorer
from locuscore.__main__ import main

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra
SECRET = "pass-that-nobody-sees"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An archive, rows of the same kind, and rows that are worse."""
    at = tmp_path_factory.mktemp("watch")
    write(homes(600), at / "labelled.parquet")
    made = ["--target", "price", "--prediction", "quoted", "--drop", "id", "--tau", "1.0", "-q"]
    fit = ["fit", at / "labelled.parquet", *made, "-o", at / "guard.locus"]
    assert main([*map(str, fit)]) == 0
    later = homes(800, seed=1)
    write(later, at / "later.parquet")
    worse = later.assign(price=later["quoted"] + 6 * (later["price"] - later["quoted"]))
    write(worse, at / "worse.csv")
    for kind in ("parquet", "csv"):
        scored = ["score", at / "guard.locus", at / "later.parquet", "--keep-all", "-q"]
        assert main([*map(str, scored), "-o", str(at / f"scored.{kind}")]) == 0
    return at


@pytest.fixture
def store(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/decisions.db"
    monkeypatch.setenv("LOCUSCORE_STORE", url)
    return url


def logged(capsys, folder, name="scored.parquet", **options):
    given = [text for option, value in options.items() for text in (f"--{option}", str(value))]
    scorer = ["--scorer", folder / "guard.locus"]
    return run(capsys, "watch", "log", folder / name, *scorer, *given)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_promise_that_is_kept(kind, folder, store, capsys):
    from locuscore.watch import Watch

    told = logged(capsys, folder, f"scored.{kind}", age="0s", audit=1)
    assert told["new"] == told["rows"] == 800
    again = logged(capsys, folder, f"scored.{kind}")  # settings are those of the first time
    assert (again["new"], again["known"]) == (0, 800)
    scorer = ["--scorer", folder / "guard.locus"]
    found = run(capsys, "watch", "label", folder / "later.parquet", "--y", "price", *scorer)
    assert (found["new"], found["without"]) == (800, 0)
    status = run(capsys, "watch", "status")
    assert status["verdict"]["level"] == "ok"
    # The same as in memory, but for the order of rows of one file, which the ledger's secret draws.
    frame, loaded = read(folder / "later.parquet"), Scorer.load(folder / "guard.locus")
    own = Watch(f"{store}-own.db", loaded, age=timedelta(0))
    own.log(read(folder / "scored.parquet"), frame["id"].to_numpy())
    own.label(frame["id"].to_numpy(), frame["price"].to_numpy())
    claims = json.loads(own.status().to_json())["claims"]
    for mine, theirs in zip(claims, status["claims"], strict=True):
        assert (mine["n"], mine["line"]) == (theirs["n"], theirs["line"])
        assert (mine["estimate"] or 0.0) == pytest.approx(theirs["estimate"] or 0.0, rel=1e-9)


def test_an_alarm_has_its_own_exit_code(folder, store, tmp_path, capsys):
    logged(capsys, folder, age="0s")
    given = ["watch", "label", str(folder / "worse.csv"), "--y", "price"]
    assert main([*given, "--scorer", str(folder / "guard.locus")]) == 0
    assert "Added 800 labels" in capsys.readouterr().out
    assert main(["watch", "status", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"]["level"] == "alarm"
    assert main(["watch", "status"]) == 4
    assert "Next: " in capsys.readouterr().out
    page = tmp_path / "watch.html"
    assert run(capsys, "watch", "report", page)["output"] == str(page)
    assert "ALARM" in page.read_text()
    files = run(capsys, "watch", "export", tmp_path / "ledger")["files"]
    assert len(files) >= 3
    assert run(capsys, "watch", "forget", "--before", "2020-01-01")["decisions"] == 0
    assert run(capsys, "watch", "forget", "--before", datetime.now(UTC))["decisions"] == 800


def test_losses_need_no_scorer_and_missing_ones_are_left_out(folder, store, tmp_path, capsys):
    logged(capsys, folder, age="0s")
    frame = homes(800, seed=1)[["id"]].assign(z=0.1, when="2026-02-03T04:05:06+01:00")
    frame.loc[frame.index[:300], "z"] = np.nan
    path = write(frame, tmp_path / "losses.csv")
    options = ["--loss", "z", "--time", "when", "--source", "audit"]
    found = run(capsys, "watch", "label", path, *options)
    assert (found["new"], found["without"]) == (500, 300)
    assert run(capsys, "watch", "label", path, *options)["known"] == 500
    assert run(capsys, "watch", "status")["counts"]["labelled"] == 500


def test_labels_without_a_scorer_get_their_losses_later(folder, store, capsys):
    logged(capsys, folder, age="0s")
    assert main(["watch", "label", str(folder / "later.parquet"), "--y", "price"]) == 0
    assert "--scorer" in capsys.readouterr().err
    assert run(capsys, "watch", "status")["counts"]["labelled"] == 0
    scorer = ["--scorer", folder / "guard.locus"]
    assert run(capsys, "watch", "status", *scorer)["counts"]["labelled"] == 800


def test_times_and_clusters_are_those_of_the_file(folder, store, tmp_path, capsys):
    frame = read(folder / "scored.parquet").assign(when="2026-02-03", day="a")
    frame.loc[frame.index[:10], "when"] = "2026-02-04"
    path = write(frame, tmp_path / "scored.csv")
    run(
        capsys, "watch", "log", path, "--scorer", folder / "guard.locus", "--time", "when",
        "--cluster", "day", "--group", "town",
    )  # fmt: skip
    status = run(capsys, "watch", "status")
    assert [day["decisions"] for day in status["days"]] == [790, 10]
    assert [group["group"] for group in status["groups"]] == ["north", "south"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["log", "SCORED", "--scorer", "GUARD", "--id", "none"], 1, "no column none"),
        (["log", "LATER", "--scorer", "GUARD"], 1, "no column prediction"),
        (["log", "SCORED", "--scorer", "GUARD", "--age", "soon"], 2, "such as 7d"),
        (["log", "SCORED", "--scorer", "GUARD", "--audit", "2"], 1, "audit is a chance"),
        (["log", "SCORED", "--scorer", "GUARD", "--time", "town"], 1, "town|parse|timestamp"),
        (["label", "LATER", "--y", "price"], 1, "there is no file"),
        (["label", "LATER"], 2, "either --y"),
        (["status"], 1, "there is no file"),
        (["status", "--store", "mysql://x/y"], 1, "SQLite or PostgreSQL"),
        (["forget", "--before", "2026-01-01T12:00"], 2, "zone"),
        (["forget", "--before", "soon"], 2, "2027-01-31"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, code, sentence, folder, store, capsys):
    import re

    names = {"SCORED": "scored.parquet", "GUARD": "guard.locus", "LATER": "later.parquet"}
    given = [str(folder / names[one]) if one in names else one for one in arguments]
    assert re.search(sentence, fails(capsys, "watch", *given, code=code))


def test_other_settings_than_the_first_are_refused(folder, store, capsys):
    logged(capsys, folder, age="2d", delta=0.1)
    given = ["watch", "log", folder / "scored.parquet", "--scorer", folder / "guard.locus"]
    assert "fixed at its first decision" in fails(capsys, *given, "--age", "3d")


def test_the_password_is_told_to_nobody(folder, monkeypatch, capsys):
    monkeypatch.setenv("LOCUSCORE_STORE", f"postgresql://me:{SECRET}@127.0.0.1:9/none")
    scored = ["log", folder / "scored.parquet", "--scorer", folder / "guard.locus"]
    for command in (["status"], scored, ["serve"]):
        words = ["serve", folder / "guard.locus"] if command == ["serve"] else ["watch", *command]
        assert main([*map(str, words), "--debug"]) == 1
        out, err = capsys.readouterr()
        assert SECRET not in out + err
        assert "127.0.0.1" in err
