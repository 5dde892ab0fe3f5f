"""Archives whose models were forged, digests and all: refused, before compiled code follows them.

Each is loaded and scored in a process of its own, because what is not refused may crash.
"""

import json
import os
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_array

from archives_for_tests import forge, forged_schema, members_of, rows, small_scorer
from helpers import raises
from locuscore import ArchiveError, Scorer
from locuscore._archive.skops_models import read_skops, skops_bytes
from locuscore._shared.boosting import BoostedTrees

pytestmark = pytest.mark.extra

X, Y = rows(120)
X = np.round(9 * X)
KINDS = np.digitize(Y, [2, 5])

# Refused while loading, as it should be; anything else is told.
LOAD_EACH = """
import os, resource, signal, sys
import lightgbm, skops.io
import numpy as np
from locuscore import ArchiveError, Scorer
for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
        signal.alarm(20)
        try:
            Scorer.load(path)(np.array([[1.0, 2.0, 3.0]]))
        except ArchiveError:
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("outcome", status, flush=True)
"""


def fitted(model, y=Y):
    return model.fit(X, y)


def with_attributes(model, **changes):
    vars(model).update(changes)
    return model


def pointer_in_the_output_of_a_scaler():
    return make_pipeline(
        fitted(StandardScaler()),
        FunctionTransformer(partial(np.ndarray, (1, 3), "O")),
        fitted(LinearRegression()),
    )


def position_of_a_random_state():
    random = np.random.RandomState(0)
    random.set_state(("MT19937", random.get_state()[1], 10**9))
    return with_attributes(fitted(DummyClassifier(strategy="uniform"), KINDS), random_state=random)


def split_on_categories_that_there_are_not():
    model = fitted(HistGradientBoostingRegressor(max_iter=2))
    tree = model._predictors[0][0]
    tree.nodes["is_categorical"] = 1
    tree.raw_left_cat_bitsets = np.zeros((1, 8), dtype=np.uint32)
    return model


def boosted(**changes):
    return with_attributes(fitted(HistGradientBoostingRegressor(max_iter=2)), **changes)


def boosted_with_fewer_columns():
    model = fitted(HistGradientBoostingRegressor(max_iter=2, categorical_features=[0]))
    steps = model._preprocessor.transformers_
    steps[:] = [(*steps[1][:2], np.array([3]))]  # one column, whose number is that of columns
    return model


def boosted_with_names_that_select_fewer_columns():
    model = fitted(HistGradientBoostingRegressor(max_iter=2, categorical_features=[0]))
    model._preprocessor.feature_names_in_ = np.array([True, False, False])
    return model


def boosted_with_categories_outside():
    model = fitted(HistGradientBoostingRegressor(max_iter=2, categorical_features=[0]))
    model._bin_mapper.bin_thresholds_[0] = np.array([9e4])
    return model


def boosted_with_many_outputs():
    return boosted(n_trees_per_iteration_=10**9, _baseline_prediction=np.zeros((1, 1)))


def encoded(**changes):
    settings = {"drop": "first", "min_frequency": 9, "handle_unknown": "infrequent_if_exist"}
    encoder = with_attributes(fitted(OneHotEncoder(**settings)), **changes)
    return make_pipeline(encoder, LinearRegression())


def encoder_without_order():
    encoder = fitted(OneHotEncoder())
    encoder.categories_ = [levels[::-1] for levels in encoder.categories_]
    return make_pipeline(encoder, LinearRegression())


def encoder_of_numbers_as_objects():
    encoder = fitted(OneHotEncoder())
    encoder.categories_ = [levels[::-1].astype(object) for levels in encoder.categories_]
    return make_pipeline(encoder, LinearRegression())


def encoder_whose_order_is_masked():
    """To sort a masked array leaves what is masked in its place."""
    encoder = fitted(OneHotEncoder())
    for place, levels in enumerate(encoder.categories_):
        hidden = np.arange(len(levels)) > 0
        mixed = np.append(levels[:1], levels[:0:-1])
        encoder.categories_[place] = np.ma.MaskedArray(mixed, hidden)
    return make_pipeline(encoder, LinearRegression())


