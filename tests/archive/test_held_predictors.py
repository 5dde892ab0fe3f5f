"""Each kind of predictor scores the same in memory, from an archive and on the command line."""

import json
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from archives_for_tests import assert_same_scores, forge, members_of, rows, small_scorer
from cli_for_tests import assert_same, fails, read, run, write
from helpers import assert_close, raises, warns
from locuscore import ArchiveError, LocusWarning, Scorer, inspect_archive, load_predictor
from locuscore.__main__ import main
from locuscore._archive.held_models import HeldModel
from locuscore._archive.onnx_models import check_no_external_data, read_onnx
from predictors_for_tests import (
    KEY,
    KINDS,
    NET,
    boosted,
    given_to_load,
    given_to_save,
    network,
    rows_of,
    scorer_of,
)

pytestmark = pytest.mark.extra

SIGNED = [name for name, kind in KINDS.items() if kind.is_signed]


@pytest.mark.parametrize("name", KINDS)
def test_the_same_scores_from_memory_archive_and_command_line(
    name, path, tmp_path, capsys, monkeypatch
):
    scorer, (X, _) = scorer_of(name), rows_of(name, 60, 1)
    scorer.save(path, **given_to_save(name))
    loaded = Scorer.load(path, **given_to_load(name))
    assert_same_scores(scorer, loaded, X)
    # What was loaded can be saved and loaded again.
    loaded.save(path, **given_to_save(name))
    assert_same_scores(scorer, Scorer.load(path, **given_to_load(name)), X)
    options = []
    if KINDS[name].is_signed:
        (tmp_path / "key").write_bytes(KEY)
        options = ["--key-file", tmp_path / "key"]
    if KINDS[name].is_torch:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "net_of_ours.py").write_text(NET.format(seed=2))
        options = ["-p", "net_of_ours:g"]
    data, out = write(X, tmp_path / "rows.parquet"), tmp_path / "out.parquet"
    run(capsys, "score", path, data, *options, "-o", out)
    assert_same(read(out), scorer(X))


def test_the_manifest_says_what_is_held(path, capsys):
    words = {}
    for name in ("xgboost", "torch", "catboost classifier in a pipeline", "onnx"):
        scorer_of(name).save(path, **given_to_save(name))
        words[name] = inspect_archive(path)["predictor_held"]
    assert words == {
        "xgboost": "in the archive",
        "torch": "its weights: pass one made as in fit (--predictor module:object)",
        "catboost classifier in a pipeline": "in the archive, read with its key only",
        "onnx": "in the archive, read with its key only",
    }
    assert main(["inspect", str(path)]) == 0
    assert "OnnxModel, in the archive, read with its key only" in capsys.readouterr().out
    with warns(LocusWarning, "left out"):
        small_scorer(lambda X: X[:, 0]).save(path)
    assert inspect_archive(path)["predictor_held"].startswith("not in the archive")


# Only with a key


@pytest.mark.parametrize("name", SIGNED)
def test_without_a_key_it_is_left_out_and_said_how_it_is_held(name, path):
    scorer = scorer_of(name)
    with warns(LocusWarning, "left out", "scorer.save(path, key=key)", "native code"):
        scorer.save(path)
    assert not [member for member in members_of(path) if member.endswith((".cbm", ".onnx"))]
    with raises(ArchiveError, "Scorer.load(path, predictor=g)"):
        Scorer.load(path)


