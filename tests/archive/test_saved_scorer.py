"""Saved and loaded, a scorer gives the same scores; what an archive cannot hold is said."""

import json
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    BaggingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVR

from archives_for_tests import (
    ENGINES,
    LOSS_MODELS,
    assert_cannot_be_kept,
    assert_same_scores,
    forge,
    forged_schema,
    forged_state,
    loss_model,
    members_of,
    rows,
    small_scorer,
    two_outputs,
)
from helpers import raises, warns
from locuscore import (
    ArchiveError,
    KNNGamma,
    Locus,
    LocusWarning,
    Scorer,
    cost,
    engines,
    pinball,
    prediction_column,
)
from locuscore._archive import values
from locuscore.engines import Forest

pytestmark = pytest.mark.extra


def round_trip(scorer, path, **given):
    scorer.save(path)
    return Scorer.load(path, **given)


@pytest.mark.parametrize("name", LOSS_MODELS)
def test_every_engine_comes_back(name, path):
    scorer = small_scorer(**loss_model(name))
    loaded = round_trip(scorer, path)
    assert_same_scores(scorer, loaded, rows(50, seed=1)[0])
    assert loaded.card == scorer.card
    assert loaded.rule == scorer.rule
    assert loaded.schema == scorer.schema


def test_every_engine_that_can_be_saved_is_tested():
    assert set(engines.KEPT) == set(ENGINES)


def test_several_outputs_come_back(path):
    X, y = rows()
    scorer = two_outputs(X, y)
    loaded = round_trip(scorer, path)
    assert_same_scores(scorer, loaded, X[:20])
    assert_same_scores(scorer, loaded, X[:0])


def test_a_predictor_can_be_supplied_where_there_was_none(path):
    X, y = rows()
    Scorer(Locus(engine=Forest(n_trees=2), random_state=0).fit_losses(X, np.abs(y))).save(path)
    assert Scorer.load(path).column_names == ["bound_0.1"]
    assert Scorer.load(path, predictor=lambda X: X[:, 0]).column_names == [
        "prediction",
        "bound_0.1",
    ]


def test_a_loaded_scorer_can_be_saved_again(path):
    scorer = small_scorer(gamma=KNNGamma(k=7))
    again = round_trip(round_trip(scorer, path), path)
    assert_same_scores(scorer, again, rows(50, seed=1)[0])


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(3, random_state=0),
        HistGradientBoostingRegressor(max_iter=3, categorical_features=[2]),
        make_pipeline(StandardScaler(), Ridge()),
        GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
        TransformedTargetRegressor(Ridge(), func=np.arcsinh, inverse_func=np.sinh),
        TransformedTargetRegressor(RandomForestRegressor(2), transformer=StandardScaler()),
        BaggingRegressor(n_estimators=2, max_features=2, random_state=0),
        MLPRegressor(hidden_layer_sizes=(4,), max_iter=2000, tol=0.1, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_predictors_of_scikit_learn_come_back(model, path):
    X, y = rows()
    X[:, 2] = np.round(5 * X[:, 2])
    scorer = small_scorer(model.fit(X, y), X, y)
    if isinstance(model, TransformedTargetRegressor) and model.func is not None:
        with warns(LocusWarning, "numpy.arcsinh"):
            scorer.save(path)
        loaded = Scorer.load(path, trusted=["numpy.arcsinh", "numpy.sinh"])
    else:
        loaded = round_trip(scorer, path)
    assert_same_scores(scorer, loaded, X[:50])


def frame_and_target(n=200):
    import pandas as pd

    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.uniform(size=n)),
            "kind": pd.Categorical(rng.choice(["a", "b"], size=n)),
            "town": rng.choice(["north", "south"], size=n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
        }
    )
    return frame, np.nan_to_num(frame["size"].to_numpy()) + rng.normal(size=n)


def test_a_pipeline_on_a_frame_comes_back(path):
    import polars as pl
    import pyarrow as pa

    frame, y = frame_and_target()
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["kind", "town"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["size"]),
    )
    scorer = small_scorer(make_pipeline(columns, Ridge()).fit(frame, y), frame, y)
    loaded = round_trip(scorer, path)
    for batch in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        assert_same_scores(scorer, loaded, batch)


def test_boosted_trees_on_categories_of_a_frame_come_back(path):
    frame, y = frame_and_target()
    known = frame[["size", "kind"]]
    scorer = small_scorer(HistGradientBoostingRegressor(max_iter=3).fit(known, y), known, y)
    assert_same_scores(scorer, round_trip(scorer, path), known)