def boosted_with_masked_nodes():
    model = boosted()
    tree = model._predictors[0][0]
    tree.nodes["feature_idx"] = 10**6
    tree.nodes = np.ma.MaskedArray(tree.nodes, np.ones(len(tree.nodes), dtype=bool))
    return model


def encoder_that_drops_by_row():
    encoder = fitted(OneHotEncoder(drop=[9.0, 9.0, 9.0]))
    encoder._drop_idx_after_grouping = encoder._drop_idx_after_grouping[:, None]
    return make_pipeline(encoder, LinearRegression())


def boosted_with_other_categories():
    """Text that is empty differs from zero, and yet is nothing."""
    model = split_on_categories_that_there_are_not()
    model._bin_mapper.is_categorical_ = np.array(["", "", ""])
    return model


def intercepts_in_a_column():
    wide = {"coef_": np.zeros((20_000, 3)), "intercept_": np.zeros((20_000, 1))}
    return with_attributes(fitted(LinearRegression()), **wide)


def slopes_in_a_column():
    model = fitted(CalibratedClassifierCV(LogisticRegression(max_iter=999), cv=2), KINDS > 0)
    sigmoid = model.calibrated_classifiers_[0].calibrators[0]
    sigmoid.a_, sigmoid.b_ = np.zeros((20_000, 1)), np.zeros(20_000)
    return model


def encoder_with_another_group():
    model = encoded()
    model[0]._default_to_infrequent_mappings[0][:] = 10**9
    return model


def forest(**changes):
    return with_attributes(fitted(RandomForestRegressor(2, random_state=0)), **changes)


def forest_without_features():
    model = forest()
    del model.n_features_in_
    return model


def tree_without_a_model():
    to_float32 = fitted(OneHotEncoder(dtype=np.float32, sparse_output=False))
    return make_pipeline(to_float32, fitted(DecisionTreeRegressor()).tree_)


def stack_that_asks_for_paths():
    parts = [("a", RandomForestRegressor(2)), ("b", Ridge())]
    stack = fitted(StackingRegressor(parts, cv=2))
    return with_attributes(stack, stack_method_=["decision_path", "predict"])


def unions_of_unions():
    ten = [(str(i), "passthrough") for i in range(10)]
    return make_pipeline(*[FeatureUnion(ten) for _ in range(8)], fitted(LinearRegression()))


def pipelines_in_pipelines():
    model = fitted(LinearRegression())
    for _ in range(25):
        model = make_pipeline(model)
    return model


def votes_far_away():
    voters = [("a", LogisticRegression(max_iter=999)), ("b", DummyClassifier())]
    model = fitted(VotingClassifier(voters), KINDS)
    model.estimators_[1].classes_ = np.array([0, 1, 3 * 10**8])
    return model


def bins_of_long_texts():
    bins = fitted(KBinsDiscretizer(2, quantile_method="averaged_inverted_cdf"))
    return make_pipeline(with_attributes(bins, dtype="S1000000000"), LinearRegression())


def target_transformed_back(**changes):
    model = TransformedTargetRegressor(Ridge(), func=np.exp, inverse_func=np.log)
    model = fitted(model, np.clip(Y, 0, 9))
    with_attributes(model.transformer_, **changes)
    return model


def columns_taken_many_times():
    model = fitted(make_column_transformer(("passthrough", [0])))
    names, columns = [f"step {i}" for i in range(300)], np.zeros(10**6, dtype=np.int8)
    step = FunctionTransformer()
    model.transformers_ = [(name, step, columns) for name in names]
    model._transformer_to_input_indices = dict.fromkeys(names, columns)
    return make_pipeline(model, LinearRegression())


def bagged_classes_without_values():
    bagged = fitted(BaggingClassifier(DecisionTreeClassifier(), n_estimators=2), KINDS)
    return with_attributes(bagged, n_classes_=2**28, classes_=np.zeros((2**28, 0)))


def of_objects(name, items):
    values = np.empty(len(items), dtype=object)
    values[:] = items
    if name == "coef_":
        return with_attributes(fitted(LinearRegression()), coef_=values)
    scaler = with_attributes(fitted(StandardScaler()), **{name: values})
    return make_pipeline(scaler, fitted(LinearRegression()))