@pytest.mark.parametrize("name", SIGNED)
def test_it_is_read_only_where_the_key_was_verified(name, path, monkeypatch, capsys, tmp_path):
    scorer, (X, _) = scorer_of(name), rows_of(name, 20, 1)
    scorer.save(path, key=KEY)

    def read_anyway(*_):
        raise AssertionError("the model was looked at")

    for module in ("catboost_models.read_catboost", "onnx_models.read_onnx"):
        monkeypatch.setattr(f"locuscore._archive.{module}", read_anyway)
    message = ("native code that cannot be checked", "Scorer.load(path, key=...)")
    with raises(ArchiveError, *message):
        Scorer.load(path)
    data = write(X, tmp_path / "rows.parquet")
    assert "--key-file FILE" in fails(capsys, "score", path, data, "-o", tmp_path / "out.parquet")
    # Your own predictor needs no key.
    assert_same_scores(scorer, Scorer.load(path, predictor=scorer.locus.predictor_), X)
    forge(path, {})  # the same members, without the signature
    with raises(ArchiveError, "not signed"):
        Scorer.load(path, key=KEY)
    with raises(ArchiveError, *message):
        Scorer.load(path)


def test_an_engine_with_such_a_model_needs_a_key_as_well(path):
    from locuscore.engines import Scale

    X, y = rows()
    engine = Scale(boosted("catboost", "CatBoostRegressor"))
    scorer = small_scorer(X=X, y=y, engine=engine)
    with raises(ValueError, "a CatBoost model is read by native code", "signed archive"):
        scorer.save(path)
    scorer.save(path, key=KEY)
    assert_same_scores(scorer, Scorer.load(path, key=KEY), X)
    with raises(ArchiveError, "Scorer.load(path, key=...)"):
        Scorer.load(path, predictor=Ridge().fit(X, y))


# Inside models of scikit-learn


def lgbm(kind="LGBMRegressor"):
    return boosted("lightgbm", kind)


def xgb(kind="XGBRegressor"):
    return boosted("xgboost", kind)


WRAPPED = {
    "target": lambda: TransformedTargetRegressor(lgbm(), func=np.log1p, inverse_func=np.expm1),
    "search": lambda: GridSearchCV(xgb(), {"max_depth": [1, 2]}, cv=2),
    "stack": lambda: StackingRegressor([("a", lgbm()), ("b", xgb()), ("c", Ridge())], xgb(), cv=2),
    "bags": lambda: BaggingRegressor(lgbm(), 3, max_features=2, random_state=0),
    "pipeline in a pipeline": lambda: make_pipeline(
        StandardScaler(), make_pipeline(StandardScaler(), xgb())
    ),
}
CLASSES = {
    "votes": lambda: VotingClassifier(
        [("a", lgbm("LGBMClassifier")), ("b", xgb("XGBClassifier")), ("c", LogisticRegression())],
        voting="soft",
    ),
    "calibrated": lambda: CalibratedClassifierCV(lgbm("LGBMClassifier"), cv=2),
    "pipeline": lambda: make_pipeline(StandardScaler(), xgb("XGBClassifier")),
}


@pytest.mark.parametrize("name", [*WRAPPED, *CLASSES])
def test_models_inside_models_come_back(name, path):
    X, y = rows()
    y = np.abs(y) if name in WRAPPED else np.digitize(y, [0.3, 0.7])
    model = (WRAPPED | CLASSES)[name]().fit(X, y)
    scorer = small_scorer(model, X, y, loss="absolute" if name in WRAPPED else "brier")
    scorer.save(path)
    loaded = Scorer.load(path)
    assert_same_scores(scorer, loaded, X)
    loaded.save(path)
    assert_same_scores(scorer, Scorer.load(path), X)
    assert model.predict(X[:2]).shape == (2,)  # the caller's own is as it was


def test_a_model_that_was_not_fitted_says_so():
    with raises(NotFittedError, "not fitted when it was saved"):
        HeldModel().predict(np.zeros((1, 2)))
    with raises(TypeError, "cannot be fitted again"):
        clone(HeldModel(0)).fit(np.zeros((1, 2)))


def test_text_classes_stay_text(path):
    X, y = rows()
    labels = np.array(["low", "high"])[(y > 0.5).astype(int)]
    model = make_pipeline(StandardScaler(), lgbm("LGBMClassifier")).fit(X, labels)
    scorer = small_scorer(model, X, labels, loss="zero_one")
    scorer.save(path)
    assert_same_scores(scorer, Scorer.load(path), X)


