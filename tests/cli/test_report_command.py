"""``locuscore report``: files in, one page out, in constant memory."""

import json

import numpy as np
import pytest

from cli_for_tests import FILES, fails, homes, run, write
from locuscore import Scorer
from locuscore.__main__ import main
from locuscore.report import Batch, Provenance, report_batches

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guard")
    data = write(homes(500), folder / "rows.parquet")
    made = folder / "guard.locus"
    options = ["-t", "price", "--prediction", "quoted", "--drop", "id", "--tau", "1"]
    assert main(["fit", str(data), *options, "-o", str(made), "--quiet"]) == 0
    return made


def without_times(summary):
    text = json.loads(json.dumps(summary))
    text["attribution"].pop("seconds")
    text["attribution"].pop("method")
    text.pop("facts")
    return text


@pytest.mark.parametrize("ending", FILES)
def test_the_page_has_the_figures_of_the_library(ending, archive, tmp_path, capsys):
    frame = homes(300, seed=1)
    data = write(frame, tmp_path / f"rows.{ending}")
    out, full = tmp_path / "report.html", tmp_path / "report.json"
    options = ["-t", "price", "--groups", "town", "--unit", "dollars", "--title", "Homes"]
    said = run(capsys, "report", archive, data, *options, "-o", out, "--summary", full)
    found = json.loads(full.read_text())
    assert (said["rows"], said["output"], said["summary"]) == (300, str(out), str(full))
    assert said["coverage"] == found["coverage"]
    assert out.read_text().lower().startswith("<!doctype html>")
    names = ["size", "age", "town", "quoted"]
    batch = Batch(frame[names], frame["price"], groups=frame["town"])
    expected = report_batches(
        Scorer.load(archive),
        [batch],
        pilot=[batch],
        group_name="town",
        title="Homes",
        unit="dollars",
        archive="guard.locus",
        provenance=Provenance.of_files(data, archive),
    ).summary
    assert without_times(found) == without_times(expected)
    assert {part["group"] for part in found["groups"]["rows"]} == {"north", "south"}


def test_small_batches_and_large_files_give_the_same(archive, tmp_path, capsys, monkeypatch):
    from locuscore.cli import _report

    data = write(homes(400, seed=2), tmp_path / "rows.parquet")
    found = []
    for size in (65_536, 70):
        monkeypatch.setattr(_report, "BATCH_ROWS", size)
        full = tmp_path / f"{size}.json"
        arguments = ["report", archive, data, "-t", "price", "--summary", full]
        run(capsys, *arguments, "-o", tmp_path / "page.html")
        found.append(without_times(json.loads(full.read_text())))
    assert found[0]["explorer"] == found[1]["explorer"]
    assert found[0]["rows"]["columns"] == found[1]["rows"]["columns"]
    assert found[0]["pit"] == found[1]["pit"]
    assert found[0]["deciles"] == found[1]["deciles"]


