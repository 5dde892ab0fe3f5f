"""`locuscore score` with folders of Parquet files and object stores: the scores of memory."""

import uuid

import numpy as np
import pytest

from cli_for_tests import FILES, assert_same, fails, homes, read, run, write
from helpers import raises
from locuscore import Locus, Scorer, prediction_column
from locuscore.__main__ import main
from locuscore.engines import Forest

pytestmark = pytest.mark.extra

NAMES = ["size", "age", "town", "quoted"]


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    frame = homes(200)
    engine = Forest(n_trees=3, min_samples_leaf=20)
    locus = Locus(prediction_column("quoted"), engine=engine, random_state=0)
    locus.fit(frame[NAMES], frame["price"])
    scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.2), (0.1, 0.25))
    path = tmp_path_factory.mktemp("archive") / "guard.locus"
    scorer.save(path)
    return scorer, path


def write_folder(frame, folder, by, files=None):
    """Write a folder of Parquet files as other systems do, two files for each value."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    for half, rows in enumerate((frame[: len(frame) // 2], frame[len(frame) // 2 :])):
        ds.write_dataset(
            pa.Table.from_pandas(rows, preserve_index=False),
            str(folder),
            format="parquet",
            partitioning=by,
            partitioning_flavor="hive" if by else None,
            basename_template=f"rows-{half}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
            filesystem=files,
        )
    return folder


def read_folder(folder, files=None):
    import pyarrow.dataset as ds

    return ds.dataset(str(folder), partitioning="hive", filesystem=files).to_table().to_pandas()


def by_id(frame):
    return frame.sort_values("id").reset_index(drop=True)


def interrupt(monkeypatch):
    """Let the run fail when all parts are done."""
    from locuscore.cli._resumable import ResumableOutput

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(ResumableOutput, "merge", fail)


@pytest.mark.parametrize("by", [[], ["town"], ["town", "age"]])
def test_a_folder_gives_the_scores_of_memory(by, guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(250, seed=1)
    data = write_folder(frame, tmp_path / "rows", by)
    (data / "_SUCCESS").touch()
    (data / ".hidden.parquet").write_text("no parquet")
    output = tmp_path / "out.parquet"
    said = run(capsys, "score", archive, data, "-o", output, "--keep", "id", "--block-rows", 60)
    assert said["rows"] == 250
    out = by_id(read(output))
    assert (out["id"] == np.arange(250)).all()
    assert_same(out.drop(columns="id"), scorer(frame[NAMES]))


def test_labels_in_paths_that_look_like_numbers_are_text_where_fit_had_text(tmp_path, capsys):
    frame = homes(200).assign(town=lambda frame: np.where(frame["town"] == "north", "007", "12"))
    frame["row"] = frame["id"] % 3
    locus = Locus(prediction_column("quoted"), engine=Forest(n_trees=3), random_state=0)
    scorer = Scorer(locus.fit(frame[NAMES], frame["price"]))
    scorer.save(tmp_path / "x.locus")
    data, output = write_folder(frame, tmp_path / "rows", ["town", "row"]), tmp_path / "out.arrow"
    command = ["score", tmp_path / "x.locus", data, "-o", output, "--keep", "id", "--keep", "row"]
    run(capsys, *command, "--keep", "town")
    out = by_id(read(output))
    assert set(out["town"]) == {"007", "12"}
    assert out["row"].dtype.kind == "i"
    assert_same(out[scorer.column_names], scorer(frame[NAMES]))


def test_files_of_one_folder_may_differ_in_type_and_a_missing_value_has_a_folder(
    guard, tmp_path, capsys
):
    scorer, archive = guard
    whole, fractions = homes(40), homes(40, seed=2).astype({"age": float})
    fractions.loc[3, "age"] = 7.5
    fractions.loc[4, "town"] = None
    data = tmp_path / "rows"
    write_folder(whole, data / "day=1", ["town"])
    write_folder(fractions, data / "day=2", ["town"])
    run(capsys, "score", archive, data, "-o", tmp_path / "out.csv", "--keep", "id", "--keep", "day")
    out = read(tmp_path / "out.csv")
    for day, frame in ((1, whole), (2, fractions)):
        found = by_id(out[out["day"] == day])
        assert_same(found[scorer.column_names], scorer(frame[NAMES]))


def test_fit_and_report_take_a_folder_too(tmp_path, capsys):
    data = write_folder(homes(300), tmp_path / "rows", ["town"])
    archive, page = tmp_path / "x.locus", tmp_path / "page.html"
    fit = ["-t", "price", "--prediction", "quoted", "--drop", "id", "-o", archive]
    run(capsys, "fit", data, *fit)
    test = write_folder(homes(100, seed=1), tmp_path / "test", ["town"])
    assert run(capsys, "report", archive, test, "-o", page)["rows"] == 100


@pytest.mark.parametrize("by", [[], ["town"], ["town", "age"]])
def test_an_output_without_an_ending_is_a_folder(by, guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(250, seed=1)
    data, output = write(frame, tmp_path / "new.parquet"), tmp_path / "out"
    options = [word for name in by for word in ("--partition-by", name)]
    command = ["score", archive, data, "-o", output, "--keep", "id", "--block-rows", 60, *options]
    said = run(capsys, *command)
    assert (said["rows"], said["output"]) == (250, str(output))
    out = by_id(read_folder(output))
    assert_same(out[scorer.column_names], scorer(frame[NAMES]))
    assert all((out[name] == frame[name]).all() for name in by)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.parquet", "out"]
    before = {path: path.read_bytes() for path in output.rglob("*.parquet")}
    assert "is not empty" in fails(capsys, *command)
    assert {path: path.read_bytes() for path in output.rglob("*.parquet")} == before


@pytest.mark.parametrize("by", [[], ["--partition-by", "town"]])
def test_no_rows_give_a_folder_without_rows(by, guard, tmp_path, capsys):
    _, archive = guard
    data = write(homes(3)[:0], tmp_path / "new.parquet")
    assert run(capsys, "score", archive, data, "-o", tmp_path / "out", *by)["rows"] == 0
    assert len(read_folder(tmp_path / "out")) == 0


def test_many_blocks_are_several_files_in_the_order_of_the_rows(guard, tmp_path, capsys):
    _, archive = guard
    data = write(homes(200, seed=1), tmp_path / "new.parquet")
    command = ["score", archive, data, "--keep", "id", "--block-rows", 10]
    run(capsys, *command, "-o", tmp_path / "out")
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == [f"part-0000{number}-0.parquet" for number in range(3)]
    assert (read_folder(tmp_path / "out")["id"] == np.arange(200)).all()


def test_flagged_rows_can_have_a_folder_of_their_own(guard, tmp_path, capsys):
    _, archive = guard
    data = write(homes(250, seed=1), tmp_path / "new.parquet")
    command = ["score", archive, data, "--keep", "id", "--partition-by", "new_flag"]
    said = run(capsys, *command, "--prefix", "new_", "-o", tmp_path / "out")
    assert 0 < said["flagged"] < 250
    assert len(read_folder(tmp_path / "out" / "new_flag=true")) == said["flagged"]
    # What one run writes, the next one reads: the path has a column of the rows.
    again = ["score", archive, tmp_path / "out", "-o", tmp_path / "again.csv"]
    assert "it has id, new_prediction" in fails(capsys, *again)


def test_an_interrupted_run_into_a_folder_goes_on_and_gives_the_same_files(
    guard, tmp_path, capsys, monkeypatch
):
    _, archive = guard
    data = write_folder(homes(250, seed=1), tmp_path / "rows", ["town"])
    output, whole = tmp_path / "out", tmp_path / "whole"
    command = ["score", archive, data, "--partition-by", "town", "--block-rows", 60, "-o"]
    with monkeypatch.context() as patch:
        interrupt(patch)
        assert "No space left" in fails(capsys, *command, output)
    assert not output.exists()
    assert run(capsys, *command, output)["rows_done_before"] == 250
    run(capsys, *command, whole)
    files = [path.relative_to(output) for path in output.rglob("*.parquet")]
    assert len(files) == 2
    assert all((output / name).read_bytes() == (whole / name).read_bytes() for name in files)
    # A file that changes, or comes, is another input.
    with monkeypatch.context() as patch:
        interrupt(patch)
        fails(capsys, *command, tmp_path / "more")
    write(homes(10), data / "town=south" / "more.parquet")
    assert run(capsys, *command, tmp_path / "more")["rows_done_before"] == 0
    assert not list(tmp_path.glob(".*"))


class Store:
    """An object store under s3://bucket, in one of pyarrow's file systems for tests."""

    def __init__(self, kind, tmp_path, monkeypatch):
        from pyarrow import fs

        (tmp_path / "store").mkdir()
        self.tells_time = kind != "memory"
        if kind == "memory":
            self.url = f"fsspec+memory://{uuid.uuid4().hex}"
            self.files, self.root = fs.FileSystem.from_uri(self.url)
            self.files.create_dir(self.root, recursive=True)
            return
        local = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())
        self.files = fs._MockFileSystem() if kind == "mock" else local
        self.url, self.root = "s3://bucket", "bucket"
        self.files.create_dir("bucket")

        class Fake:
            @staticmethod
            def from_uri(url):
                return self.files, url.removeprefix("s3://").partition("?")[0]

        monkeypatch.setattr("locuscore.cli._places.FileSystem", Fake)

    def names(self):
        from pyarrow import fs

        found = self.files.get_file_info(fs.FileSelector(self.root, recursive=True))
        return sorted(
            info.path.split(self.root + "/", 1)[1]
            for info in found
            if info.type == fs.FileType.File
        )

    def put(self, path, name):
        with self.files.open_output_stream(f"{self.root}/{name}") as stream:
            stream.write(path.read_bytes())
        return f"{self.url}/{name}"

    def get(self, name, path):
        with self.files.open_input_stream(f"{self.root}/{name}", compression=None) as stream:
            path.write_bytes(stream.read())
        return path