MODELS = {
    "a pointer in the output of a scaler": pointer_in_the_output_of_a_scaler,
    "a position of a random state": position_of_a_random_state,
    "a split on categories that there are not": split_on_categories_that_there_are_not,
    "boosted trees in their fit": partial(boosted, _in_fit=True),
    "boosted trees without features": partial(boosted, n_features_in_=np.array([])),
    "boosted trees with fewer columns": boosted_with_fewer_columns,
    "boosted trees with names": boosted_with_names_that_select_fewer_columns,
    "boosted trees with categories outside": boosted_with_categories_outside,
    "boosted trees with many outputs": boosted_with_many_outputs,
    "an encoder of fewer columns": partial(encoded, _n_features_outs=[1, 1, 1]),
    "an encoder that drops before the first": partial(
        encoded, _drop_idx_after_grouping=np.array([-5, -5, -5], dtype=object)
    ),
    "an encoder without order": encoder_without_order,
    "an encoder whose order is masked": encoder_whose_order_is_masked,
    "boosted trees with masked nodes": boosted_with_masked_nodes,
    "an encoder with another group": encoder_with_another_group,
    "an encoder of numbers as objects": encoder_of_numbers_as_objects,
    "an encoder that drops by row": encoder_that_drops_by_row,
    "boosted trees with other categories": boosted_with_other_categories,
    "intercepts in a column": intercepts_in_a_column,
    "slopes in a column": slopes_in_a_column,
    "a dummy that says another class": lambda: with_attributes(
        fitted(DummyClassifier(strategy="constant", constant=1), KINDS), constant=10**9
    ),
    "an encoder of long texts": partial(encoded, dtype="U1000000000"),
    "a forest without features": forest_without_features,
    "a forest of many outputs": partial(forest, n_outputs_=10**9),
    "a forest whose check is replaced": partial(forest, _validate_X_predict=np.exp),
    "a tree without a model": tree_without_a_model,
    "a stack that asks for paths": stack_that_asks_for_paths,
    "unions of unions": unions_of_unions,
    "pipelines in pipelines": pipelines_in_pipelines,
    "votes far away": votes_far_away,
    "a dummy of many outputs": lambda: with_attributes(fitted(DummyRegressor()), n_outputs_=10**9),
    "a polynomial of many terms": lambda: make_pipeline(
        with_attributes(fitted(PolynomialFeatures()), _n_out_full=10**9), LinearRegression()
    ),
    "a polynomial of many steps": lambda: make_pipeline(
        PolynomialFeatures(10, include_bias=False).fit(np.zeros((1, 9))), LinearRegression()
    ),
    "an encoder that leaves columns as memory had them": lambda: make_pipeline(
        with_attributes(fitted(TargetEncoder(cv=2)), encodings_=[]), LinearRegression()
    ),
    "a check of rows with another type": lambda: make_pipeline(
        FunctionTransformer(check_array, kw_args={"dtype": "S1000000000"}), LinearRegression()
    ),
    "a check of targets with another type": partial(
        target_transformed_back, inverse_func=check_array, inv_kw_args={"dtype": "S1000000000"}
    ),
    "a function that leaves values as memory had them": partial(
        target_transformed_back, inv_kw_args={"where": np.array([False])}
    ),
    "bins of long texts": bins_of_long_texts,
    "columns taken many times": columns_taken_many_times,
    "bagged classes without values": bagged_classes_without_values,
    "boosted trees with many units": lambda: with_attributes(
        fitted(BoostedTrees(max_iter=2)), unit_=np.ones((10**6, 1))
    ),
    "boosted trees with a huge unit": lambda: with_attributes(
        fitted(BoostedTrees(max_iter=2)), unit_=10**400
    ),
    "coefficients that are matrices": partial(
        of_objects, "coef_", [np.ones((300, 1)), np.ones((1, 300)), 0.0]
    ),
    "coefficients that are texts": partial(of_objects, "coef_", ["a" * 1000, "", ""]),
    "means that are lists": partial(of_objects, "mean_", [np.ones(3), np.ones(3), 0.0]),
    "an imputer of long texts": lambda: make_pipeline(
        with_attributes(fitted(SimpleImputer()), _fill_dtype=np.dtype("U4000"), missing_values=0.0),
        fitted(LinearRegression()),
    ),
}


