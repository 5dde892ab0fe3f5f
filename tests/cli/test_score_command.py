"""`locuscore score`: the scores of memory from every kind of file, whatever interrupts it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from archives_for_tests import LOSS_MODELS, loss_model, two_outputs
from cli_for_tests import FILES, assert_same, fails, homes, read, run, write
from helpers import raises
from locuscore import Locus, Scorer, prediction_column
from locuscore.__main__ import main
from locuscore.engines import Forest

pytestmark = pytest.mark.extra

NAMES = ["size", "age", "town", "quoted"]


def saved(path, predictor=None, names=NAMES, rule=True, alphas=(0.1, 0.25), **settings):
    frame = homes(200)
    g = prediction_column("quoted") if predictor is None else predictor
    settings = {"engine": Forest(n_trees=3, min_samples_leaf=20)} | settings
    locus = Locus(g, random_state=0, **settings).fit(frame[names], frame["price"])
    scorer = Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2) if rule else None, alphas)
    scorer.save(path)
    return scorer


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "guard.locus"
    return saved(path), path


@pytest.mark.parametrize("into", FILES)
@pytest.mark.parametrize("source", FILES)
def test_every_format_gives_the_scores_of_memory(source, into, guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(250, seed=1)
    data, output = write(frame, tmp_path / f"new.{source}"), tmp_path / f"out.{into}"
    said = run(capsys, "score", archive, data, "-o", output, "--block-rows", 100)
    expected = scorer(frame[NAMES])
    assert_same(read(output), expected)
    assert said["rows"] == 250
    assert said["flagged"] == expected["flag"].sum()
    assert sorted(p.name for p in tmp_path.iterdir()) == [data.name, output.name]


@pytest.mark.parametrize("name", LOSS_MODELS)
def test_every_engine_gives_the_scores_of_memory(name, tmp_path, capsys):
    g = LinearRegression().fit(homes(100)[["size", "age"]], homes(100)["price"])
    scorer = saved(tmp_path / "x.locus", g, ["size", "age"], **loss_model(name))
    frame = homes(150, seed=2)
    expected = scorer(frame[["size", "age"]])
    for kind in FILES:
        data, output = write(frame, tmp_path / f"new.{kind}"), tmp_path / f"out.{kind}"
        run(capsys, "score", tmp_path / "x.locus", data, "-o", output, "--block-rows", 64)
        assert_same(read(output), expected)


def test_several_outputs_are_several_columns(tmp_path, capsys):
    frame = homes(200)
    scorer = two_outputs(frame[["size", "age"]], frame["price"])
    scorer.save(tmp_path / "x.locus")
    data, output = write(frame, tmp_path / "new.csv"), tmp_path / "out.parquet"
    run(capsys, "score", tmp_path / "x.locus", data, "-o", output, "--block-rows", 64)
    assert_same(read(output), scorer(frame[["size", "age"]]))
    write(frame.rename(columns={"id": "prediction_1"}), data)
    command = ["score", tmp_path / "x.locus", data, "-o", output, "--keep", "prediction_1"]
    assert "--prefix" in fails(capsys, *command)


def test_columns_of_another_order_and_further_ones_are_no_matter(guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(50, seed=3)
    data = write(frame[frame.columns[::-1]], tmp_path / "new.parquet")
    run(capsys, "score", archive, data, "-o", tmp_path / "out.csv")
    assert_same(read(tmp_path / "out.csv"), scorer(frame[NAMES]))


@pytest.mark.parametrize("source", FILES)
def test_kept_columns_come_first_and_unchanged(source, guard, tmp_path, capsys):
    _, archive = guard
    frame = homes(150, seed=4)
    frame["label"] = [f'{i:04d}, a "b"' for i in range(150)]
    frame.loc[7, "label"] = "two\nlines"
    data, output = write(frame, tmp_path / f"new.{source}"), tmp_path / "out.csv"
    run(capsys, "score", archive, data, "-o", output, "--keep", "label", "--keep", "id")
    out = read(output)
    assert list(out)[:3] == ["label", "id", "prediction"]
    assert (out["label"] == frame["label"]).all()
    assert (out["id"] == frame["id"]).all()
    run(capsys, "score", archive, data, "-o", output, "--keep-all", "--prefix", "locus_")
    assert list(read(output))[: len(frame.columns) + 1] == [*frame.columns, "locus_prediction"]


def test_categories_and_missing_values_pass(guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(120, seed=5)
    frame.loc[3, "size"] = np.nan
    frame["town"] = frame["town"].astype("category")
    expected = scorer(frame[NAMES])
    for kind in FILES:
        data, output = write(frame, tmp_path / f"new.{kind}"), tmp_path / f"out.{kind}"
        keep = ["--keep", "town", "--block-rows", 50]
        run(capsys, "score", archive, data, "-o", output, *keep)
        assert_same(read(output).drop(columns="town"), expected)


def test_numbers_that_look_whole_at_first_may_be_fractions_later(guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(60, seed=6).astype({"age": float})
    frame.loc[59, "age"] = 7.5
    write(frame, tmp_path / "new.csv")
    run(capsys, "score", archive, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert_same(read(tmp_path / "out.csv"), scorer(frame[NAMES]))


def test_compressed_text_and_arrow_streams_are_read(guard, tmp_path, capsys):
    import gzip

    import pyarrow as pa

    scorer, archive = guard
    frame = homes(150, seed=10)
    packed, stream = tmp_path / "new.csv.gz", tmp_path / "new.arrow"
    packed.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_stream(str(stream), table.schema) as writer:
        writer.write_table(table, max_chunksize=40)
    for data in (packed, stream):
        run(capsys, "score", archive, data, "-o", tmp_path / "out.csv", "--block-rows", 64)
        assert_same(read(tmp_path / "out.csv"), scorer(frame[NAMES]))


def test_no_rule_no_flag_and_infinite_bounds_are_counted(tmp_path, capsys):
    with pytest.warns(UserWarning, match="too few"):
        saved(tmp_path / "x.locus", rule=False, alphas=(0.1, 0.001))
    data = write(homes(30), tmp_path / "new.csv")
    said = run(capsys, "score", tmp_path / "x.locus", data, "-o", tmp_path / "out.csv")
    assert said["flagged"] is None
    assert said["infinite_bounds"] == {"bound_0.1": 0, "bound_0.001": 30}
    assert np.isinf(read(tmp_path / "out.csv")["bound_0.001"]).all()


@pytest.mark.parametrize("kind", FILES)
def test_no_rows_give_a_file_without_rows(kind, guard, tmp_path, capsys):
    scorer, archive = guard
    data = write(homes(3)[:0], tmp_path / f"new.{kind}")
    said = run(capsys, "score", archive, data, "-o", tmp_path / f"out.{kind}")
    assert said["rows"] == 0
    assert list(read(tmp_path / f"out.{kind}")) == scorer.column_names


def test_an_archive_fitted_on_an_array_takes_columns_by_position(tmp_path, capsys):
    frame = homes(200)[["size", "age"]]
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=3)).fit(frame.to_numpy(), frame["size"])
    with pytest.warns(UserWarning, match="left out"):
        Scorer(locus).save(tmp_path / "x.locus")
    (tmp_path / "first_column.py").write_text("def g(X):\n    return X[:, 0]\n")
    data, output = write(frame, tmp_path / "new.csv"), tmp_path / "out.csv"
    err = fails(capsys, "score", tmp_path / "x.locus", data, "-o", output)
    assert "has no safe format" in err
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        run(capsys, "score", "x.locus", data, "-o", output, "-p", "first_column:g")
        write(homes(9), data)
        err = fails(capsys, "score", "x.locus", data, "-o", output, "-p", "first_column:g")
    finally:
        os.chdir(here)
    assert "2 columns and no others" in err


SLOW = """
import os, time

