"""The flavour of MLflow: logged and loaded without pickle, the scores of memory."""

import json
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from archives_for_tests import small_scorer
from helpers import raises, shown_block
from locuscore import ArchiveError, Locus, Scorer, prediction_column
from locuscore.engines import Forest
from predictors_for_tests import given_to_save, rows_of, scorer_of
from service_for_tests import frame, frame_scorer

pytestmark = pytest.mark.extra

KEY = b"a key of thirty-two bytes, no less"


@pytest.fixture(autouse=True)
def tracking(tmp_path, monkeypatch):
    """A store of its own, in a folder."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("LOCUSCORE_KEY_FILE", raising=False)
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(before)


def assert_same(got, expected):
    assert list(got) == list(expected)
    assert (got["flag"] == expected["flag"]).all()
    for name in list(expected)[:-1]:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-9, atol=0)


@pytest.mark.parametrize("model", ["Forest", "Auto with gamma"])
def test_a_logged_model_gives_the_scores_of_memory(model, tracking):
    from locuscore.mlflow import load_model, log_model

    scorer, (X, _) = frame_scorer(model=model), frame(60, seed=5)
    with tracking.start_run() as run:
        info = log_model(scorer, "guard", registered_model_name="guard", tags={"team": "prices"})
    expected = scorer(X)
    for uri in (info.model_uri, "models:/guard/1", f"runs:/{run.info.run_id}/guard"):
        assert_same(tracking.pyfunc.load_model(uri).predict(X), expected)
    again = load_model("models:/guard/1")
    assert_same(again(X), expected)
    assert (again.digest, again.card) == (scorer.digest, scorer.card)
    # MLflow takes text for categories, other orders and further columns.
    other = X.astype({"state": str})[["town", "state", "rooms", "size"]].assign(note=1)
    assert_same(tracking.pyfunc.load_model(info.model_uri).predict(other), expected)


@pytest.mark.parametrize("kind", ["xgboost in a pipeline", "catboost"])
def test_models_of_other_libraries_give_the_scores_of_memory(kind, tmp_path, tracking, monkeypatch):
    from locuscore.mlflow import log_model

    scorer, (X, _) = scorer_of(kind), rows_of(kind, 60, 5)
    given = given_to_save(kind)
    with tracking.start_run():
        uri = log_model(scorer, "guard", **given).model_uri
    if given:  # CatBoost's own reader is not given what nobody vouches for
        with pytest.raises(ArchiveError, match="key"):
            tracking.pyfunc.load_model(uri)
        (tmp_path / "key").write_bytes(given["key"])
        monkeypatch.setenv("LOCUSCORE_KEY_FILE", str(tmp_path / "key"))
    assert_same(tracking.pyfunc.load_model(uri).predict(X), scorer(X))


def test_a_folder_has_the_archive_the_card_and_the_report_and_no_pickle(tmp_path, tracking):
    from locuscore.mlflow import save_model
    from locuscore.report import report

    scorer, (X, y) = frame_scorer(), frame(60, seed=5)
    page = report(scorer, X, y)
    save_model(scorer, tmp_path / "model", report=page, metadata={"ticket": 7})
    folder = tmp_path / "model" / "data" / "locuscore"
    assert sorted(path.name for path in folder.iterdir()) == [
        "card.txt",
        "report.html",
        "scorer.locus",
    ]
    assert scorer.card in (folder / "card.txt").read_text()
    assert "<html" in (folder / "report.html").read_text()[:200]
    for path in (tmp_path / "model").rglob("*"):
        assert path.suffix not in {".pkl", ".pickle", ".joblib"}
        if path.is_file():
            with pytest.raises(Exception, match=r".*"):
                pickle.loads(path.read_bytes())
    model = tracking.models.Model.load(str(tmp_path / "model"))
    assert model.metadata == {"ticket": 7}
    assert model.flavors["python_function"]["loader_module"] == "locuscore.mlflow"
    assert model.flavors["locuscore"]["digest"] == scorer.digest
    needed = (tmp_path / "model" / "requirements.txt").read_text()
    assert "locuscore==" in needed
    assert "scikit-learn==" in needed
    path = tmp_path / "page.html"
    page.write(path)
    save_model(scorer, tmp_path / "second", report=path)
    written = tmp_path / "second" / "data" / "locuscore" / "report.html"
    assert written.read_bytes() == path.read_bytes()


def test_the_signature_and_the_example_are_made_of_types_and_not_of_rows(tmp_path, tracking):
    from locuscore.mlflow import save_model

    scorer, (X, _) = frame_scorer(), frame(300)
    save_model(scorer, tmp_path / "model")
    loaded = tracking.pyfunc.load_model(str(tmp_path / "model"))
    told = {spec.name: str(spec.type) for spec in loaded.metadata.signature.inputs}
    assert told == {
        "size": "DataType.double",
        "rooms": "DataType.long",
        "town": "DataType.string",
        "state": "Any",
    }
    outputs = {spec.name: str(spec.type) for spec in loaded.metadata.signature.outputs}
    assert list(outputs) == scorer.column_names
    assert outputs["flag"] == "DataType.boolean"
    saved = json.loads((tmp_path / "model" / "input_example.json").read_text())
    assert saved["data"] == [[0.5, 1, "north", "new"]]
    assert not (X["size"] == 0.5).any()
    assert np.isfinite(loaded.predict(loaded.input_example)["bound_0.25"]).all()


def test_arrays_and_labels(tmp_path, tracking):
    from locuscore.mlflow import load_model, save_model

    X = np.random.default_rng(0).uniform(size=(120, 2))
    labels = np.where(X[:, 0] > 0.5, "high", "low")
    g = LogisticRegression().fit(X, labels)
    locus = Locus(g, loss="zero_one", engine=Forest(n_trees=2), random_state=0).fit(X, labels)
    save_model(Scorer(locus), tmp_path / "model")
    got = tracking.pyfunc.load_model(str(tmp_path / "model")).predict(X)
    expected = Scorer(locus)(X)
    assert list(got["prediction"]) == list(expected["prediction"])
    np.testing.assert_allclose(got["bound_0.1"], expected["bound_0.1"], rtol=1e-9)
    assert load_model(str(tmp_path / "model")).schema.kind == "array"


def test_a_key_comes_by_argument_by_option_or_by_environment(tmp_path, tracking, monkeypatch):
    from locuscore.mlflow import load_model, save_model

    path, other = tmp_path / "key", tmp_path / "other"
    path.write_bytes(KEY)
    other.write_bytes(KEY[::-1])
    model = str(tmp_path / "model")
    save_model(frame_scorer(), model, key=KEY)
    for file in (tmp_path / "model").rglob("*"):
        assert file.is_dir() or KEY not in file.read_bytes()
    assert load_model(model, key=KEY).digest == frame_scorer().digest
    tracking.pyfunc.load_model(model, model_config={"key_file": str(path)})
    with pytest.raises(ArchiveError, match="another key"):
        tracking.pyfunc.load_model(model, model_config={"key_file": str(other)})
    monkeypatch.setenv("LOCUSCORE_KEY_FILE", str(other))
    for load in (load_model, tracking.pyfunc.load_model):
        with pytest.raises(ArchiveError, match="another key"):
            load(model)
    monkeypatch.setenv("LOCUSCORE_KEY_FILE", "")  # it was as if there were none
    with raises(ValueError, "LOCUSCORE_KEY_FILE", "empty"):
        load_model(model)
    monkeypatch.setenv("LOCUSCORE_KEY_FILE", str(other))
    save_model(frame_scorer(), tmp_path / "bare")
    with pytest.raises(ArchiveError, match="signed"):
        load_model(str(tmp_path / "bare"))


def test_what_cannot_be_loaded_is_refused_when_it_is_saved(tmp_path, tracking):
    from locuscore.mlflow import load_model, save_model

    X, y = frame(60)
    scorer = small_scorer(lambda X: np.zeros(len(X)), X, y)
    with pytest.warns(UserWarning, match="left out"), raises(ArchiveError, "has no safe format"):
        save_model(scorer, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    spans = X[["size"]].assign(age=np.full(60, np.timedelta64(3, "D")))
    g = LinearRegression().fit(X[["size"]], y)
    with_spans = small_scorer(lambda X: g.predict(X[["size"]]), spans, y)
    with raises(ValueError, "'age'", "duration", "MLflow has no type"):
        save_model(with_spans, tmp_path / "model")
    foreign = {"loader_module": "locuscore.mlflow", "pip_requirements": ["numpy"]}
    tracking.pyfunc.save_model(str(tmp_path / "foreign"), **foreign)
    with raises(ValueError, "no model of locuscore", "python_function"):
        load_model(str(tmp_path / "foreign"))


def test_missing_values_pass_in_floats_and_not_in_whole_numbers(tmp_path, tracking):
    """MLflow's own check, as the docs say; the scorer takes both."""
    from locuscore.mlflow import save_model

    X, y = frame(200, seed=5)
    rows = X.astype({"rooms": float})
    rows.loc[3, "rooms"] = np.nan
    for number, kind in enumerate((int, float)):
        scorer = small_scorer(prediction_column("size"), X.astype({"rooms": kind}), y)
        save_model(scorer, tmp_path / str(number))
        loaded = tracking.pyfunc.load_model(str(tmp_path / str(number)))
        if kind is float:
            assert_same(loaded.predict(rows), scorer(rows))
            continue
        with pytest.raises(tracking.MlflowException, match="missing values"):
            loaded.predict(rows)