PLACES = {
    "number far away": lambda node: node.update(number=1),
    "negative number": lambda node: node.update(number=-1),
    "number that is text": lambda node: node.update(number="0"),
    "no number": lambda node: node.update(number=None),
}


@pytest.mark.parametrize("what", PLACES)
def test_a_forged_place_is_refused(what, path):
    from archives_for_tests import forged_schema

    X, y = rows()
    small_scorer(make_pipeline(StandardScaler(), lgbm()).fit(X, y), X, y).save(path)
    members = members_of(path)
    state = json.loads(members["scorer.json"])["locus"]["predictor"]

    def change(schema):
        held = json.dumps(schema)
        node = {"number": 0}
        PLACES[what](node)
        assert '"content": "0"' in held
        value = json.dumps(json.dumps(node["number"]))
        place = held.index('"number": {')
        spot = held.index('"content": "0"', place)
        changed = held[:spot] + f'"content": {value}' + held[spot + len('"content": "0"') :]
        schema.clear()
        schema.update(json.loads(changed))

    data = forged_schema(members[state["member"]], change)
    forge(path, {state["member"]: data})
    with raises(ArchiveError, "model"):
        Scorer.load(path)


def test_models_without_a_place_are_refused(path):
    X, y = rows()
    small_scorer(make_pipeline(StandardScaler(), Ridge()).fit(X, y), X, y).save(path)
    other = path.with_name("other.locus")
    small_scorer(lgbm().fit(X, y), X, y).save(other)
    theirs = json.loads(members_of(other)["scorer.json"])["locus"]["predictor"]
    state = json.loads(members_of(path)["scorer.json"])
    state["locus"]["predictor"]["beside"] = [theirs | {"member": "parts/theirs.txt"}]
    text = members_of(other)[theirs["member"]]
    forge(path, {"scorer.json": json.dumps(state).encode(), "parts/theirs.txt": text})
    with raises(ArchiveError, "no place"):
        Scorer.load(path)


# What is not held


def test_a_model_that_cannot_be_checked_is_left_out_and_said(path):
    import lightgbm
    import xgboost

    X, y = rows()
    scorer = small_scorer(xgboost.XGBRegressor(booster="gblinear").fit(X, y), X, y)
    with warns(LocusWarning, "XGBRegressor", "left out", "'gblinear' are not held", "ElasticNet"):
        scorer.save(path)
    assert_same_scores(scorer, Scorer.load(path, predictor=scorer.locus.predictor_), X)
    linear = lightgbm.LGBMRegressor(n_estimators=2, linear_tree=True, verbose=-1, n_jobs=1)
    scorer = small_scorer(make_pipeline(StandardScaler(), linear).fit(X, y), X, y)
    with warns(LocusWarning, "Pipeline", "left out", "linear trees"):
        scorer.save(path)
    assert not [member for member in members_of(path) if member.endswith(".txt")]


# Weights of torch


@pytest.fixture
def saved(path):
    scorer = scorer_of("torch")
    scorer.save(path)
    return path


def test_weights_are_put_into_the_module_that_is_passed(saved):
    own, (X, _) = network(seed=5), rows_of("torch", 30, 1)
    expected = network().predict(X)
    assert not np.allclose(own.predict(X), expected)
    Scorer.load(saved, predictor=own)
    assert (own.predict(X) == expected).all()


def test_another_predictor_keeps_its_weights_where_it_is_allowed(saved):
    own, (X, _) = network(seed=5), rows_of("torch", 30, 1)
    before = own.predict(X)
    Scorer.load(saved, predictor=own, allow_another_predictor=True)
    assert (own.predict(X) == before).all()


def test_without_a_module_it_says_what_to_pass(saved):
    with raises(ArchiveError, "the weights of its predictor", "Scorer.load(path, predictor=g)"):
        Scorer.load(saved)