@pytest.mark.parametrize("name", [None, "size"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_the_index_that_pandas_writes_is_no_feature(ending, name, tmp_path, capsys):
    import pyarrow as pa

    frame = homes(900).drop(columns="id").sample(900, random_state=0)
    frame = frame if name is None else frame.set_index(name)
    data, archive = tmp_path / f"rows.{ending}", tmp_path / "guard.locus"
    if ending == "parquet":
        frame.to_parquet(data)
    else:
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_file(data, table.schema) as file:
            file.write_table(table)
    columns = ["-t", "price", "--prediction", "quoted"]
    run(capsys, "fit", data, *columns, "--tau", "50", "-o", archive)
    assert set(Scorer.load(archive).schema.names) == {"size", "age", "town", "quoted"}
    said = run(capsys, "report", archive, data, "-o", tmp_path / "page.html")
    assert said["rows"] == 900
    run(capsys, "score", archive, data, "-o", tmp_path / "scored.parquet")


def test_losses_may_be_a_column(archive, tmp_path, capsys):
    frame = homes(200, seed=3)
    frame = frame.assign(off=np.abs(frame["price"] - frame["quoted"])).drop(columns="price")
    data = write(frame, tmp_path / "rows.csv")
    said = run(capsys, "report", archive, data, "--losses", "off", "-o", tmp_path / "page.html")
    bound = Scorer.load(archive)(frame[["size", "age", "town", "quoted"]])["bound_0.1"]
    assert said["coverage"][0]["covered"] == int(np.sum(frame["off"] <= bound))


def test_the_target_is_that_of_fit_unless_another_is_named(archive, tmp_path, capsys):
    frame = homes(100, seed=6)
    data = write(frame.assign(other=frame["price"] + 1e6), tmp_path / "rows.parquet")
    found = []
    for name in ([], ["-t", "price"], ["-t", "other"]):
        page = tmp_path / "page.html"
        arguments = ["report", str(archive), str(data), *name, "-o", str(page), "--json"]
        assert main(arguments) == 0
        found.append(json.loads(capsys.readouterr().out)["coverage"][0]["covered"])
    assert found[0] == found[1] > found[2] == 0


def test_what_is_printed(archive, tmp_path, capsys):
    data = write(homes(200, seed=4), tmp_path / "rows.csv")
    arguments = ["report", str(archive), str(data), "-t", "price", "-o", str(tmp_path / "a.html")]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "losses (" in out
    assert "exceed their bound at alpha = 0.1" in out
    assert f"Wrote {tmp_path / 'a.html'}" in out
    assert "200 rows" in out
    assert not err
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_broken_claim_has_its_own_exit_code(archive, tmp_path, capsys):
    good = homes(400, seed=8)
    bad = good.assign(price=good["price"] + 1e6)
    for frame, code, kind in ((good, 0, "good"), (bad, 4, "bad")):
        data, page = write(frame, tmp_path / "rows.parquet"), tmp_path / f"{code}.html"
        arguments = ["report", str(archive), str(data), "-o", str(page), "--json"]
        assert main(arguments) == 0
        found = json.loads(capsys.readouterr().out)["verdict"]
        assert (found["kind"], found["broken"]) == (kind, code == 4)
        keys = {"claim", "promised", "observed", "n", "p_value", "verdict"}
        assert all(keys <= claim.keys() and claim["p_value"] > 0 for claim in found["claims"])
        assert main([*arguments, "--fail-if-broken"]) == code
        assert json.loads(capsys.readouterr().out)["verdict"] == found
        assert page.exists()  # what is wrong can be looked at


def test_errors_are_one_line(archive, tmp_path, capsys):
    frame = homes(50, seed=5)
    data = write(frame, tmp_path / "rows.parquet")
    page = ["-o", tmp_path / "page.html"]
    other = tmp_path / "unnamed.locus"
    scorer = Scorer.load(archive)
    scorer.locus.target_name_ = None
    scorer.save(other)
    assert "names no target" in fails(capsys, "report", other, data, *page, code=2)
    both = ["-t", "price", "--losses", "price", *page]
    assert "--losses" in fails(capsys, "report", archive, data, *both, code=2)
    assert "no column cost" in fails(capsys, "report", archive, data, "-t", "cost", *page)
    wrong = ["-t", "price", "--groups", "street", *page]
    assert "no column street" in fails(capsys, "report", archive, data, *wrong)
    less = write(frame.drop(columns="age"), tmp_path / "less.parquet")
    assert "no column age" in fails(capsys, "report", archive, less, "-t", "price", *page)
    missing = write(frame.assign(price=frame["price"].where(frame["id"] > 3)), tmp_path / "m.csv")
    assert "missing in 4 rows" in fails(capsys, "report", archive, missing, "-t", "price", *page)
    empty = write(frame[:0], tmp_path / "empty.parquet")
    assert "has no rows" in fails(capsys, "report", archive, empty, "-t", "price", *page)
    nowhere = ["-t", "price", "-o", tmp_path / "no" / "page.html"]
    assert "cannot be written" in fails(capsys, "report", archive, data, *nowhere)
    for onto in (["-o", data], ["-o", archive], [*page, "--summary", page[1]]):
        assert "another file" in fails(capsys, "report", archive, data, *onto, code=2)
    assert Scorer.load(archive).alphas == scorer.alphas
    assert not (tmp_path / "page.html").exists()


def test_groups_time_and_costs(archive, tmp_path, capsys):
    frame = homes(400, seed=21)
    sold = np.datetime64("2026-01-05") + np.arange(400) // 5
    data = write(frame.assign(sold=sold.astype("datetime64[us]"), late=sold > sold[200]),
                 tmp_path / "rows.parquet")  # fmt: skip
    page, full = tmp_path / "report.html", tmp_path / "report.json"
    parts = ["--groups", "town", "--groups", "late", "--time", "sold", "--noun", "homes"]
    costs = ["--review-cost", "3", "--bad-cost", "40", "--cost-unit", "USD"]
    more = ["--approved-by", "A. Reader", "--tau", "1.25", "--unit", "dollars"]
    run(capsys, "report", archive, data, *parts, *costs, *more, "-o", page, "--summary", full)
    found = json.loads(full.read_text())
    assert [part["column"] for part in found["parts"]] == ["town", "late", "sold"]
    assert found["parts"][2]["rows"][0]["group"] == "week of 5 January 2026"
    assert found["money"]["costs"]["review"] == 3 * found["money"]["flagged"]["n"]
    assert found["provenance"]["approved"] == "A. Reader"
    assert (found["noun"], 1.25 in found["explorer"]["taus"]) == ("homes", True)
    assert "homes" in found["verdict"]["headline"]
    for wrong in (["--bad-cost", "40"], ["--review-cost", "3"]):
        assert "--review-cost" in fails(capsys, "report", archive, data, *wrong, "-o", page, code=2)
    assert "dates" in fails(capsys, "report", archive, data, "--time", "town", "-o", page)


def test_two_reports_are_compared(archive, tmp_path, capsys):
    made = []
    for seed, worse in ((31, 0.0), (32, 0.0), (33, 1e6)):
        frame = homes(300, seed=seed)
        data = write(frame.assign(price=frame["price"] + worse), tmp_path / f"{seed}.csv")
        made.append(tmp_path / f"{seed}.html")
        run(capsys, "report", archive, data, "-o", made[-1])
    page = tmp_path / "both.html"
    same = run(capsys, "compare", made[0], made[1], "-o", page)
    assert (same["n_differences"], same["kind"]) == (0, "good")
    arguments = ["compare", str(made[0]), str(made[2]), "-o", str(page)]
    assert main(arguments) == 0
    assert "beyond chance" in capsys.readouterr().out
    assert main([*arguments, "--fail-if-worse", "--quiet"]) == 4
    assert "Worse than before" in page.read_text()
    assert "there is no file" in fails(capsys, "compare", made[0], tmp_path / "none", "-o", page)
    assert "another file" in fails(capsys, "compare", made[0], made[1], "-o", made[1], code=2)