def test_lightgbm_comes_back_as_text(path):
    lightgbm = pytest.importorskip("lightgbm")
    frame, y = frame_and_target()
    known = frame[["size", "kind"]]
    few = {"n_estimators": 3, "num_leaves": 4, "verbose": -1}
    scorer = small_scorer(lightgbm.LGBMRegressor(**few).fit(known, y), known, y)
    loaded = round_trip(scorer, path)
    assert_same_scores(scorer, loaded, known)
    assert_same_scores(scorer, round_trip(loaded, path), known)
    assert any(data.startswith(b"tree\n") for data in members_of(path).values())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_lightgbm_classifiers_come_back(path, n_classes):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = rows(300)
    labels = np.array(["low", "middle", "top"])[np.digitize(y, [0.4, 0.9][: n_classes - 1])]
    few = {"n_estimators": 3, "num_leaves": 4, "verbose": -1}
    model = lightgbm.LGBMClassifier(**few).fit(X, labels)
    scorer = small_scorer(model, X, labels, loss="log")
    assert_same_scores(scorer, round_trip(scorer, path), X)


def test_a_booster_itself_comes_back(path):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = rows()
    data = lightgbm.Dataset(X, y, params={"verbose": -1})
    model = lightgbm.train({"verbose": -1, "num_leaves": 4}, data, num_boost_round=3)
    scorer = small_scorer(model, X, y)
    assert_same_scores(scorer, round_trip(scorer, path), X)


def test_a_prediction_column_comes_back(path):
    frame, y = frame_and_target()
    frame = frame.drop(columns="size").assign(guess=y.round())
    scorer = small_scorer(prediction_column("guess"), frame, y)
    assert_same_scores(scorer, round_trip(scorer, path), frame)


def test_text_predictions_come_back(path):
    frame, _ = frame_and_target()
    scorer = small_scorer(prediction_column("kind"), frame, frame["town"], loss="zero_one")
    assert_same_scores(scorer, round_trip(scorer, path), frame)


def test_logged_losses_need_no_predictor(path):
    X, y = rows()
    locus = Locus(engine=Forest(n_trees=2), random_state=0).fit_losses(X, np.abs(y))
    scorer = Scorer(locus)
    assert_same_scores(scorer, round_trip(scorer, path), X)


@pytest.mark.parametrize(
    "loss", ["zero_one", "log", "brier", cost([[0, 1], [5, 0]]), cost(np.eye(2), ["no", "yes"])]
)
def test_losses_of_classes_come_back(loss, path):
    X, y = rows()
    labels = np.where(y > 0.5, "yes", "no")
    scorer = small_scorer(LogisticRegression().fit(X, labels), X, labels, loss=loss)
    loaded = round_trip(scorer, path)
    assert_same_scores(scorer, loaded, X)
    assert (loaded.locus.losses(X, labels) == scorer.locus.losses(X, labels)).all()


@pytest.mark.parametrize("loss", ["absolute", "squared", pinball(0.8)])
def test_losses_of_numbers_come_back(loss, path):
    X, y = rows()
    scorer = small_scorer(loss=loss)
    loaded = round_trip(scorer, path)
    assert loaded.locus.loss_.name == scorer.locus.loss_.name
    assert (loaded.locus.losses(X, y) == scorer.locus.losses(X, y)).all()


def own_loss(y, prediction):
    return np.abs(y - prediction) ** 3


def test_a_loss_of_ones_own_is_needed_for_losses_only(path):
    X, y = rows()
    scorer = small_scorer(loss=own_loss, support=(0, 50))
    loaded = round_trip(scorer, path)
    assert_same_scores(scorer, loaded, X)
    with raises(ValueError, "own_loss", "Scorer.load(path, loss=...)"):
        loaded.locus.losses(X, y)
    given = Scorer.load(path, loss=own_loss)
    assert (given.locus.losses(X, y) == scorer.locus.losses(X, y)).all()


def first_two(X):
    return X[:, :2]


def test_signals_of_ones_own_must_be_given(path):
    X, _ = rows()
    scorer = small_scorer(signals=first_two)
    scorer.save(path)
    with raises(ArchiveError, "Scorer.load(path, signals=...)"):
        Scorer.load(path)
    assert_same_scores(scorer, Scorer.load(path, signals=first_two), X)


class OwnModel(BaseEstimator):
    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_a_function_as_predictor_is_left_out_and_must_be_supplied(path):
    X, y = rows()

    def g(X):
        return X[:, 0]

    scorer = small_scorer(g, X, y)
    with warns(LocusWarning, "Scorer.load(path, predictor=g)"):
        scorer.save(path)
    with raises(ArchiveError, "function", "Scorer.load(path, predictor=g)"):
        Scorer.load(path)
    assert_same_scores(scorer, Scorer.load(path, predictor=g), X)