def nodes_of(schema, loader):
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("__loader__") == loader:
                yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def list_that_is_an_array(schema):
    number = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    return schema["content"]["content"].update(
        coef_={
            "__class__": "ndarray",
            "__module__": "numpy",
            "__loader__": "ListNode",
            "content": [number | {"content": "300000000"}],
        }
    )


def tree_of_more_outputs(schema):
    for tree in nodes_of(schema, "TreeNode"):
        tree["__reduce__"]["args"]["content"][2]["content"] = "900000"


def generator_with_a_pool(schema):
    for generator in nodes_of(schema, "RandomGeneratorNode"):
        seeds = generator["content"]["seed_seq"]["content"]
        seeds["pool_size"]["content"] = "900000000"


def many_functions(schema):
    function = {"__class__": "exp", "__module__": "numpy", "__loader__": "FunctionNode"}
    for steps in nodes_of(schema, "ListNode"):
        steps["content"] += [function] * 200_000


def older_protocol(schema):
    schema["protocol"] = 0


SCHEMAS = {
    "a list that is an array": (lambda: fitted(LinearRegression()), list_that_is_an_array),
    "a tree of more outputs": (lambda: fitted(DecisionTreeRegressor()), tree_of_more_outputs),
    "a generator with a pool": (boosted, generator_with_a_pool),
    "many functions": (lambda: fitted(LinearRegression()), many_functions),
    "an older protocol": (lambda: fitted(LinearRegression()), older_protocol),
}


def lightgbm_text():
    lightgbm = pytest.importorskip("lightgbm")
    few = {"n_estimators": 2, "num_leaves": 4, "verbose": -1, "num_threads": 1}
    return lightgbm.LGBMRegressor(**few).fit(X, Y).booster_.model_to_string()


def line_of(text, key):
    return next(line for line in text.split("\n") if line.startswith(f"{key}="))


def twice(key, forged, between):
    """A forged line, which LightGBM reads, and the sound one, which a careless check reads."""

    def change(text):
        sound = line_of(text, key)
        return text.replace(sound, f"{key}={forged}{between}{sound}", 1)

    return change