def test_a_module_of_another_form_is_refused_and_left_as_it_was(saved):
    import torch

    from locuscore.torch import TorchPredictor

    def refused(*modules, said):
        before = [{k: v.clone() for k, v in m.state_dict().items()} for m in modules]
        with raises(ArchiveError, *said):
            Scorer.load(saved, predictor=TorchPredictor(list(modules)))
        for module, old in zip(modules, before, strict=True):
            assert all(torch.equal(v, old[k]) for k, v in module.state_dict().items())

    linear = torch.nn.Linear(2, 1).double()
    refused(linear, said=["the module Linear", "has no 0.bias", "none of bias, weight"])
    whole = network().modules[0]
    refused(whole, linear, said=["weights of 1 modules", "has 2"])
    refused(network().modules[0].float(), said=["0.weight are float64", "has float32"])
    wide = network().modules[0]
    wide[0] = torch.nn.Linear(3, 5).double()
    refused(wide, said=["0.weight", "of shape (5, 2)", "of shape (5, 3)"])
    lazy = network().modules[0]
    lazy[0] = torch.nn.LazyLinear(5, dtype=torch.float64)
    with raises(ArchiveError, "no shapes yet"):
        Scorer.load(saved, predictor=TorchPredictor(lazy))


def test_weights_that_are_refused_do_not_stay_in_the_module(saved):
    """They fit the module; what is wrong with the archive comes to light afterwards."""
    import torch

    own = network(seed=5)
    before = {name: value.clone() for name, value in own.modules[0].state_dict().items()}
    state = json.loads(members_of(saved)["scorer.json"]) | {"alphas": [7.0]}
    forge(saved, {"scorer.json": json.dumps(state).encode()})
    with raises(ArchiveError, "alpha"):
        Scorer.load(saved, predictor=own)
    assert all(torch.equal(v, before[k]) for k, v in own.modules[0].state_dict().items())


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_weights_of_every_type_come_back(kind, path):
    import torch

    from locuscore.torch import TorchPredictor

    def net(seed):
        torch.manual_seed(seed)
        return TorchPredictor(torch.nn.Linear(3, 1).to(getattr(torch, kind)))

    X, y = rows()
    scorer = small_scorer(net(0), X, y)
    scorer.save(path)
    loaded = Scorer.load(path, predictor=net(1))
    for one, other in zip(*(s.locus.predictor_.modules for s in (scorer, loaded)), strict=True):
        assert torch.equal(one.weight, other.weight)


def test_a_module_with_its_own_predict_is_held_as_well(path):
    import torch

    class Net(torch.nn.Linear):
        def predict(self, X):
            with torch.no_grad():
                return self(torch.as_tensor(np.asarray(X))).numpy()[:, 0]

    X, y = rows()
    scorer = small_scorer(Net(3, 1, dtype=torch.float64), X, y)
    scorer.save(path)
    assert_same_scores(scorer, Scorer.load(path, predictor=Net(3, 1, dtype=torch.float64)), X)


def test_weights_without_a_plain_form_are_left_out(path):
    import torch

    from locuscore.torch import TorchPredictor

    class Net(torch.nn.Linear):
        def get_extra_state(self):
            return {"anything": object()}

        def set_extra_state(self, state):
            pass

    X, y = rows()
    scorer = small_scorer(TorchPredictor(Net(3, 1)), X, y)
    with warns(LocusWarning, "left out", "_extra_state", "no plain array"):
        scorer.save(path)


# ONNX


def with_external_data(place):
    """A model that would read a file of ours, from one of the places where tensors stand."""
    import onnx
    from onnx import TensorProto, helper

    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "secret.bin"
    values = {"attribute": tensor} if place == "attribute" else {}
    node = helper.make_node("Constant", [], ["w2"], **({"value": tensor} if values else {}))
    inner = helper.make_graph([node], "inner", [], [], [tensor] if place == "subgraph" else [])
    branch = helper.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=inner)
    graph = helper.make_graph([branch], "g", [], [], [tensor] if place == "initializer" else [])
    if place == "sparse":
        graph.sparse_initializer.add().values.CopyFrom(tensor)
    return onnx.helper.make_model(graph).SerializeToString()