@pytest.mark.parametrize("model", [OwnModel(), SVR(), KNeighborsRegressor(3)])
def test_a_type_outside_the_list_must_be_trusted_or_supplied(path, model):
    X, y = rows()
    scorer = small_scorer(model.fit(X, y), X, y)
    with warns(LocusWarning, "not trusted", "predictor=g"):
        scorer.save(path)
    with raises(ArchiveError, "trusted=[...]", "predictor=g") as caught:
        Scorer.load(path)
    assert type(model).__name__ in str(caught.value)
    assert_same_scores(scorer, Scorer.load(path, predictor=model), X)


def test_named_types_are_trusted(path):
    X, y = rows()
    scorer = small_scorer(SVR().fit(X, y), X, y)
    with warns(LocusWarning, "sklearn.svm._classes.SVR"):
        scorer.save(path)
    assert_same_scores(scorer, Scorer.load(path, trusted=["sklearn.svm._classes.SVR"]), X)


def test_an_engine_without_a_safe_format_is_refused_in_one_sentence(path):
    """PyMCBART is another; its own file has that test, since it takes long to import."""
    from skpro.regression.bootstrap import BootstrapRegressor

    engine = engines.FromSkpro(BootstrapRegressor(LinearRegression(), n_bootstrap_samples=3))
    assert_cannot_be_kept(engine, path)


def test_category_levels_without_a_plain_form_are_refused(path):
    import pandas as pd

    frame, y = frame_and_target()
    frame = frame.assign(bin=pd.cut(frame["size"].fillna(0), 3)).drop(columns="day")
    with raises(TypeError, "Interval", "safe format"):
        small_scorer(prediction_column("size"), frame.fillna({"size": 0}), y).save(path)


def test_a_loaded_locus_certifies_on_new_rows_only(path):
    X, y = rows(400, seed=1)
    loaded = round_trip(small_scorer(), path).locus
    with pytest.raises(ValueError, match="no calibration rows"):
        loaded.certify(0.5, 0.2, 0.1)
    assert loaded.certify(0.5, 0.2, 0.1, X, y).standing == "certificate"


def test_the_manifest_says_what_is_inside(path):
    from locuscore._archive.container import read_manifest

    frame, y = frame_and_target()
    scorer = small_scorer(prediction_column("day"), frame.assign(day=y), y)
    scorer.save(path)
    manifest = read_manifest(path)
    assert manifest["card"] == str(scorer.rule)
    assert manifest["columns"] == scorer.column_names
    assert manifest["rows"] == "pandas"
    assert manifest["features"][1] == {"name": "kind", "type": "Categorical"}
    assert {"locuscore", "numpy", "python", "scikit-learn", "skops"} <= set(manifest["written_by"])


def test_a_missing_skops_is_one_sentence(path, monkeypatch):
    scorer = small_scorer()
    scorer.save(path)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with raises(ModuleNotFoundError, "pip install 'locuscore[archive]'"):
        scorer.save(path)
    assert Scorer.load(path).column_names == scorer.column_names


# Versions


def test_parts_of_scikit_learn_need_its_minor_version(path, monkeypatch):
    small_scorer().save(path)
    monkeypatch.setattr(values, "version", lambda name: "9.8.7")
    with raises(ArchiveError, "install scikit-learn==", "save"):
        Scorer.load(path)


def test_another_patch_release_is_no_matter(path):
    scorer = small_scorer()
    scorer.save(path)
    versions = json.loads(members_of(path)["manifest.json"])["written_by"]
    minor = ".".join(versions["scikit-learn"].split(".")[:2])
    forge(path, {}, {"written_by": versions | {"scikit-learn": f"{minor}.99"}})
    assert_same_scores(scorer, Scorer.load(path), rows()[0])


def test_our_own_arrays_need_no_version_of_anybody(path, monkeypatch):
    X, y = rows()
    scorer = small_scorer(prediction_column(0), X, y, engine=ENGINES["MDN"](), gamma=KNNGamma(k=5))
    scorer.save(path)
    monkeypatch.setattr(values, "version", lambda name: "9.8.7")
    assert_same_scores(scorer, Scorer.load(path), X)


# Attacks


class Touch:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def refused(path, match=".+", **given):
    before = sorted(os.listdir(path.parent))
    with pytest.raises(ArchiveError, match=match):
        Scorer.load(path, **given)
    assert sorted(os.listdir(path.parent)) == before


