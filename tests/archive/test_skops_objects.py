"""Models of a skops file are built here as skops builds them, and without it."""

import io
import zipfile
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree._tree import Tree

from archives_for_tests import forged_schema, rows
from helpers import raises
from locuscore import ArchiveError
from locuscore._archive.container import array_bytes, plain_members, read_array, view_array
from locuscore._archive.skops_models import OBJECTS, read_skops, skops_bytes
from locuscore._archive.skops_objects import LOADERS, build
from locuscore._archive.skops_schema import BUILDS, SkopsFile

pytestmark = pytest.mark.extra
skops_io = pytest.importorskip("skops.io")

X, Y = rows(120)
KINDS = np.digitize(Y, [2, 5])
TEXT = np.array(["a", "b", None] * 40, dtype=object)[:, None]


def with_values_of_every_loader():
    """A model whose attributes are what no model has, but a file may hold."""
    model = Ridge().fit(X, Y)
    model.some_ = {
        "bytes": b"abc",
        "set": {1, 2},
        "slice": slice(1, None, 2),
        "masked": np.ma.MaskedArray(np.arange(3.0), [True, False, False]),
        "generator": np.random.default_rng(3),
        "state": np.random.RandomState(4),
        "numbers": {1: "a", 2.5: "b"},
        "objects": np.array([[1, "a"], [None, 2.0]], dtype=object),
        "columns_first": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 3)),
        "single": np.float32(2.5),
        "type": np.float64,
        "dtype": np.dtype("<f4"),
        "times": np.array(["2020-01-01"], dtype="M8[D]"),
    }
    return model


MODELS = [
    lambda: RandomForestRegressor(5, random_state=0).fit(X, Y),
    lambda: RandomForestRegressor(5, random_state=0).fit(X, np.column_stack([Y, Y])),
    lambda: ExtraTreesClassifier(5, random_state=0).fit(X, KINDS),
    lambda: HistGradientBoostingRegressor(max_iter=3, categorical_features=[0]).fit(X // 1, Y),
    lambda: HistGradientBoostingClassifier(max_iter=3, early_stopping=True).fit(X, KINDS),
    lambda: AdaBoostRegressor(n_estimators=3, random_state=0).fit(X, Y),
    lambda: StackingRegressor([("a", Ridge())], SGDRegressor(), cv=2).fit(X, Y),
    lambda: GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=2).fit(X, KINDS),
    lambda: MLPRegressor(hidden_layer_sizes=(4,), max_iter=3, random_state=0).fit(X, Y),
    lambda: make_pipeline(StandardScaler(), FunctionTransformer(np.square), Ridge()).fit(X, Y),
    lambda: make_pipeline(make_column_transformer((KBinsDiscretizer(3), [0])), Ridge()).fit(X, Y),
    lambda: make_pipeline(SimpleImputer(), TargetEncoder(cv=2), Ridge()).fit(X, Y),
    lambda: OneHotEncoder().fit(TEXT),
    lambda: DummyClassifier(random_state=np.random.RandomState(0)).fit(X, KINDS),
    with_values_of_every_loader,
]


def array_parts(value):
    is_plain = value.dtype.kind != "O" and value.dtype.names is None
    if is_plain:
        return [value.dtype, value.shape, value.flags.f_contiguous, value.tobytes()]
    # What stands between the fields of a record is nobody's.
    return [value.dtype, value.shape, [parts(item) for item in value.ravel().tolist()]]


PARTS = {  # the first that fits
    np.ma.MaskedArray: lambda v: [array_parts(v.data), array_parts(v.mask)],
    np.ndarray: array_parts,
    np.generic: lambda v: [type(v), v.tobytes()],
    np.random.RandomState: lambda v: parts(v.get_state(legacy=False)),
    np.random.Generator: lambda v: parts(v.bit_generator.state),
    Tree: lambda v: parts(list(v.__reduce__()[1:])),
    partial: lambda v: [v.func, parts(v.args), parts(v.keywords)],
    dict: lambda v: [type(v), [(type(key), key, parts(item)) for key, item in v.items()]],
    (list, tuple): lambda v: [type(v), [parts(item) for item in v]],
    (bool, int, float, str, bytes, set, slice, type, np.ufunc, np.dtype, type(None)): lambda v: v,
}


def parts(value):
    """Return a value as nested plain values, bit by bit, so that two can be compared."""
    for kinds, of in PARTS.items():
        if isinstance(value, kinds):
            return of(value)
    return [type(value), parts(getattr(value, "__dict__", {}))]  # a loss has no state


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", MODELS)
def test_a_model_is_what_skops_makes_of_it(make):
    data = skops_bytes(make())
    file = SkopsFile(data, OBJECTS)
    file.check()
    ours = build(file)
    theirs = skops_io.loads(data, trusted=sorted(file.kinds))
    # repr: not a number equals itself there
    assert repr(parts(ours)) == repr(parts(theirs))
    arrays = [value for value in vars(ours).values() if isinstance(value, np.ndarray)]
    assert all(array.flags.writeable for array in arrays)


