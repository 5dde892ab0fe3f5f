"""Losses by name, and the unit of a loss, on the command line."""

import numpy as np
import pytest

from cli_for_tests import fails, homes, run, write
from locuscore import Scorer
from locuscore.__main__ import main

pytestmark = pytest.mark.extra

BY_COLUMN = ["--target", "price", "--prediction", "quoted", "--drop", "id", "--engine", "scale"]


def test_fit_and_inspect_show_the_unit(tmp_path, capsys):
    data, archive = write(homes(200), tmp_path / "rows.csv"), tmp_path / "x.locus"
    loss = ["--loss", "cost_per_unit:1,3", "--unit", "dollars", "--tau", 1.0]
    said = run(capsys, "fit", data, *BY_COLUMN, *loss, "-o", archive)
    assert said["unit"] == "dollars"
    assert "tau are in dollars" in " ".join(said["card"].split())
    assert run(capsys, "inspect", archive)["unit"] == "dollars"
    assert main(["inspect", str(archive)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "cost_per_unit(over=1, under=3), in dollars" in text
    scorer = Scorer.load(archive)
    frame = homes(50)
    error = (frame["price"] - frame["quoted"]).to_numpy()
    rows = frame[["size", "age", "town", "quoted"]]
    found = scorer.locus.losses(rows, frame["price"])
    np.testing.assert_allclose(found, np.where(error > 0, 3 * error, -error))


def test_a_bad_loss_is_one_line(tmp_path, capsys):
    data = write(homes(100), tmp_path / "rows.csv")
    out = ["-o", tmp_path / "x.locus"]
    for loss in ("cost_per_unit:1", "cost_per_unit:0,0", "cost_per_unit:a,b"):
        assert "--loss" in fails(capsys, "fit", data, *BY_COLUMN, "--loss", loss, *out, code=2)
    said = fails(capsys, "fit", data, *BY_COLUMN, "--loss", "rmse", *out, code=2)
    assert "cost_per_unit:OVER,UNDER" in " ".join(said.split())