TEXTS = {
    "a bad child, a line, a good child": twice("left_child", "70000000 -1 -1", "\nx\n"),
    "a good child after ten lines": twice(
        "left_child", "70000000 -1 -1", "\n" + "\n".join(f"y{i}=1" for i in range(10)) + "\n"
    ),
    "a good child after a form feed": twice("left_child", "70000000 -1 -1\nx=1", "\x0c"),
    "features, an empty line, features": twice("max_feature_idx", "900000000", "\n\n"),
    "an objective of many classes": lambda text: text.replace(
        line_of(text, "objective"), "objective=multiclass num_class:2000000"
    ),
    "three trees in a round": lambda text: text.replace(
        "num_tree_per_iteration=1", "num_tree_per_iteration=3"
    ),
    "a bad child, a carriage return, a good child": twice("left_child", "70000000 -1 -1", "\r"),
    "a bad child and the end of the text": twice("left_child", "70000000 -1 -1", "\x00"),
    "another tree": lambda text: text.replace("Tree=1", "Tree=7"),
    "a word that is no number": lambda text: text.replace("num_leaves=4", "num_leaves=four", 1),
    "a linear tree": lambda text: text.replace("is_linear=0", "is_linear=1", 1),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """How loading and scoring each forged archive ends: 0 is refused."""
    folder = tmp_path_factory.mktemp("forged")
    # Without rows of fit: the forged predictor is not to be refused for its other answers.
    small_scorer().save(folder / "sound.locus", keep_rows=False)
    member = json.loads(members_of(folder / "sound.locus")["scorer.json"])["locus"]["predictor"]
    forged = {name: {member["member"]: skops_bytes(make())} for name, make in MODELS.items()}
    for name, (make, change) in SCHEMAS.items():
        forged[name] = {member["member"]: forged_schema(skops_bytes(make()), change)}
    state = json.loads(members_of(folder / "sound.locus")["scorer.json"])
    state["locus"]["predictor"] = {"is": "lightgbm", "member": "parts/t.txt", "classes": None}
    text = lightgbm_text()
    for name, change in TEXTS.items():
        changed = change(text)
        assert changed != text
        forged[name] = {"scorer.json": json.dumps(state).encode(), "parts/t.txt": changed.encode()}
    paths = []
    for number, members in enumerate(forged.values()):
        paths.append(folder / f"{number}.locus")
        paths[-1].write_bytes((folder / "sound.locus").read_bytes())
        forge(paths[-1], members)
    run = [sys.executable, "-c", LOAD_EACH, *map(str, paths)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    ends = re.findall(r"^outcome (-?\d+)$", done.stdout, re.MULTILINE)  # LightGBM prints as well
    return dict(zip(forged, ends, strict=True))


@pytest.mark.parametrize("name", [*MODELS, *SCHEMAS, *TEXTS])
def test_a_forged_model_is_refused(outcomes, name):
    assert outcomes[name] == "0"


@pytest.mark.parametrize(
    "make",
    [
        encoded,
        forest,
        boosted,
        lambda: fitted(HistGradientBoostingRegressor(max_iter=2, categorical_features=[0])),
        lambda: fitted(make_pipeline(OneHotEncoder(drop=[9.0, 9.0, 9.0]), Ridge())),
        lambda: fitted(make_pipeline(PolynomialFeatures(3), Ridge())),
        lambda: fitted(make_pipeline(TargetEncoder(cv=2), Ridge())),
        target_transformed_back,
        lambda: fitted(BaggingRegressor(Ridge(), n_estimators=2)),
        lambda: fitted(make_pipeline(make_column_transformer((StandardScaler(), [0, 2])), Ridge())),
        lambda: fitted(DummyClassifier(strategy="constant", constant=1), KINDS),
        lambda: fitted(VotingClassifier([("a", DummyClassifier())]), np.array(list("abc"))[KINDS]),
        lambda: fitted(StackingRegressor([("a", DecisionTreeRegressor()), ("b", Ridge())], cv=2)),
        lambda: fitted(CalibratedClassifierCV(DecisionTreeClassifier(), cv=2), KINDS > 0),
    ],
)
def test_the_sound_model_comes_back(make):
    model = make()
    if isinstance(model, Pipeline) and not hasattr(model[-1], "coef_"):
        model.fit(X, Y)
    assert (read_skops(skops_bytes(model)).predict(X) == model.predict(X)).all()


def test_a_model_takes_no_more_jobs_than_there_are_processors():
    assert read_skops(skops_bytes(forest(n_jobs=10**6))).n_jobs <= os.cpu_count()
    assert read_skops(skops_bytes(forest(n_jobs=-1))).n_jobs == -1


def test_a_member_is_built_once(tmp_path):
    small_scorer().save(tmp_path / "x.locus")
    state = json.loads(members_of(tmp_path / "x.locus")["scorer.json"])
    state["locus"]["feature_names_in_"] = [state["locus"]["calibration_"]["state"]["tails"]] * 1000
    forge(tmp_path / "x.locus", {"scorer.json": json.dumps(state).encode()})
    with raises(ArchiveError, "member"):
        Scorer.load(tmp_path / "x.locus")


def test_a_value_is_built_from_what_was_checked_in_its_place():
    """skops would take the first state of this mark, where nobody looks at it as a state."""

    def change(schema):
        state = next(nodes_of(schema, "RandomStateNode"))["content"]
        forged = json.loads(json.dumps(state))
        forged["content"]["state"]["content"]["pos"]["content"] = "1000000000"
        schema["content"]["content"]["strategy"] = forged

    random = np.random.RandomState(0)
    sound = fitted(DummyClassifier(strategy="uniform", random_state=random), KINDS)
    model = read_skops(forged_schema(skops_bytes(sound), change))
    assert model.strategy["state"]["pos"] == 10**9
    assert model.random_state.get_state()[2] == 624


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
def test_encoders_of_text_with_missing_values_come_back(encoder, missing):
    kinds = np.array(["a", "b", missing] * 20, dtype=object)[:, None]
    model = encoder().fit(kinds)
    again = read_skops(skops_bytes(model), ())
    one, other = (sparse.csr_array(each.transform(kinds)) for each in (model, again))
    assert (one != other).nnz == np.isnan(one.data).sum()
