"""However many rows a forest is asked about, each has the leaves and the law of its own."""

import pickle

import numpy as np
import pytest

from locuscore.engines import Forest
from locuscore.engines._forest_leaves import FEW_ROWS, leaves_of

N = 700


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    S = rng.normal(size=(N, 3))
    S[rng.random(S.shape) < 0.05] = np.nan
    z = np.abs(rng.normal(size=N)) * (1 + np.nan_to_num(S[:, 0]) ** 2)
    return Forest(20, n_draws=5, random_state=0).fit(S, z), S


def plain_leaves(forest, S):
    rows = S.astype(np.float32)
    return np.column_stack([tree.apply(rows) for tree in forest.estimators_])


def test_leaves_are_those_of_scikit_learn(fitted):
    engine, S = fitted
    assert np.array_equal(leaves_of(engine.forest_, S, None), plain_leaves(engine.forest_, S))
    assert np.array_equal(leaves_of(engine.forest_, S, 2), plain_leaves(engine.forest_, S))
    for n in (1, FEW_ROWS):
        few, _ = engine._places(S[:n])
        names = zip(engine.table_row_, plain_leaves(engine.forest_, S[:n]).T, strict=True)
        assert np.array_equal(few, np.column_stack([row[leaf] for row, leaf in names]))


def test_one_row_has_the_law_that_it_has_among_many(fitted):
    engine, S = fitted
    level = np.array([[0.3], [0.004]])
    many = [engine.predict_draws(S).isf(one) for one in level]
    for n in (1, 2, 60):
        few = [engine.predict_draws(S[:n]).isf(one) for one in level]
        assert np.array_equal(few, np.array(many)[:, :n])


def test_threads_change_nothing(fitted):
    engine, S = fitted
    threaded = pickle.loads(pickle.dumps(engine)).set_params(n_jobs=2)
    z = np.linspace(0, 5, len(S))[:, None]
    assert np.array_equal(threaded.predict_draws(S).sf(z), engine.predict_draws(S).sf(z))


def test_a_forest_that_is_fitted_again_is_seen_again(fitted):
    engine, S = fitted
    again = pickle.loads(pickle.dumps(engine))
    before = again.predict_draws(S[:1]).isf(np.array([[0.2]]))
    again.fit(S, np.linspace(100, 200, len(S)))
    assert (again.predict_draws(S[:1]).isf(np.array([[0.2]])) > before).all()


def test_other_signals_are_refused_however_few(fitted):
    engine, S = fitted
    for n in (1, 50):
        with pytest.raises(ValueError, match=r"fitted on 3 signals; got 2"):
            engine.predict_draws(S[:n, :2])