@pytest.mark.parametrize("place", ["initializer", "attribute", "subgraph", "sparse"])
def test_numbers_in_another_file_are_refused_before_onnxruntime_looks(place):
    with raises(ValueError, "another file", "onnx.save(onnx.load(path), path)"):
        read_onnx(with_external_data(place))
    check_no_external_data(with_external_data("nowhere"))


@pytest.mark.parametrize("data", [b"\xff" * 20, b"\x0a\xff\x01", b"\x3a\x02\x0b\x00", b"\x38\x01"])
def test_bytes_that_are_no_model_are_refused(data):
    with raises(ValueError, "no ONNX model"):
        check_no_external_data(data)


# Files of other libraries


FILES = {
    "xgboost": ("XGB{}", "json"),
    "lightgbm": ("LGBM{}", "txt"),
    "catboost": ("CatBoost{}", "cbm"),
}


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
@pytest.mark.parametrize("library", FILES)
def test_model_files_are_predictors(library, kind, tmp_path):
    X, y = rows()
    y = np.digitize(y, [0.3, 0.7]) if kind == "Classifier" else y
    name, ending = FILES[library]
    model = boosted(library, name.format(kind)).fit(X, y)
    file = tmp_path / f"model.{ending}"
    getattr(model, "booster_", model).save_model(str(file))
    again = load_predictor(file)
    assert_close(np.ravel(again.predict(X)), np.ravel(model.predict(X)))
    assert hasattr(again, "predict_proba") == (kind == "Classifier")
    if kind == "Classifier":
        assert_close(again.predict_proba(X), model.predict_proba(X))
    file.write_bytes(file.read_bytes()[:200])
    with raises(ArchiveError, f"model.{ending} cannot be read as a model"):
        load_predictor(file)


def test_what_onnxruntime_reads_in_its_own_format_is_refused():
    """Fields of ONNX for one reader, the mark of another format at the fifth byte for the other."""
    data = b"\x08\x00\x0d\x00" + b"ORTM" + bytes(4)
    check_no_external_data(data.replace(b"ORTM", b"ORUM"))
    with raises(ValueError, "onnxruntime's own format", "save it as ONNX"):
        read_onnx(data)


def test_an_onnx_file_with_numbers_elsewhere_says_how_to_make_it_one(tmp_path):
    (tmp_path / "model.onnx").write_bytes(with_external_data("initializer"))
    with raises(ArchiveError, "model.onnx cannot be read", "onnx.save(onnx.load(path), path)"):
        load_predictor(tmp_path / "model.onnx")


def test_a_file_that_stopped_early_predicts_with_its_best_round(tmp_path):
    import xgboost

    X, y = rows()
    model = xgboost.XGBRegressor(n_estimators=60, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(X[:80], y[:80], eval_set=[(X[80:], y[80:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    model.save_model(tmp_path / "model.json")
    assert_close(load_predictor(tmp_path / "model.json").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("library", "kind", "remedy"),
    [
        ("xgboost", "XGBRegressor", "model.save_model('model.json')"),
        ("lightgbm", "LGBMRegressor", "model.booster_.save_model('model.txt')"),
    ],
)
def test_a_skops_file_of_another_library_says_what_works(library, kind, remedy, tmp_path):
    import skops.io

    X, y = rows()
    model, path = boosted(library, kind).fit(X, y), tmp_path / "model.skops"
    skops.io.dump(model, path)
    with pytest.raises(ArchiveError) as error:
        load_predictor(path)
    assert remedy in str(error.value)
    # The names are quoted, since some have blanks, and are all that is needed.
    named = re.findall("'([^']+)'", str(error.value).split(";")[0])
    again = load_predictor(path, trusted=named)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)