@pytest.fixture(params=["memory", "mock", "tree"])
def store(request, tmp_path, monkeypatch):
    return Store(request.param, tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", FILES)
def test_files_of_a_store_give_the_scores_of_memory(kind, store, guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(250, seed=1)
    data = store.put(write(frame, tmp_path / f"new.{kind}"), f"new.{kind}")
    command = ["score", archive, data, "-o", f"{store.url}/out.{kind}", "--block-rows", 100]
    said = run(capsys, *command)
    assert said["output"] == f"{store.url}/out.{kind}"
    assert_same(read(store.get(f"out.{kind}", tmp_path / f"got.{kind}")), scorer(frame[NAMES]))
    assert store.names() == [f"new.{kind}", f"out.{kind}"]
    assert "there is no file" in fails(capsys, "score", archive, f"{data}.csv", *command[3:])
    assert "apart" in fails(capsys, *command[:3], "-o", data)


def test_folders_of_a_store_give_the_scores_of_memory(store, guard, tmp_path, capsys):
    scorer, archive = guard
    frame = homes(250, seed=1)
    write_folder(frame, f"{store.root}/rows", ["town"], store.files)
    command = ["score", archive, f"{store.url}/rows", "--keep", "id", "--partition-by", "town"]
    run(capsys, *command, "-o", f"{store.url}/out/", "--block-rows", 100)
    out = by_id(read_folder(f"{store.root}/out", store.files))
    assert_same(out[scorer.column_names], scorer(frame[NAMES]))
    assert (out["town"] == frame["town"]).all()
    names = [name for name in store.names() if not name.startswith("rows/")]
    assert names == [
        "out/_SUCCESS",
        "out/town=north/part-00000-0.parquet",
        "out/town=south/part-00000-0.parquet",
    ]
    assert "is not empty" in fails(capsys, *command, "-o", f"{store.url}/out")
    assert "apart" in fails(capsys, *command, "-o", f"{store.url}/rows/out")
    assert "whole bucket" in fails(capsys, *command, "-o", store.url, code=2)
    run(capsys, *command, "-o", tmp_path / "here")
    assert_same(by_id(read_folder(tmp_path / "here")), out)


def test_a_run_in_a_store_resumes_where_the_store_tells_the_time_of_files(
    store, guard, tmp_path, capsys, monkeypatch
):
    scorer, archive = guard
    frame = homes(250, seed=1)
    data = store.put(write(frame, tmp_path / "new.csv"), "new.csv")
    command = ["score", archive, data, "-o", f"{store.url}/out.csv", "--block-rows", 100]
    with monkeypatch.context() as patch:
        interrupt(patch)
        said = fails(capsys, *command)
    assert f"is kept in {store.url}/.out.csv." in said
    assert len(store.names()) == 4
    done = run(capsys, *command)["rows_done_before"]
    assert done == (250 if store.tells_time else 0)
    assert store.names() == ["new.csv", "out.csv"]
    assert_same(read(store.get("out.csv", tmp_path / "got.csv")), scorer(frame[NAMES]))


def test_a_folder_in_a_store_that_was_half_written_is_written_again(
    store, guard, tmp_path, capsys, monkeypatch
):
    from locuscore.cli import _resumable

    scorer, archive = guard
    frame = homes(250, seed=1)
    data = write(frame, tmp_path / "new.parquet")
    command = ["score", archive, data, "-o", f"{store.url}/out", "--keep", "id"]

    def half(files, path, *_):
        with files.open_output_stream(f"{path}/part-9.parquet") as stream:
            stream.write(b"half")
        raise OSError("the network is down")

    with monkeypatch.context() as patch:
        patch.setattr(_resumable, "write_dataset", half)
        assert "the network is down" in fails(capsys, *command)
    assert "out/part-9.parquet" in store.names()
    assert "out/_SUCCESS" not in store.names()
    assert run(capsys, *command)["rows_done_before"] == 250
    assert store.names() == ["out/_SUCCESS", "out/part-00000-0.parquet"]
    out = read_folder(f"{store.root}/out", store.files)
    assert_same(out.drop(columns="id"), scorer(frame[NAMES]))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the network is down")])
def test_what_was_sent_in_part_is_no_file(error, store, monkeypatch):
    from locuscore.cli import _places

    def half(file, stream, _):
        stream.write(file.read(3))
        raise error

    monkeypatch.setattr(_places.shutil, "copyfileobj", half)
    place = _places.place_of(f"{store.url}/out.csv")
    with pytest.raises(type(error)):
        place.put(lambda file: file.write(b"a,b\n1,2\n"))
    assert store.names() == []


SECRETS = ("AKIAEXAMPLE", "hunter2")


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAEXAMPLE:hunter2@bucket/rows.csv",
        "s3://AKIAEXAMPLE:a/hunter2@bucket/rows.csv",
        "s3://bucket/rows.csv?region=x&secret_key=hunter2",
        "abfs://box@account.dfs.core.windows.net/rows.csv?client_secret=hunter2",
        "s3://bucket/rows.csv?region=eu&colour=hunter2",
        "nothing://bucket/rows.csv?region=hunter2",
    ],
)
def test_credentials_are_never_shown(url, guard, tmp_path, capsys):
    _, archive = guard
    here = str(tmp_path / "out.csv")
    for words in ([url, "-o", here], [here, "-o", url]):
        assert main(["score", str(archive), *words, "--debug", "--json"]) == 1
        said = "".join(capsys.readouterr())
        assert "error" in said
        assert not any(secret in said for secret in SECRETS)