def predictor_member(path):
    state = json.loads(members_of(path)["scorer.json"])
    return state["locus"]["predictor"]["member"]


@pytest.mark.parametrize("ending", ["npy", "skops"])
def test_a_pickle_in_place_of_a_part_is_not_read(path, ending):
    small_scorer().save(path)
    name = next(name for name in members_of(path) if name.endswith(ending))
    forge(path, {name: pickle.dumps(Touch(path.with_name("executed")))})
    refused(path)


def test_an_array_of_objects_is_not_read(path, tmp_path):
    small_scorer().save(path)
    with (tmp_path / "array.npy").open("wb") as file:
        np.save(file, np.array([Touch(tmp_path / "executed")]), allow_pickle=True)
    name = next(name for name in members_of(path) if name.endswith("npy"))
    forge(path, {name: (tmp_path / "array.npy").read_bytes()})
    refused(path, "only pickle could read")


@pytest.mark.parametrize(
    "function", [os.system, eval, partial(os.system, "true"), "".format, Path.touch, np.load]
)
def test_a_function_that_would_run_on_scoring_is_not_built(path, function):
    import skops.io

    small_scorer().save(path)
    evil = make_pipeline(FunctionTransformer(function), LinearRegression())
    try:
        data = skops.io.dumps(evil)
    except Exception:  # skops itself refuses some
        pytest.skip("skops cannot even write it")
    forge(path, {predictor_member(path): data})
    refused(path, "not trusted")


@pytest.mark.parametrize(
    ("module", "name", "loader"),
    [
        ("builtins", "exec", "FunctionNode"),
        ("builtins", "eval", "TypeNode"),
        ("os", "system", "ConstructorFromReduceNode"),
        ("subprocess", "Popen", "ObjectNode"),
        ("operator", "methodcaller", "OperatorFuncNode"),
        ("builtins", "str.format", "MethodNode"),
        ("sklearn.pipeline.os", "system", "FunctionNode"),
        ("builtins", "bytes", "ConstructorFromReduceNode"),
    ],
)
def test_a_schema_that_names_something_to_call_is_refused(path, module, name, loader):
    small_scorer().save(path)
    member = predictor_member(path)
    node = {"__class__": name, "__module__": module, "__loader__": loader, "content": []}

    def change(schema):
        schema["content"]["content"]["fit_intercept"] = node

    forge(path, {member: forged_schema(members_of(path)[member], change)})
    refused(path, "not trusted")


def test_a_part_that_would_expand_is_refused(path):
    """Inside our zip is the zip of skops: its members are looked at in the same way."""
    import io
    import zipfile

    import skops.io

    small_scorer().save(path)
    member = predictor_member(path)
    sound = members_of(path)[member]
    model = LinearRegression().fit(*rows())
    forge(path, {member: skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED)})
    refused(path, "compressed")
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sound)) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            huge = source.read(name).replace(b"'shape': (3,), }      ", b"'shape': (3000000,), }")
            archive.writestr(name, huge)
    forge(path, {member: target.getvalue()})
    refused(path, "claims the shape")


def test_trusted_names_do_not_open_the_door_to_others(path):
    small_scorer().save(path)
    member = predictor_member(path)
    node = {"__class__": "system", "__module__": "posix", "__loader__": "TypeNode"}
    data = forged_schema(members_of(path)[member], lambda schema: schema.update(node))
    forge(path, {member: data})
    refused(path, r"posix\.system", trusted=["sklearn.svm._classes.SVR"])


def test_a_forged_tree_is_refused(path):
    """The first split of a tree points far outside: compiled code would follow it."""
    import io
    import zipfile

    X, y = rows()
    small_scorer(RandomForestRegressor(1, random_state=0).fit(X, y), X, y).save(path)
    member = predictor_member(path)
    source, target = zipfile.ZipFile(io.BytesIO(members_of(path)[member])), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("npy"):
                values = np.load(io.BytesIO(content))
                if values.dtype.names and "left_child" in values.dtype.names:
                    values["left_child"][0] = 10**12
                    file = io.BytesIO()
                    np.save(file, values)
                    content = file.getvalue()
            archive.writestr(name, content)
    forge(path, {member: target.getvalue()})
    refused(path, "a node that does not exist")


def changed_state(path, change):
    state = json.loads(members_of(path)["scorer.json"])
    change(state)
    forge(path, {"scorer.json": json.dumps(state).encode()})