def g(X):
    time.sleep(float(os.environ.get("PAUSE", "0")))
    return X["quoted"]
"""


@pytest.mark.parametrize("kind", FILES)
def test_a_killed_run_goes_on_and_gives_the_same_file(kind, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"slow_{kind}.py").write_text(SLOW)
    archive = tmp_path / "x.locus"
    with pytest.warns(UserWarning, match="left out"):
        saved(archive, lambda X: X["quoted"])
    data = write(homes(1030, seed=7), tmp_path / f"new.{kind}")
    output = tmp_path / f"out.{kind}"
    arguments = ["score", archive, data, "-p", f"slow_{kind}:g", "--keep", "id"]
    arguments = [*map(str, arguments), "--block-rows", "100", "-o"]
    child = subprocess.Popen(
        [sys.executable, "-m", "locuscore", *arguments, str(output)],
        env={**os.environ, "PAUSE": "0.3"},
        stderr=subprocess.DEVNULL,
    )
    while len(list(tmp_path.glob(f".{output.name}.*.parts/*.arrow"))) < 3:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not output.exists()
    (folder,) = tmp_path.glob(".*.parts")
    (folder / ".whole.1a2b.tmp").write_bytes(b"half a file of a run killed while it merged")

    said = run(capsys, *arguments, output)
    assert 300 <= said["rows_done_before"] < 1030
    assert not list(tmp_path.glob(".*"))
    whole = tmp_path / f"whole.{kind}"
    assert run(capsys, *arguments, whole)["rows_done_before"] == 0
    assert output.read_bytes() == whole.read_bytes()


def test_another_input_or_archive_starts_over(guard, tmp_path, capsys, monkeypatch):
    from locuscore.cli._resumable import ResumableOutput

    _, archive = guard
    data, output = write(homes(250), tmp_path / "new.parquet"), tmp_path / "out.parquet"
    arguments = ["score", archive, data, "-o", output, "--block-rows", 100]

    def interrupted(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ResumableOutput, "merge", interrupted)
        assert "No space left" in fails(capsys, *arguments)
    assert len(list(tmp_path.glob(".*.parts/*.arrow"))) == 3
    write(homes(250, seed=8), data)
    assert run(capsys, *arguments)["rows_done_before"] == 0
    assert not list(tmp_path.glob(".*"))
    assert (read(output)["prediction"] == homes(250, seed=8)["quoted"]).all()


def test_an_interrupted_run_says_what_it_leaves(guard, tmp_path, capsys, monkeypatch):
    from locuscore.cli._resumable import ResumableOutput

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ResumableOutput, "merge", interrupted)
    data = write(homes(250), tmp_path / "new.csv")
    assert main(["score", str(guard[1]), str(data), "-o", str(tmp_path / "out.csv")]) == 130
    (folder,) = tmp_path.glob(".*.parts")
    assert f"is kept in {folder}: the same command resumes" in capsys.readouterr().err


WAITING = """
import os