def test_urls_of_s3_google_and_azure_are_understood(monkeypatch):
    """Nothing is asked of them: a region is given, and the others wait for the first question."""
    from locuscore.cli._places import place_of

    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
    for url, kind, path in (
        ("s3://bucket/rows?region=eu-west-1", "s3", "bucket/rows"),
        ("gs://anonymous@bucket/rows/", "gcs", "bucket/rows"),
        ("abfs://box@account.dfs.core.windows.net/rows", "abfs", "box/rows"),
    ):
        place = place_of(url)
        assert (place.files.type_name, place.path) == (kind, path)
        assert str(place) == url.partition("?")[0].rstrip("/")
        assert str(place.child("a")) == f"{place}/a"


def test_a_url_of_a_file_is_a_path(tmp_path):
    from locuscore.cli._places import LocalPlace, place_of

    place = place_of((tmp_path / "a b.csv").as_uri())
    assert isinstance(place, LocalPlace)
    assert place.local == tmp_path / "a b.csv"


def test_what_is_wrong_with_a_folder_is_one_line(guard, tmp_path, capsys):
    _, archive = guard
    frame, data = homes(40), tmp_path / "rows"
    out = ["-o", tmp_path / "out.csv"]
    data.mkdir()
    assert "it has none" in fails(capsys, "score", archive, data, *out)
    write(frame, data / "a.csv")
    assert "it has a.csv" in fails(capsys, "score", archive, data, *out)
    (data / "a.csv").unlink()
    write(frame, data / "a.parquet")
    write(frame.drop(columns="age"), data / "b.parquet")
    assert "b.parquet has no column age" in fails(capsys, "score", archive, data, *out)
    write(frame.assign(age=[[1]] * 40), data / "b.parquet")
    assert "do not fit together" in fails(capsys, "score", archive, data, *out)
    (data / "b.parquet").unlink()
    write_folder(frame, data, ["town"])
    said = fails(capsys, "score", archive, data, *out)
    assert "a.parquet and town=north/" in said
    command = ["score", archive, data / "a.parquet"]
    assert "apart" in fails(capsys, "score", archive, data, "-o", data / "out")
    said = fails(capsys, *command, *out, "--partition-by", "town", code=2)
    assert "without an ending" in said
    assert "folder is missing" in fails(capsys, *command, "-o", tmp_path / "no" / "out")
    assert "no column colour" in fails(
        capsys, *command, "-o", tmp_path / "out", "--partition-by", "colour"
    )
    assert not (tmp_path / "out").exists()


def test_a_column_cannot_lead_out_of_the_folder(tmp_path):
    import pyarrow as pa
    from pyarrow.fs import LocalFileSystem

    from locuscore.cli._datasets import write_dataset

    (tmp_path / "out").mkdir()
    for name, is_path in (("../../town", True), ("town", False)):
        table = pa.table({name: ["../../../north"], "age": [1]})
        words = (LocalFileSystem(), str(tmp_path / "out"), table.schema, iter([table]), [name])
        if is_path:
            with raises(ValueError, "named after the column '../../town'"):
                write_dataset(*words)
        else:
            write_dataset(*words)
    (folder,) = tmp_path.rglob("town*")
    assert folder.parent == tmp_path / "out"