def tails(state):
    return state["locus"]["calibration_"]["state"]["tails"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["locus"]["engine_"].update({"kind": "Locus"}), "unknown kind"),
        (lambda s: s["locus"]["engine_"].update({"kind": "os.system"}), "unknown kind"),
        (lambda s: s["locus"]["engine_"].update({"is": "pickle"}), "unknown kind"),
        (lambda s: s["locus"]["engine_"]["state"].update({"predict_draws": 1}), "not what a"),
        (lambda s: s["locus"]["engine_"]["state"].pop("table_"), "not what a"),
        (lambda s: s["locus"].update({"engine_": 3}), "do not make a fitted Locus"),
        (lambda s: s["locus"]["signals_"]["state"].update({"encoder": 3}), "no map of rows"),
        (lambda s: s["locus"]["signals_"]["state"].update({"opinion": 3}), "no map of rows"),
        (lambda s: s["locus"].pop("calibration_"), "damaged"),
        (lambda s: s["locus"].update({"calibration_": None}), "do not make a fitted Locus"),
        (lambda s: s.pop("rule"), "damaged"),
        (lambda s: tails(s).update({"member": "nowhere"}), "damaged"),
        (lambda s: tails(s).update({"is": "text"}), "damaged"),
        (lambda s: s["locus"]["calibration_"]["state"].update({"tails": [0.5, 0.2]}), "no array"),
        (lambda s: s["locus"]["calibration_"]["state"].update({"tails": [0.5, 2]}), "no array"),
    ],
)
def test_a_forged_state_is_refused(path, change, message):
    small_scorer().save(path)
    changed_state(path, change)
    refused(path, message)


@pytest.mark.parametrize("numbers", [[0.5, 0.2], [0.5, 2.0], [0.1, np.nan]])
def test_tails_that_are_no_ascending_probabilities_are_refused(path, numbers):
    small_scorer().save(path)
    forged_state(path, path, ["calibration_"], {"tails": np.array(numbers)})
    refused(path, "ascending")


def test_a_forged_number_of_threads_is_limited(path):
    small_scorer().save(path)
    changed_state(path, lambda s: s["locus"]["engine_"]["state"].update({"n_jobs": 10**9}))
    assert Scorer.load(path).locus.engine_.n_jobs <= os.cpu_count()


def test_forged_forests_of_bart_are_refused(path):
    small_scorer(engine=ENGINES["BART"]()).save(path)

    def change(state):
        state["locus"]["engine_"]["state"]["forests_"]["state"]["n_signals"] = 1

    changed_state(path, change)
    refused(path, "a feature that does not exist")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "x.locus"
    scorer = small_scorer(engine=Forest(n_trees=2, min_samples_leaf=30))
    scorer.save(path)
    return scorer, path


@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_scores_rightly(saved, tmp_path_factory, data):
    scorer, original = saved
    damaged = bytearray(original.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    path = tmp_path_factory.mktemp("damage") / "x.locus"
    path.write_bytes(damaged[:cut])
    try:
        loaded = Scorer.load(path)
    except ArchiveError:
        return
    assert_same_scores(scorer, loaded, rows(20, seed=1)[0])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=150)
@given(steps=st.lists(st.integers(0, 10**6), min_size=1, max_size=7), value=JSON)
def test_a_scrambled_state_is_refused_or_loads(saved, tmp_path_factory, steps, value):
    """Digests fit here, so that every decoder is reached."""
    path = tmp_path_factory.mktemp("scrambled") / "x.locus"
    path.write_bytes(saved[1].read_bytes())

    def scramble(state):
        node = state
        for left, step in enumerate(steps, start=1 - len(steps)):
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key = keys[step % len(keys)]
            if left == 0 or not isinstance(node[key], dict | list) or not node[key]:
                node[key] = value
                return
            node = node[key]

    changed_state(path, scramble)
    try:
        Scorer.load(path)
    except (ArchiveError, LocusWarning):  # or alphas too small for these few rows
        return


def test_random_forest_classifiers_come_back(path):
    X, y = rows()
    labels = np.where(y > 0.5, "yes", "no")
    model = RandomForestClassifier(3, random_state=0).fit(X, labels)
    scorer = small_scorer(model, X, labels, loss="brier")
    assert_same_scores(scorer, round_trip(scorer, path), X)


LOADED = """
import sys
from locuscore import Scorer
from locuscore._archive.skops_models import import_skops
Scorer.load(sys.argv[1])
assert "skops" not in sys.modules
import_skops()  # to save
assert "torch" not in sys.modules, "skops has imported all of torch"
import sklearn.externals.array_api_compat.torch  # only meanwhile it was absent
assert "torch" in sys.modules
"""


def test_loading_does_not_import_what_the_archive_does_not_need(path):
    small_scorer().save(path)
    subprocess.run([sys.executable, "-c", LOADED, str(path)], check=True)
