"""Compiled loops give what numpy and scikit-learn give, to the last bit, and start when it pays."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from locuscore import Locus
from locuscore._shared import machine_code
from locuscore._shared.boosting import BoostedClasses, BoostedTrees
from locuscore._shared.flat_trees import flat_boosting, flat_forest
from locuscore._shared.machine_code import FEWEST_ROWS, ROWS_BEFORE, Starter
from locuscore.draws._order import order_statistics

N = 900
SIZES = (8, 9, 15, 33, N)


@pytest.fixture
def start(monkeypatch):
    """Calls that start the compiled loops for this test, and that stop them."""
    pytest.importorskip("numba")
    loops = machine_code.loaded()
    assert loops is not None

    def put(is_on):
        starter = Starter()
        starter.loops, starter._rows = (loops if is_on else None), ROWS_BEFORE
        monkeypatch.setattr(machine_code, "_starter", starter)

    put(False)
    return put


@pytest.fixture(params=["values", "missing values"])
def rows(request, rng):
    X = rng.normal(size=(N, 4))
    X[:, 1] = np.round(X[:, 1], 1)
    if request.param == "missing values":
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.extra
def test_rows_reach_the_leaves_they_reach_without(rows, rng, start):
    single = rows.astype(np.float32)
    forest = RandomForestRegressor(20, min_samples_leaf=2, random_state=0)
    trees = flat_forest(forest.fit(single, rng.normal(size=N)))
    edge = np.tile(forest.estimators_[0].tree_.threshold.astype(np.float32)[:, None], (1, 4))
    single = np.vstack([single, edge])  # values at the thresholds themselves
    first = np.cumsum([0, *(tree.tree_.node_count for tree in forest.estimators_[:-1])])
    expected = np.column_stack([tree.tree_.apply(single) for tree in forest.estimators_])
    start(True)
    for n in (*SIZES, len(single)):
        assert np.array_equal(trees.node[trees.ends(single[:n])] - first, expected[:n])
    assert np.array_equal(trees.node[trees.ends(single[::2])] - first, expected[::2])


@pytest.mark.extra
def test_one_leaf_is_a_tree(start):
    forest = RandomForestRegressor(3, random_state=0).fit(np.zeros((9, 1)), np.ones(9))
    start(True)
    found = flat_forest(forest).ends(np.zeros((20, 1), dtype=np.float32))
    assert np.array_equal(found, [[0, 1, 2]] * 20)


@pytest.mark.extra
def test_rows_of_another_width_are_refused(rows, start):
    model = BoostedTrees(max_iter=5).fit(rows, np.nan_to_num(rows[:, 0]))
    start(True)
    with pytest.raises(ValueError, match="4 features; got 3"):
        flat_boosting(model).trees.ends(rows[:, :3])
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.predict(rows[:, :3])


@pytest.mark.extra
@pytest.mark.parametrize("n_classes", [2, 3, 9])
def test_boosted_models_predict_what_scikit_learn_does(rows, rng, start, n_classes):
    number = BoostedTrees(max_iter=30, random_state=0).fit(rows, rng.normal(size=N))
    kind = BoostedClasses(max_iter=10, random_state=0).fit(rows, rng.integers(n_classes, size=N))
    before = number.predict(rows), kind.predict_proba(rows)
    start(True)
    for n in (33, N):
        assert np.array_equal(number.predict(rows[:n]), before[0][:n])
        assert np.array_equal(kind.predict_proba(rows[:n]), before[1][:n])
    assert kind._raw_predict(rows).flags.f_contiguous  # as scikit-learn's, which softmax adds up


MADE = {
    "continuous": lambda rng, shape: rng.exponential(size=shape),
    "heavy tails": lambda rng, shape: rng.pareto(0.3, size=shape),
    "many ties": lambda rng, shape: np.round(rng.exponential(size=shape), 1),
    "atoms": lambda rng, shape: rng.choice(10.0 ** np.arange(-40, 40), size=shape),
    "zeros of both signs": lambda rng, shape: rng.choice([0.0, -0.0, 1.0], size=shape),
    "negative": lambda rng, shape: rng.normal(size=shape),
    "all negative": lambda rng, shape: -rng.exponential(size=shape),
    "one value": lambda rng, shape: np.full(shape, 0.1),
    "zero": lambda rng, shape: np.zeros(shape),
    "subnormal": lambda rng, shape: 1e-310 * rng.random(shape),
    "very large": lambda rng, shape: 1e300 * rng.random(shape),
    "infinite": lambda rng, shape: rng.choice([1.0, 2.0, np.inf], size=shape),
    "all ranges": lambda rng, shape: 10.0 ** rng.uniform(-300, 300, size=shape),
    "close together": lambda rng, shape: 1.0 + 1e-12 * rng.integers(500, size=shape),
    "falling": lambda rng, shape: np.sort(rng.exponential(size=shape))[:, ::-1],
}


@pytest.mark.extra
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("shape", [(40, 800), (7, 3000), (5, 2), (9, 1)])
def test_points_are_those_of_sorted_floats(name, shape, rng, start):
    start(True)
    points = np.ascontiguousarray(MADE[name](rng, shape))
    expected = np.sort(points, axis=1)
    place = rng.integers(shape[1], size=(shape[0], 9))
    values = np.empty(place.shape)
    for at in (place, np.sort(place), place[:, ::-1]):
        machine_code.machine_code().select(points, at, values)
        assert np.array_equal(values, np.take_along_axis(expected, at, axis=1))


@pytest.mark.extra
def test_order_statistics_are_the_same_bits(rng, start):
    points, place = rng.exponential(size=(50, 800)), np.array([720, 760, 799])
    before = order_statistics(points, place)
    start(True)
    assert order_statistics(points, place).tobytes() == before.tobytes()


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["float32", "float16", "int32", ">f8", "longdouble"])
def test_points_of_another_type_are_left_to_numpy(kind, rng, start):
    """The loops read eight bytes for each point, and compiled code checks no index."""
    points, place = (100 * rng.exponential(size=(50, 800))).astype(kind), np.array([720, 799])
    before = order_statistics(points, place)
    start(True)
    assert np.array_equal(order_statistics(points, place), before)
    assert np.array_equal(before, np.sort(points, axis=1)[:, place])


@pytest.mark.extra
def test_rows_of_another_type_are_left_to_numpy(rows, rng, start):
    model = BoostedTrees(max_iter=5, random_state=0).fit(rows, rng.normal(size=N))
    trees = flat_boosting(model).trees
    before = trees.ends(rows.astype(np.float32))
    start(True)
    assert np.array_equal(trees.ends(rows.astype(np.float32)), before)


@pytest.mark.extra
def test_the_loops_take_nothing_else(start):
    """So nothing is compiled, and nothing is read wrongly, after the start."""
    start(True)
    select = machine_code.machine_code().select
    with pytest.raises(TypeError, match="No matching definition"):
        select(np.zeros((2, 3), np.float32), np.zeros((2, 1), np.int64), np.empty((2, 1)))


@pytest.mark.extra
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_cache_is_done_without(ending, tmp_path):
    """As a crash or a full disk leaves it: the loops are compiled again, or numpy goes on."""
    pytest.importorskip("numba")
    code = "from locuscore._shared.machine_code import loaded; assert loaded() is not None"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", code]
    subprocess.run(run, env=environment, check=True)
    files = list(tmp_path.rglob(f"*.{ending}"))
    assert files
    for file in files:
        file.write_bytes(b"")
    subprocess.run(run, env=environment, check=True)


@pytest.mark.extra
@pytest.mark.parametrize("loss", ["absolute", "zero_one"])
def test_bounds_are_the_same_bits(rng, start, loss):
    X = rng.normal(size=(1500, 3))
    y = X[:, 0] + rng.normal(size=1500) * (1 + X[:, 1] ** 2)
    y = y if loss == "absolute" else (y > 0).astype(int)

    def g(X):
        return X[:, 0] if loss == "absolute" else (X[:, 0] > 0).astype(int)

    locus = Locus(g, loss=loss, random_state=0).fit(X[:1000], y[:1000])

    def answers():
        bounds = locus.loss_bound(X, [0.5, 0.2, 0.1, 0.005]), locus.exceedance(X, tau=0.5)
        locus.engine_.n_jobs = 2
        with_threads = locus.loss_bound(X[::-1], [0.5, 0.2, 0.1, 0.005])
        locus.engine_.n_jobs = None
        return [part.tobytes() for part in (*bounds, with_threads)]

    before = answers()
    start(True)
    assert answers() == before


@pytest.mark.extra
def test_a_call_on_many_rows_starts_it(rng):
    """The whole way, without a fixture: the same bounds before and after."""
    pytest.importorskip("numba")
    X = rng.normal(size=(400, 2))
    locus = Locus(lambda X: X[:, 0], random_state=0).fit(X, X[:, 0] + rng.normal(size=400))
    before = locus.loss_bound(X, 0.1)
    assert machine_code.machine_code() is None
    after = locus.loss_bound(np.tile(X, (ROWS_BEFORE // 400 + 1, 1)), 0.1)
    assert machine_code.machine_code() is not None
    assert np.array_equal(after[-400:], before)


def test_a_start_that_fails_twice_leaves_numpy(monkeypatch):
    asked = []

    class Broken:
        @staticmethod
        def compiled(*, cache):
            asked.append(cache)
            raise OSError("the disk is full")

    monkeypatch.setitem(sys.modules, "locuscore._shared.loops", Broken)
    assert machine_code.loaded() is None
    assert asked == [True, False]


def test_a_fork_during_the_start_stays_without(monkeypatch):
    """The child has the count, so it never waits for a lock that another thread held."""
    starter = Starter()
    monkeypatch.setattr(machine_code, "loaded", lambda: seen.append(starter._rows))
    seen = []
    starter.count(ROWS_BEFORE)
    assert seen == [ROWS_BEFORE]


def test_few_rows_start_nothing(monkeypatch):
    monkeypatch.setattr(machine_code, "loaded", lambda: pytest.fail("it was started"))
    starter = Starter()
    for _ in range(1000):
        starter.count(FEWEST_ROWS - 1)
    starter.count(ROWS_BEFORE - 1)


def test_enough_rows_start_it_once(monkeypatch):
    calls = []
    monkeypatch.setattr(machine_code, "loaded", lambda: calls.append(1))
    starter = Starter()
    for _ in range(5):
        starter.count(ROWS_BEFORE // 2)
    assert calls == [1]


def test_without_numba_nothing_is_compiled(monkeypatch):
    monkeypatch.setitem(sys.modules, "locuscore._shared.loops", None)
    assert machine_code.loaded() is None


@pytest.mark.extra
def test_numba_may_be_switched_off():
    pytest.importorskip("numba")
    code = "from locuscore._shared.machine_code import loaded; print(loaded())"
    environment = {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "None"