def test_other_attributes_are_told_apart():
    assert parts(Ridge(alpha=1.0)) != parts(Ridge(alpha=2.0))
    assert parts(SimpleNamespace(x=np.zeros(2))) != parts(SimpleNamespace(x=np.zeros(3)))


def test_every_loader_that_a_file_may_name_has_its_builder():
    assert set(LOADERS) == {*BUILDS, "ObjectNode"}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.zeros((0, 4), dtype=np.int8),
        np.array(2.5),
        np.array(["ab", "c"]),
        np.array(["2020-01-01"], dtype="M8[ns]"),
        np.arange(3, dtype=">i4"),
    ],
)
def test_an_array_comes_back(array):
    data = array_bytes(array)
    for again in (read_array(data), view_array(memoryview(b"x" + data)[1:])):
        assert (again.dtype, again.shape) == (array.dtype, array.shape)
        assert again.flags.f_contiguous == array.flags.f_contiguous
        assert (again == array).all()
    assert read_array(data).flags.writeable


@pytest.mark.parametrize("descr", ["|S0", "<U0"])
def test_an_array_of_empty_texts_shows_no_memory(descr):
    for _ in range(20):
        _ = np.full(500, 0x41, dtype=np.uint8), np.full(500, 0x41, dtype=np.uint32)
        found = read_array(with_header(descr, (500,)))
        assert set(found.tolist()) == {type(found.tolist()[0])()}


@pytest.mark.parametrize("descr", [("<f8", (0, 7)), ("<f8", (1,)), ("<f8", (2,))])
def test_an_array_of_arrays_is_refused(descr):
    size = np.dtype(descr).itemsize
    with raises(ArchiveError, "arrays"):
        read_array(with_header(descr, (3,)) + bytes(3 * size))


def with_header(descr, shape):
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def masked(data, mask):
    kind = {"__class__": "MaskedArray", "__module__": "numpy.ma", "__loader__": "MaskedArrayNode"}
    return kind | {"content": {"data": data, "mask": mask}}


def test_of_texts_in_a_list_no_array_is_made():
    """Each would take as much as the longest, and the file only as much as their sum."""
    model = Ridge().fit(X, Y)
    model.some_ = ["x" * 10_000, *[""] * 10_000]

    def change(schema):
        values = schema["content"]["content"]
        values["some_"] = masked(values["some_"], values["copy_X"])

    file = SkopsFile(forged_schema(skops_bytes(model), change), OBJECTS)
    assert not file.foreign()
    with raises(ArchiveError, "masked"):
        file.check()


def test_bytes_are_made_once():
    model = Ridge().fit(X, Y)
    model.some_ = [b"abc", 0, 0]

    def change(schema):
        values = schema["content"]["content"]["some_"]["content"]
        values[1:] = [dict(values[0]), dict(values[0])]

    some = read_skops(forged_schema(skops_bytes(model), change)).some_
    assert some == [b"abc"] * 3
    assert some[0] is some[1] is some[2]


def test_the_masked_results_of_a_search_come_back():
    search = GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2).fit(X, Y)
    again = read_skops(skops_bytes(search))
    assert type(again.cv_results_["param_alpha"]) is np.ma.MaskedArray


def renamed(data):
    """Another name before the bytes than in the table of contents."""
    return data.replace(b"schema.json", b"sChema.json", 1)


def before_the_start(data):
    """Offsets that count from the end of the file."""
    end = data.rindex(b"PK\5\6")
    start = int.from_bytes(data[end + 16 : end + 20], "little") + len(data)
    return data[: end + 16] + start.to_bytes(4, "little") + data[end + 20 :]


@pytest.mark.parametrize("change", [renamed, before_the_start])
def test_members_are_where_both_headers_say(change):
    data = skops_bytes(RandomForestRegressor(2, random_state=0).fit(X, Y))
    assert plain_members(data)
    changed = change(data)
    assert changed != data
    with pytest.raises((ValueError, zipfile.BadZipFile)):
        plain_members(changed)


def test_a_damaged_member_of_a_model_is_refused():
    data = bytearray(skops_bytes(Ridge().fit(X, Y)))
    view = plain_members(bytes(data))["schema.json"]
    data[data.index(bytes(view)) + 5] ^= 1
    with raises(ArchiveError, "schema.json"):
        plain_members(bytes(data))
