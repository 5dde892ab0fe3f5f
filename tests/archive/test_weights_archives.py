"""Archives with weighted calibration: the same bounds again, and forged ones are refused."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from archives_for_tests import forge, members_of, rows
from helpers import raises
from locuscore import ArchiveError, Locus, Scorer, prediction_column
from locuscore._archive.container import array_bytes
from locuscore._archive.skops_models import skops_bytes
from locuscore.calibration import Shifted
from locuscore.engines import Forest

pytestmark = pytest.mark.extra

X, Y = rows(200)
NEW, _ = rows(9, seed=1)
TARGET = np.sqrt(rows(120, seed=2)[0])


def first(X):
    return 0.1 + np.asarray(X)[:, 0]


CHOICES = {
    "function": (Shifted(first), {}),
    "array": (Shifted(first(X), largest_weight=1.1), {}),
    "column": (Shifted("a"), {}),
    "learned": (Shifted(), {"target": TARGET}),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A scorer with each kind of weights, and its archive."""
    folder, found = tmp_path_factory.mktemp("saved"), {}

    def scorer_and_path(name):
        if name not in found:
            pd = pytest.importorskip("pandas")
            choice, more = CHOICES[name]
            given = pd.DataFrame(X, columns=["a", "b", "c"]) if name == "column" else X
            column = "b" if name == "column" else 1
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("locuscore._inputs.opinion_models.MORE_ROUNDS", (20,))
                locus = Locus(
                    prediction_column(column),
                    engine=Forest(n_trees=3, min_samples_leaf=20),
                    signals="x",
                    calibration=choice,
                    random_state=0,
                ).fit(given, Y, **more)
            scorer = Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.1, 0.25))
            scorer.save(folder / f"{name}.locus", keep_rows=False)
            found[name] = scorer, folder / f"{name}.locus"
        return found[name]

    return scorer_and_path


def assert_same(scorer, again, batch=NEW, **given):
    before, after = scorer(batch, **given), again(batch, **given)
    for name in scorer.column_names:
        assert np.array_equal(np.asarray(before[name]), np.asarray(after[name]))
    assert scorer.card == again.card


def test_a_function_is_passed_to_load(saved):
    scorer, path = saved("function")
    assert_same(scorer, Scorer.load(path, weights=first))
    with raises(ArchiveError, "weights", "function of your own", "weights=..."):
        Scorer.load(path)
    with raises(ArchiveError, "no use", "groups"):
        Scorer.load(path, weights=first, groups=first)
    with raises(ArchiveError, "weights", "function of X"):
        Scorer.load(path, weights=3)


def test_weights_of_an_array_are_passed_with_the_rows(saved):
    scorer, path = saved("array")
    again = Scorer.load(path)
    assert_same(scorer, again, weights=first(NEW))
    with raises(ValueError, "weights="):
        again(NEW)
    with raises(ValueError, "above 1.1"):
        again(NEW, weights=np.full(9, 1.2))
    with raises(ArchiveError, "no use", "weights"):
        Scorer.load(path, weights=first)
    with raises(ValueError, "no calibration rows"):
        again.locus.certify(0.5, 0.2, 0.1)


def test_a_column_and_learned_weights_come_back(saved):
    import pandas as pd

    scorer, path = saved("column")
    assert_same(scorer, Scorer.load(path), pd.DataFrame(NEW, columns=["a", "b", "c"]))
    scorer, path = saved("learned")
    again = Scorer.load(path)
    assert_same(scorer, again)
    ratio = scorer.locus.calibration_.reader
    assert np.array_equal(ratio(NEW), again.locus.calibration_.reader(NEW))
    again.save(path.with_name("twice.locus"), keep_rows=False)
    assert_same(scorer, Scorer.load(path.with_name("twice.locus")))


# Forged


def forged(saved, target, change):
    """Copy an archive with the state of its calibration changed."""
    members = members_of(saved)
    state = json.loads(members["scorer.json"])
    added = {}

    def member(data, ending):
        name = f"parts/forged_{len(added)}.{ending}"
        added[name] = data
        return name

    change(state["locus"]["calibration_"]["state"], member)
    target.write_bytes(saved.read_bytes())
    forge(target, {"scorer.json": json.dumps(state).encode(), **added})
    return target


def array(values):
    return lambda state, member: {"is": "array", "member": member(array_bytes(values), "npy")}


def constant(value):
    return lambda state, member: value


def kept(kind, state):
    return constant({"is": "object", "kind": kind, "state": state})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weights", array(np.ones(3))),
        ("weights", array(np.ones((2, 2)))),
        ("weights", array(np.array(["a"] * 3))),
        ("weights", constant(None)),
        ("weights", constant(1.0)),
        ("tails", array(np.array([0.5, 0.2]))),
        ("largest_weight", constant("many")),
        ("largest_weight", constant(-1.0)),
        ("largest_weight", array(np.ones(3))),
        ("is_given", constant(2)),
        ("is_given", constant(None)),
        ("reader", constant("os.system")),
        ("reader", kept("Encoder", {"codes_": {"is": "dict", "items": []}})),
        ("reader", kept("WeightColumn", {"name": "a"})),
    ],
)
def test_a_forged_calibration_is_refused(saved, tmp_path, field, value):
    def change(state, member):
        state[field] = value(state, member)

    path = forged(saved("array")[1], tmp_path / "x.locus", change)
    with pytest.raises(ArchiveError):
        Scorer.load(path)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 0.0])
def test_forged_weights_are_refused(saved, tmp_path, bad):
    scorer, path = saved("array")
    values = np.full(scorer.locus.calibration_.n, bad)

    def change(state, member):
        state["weights"] = {"is": "array", "member": member(array_bytes(values), "npy")}

    with raises(ArchiveError, "weights that count no row"):
        Scorer.load(forged(path, tmp_path / "x.locus", change))


def model(estimator):
    return lambda state, member: {"is": "skops", "member": member(skops_bytes(estimator), "skops")}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("encoder", constant(None)),
        ("share", constant(2.0)),
        ("share", constant({"is": "float", "value": "nan"})),
        ("slope", constant({"is": "float", "value": "inf"})),
        ("start", constant("0")),
        ("n_target", constant(-1)),
        ("n_target", constant(True)),
        ("linear", constant(3)),
        ("linear", model(Ridge().fit(X, Y))),
        ("boosted", model(LogisticRegression().fit(X, np.arange(200) % 3))),
    ],
)
def test_a_forged_ratio_is_refused(saved, tmp_path, field, value):
    def change(state, member):
        state["reader"]["state"][field] = value(state, member)

    path = forged(saved("learned")[1], tmp_path / "x.locus", change)
    with pytest.raises(ArchiveError):
        Scorer.load(path)