def test_the_block_of_the_docs_runs(tracking):
    from locuscore.report import report

    scorer, (X, y) = frame_scorer(), frame(60, seed=5)
    names = {"scorer": scorer, "page": report(scorer, X, y)}
    exec(shown_block("mlflow.md", "log_model"), names)
    assert_same(tracking.pyfunc.load_model("models:/guard/1").predict(X), scorer(X))


def test_a_model_cannot_bring_the_key_that_vouches_for_it(tmp_path, tracking, monkeypatch):
    from locuscore.mlflow import save_model

    (tmp_path / "ours").write_bytes(KEY)
    (tmp_path / "theirs").write_bytes(KEY[::-1])
    forged = {"key": KEY[::-1], "model_config": {"key_file": str(tmp_path / "theirs")}}
    save_model(small_scorer(), tmp_path / "model", **forged)
    monkeypatch.setenv("LOCUSCORE_KEY_FILE", str(tmp_path / "ours"))
    with pytest.raises(ArchiveError, match="not that of the given key"):
        tracking.pyfunc.load_model(str(tmp_path / "model"))


@pytest.mark.parametrize("data", ["../other/data/locuscore", "/other"])
def test_a_model_cannot_name_an_archive_outside_of_it(tmp_path, data):
    from locuscore.mlflow import load_model, save_model

    for name in ("model", "other"):
        save_model(small_scorer(), tmp_path / name)
    about = tmp_path / "model" / "MLmodel"
    flavor = about.read_text().replace(
        "    data: data/locuscore\n    digest", f"    data: {data}\n    digest"
    )
    assert data in flavor
    about.write_text(flavor)
    with raises(ValueError, "outside of it"):
        load_model(str(tmp_path / "model"))