def g(X):
    if "READY" in os.environ and (X["quoted"] == 99).any():
        os.write(int(os.environ["READY"]), b"!")
        os.read(int(os.environ["GO"]), 1)
    return X["quoted"]
"""


@pytest.fixture
def waiting(tmp_path, monkeypatch):
    """Start a run that stops amid its second block, and give the pipe that lets it go on."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "waiting.py").write_text(WAITING)
    with pytest.warns(UserWarning, match="left out"):
        saved(tmp_path / "x.locus", lambda X: X["quoted"])
    frame = homes(250)
    frame.loc[150, "quoted"] = 99
    write(frame, tmp_path / "first.csv")
    (ready, tell), (wait, go) = os.pipe(), os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "locuscore", *command("first.csv")],
        env={**os.environ, "READY": str(tell), "GO": str(wait)},
        pass_fds=(tell, wait),
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(tell)
    os.close(wait)
    said = os.read(ready, 1)
    yield child, go
    child.kill()
    child.wait()
    child.stderr.close()
    os.close(ready)
    os.close(go)
    assert said == b"!"


def command(data):
    parts = ["x.locus", data, "-p", "waiting:g", "-o", "out.csv", "--block-rows", "100"]
    return ["score", *parts, "--keep", "id"]


def test_two_runs_do_not_write_one_output(waiting, tmp_path, capsys):
    child, go = waiting
    (part,) = tmp_path.glob(".out.csv.*.parts/*.arrow")
    before = part.read_bytes()
    write(homes(120, seed=1), tmp_path / "second.csv")
    said = fails(capsys, *command("second.csv"))
    for fact in (f"process {child.pid} ", socket.gethostname(), "since 20", "first.csv"):
        assert fact in said
    assert part.read_bytes() == before
    os.write(go, b"!")
    _, err = child.communicate()
    assert child.returncode == 0, err
    assert read(tmp_path / "out.csv")["id"].tolist() == list(range(250))
    assert not list(tmp_path.glob(".*"))
    run(capsys, *command("second.csv"))  # the lock ended with its process
    assert len(read(tmp_path / "out.csv")) == 120


