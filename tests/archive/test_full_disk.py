"""A disk that is full, a real one of a megabyte: what was there before stays, and is said so."""

import os
import subprocess
import sys

import pytest

from archives_for_tests import small_scorer
from cli_for_tests import homes, read, run, write
from locuscore import Locus, Scorer, prediction_column
from locuscore.engines import Forest

pytestmark = pytest.mark.extra
ALONE = ["unshare", "--map-root-user", "--mount"]
MOUNT = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'


def on_a_small_disk(folder, script, *arguments):
    """Run a script that finds a disk of one megabyte in place of a folder."""
    command = [sys.executable, "-c", script, folder, *arguments]
    path = os.pathsep.join([*sys.path])
    return subprocess.run(
        [*ALONE, "sh", "-c", MOUNT, *map(str, [folder, *command])],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        subprocess.run([*ALONE, "sh", "-c", MOUNT, disk, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here")
    return disk


SAVE = """
import os, sys
from pathlib import Path
from archives_for_tests import assert_same_scores, rows, small_scorer
from locuscore import Scorer
from locuscore.engines import Forest

path = Path(sys.argv[1]) / "x.locus"
old = small_scorer()
old.save(path)
before = path.read_bytes()
try:
    small_scorer(engine=Forest(n_trees=300)).save(path)
except OSError as error:
    print(error)
assert path.read_bytes() == before
assert os.listdir(path.parent) == [path.name]
assert_same_scores(old, Scorer.load(path), rows(20)[0])
"""


def test_a_save_leaves_the_old_archive(folder):
    done = on_a_small_disk(folder, SAVE)
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stdout
    small_scorer(engine=Forest(n_trees=300)).save(folder / "x.locus")  # there is room here


SCORE = """
import shutil, sys
from pathlib import Path
from locuscore.__main__ import main

folder, archive, data, result = map(Path, sys.argv[1:])
output, filler = folder / "out.parquet", folder / "filler"
output.write_text("old")
filler.write_bytes(bytes(900_000))
command = ["score", str(archive), str(data), "-o", str(output)]
command += ["--block-rows", "500", "--keep-all"]
assert main(command) == 1
assert output.read_text() == "old"
assert len(list(folder.glob(".*.parts/*.arrow"))) >= 1
filler.unlink()
assert main([*command, "--json"]) == 0
assert [part.name for part in folder.iterdir()] == [output.name]
shutil.copy(output, result)
"""


def test_a_score_leaves_the_old_output_and_goes_on_when_there_is_room(folder, tmp_path, capsys):
    rows = homes(5000)
    locus = Locus(prediction_column("quoted"), engine=Forest(n_trees=3), random_state=0)
    scorer = Scorer(locus.fit(rows.drop(columns="price")[:300], rows["price"][:300]))
    archive, data = tmp_path / "x.locus", write(rows, tmp_path / "new.parquet")
    scorer.save(archive)
    result, whole = tmp_path / "result.parquet", tmp_path / "whole.parquet"
    done = on_a_small_disk(folder, SCORE, archive, data, result)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert "No space left on device" in line
    assert "the same command resumes" in line
    assert f"{folder}/.out.parquet." in line
    said = run(capsys, "score", archive, data, "-o", whole, "--block-rows", 500, "--keep-all")
    assert said["rows"] == len(read(whole)) == 5000
    assert result.read_bytes() == whole.read_bytes()
