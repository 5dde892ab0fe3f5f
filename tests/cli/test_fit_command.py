"""`locuscore fit`, `certify` and `inspect`: what they write and what they refuse."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVR

from cli_for_tests import FILES, assert_same, fails, homes, read, run, write
from locuscore import Locus, Scorer, prediction_column
from locuscore.__main__ import main

pytestmark = pytest.mark.extra

BY_COLUMN = ["--target", "price", "--prediction", "quoted", "--drop", "id"]
QUICK = ["--engine", "scale"]


@pytest.mark.parametrize("kind", FILES)
def test_fit_writes_what_python_would(kind, tmp_path, capsys):
    frame = homes(400)
    data, archive = write(frame, tmp_path / f"rows.{kind}"), tmp_path / "guard.locus"
    options = ["--tau", 0.5, "--alpha", 0.1, "--alpha", 0.05, "--seed", 3, "-o", archive]
    said = run(capsys, "fit", data, *BY_COLUMN, *options)
    features = frame[["size", "age", "town", "quoted"]]
    locus = Locus(prediction_column("quoted"), random_state=3).fit(features, frame["price"])
    expected = Scorer(locus, locus.tau_rule(0.5, 0.1), alphas=(0.1, 0.05))
    loaded = Scorer.load(archive)
    assert_same(loaded(features), expected(features))
    assert loaded.rule == expected.rule
    assert said["card"] == expected.card
    assert said["rows_read"] == said["rows_used"] == 400
    assert said["n_calibration"] == 99


def test_the_certified_rule_is_that_of_python(tmp_path, capsys):
    frame = homes(600)
    data, archive = write(frame, tmp_path / "rows.csv"), tmp_path / "guard.locus"
    rule = ["--rule", "certify", "--tau", 1.0, "--eta", 0.2, "--delta", 0.2]
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, *rule, "-o", archive)
    from locuscore.engines import Scale

    features = frame[["size", "age", "town", "quoted"]]
    locus = Locus(prediction_column("quoted"), engine=Scale(), random_state=0)
    locus.fit(features, frame["price"])
    assert Scorer.load(archive).rule == locus.certify(1.0, 0.2, 0.2)


@pytest.mark.parametrize("score", ["tail", "exceedance", "bound"])
def test_certify_gives_an_archive_a_new_rule(score, tmp_path, capsys):
    data, old = write(homes(1000), tmp_path / "rows.csv"), tmp_path / "old.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", old)
    fresh = homes(500, seed=1)
    options = ["-t", "price", "--tau", 1.0, "--eta", 0.3, "--score", score]
    new = tmp_path / "new.locus"
    before = old.read_bytes()
    said = run(capsys, "certify", old, write(fresh, tmp_path / "f.arrow"), *options, "-o", new)
    scorer, certified = Scorer.load(old), Scorer.load(new)
    features = fresh[["size", "age", "town", "quoted"]]
    rule = scorer.locus.certify(1.0, 0.3, 0.1, features, fresh["price"], of=certified.rule.score)
    assert certified.rule == rule
    assert rule.score.kind == score
    assert said["card"] == str(rule)
    assert old.read_bytes() == before


def test_a_certificate_that_accepts_nothing_has_its_own_code(tmp_path, capsys):
    data, archive = write(homes(300), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", archive)
    rule = ["--tau", 0.1, "--eta", 0.05]
    fresh = write(homes(100, seed=1), tmp_path / "fresh.csv")
    for name, command in {
        "fit": ["fit", data, *BY_COLUMN, *QUICK, "--rule", "certify", *rule],
        "certify": ["certify", archive, fresh, *rule],
    }.items():
        output = tmp_path / f"{name}.locus"
        output.write_text("old")
        words = [*map(str, [*command, "-o", output])]
        assert main(words) == 3
        out, err = capsys.readouterr()
        assert "Nothing is accepted" in " ".join(out.split())
        assert "Saved" not in out
        assert err.startswith("error: ")
        assert "--allow-empty" in err
        assert main([*words, "--quiet"]) == 3
        assert capsys.readouterr() == ("", err)
        assert main([*words, "--json"]) == 3
        said = json.loads(capsys.readouterr().out)
        assert said["archive"] is None
        assert said["rule"]["threshold"] == "-inf"
        assert output.read_text() == "old"
        assert run(capsys, *words, "--allow-empty")["archive"] == str(output)
        assert Scorer.load(output).rule.threshold == -np.inf


def test_starts_are_those_of_python(tmp_path, capsys):
    data, archive = write(homes(400), tmp_path / "rows.csv"), tmp_path / "guard.locus"
    rule = ["--tau", 1.0, "--eta", 0.3, "--starts", 0.25, "--starts", 0.6]
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "--rule", "certify", *rule, "-o", archive)
    assert len(Scorer.load(archive).rule.evidence["starts_at_n"]) == 2
    fresh, new = write(homes(500, seed=1), tmp_path / "fresh.csv"), tmp_path / "new.locus"
    run(capsys, "certify", archive, fresh, *rule, "-o", new)
    locus = Scorer.load(archive).locus
    X = homes(500, seed=1)[["size", "age", "town", "quoted"]]
    y = homes(500, seed=1)["price"]
    assert Scorer.load(new).rule == locus.certify(1.0, 0.3, 0.1, X, y, starts=[0.25, 0.6])


def model(names=("size", "age"), kind=LinearRegression, values=False):
    frame = homes(300, seed=9)
    X = frame[list(names)]
    return kind().fit(X.to_numpy() if values else X, frame["price"])


@pytest.mark.parametrize("values", [False, True], ids=["names", "positions"])
def test_a_skops_file(values, tmp_path, capsys):
    import skops.io

    g = model(values=values)
    skops.io.dump(g, tmp_path / "g.skops")
    data = write(homes(200), tmp_path / "rows.csv")
    # A model that knows no names is given those named here; the other says what it wants.
    named = ["--feature", "size", "--feature", "age"] if values else []
    archive = tmp_path / "x.locus"
    options = ["-t", "price", "-p", tmp_path / "g.skops", *QUICK, *named, "-o", archive]
    said = run(capsys, "fit", data, *options)
    assert said["features"] == ["size", "age"]
    run(capsys, "score", archive, data, "-o", tmp_path / "out.csv")
    X = homes(200)[["size", "age"]]
    expected = g.predict(X.to_numpy() if values else X)
    np.testing.assert_allclose(read(tmp_path / "out.csv")["prediction"], expected, rtol=1e-9)
    if values:
        bad = ["-t", "price", "-p", tmp_path / "g.skops", "-o", archive]
        assert "takes 2 columns, but 5 are left" in fails(capsys, "fit", data, *bad)


def test_no_archive_is_written_over_the_predictor(tmp_path, capsys):
    import skops.io

    path = tmp_path / "g.skops"
    skops.io.dump(model(), path)
    before = path.read_bytes()
    data = write(homes(300), tmp_path / "rows.csv")
    archive = tmp_path / "guard.locus"
    run(capsys, "fit", data, "-t", "price", "-p", path, *QUICK, "-o", archive)
    fit = ["fit", data, "-t", "price"]
    certify = ["certify", archive, data, "--tau", 1, "--eta", 0.5]
    for command in (fit, certify):
        assert "another file than" in fails(capsys, *command, "-p", path, "-o", path, code=2)
    assert path.read_bytes() == before


def test_foreign_types_need_trust(tmp_path, capsys):
    import skops.io

    skops.io.dump(model(kind=SVR), tmp_path / "g.skops")
    data, archive = write(homes(100), tmp_path / "rows.csv"), tmp_path / "x.locus"
    options = ["-t", "price", "-p", tmp_path / "g.skops", *QUICK, "-o", archive]
    err = fails(capsys, "fit", data, *options)
    assert "sklearn.svm._classes.SVR" in err
    assert "--trust" in err
    trust = ["--trust", "sklearn.svm._classes.SVR"]
    assert main([*map(str, ["fit", data, *options, *trust])]) == 0
    assert "warning: the predictor holds types" in capsys.readouterr().err
    out = ["-o", tmp_path / "out.csv"]
    assert "--trust TYPE" in fails(capsys, "score", archive, data, *out)
    assert run(capsys, "score", archive, data, *out, *trust)["rows"] == 100


def test_a_pickle_needs_trust(tmp_path, capsys):
    import joblib

    joblib.dump(model(), tmp_path / "g.joblib")
    data = write(homes(100), tmp_path / "rows.csv")
    options = ["-t", "price", "-p", tmp_path / "g.joblib", *QUICK, "-o", tmp_path / "x.locus"]
    assert "--trust-pickle" in fails(capsys, "fit", data, *options)
    said = run(capsys, "fit", data, *options, "--trust-pickle")
    assert said["predictor"] == "LinearRegression"


@pytest.mark.parametrize("by_name", [False, True], ids=["one input", "an input per column"])
def test_an_onnx_file(by_name, tmp_path, capsys):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType

    g = model(values=True)
    if by_name:
        from sklearn.compose import make_column_transformer
        from sklearn.pipeline import make_pipeline

        same = make_column_transformer(("passthrough", ["size", "age"]))
        frame = homes(300, seed=9)
        g = make_pipeline(same, LinearRegression()).fit(frame[["size", "age"]], frame["price"])
        kinds = [(name, DoubleTensorType([None, 1])) for name in ("size", "age")]
    else:
        kinds = [("X", DoubleTensorType([None, 2]))]
    (tmp_path / "g.onnx").write_bytes(to_onnx(g, initial_types=kinds).SerializeToString())
    data, archive = write(homes(200), tmp_path / "rows.csv"), tmp_path / "x.locus"
    options = ["-t", "price", "-p", tmp_path / "g.onnx", "--feature", "size", "--feature", "age"]
    run(capsys, "fit", data, *options, *QUICK, "-o", archive)
    out = ["-o", tmp_path / "out.csv"]
    err = fails(capsys, "score", archive, data, *out)
    assert "is not in it" in err
    assert "--predictor MODEL" in err
    run(capsys, "score", archive, data, "-p", tmp_path / "g.onnx", *out)
    X = homes(200)[["size", "age"]]
    expected = g.predict(X if by_name else X.to_numpy())
    np.testing.assert_allclose(read(tmp_path / "out.csv")["prediction"], expected, rtol=1e-5)


def test_an_onnx_classifier_gives_probabilities(tmp_path, capsys):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    frame = homes(300).assign(dear=lambda f: (f["price"] > 1.0).astype(int))
    g = LogisticRegression().fit(frame[["size", "age"]].to_numpy(), frame["dear"])
    kinds, plain = [("X", FloatTensorType([None, 2]))], {id(g): {"zipmap": False}}
    made = to_onnx(g, initial_types=kinds, options=plain)
    (tmp_path / "g.onnx").write_bytes(made.SerializeToString())
    data = write(frame[["size", "age", "dear"]], tmp_path / "rows.csv")
    options = ["-t", "dear", "-p", tmp_path / "g.onnx", "--loss", "brier", *QUICK]
    said = run(capsys, "fit", data, *options, "-o", tmp_path / "x.locus")
    assert said["loss"] == "brier"
    assert said["predictor"] == "OnnxClassifier"


def test_objects_of_a_module(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "def g(X):\n    return X['size']\n\ndef double(y, p):\n    return 2 * abs(y - p)\n"
    (tmp_path / "parts_of_ours.py").write_text(code)
    data, archive = write(homes(100), tmp_path / "rows.csv"), tmp_path / "x.locus"
    options = ["-t", "price", "-p", "parts_of_ours:g", *QUICK, "-o", archive]
    assert run(capsys, "fit", data, *options, "--loss", "parts_of_ours:double")["loss"] == "double"
    assert run(capsys, "fit", data, *options, "--loss", "pinball:0.8")["loss"] == "pinball(0.8)"
    options[3] = "parts_of_ours:h"
    assert "has no attribute 'h'" in fails(capsys, "fit", data, *options)
    options[3] = "parts_of_nobody:h"
    assert "no module parts_of_nobody" in fails(capsys, "fit", data, *options)
    options[3] = "rows.csv"
    assert ".skops" in fails(capsys, "fit", data, *options)


def test_labels_as_text_and_whole_numbers(tmp_path, capsys):
    frame = homes(200)
    for truth, guess in (("town", "said"), ("code", "guess")):
        labels = frame["town"] if truth == "town" else (frame["town"] == "north").astype(int)
        data = frame.assign(**{truth: labels, guess: np.roll(labels, 1)})[["size", truth, guess]]
        options = ["-t", truth, "--prediction", guess, "--loss", "zero_one", *QUICK]
        path = write(data, tmp_path / "rows.csv")
        run(capsys, "fit", path, *options, "-o", tmp_path / "x.locus")
        run(capsys, "score", tmp_path / "x.locus", path, "-o", tmp_path / "out.csv")
        assert (read(tmp_path / "out.csv")["prediction"] == data[guess]).all()


def test_large_files_are_sampled_and_it_is_said(tmp_path, capsys):
    data, archive = write(homes(500), tmp_path / "rows.parquet"), tmp_path / "x.locus"
    options = [*BY_COLUMN, *QUICK, "--max-rows", 150, "-o", archive]
    assert main([*map(str, ["fit", data, *options])]) == 0
    assert "Used 150 of 500 rows" in capsys.readouterr().err
    said = run(capsys, "fit", data, *options)
    assert (said["rows_read"], said["rows_used"], said["n_calibration"]) == (500, 150, 79)


def test_a_sample_of_categories(tmp_path, capsys):
    frame = homes(700)
    frame["town"] = frame["town"].astype("category")
    for kind in ("parquet", "arrow"):
        data = write(frame, tmp_path / f"rows.{kind}")
        options = [*BY_COLUMN, *QUICK, "--max-rows", 200, "-o", tmp_path / "x.locus"]
        assert run(capsys, "fit", data, *options)["rows_used"] == 200
        said = run(capsys, "inspect", tmp_path / "x.locus")
        assert {"name": "town", "type": "Categorical"} in said["features"]


def test_samples_are_uniform(rng):
    import pyarrow as pa

    from locuscore.cli._sample import sample_rows

    batches = [pa.record_batch({"i": np.arange(a, a + 7)}) for a in range(0, 70, 7)]
    counts = np.zeros(70)
    for seed in range(4000):
        sample = sample_rows(batches, 10, seed)
        kept = sample.rows.column("i").to_numpy()
        assert len(kept) == 10
        assert (np.diff(kept) > 0).all()
        assert sample.n_read == 70
        counts[kept] += 1
    # Each row is in a sample with probability 1/7; the variance of a count is 4000 * 6 / 49.
    assert ((counts - 4000 / 7) ** 2).sum() / (4000 * 6 / 49) < 150
    assert np.abs(counts - 4000 / 7).max() < 5.5 * np.sqrt(4000 * 6 / 49)


def test_dates_and_decimals(tmp_path, capsys):
    import decimal

    import pandas as pd

    frame = homes(120)
    frame["day"] = [d.date() for d in pd.date_range("2020-01-01", periods=120)]
    frame["fee"] = [decimal.Decimal(i) / 4 for i in range(120)]
    archive = tmp_path / "x.locus"
    data = write(frame, tmp_path / "rows.parquet")
    run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", archive)
    run(capsys, "score", archive, data, "-o", tmp_path / "one.csv")
    run(capsys, "score", archive, write(frame, tmp_path / "r.csv"), "-o", tmp_path / "two.csv")
    assert_same(read(tmp_path / "one.csv"), read(tmp_path / "two.csv"))


def test_ids_and_times_are_warned_of_unless_left_out(tmp_path, capsys):
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = homes(300).assign(
        day=pd.date_range("2024-01-01", periods=300),
        code=[f"c{i}" for i in rng.permutation(300)],
        number=rng.permutation(300) + 10_000,
        income=rng.choice(10**7, 300, replace=False),  # distinct, as chance would have it
        cents=np.round(rng.uniform(size=300), 6),
        group=rng.choice(["a", "b"], 300),
        sold=rng.choice(["20150310T000000", "20140502T000000"], 300),  # as in the homes data
        house_id=[7129300520, *rng.choice(10**10, 298, replace=False), 7129300520],  # sold twice
        paid=rng.choice(10**10, 300),
    )
    columns = ["--target", "price", "--prediction", "quoted", *QUICK, "-o", tmp_path / "x.locus"]
    for kind in FILES:
        data = write(frame, tmp_path / f"rows.{kind}")
        assert main([*map(str, ["fit", data, *columns])]) == 0
        err = capsys.readouterr().err
        found = [line.split()[2] for line in err.splitlines() if line.startswith("warning: column")]
        assert sorted(found) == ["code", "day", "house_id", "id", "number", "sold"]
        assert all(f"Leave it out with --drop {name}." in err for name in found)
    dropped = [word for name in found for word in ("--drop", name)]
    named = [word for name in ("size", "id") for word in ("--feature", name)]
    for options in (dropped, named, ["--quiet"]):
        assert main([*map(str, ["fit", data, *columns, *options])]) == 0
        assert "warning: column" not in capsys.readouterr().err


def test_wrong_use_is_one_line(tmp_path, capsys):
    data, out = write(homes(60), tmp_path / "rows.csv"), ["-o", tmp_path / "x.locus"]
    good = [*BY_COLUMN, *QUICK, *out]

    def refused(*options, path=data, code=1):
        return fails(capsys, "fit", path, *options, code=code)

    assert "'--target'" in refused("--prediction", "quoted", *out, code=2)
    assert "either --prediction" in refused("-t", "price", *out, code=2)
    assert "either --prediction" in refused(*good, "-p", "a:b", code=2)
    assert "unknown engine 'tree'" in refused(*good, "--engine", "tree", code=2)
    assert "unknown loss 'cubic'" in refused(*good, "--loss", "cubic", code=2)
    assert "between 0 and 1" in refused(*good, "--loss", "pinball:2", code=2)
    assert "needs --tau" in refused(*good, "--rule", "tau", code=2)
    assert "no use for --tau" in refused(*good, "--rule", "none", "--tau", 1, code=2)
    assert "belong together" in refused(*good, "--rule", "certify", "--tau", 1, code=2)
    assert "belong together" in refused(*good, "--tau", 1, "--eta", 0.1, code=2)
    assert "--rule certify" in refused(*good, "--tau", 1, "--starts", 0.1, code=2)
    assert "--rule certify" in refused(*good, "--tau", 1, "--allow-empty", code=2)
    empty = ["--rule", "certify", "--tau", 1, "--eta", 0.1, "--starts", 0]
    assert "shares of the rows" in refused(*good, *empty)
    assert "alpha" in refused(*good, "--alpha", 2)
    assert "no column cost" in refused("-t", "cost", "--prediction", "quoted", *out)
    assert "no column guess" in refused("-t", "price", "--prediction", "guess", *out)
    assert "no column colour" in refused(*good, "--drop", "colour")
    assert "cannot be a feature" in refused(*good, "--feature", "price")
    assert "cannot be a feature" in refused("-t", "price", "--prediction", "price", *out)
    assert "its folder is missing" in refused(*good, "-o", tmp_path / "none" / "x.locus")
    assert "another file" in refused(*good, "-o", data, code=2)
    assert "there is no file" in refused(*good, path=tmp_path / "none.csv")
    assert "unknown ending" in refused(*good, path=tmp_path / "rows.xlsx")
    assert "has no rows" in refused(*good, path=write(homes(9)[:0], tmp_path / "none.parquet"))
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in refused(*good, path=tmp_path / "empty.csv")
    frame = homes(60)
    frame.loc[[3, 5], "price"] = np.nan
    for kind in FILES:
        path = write(frame, tmp_path / f"gaps.{kind}")
        assert "price is missing in 2 rows" in refused(*good, path=path)
    text = write(frame.assign(price="dear"), tmp_path / "text.csv")
    assert "holds text" in refused(*good, path=text)
    assert not (tmp_path / "x.locus").exists()


def test_inspect_shows_manifest_and_card(tmp_path, capsys):
    data, archive = write(homes(100), tmp_path / "rows.csv"), tmp_path / "x.locus"
    fitted = run(capsys, "fit", data, *BY_COLUMN, *QUICK, "-o", archive)
    said = run(capsys, "inspect", archive)
    assert said["card"] == fitted["card"]
    assert [part["name"] for part in said["features"]] == ["size", "age", "town", "quoted"]
    assert main(["inspect", str(archive)]) == 0
    text = capsys.readouterr().out
    assert "Theorem 1" in text
    assert "town (String)" in text
    assert said["signals"].startswith("x (4 columns)")  # the quoted price is one of them
    assert " ".join(said["signals"].split()) in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80 + len(str(tmp_path))
    assert "no archive" in fails(capsys, "inspect", data)
    assert "there is no file" in fails(capsys, "inspect", tmp_path / "none.locus")
    damaged = bytearray(archive.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    archive.write_bytes(damaged)
    assert "damaged" in fails(capsys, "inspect", archive)