def test_parts_that_others_touch_are_not_merged(waiting, tmp_path):
    child, go = waiting
    (tmp_path / "out.csv").write_text("old")
    (part,) = tmp_path.glob(".out.csv.*.parts/*.arrow")
    part.unlink()
    os.write(go, b"!")
    _, err = child.communicate()
    assert child.returncode == 1
    assert part.name in err
    assert (tmp_path / "out.csv").read_text() == "old"


@pytest.mark.parametrize("swap", [lambda part: part.unlink(), lambda part: part.write_bytes(b"")])
def test_the_merge_reads_only_what_was_written(swap, tmp_path):
    import pyarrow as pa

    from locuscore.cli._places import place_of
    from locuscore.cli._resumable import ResumableOutput

    def merge():
        places = place_of(str(tmp_path / "out.csv")), "0" * 16, place_of(str(tmp_path))
        with ResumableOutput.of(*places) as parts:
            parts.append(pa.table({"a": [1]}))
            parts.append(pa.table({"a": [2]}))
            swap(parts.folder.local / "00000001.arrow")
            parts.merge("csv", lambda _: None)

    with raises(RuntimeError, "00000001.arrow", "not what this run has written"):
        merge()
    assert not (tmp_path / "out.csv").exists()


def test_a_lock_whose_holder_says_nothing_still_holds(tmp_path):
    import fcntl

    from locuscore.cli._lock import only_one

    with (tmp_path / ".out.csv.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(RuntimeError, match="another run"),
            only_one(tmp_path / "out.csv", "rows.csv"),
        ):
            pass
    with only_one(tmp_path / "out.csv", "rows.csv"):  # it was left behind by a killed run
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rule", [True, False])
def test_kept_columns_may_be_called_like_new_ones(rule, tmp_path, capsys):
    saved(tmp_path / "x.locus", rule=rule)
    frame = homes(60).assign(bound_note="high", bound_0=np.inf, score_of="x", prediction_old=1)
    names = ["bound_note", "bound_0", "score_of", "prediction_old"]
    if not rule:
        frame, names = frame.assign(flag="red", score=0), [*names, "flag", "score"]
    data, output = write(frame, tmp_path / "new.parquet"), tmp_path / "out.parquet"
    keep = [word for name in names for word in ("--keep", name)]
    said = run(capsys, "score", tmp_path / "x.locus", data, "-o", output, *keep)
    assert set(said["infinite_bounds"]) == {"bound_0.1", "bound_0.25"}
    assert (said["flagged"] is None) == (not rule)
    assert_same(read(output)[names], frame[names])


def test_what_fails_at_once_leaves_nothing_and_what_fails_later_says_what_is_left(
    guard, tmp_path, capsys
):
    _, archive = guard
    frame = homes(250).astype({"size": object})
    out = ["-o", tmp_path / "out.csv", "--block-rows", 100]
    for row, left in ((0, 0), (150, 1)):
        frame["size"] = homes(250)["size"].astype(object)
        frame.loc[row, "size"] = "large"
        data = write(frame.astype({"size": str}), tmp_path / "new.parquet")
        err = fails(capsys, "score", archive, data, *out)
        folders = list(tmp_path.glob(".*"))
        assert len(folders) == left
        assert ("the same command resumes" in err) == bool(left)
        assert all(str(folder) in err for folder in folders)


@pytest.mark.parametrize("kind", FILES)
def test_bad_rows_fail_with_their_numbers_or_are_flagged(kind, guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(250)
    frame.loc[[130, 210], "quoted"] = np.nan
    frame.loc[131, "size"] = np.inf
    data, output = write(frame, tmp_path / f"new.{kind}"), tmp_path / f"out.{kind}"
    command = ["score", archive, data, "-o", output, "--block-rows", 100]
    err = fails(capsys, *command)
    assert "row 131," in err
    assert "--bad-rows flag" in err
    assert "resumes" in err
    said = run(capsys, *command, "--bad-rows", "flag")
    assert said["bad_rows"] == 3
    assert said["rows"] == 250
    assert said["rows_done_before"] == 0
    out, expected = read(output), scorer(frame.drop(index=[130, 131, 210])[NAMES])
    assert_same(out.drop(index=[130, 131, 210]), expected)
    assert np.isinf(out.loc[[130, 131, 210], "bound_0.1"]).all()
    assert said["flagged"] == expected["flag"].sum() + 3
    assert main([*map(str, command), "--bad-rows", "flag"]) == 0
    out = capsys.readouterr().out
    assert "Bad rows: 3" in out
    assert "too few" not in out


def test_a_block_without_one_prediction_has_the_columns_of_the_others(tmp_path, capsys):
    frame = homes(200)
    labels = np.where(frame["price"] > 0.6, "dear", "cheap")
    g = LogisticRegression().fit(frame[["size", "age"]], labels)
    locus = Locus(g, loss="zero_one", engine=Forest(n_trees=3), random_state=0)
    Scorer(locus.fit(frame[["size", "age"]], labels)).save(tmp_path / "x.locus")
    frame.loc[:49, "size"] = np.inf
    for kind in FILES:
        data, output = write(frame, tmp_path / f"new.{kind}"), tmp_path / f"out.{kind}"
        options = ["--bad-rows", "flag", "--block-rows", 50, "-o", output]
        assert run(capsys, "score", tmp_path / "x.locus", data, *options)["bad_rows"] == 50
        found = read(output)["prediction"]
        assert found[:50].isna().all()
        assert set(found[50:]) == {"dear", "cheap"}


@pytest.mark.parametrize("kind", FILES)
def test_columns_of_one_name_are_refused_where_they_are_read(kind, guard, tmp_path, capsys):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    scorer, archive = guard
    frame = homes(60)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    data, output = tmp_path / f"new.{kind}", tmp_path / "out.csv"

    def doubled(name):
        twice = table.append_column(name, table["age"])
        match kind:
            case "csv":
                pa.csv.write_csv(twice, data)
            case "parquet":
                pa.parquet.write_table(twice, data)
            case _:
                with pa.ipc.new_file(str(data), twice.schema) as writer:
                    writer.write_table(twice)

    doubled("size")
    assert "several columns called size" in fails(capsys, "score", archive, data, "-o", output)
    out = ["-o", tmp_path / "y.locus"]
    fit = ["fit", data, "-t", "price", "--prediction", "quoted", "--drop", "id", *out]
    assert "several columns called size" in fails(capsys, *fit)
    doubled("price")
    assert "several columns called price" in fails(capsys, *fit)
    run(capsys, "score", archive, data, "-o", output)  # nobody reads the price here
    assert_same(read(output), scorer(frame[NAMES]))
    command = ["score", archive, data, "-o", output, "--keep-all"]
    assert "several columns called price" in fails(capsys, *command)


def test_what_is_said_and_not_said(guard, tmp_path, capsys):
    _, archive = guard
    data, output = write(homes(250), tmp_path / "new.parquet"), tmp_path / "out.csv"
    command = ["score", str(archive), str(data), "-o", str(output)]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert re.match(r"Scored 250 rows in [\d.]+ s, [\d,]+ rows/s\.\nFlagged \d+ ", out)
    assert not err
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*command, "--quiet", "--keep", "colour"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert main([*command, "--keep", "colour", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_progress_shows_rows_and_their_speed(monkeypatch):
    from io import StringIO

    from rich.console import Console

    from locuscore._shared import progress

    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal shows no progress
    monkeypatch.setattr(progress, "DELAY", 0.0)
    drawn = StringIO()
    console = Console(file=drawn, force_terminal=True, width=80)
    with progress.progress_bar(300, 100, console, of="rows") as advance:
        advance(50)
        while not progress._display.is_open:
            time.sleep(0.01)
        advance(50)
    assert re.search(r"200 of 300 rows, [\d,]+ rows/s", drawn.getvalue())


def test_wrong_use_is_one_line(guard, tmp_path, capsys):
    _, archive = guard
    data = write(homes(20), tmp_path / "new.csv")
    out = ["-o", tmp_path / "out.csv"]
    assert "--output" in fails(capsys, "score", archive, data, code=2)
    assert "another file" in fails(capsys, "score", archive, data, "-o", data, code=2)
    assert ".gz" in fails(capsys, "score", archive, data, "-o", tmp_path / "o.csv.gz", code=2)
    assert "no column colour" in fails(capsys, "score", archive, data, *out, "--keep", "colour")
    assert "unknown ending" in fails(capsys, "score", archive, tmp_path / "a.xlsx", *out)
    assert "there is no file" in fails(capsys, "score", archive, tmp_path / "a.csv", *out)
    assert "there is no file" in fails(capsys, "score", tmp_path / "a.locus", data, *out)
    assert "no archive" in fails(capsys, "score", data, data, *out)
    write(homes(20).drop(columns=["size", "age"]), data)
    assert "no column size, age" in fails(capsys, "score", archive, data, *out)
    write(homes(20).rename(columns={"id": "flag"}), data)
    assert "--prefix" in fails(capsys, "score", archive, data, *out, "--keep", "flag")
    write(homes(20).assign(size="large"), data)
    assert "large" in fails(capsys, "score", archive, data, *out)
    (tmp_path / "new.parquet").write_text("no parquet")
    assert "parquet" in fails(capsys, "score", archive, tmp_path / "new.parquet", *out)
    (tmp_path / "empty.arrow").write_bytes(b"")
    assert "is empty" in fails(capsys, "score", archive, tmp_path / "empty.arrow", *out)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("block_rows", [40, 1000])
def test_unseen_values_are_counted_over_the_file_and_said_once(block_rows, guard, tmp_path, capsys):
    _, archive = guard
    arguments = ["score", archive, "-o", tmp_path / "out.parquet", "--block-rows", block_rows]
    numbers = write(homes(150).assign(town=np.arange(150)), tmp_path / "numbers.parquet")
    assert main([*map(str, arguments), str(numbers)]) == 0
    err = capsys.readouterr().err
    assert err.count("of 150 rows, many have values that fit has not seen") == 1
    assert "'town' 150 (of type int, in fit str)" in err
    few = homes(150)
    few.loc[:9, "town"] = "elsewhere"
    assert run(capsys, *arguments, write(few, tmp_path / "few.csv"))["unseen_values"] == {
        "town": 10
    }
    assert main([*map(str, arguments), str(tmp_path / "few.csv")]) == 0
    assert "has not seen" not in capsys.readouterr().err
