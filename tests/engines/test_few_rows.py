"""A forest of few rows: one shape for all of them, and losses in units of the members' spread."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from archives_for_tests import assert_loads, forged_state
from helpers import assert_close
from locuscore import Locus, Scorer
from locuscore._laws.signed_errors import ErrorLoss, SignedErrors, fit_engine
from locuscore.engines import Forest
from locuscore.engines._row_unit import RowUnit
from locuscore.engines._shared_shape import share_of_few_rows


def noisy(n, seed=0):
    """Three signals, the last of which is the spread, and losses that grow with it."""
    rng = np.random.default_rng(seed)
    S = rng.uniform(0.2, 1.0, size=(n, 3))
    return S, S[:, 2] * np.abs(rng.normal(size=n))


S, Z = noisy(80)
NEW, _ = noisy(9, seed=1)


def pooled(engine, rows):
    draws = engine.predict_draws(rows)
    return np.sort(draws.points.reshape(len(rows), -1), axis=1), draws.top, draws.scale


def test_the_weight_of_what_all_rows_share():
    assert share_of_few_rows(100) == 0.5
    assert share_of_few_rows(1500) == 1 / 16
    assert share_of_few_rows(1501) == 0.0
    assert share_of_few_rows(31) == pytest.approx(100 / 131)


def test_losses_in_units_are_those_of_a_forest_of_ratios():
    """The slow definition: model z / unit, and multiply every law by the unit of its row."""
    told = Forest(20, random_state=0).fit(S, Z, spread=2)
    power = 100 / (100 + len(Z))

    def unit(rows):
        return np.array([max(row[2] / S[:, 2].mean(), 0.05) ** power for row in rows])

    plain = Forest(20, random_state=0).fit(S, Z / unit(S))
    for of_told, of_plain in zip(pooled(told, NEW), pooled(plain, NEW), strict=True):
        size = unit(NEW) if of_plain.ndim == 1 else unit(NEW)[:, None]
        assert_close(of_told, of_plain * size, rtol=1e-12)


def test_laws_grow_with_the_spread_and_one_that_is_not_told_learns_it_less():
    low, high = (np.column_stack([NEW[:, :2], np.full(len(NEW), s)]) for s in (0.25, 0.95))
    ratios = []
    for spread in (2, None):
        engine = Forest(50, random_state=0).fit(*noisy(40), spread=spread)
        means = [pooled(engine, rows)[0].mean() for rows in (low, high)]
        ratios.append(means[1] / means[0])
    assert ratios[0] > 1.2 * ratios[1]


def test_where_there_is_no_unit():
    many = noisy(1600)
    assert Forest(3).fit(*many, spread=2).unit_ is None
    assert Forest(3).fit(S, Z).unit_ is None
    assert Forest(3).fit(S, np.round(Z), spread=2).unit_ is None  # losses that tie
    assert Forest(3).fit(S, Z - 1.0, spread=2).unit_ is None  # negative ones
    assert Forest(3).fit(S * [1, 1, 0], Z, spread=2).unit_ is None  # members that agree
    errors = SignedErrors(ErrorLoss(), Z, -1)
    assert Forest(3).fit(S, Z, errors, spread=2).unit_ is None


def test_a_member_that_agrees_has_a_small_unit_and_no_zero():
    unit = RowUnit.learned(S, Z, 2)
    assert_close(unit(np.zeros((2, 3))), np.full(2, 0.05**unit.power))


def test_units_do_not_depend_on_the_scale_of_losses_and_spreads():
    other = Forest(10, random_state=0).fit(S * [1, 1, 2.0**30], Z * 2.0**30, spread=2)
    one = Forest(10, random_state=0).fit(S, Z, spread=2)
    for ours, theirs in zip(pooled(one, NEW), pooled(other, NEW * [1, 1, 2.0**30]), strict=True):
        assert np.array_equal(ours * 2.0**30, theirs)


def fitted(n, g=None, **settings):
    """A forest whose trees disagree, and labelled rows that leave no second opinion."""
    rng = np.random.default_rng(n)
    X = rng.uniform(size=(300 + n, 2))
    y = X[:, 1] * rng.normal(size=len(X))
    model = RandomForestRegressor(20, random_state=0) if g is None else g
    model = clone(model).fit(X[:300], y[:300])
    return Locus(model, random_state=0, **settings).fit(X[300:], y[300:]), X[300:]


def test_locus_tells_its_engine_where_the_spread_is():
    locus, X = fitted(80)
    assert locus.signals_.opinion is None
    column = locus.engine_.unit_.column
    spread = np.std([tree.predict(X) for tree in locus.predictor.estimators_], axis=0)
    assert_close(locus.row_signals(X)[:, column], spread, rtol=1e-9)
    with_own, X = fitted(80, signals=["all", lambda X: X[:, :1] + 5])
    column = with_own.engine_.unit_.column
    assert_close(with_own.row_signals(X)[:, column], spread, rtol=1e-9)


def test_locus_has_no_spread_to_tell():
    for choice in ("x", ["x", "opinion"]):
        assert fitted(80, signals=choice)[0].engine_.unit_ is None
    assert fitted(80, g=LinearRegression())[0].engine_.unit_ is None
    two = RandomForestRegressor(5, random_state=0).fit(S, np.column_stack([Z, Z]))
    locus = Locus(two, loss=lambda y, g: np.abs(y - g).max(axis=1), random_state=0)
    assert locus.fit(S, np.column_stack([Z + 0.1, Z])).engine_.unit_ is None


def test_an_engine_of_others_need_not_take_a_spread():
    class Plain:
        def fit(self, S, z):
            self.seen = z
            return self

    assert fit_engine(Plain(), S, Z, None, 2).seen is Z


def transcribed_shape(engine, z, rows, new):
    """Points of one shape, row by row: ratios of losses to out-of-bag means, times mean leaves."""
    n, typical, trees = len(z), z.mean(), engine.forest_.estimators_

    def mixed(mean):
        return max((n * mean + 20 * typical) / (n + 20), 1e-3 * typical)

    leaves = [tree.apply(rows.astype(np.float32)) for tree in trees]
    ratios = []
    for i in range(n):
        told = []
        for leaf, seen in zip(leaves, engine.forest_.estimators_samples_, strict=True):
            others = [z[j] for j in range(n) if leaf[j] == leaf[i] and j != i]
            if i not in seen and others:
                told.append(np.mean(others))
        ratios.append(z[i] / mixed(np.mean(told) if told else typical))
    ratios = np.sort(ratios)
    per_tree = round(8 * 100 / (100 + n))
    count = per_tree * len(trees)
    shape = [ratios[int((k + 0.5) / count * n)] for k in range(count)]
    sizes = []
    for row in new:
        means = []
        for tree, leaf in zip(trees, leaves, strict=True):
            own = tree.apply(row[None].astype(np.float32))[0]
            means.append(mixed(z[leaf == own].mean()))
        sizes.append(np.mean(means))
    return np.outer(sizes, shape)


def test_the_shared_shape_equals_its_transcription():
    rows, z = S[:40], Z[:40]
    engine = Forest(6, random_state=0, max_samples=30).fit(rows, z)
    per_tree = engine.shape_.per_tree
    points = engine.predict_draws(NEW).points.reshape(len(NEW), 6, 8)[:, :, -per_tree:]
    expected = transcribed_shape(engine, z, rows, NEW)
    assert_close(np.sort(points.reshape(len(NEW), -1), axis=1), expected, rtol=1e-12)


@pytest.mark.parametrize("z", [np.round(Z), Z - 1.0])
def test_losses_that_tie_or_are_negative_share_no_shape(z):
    assert Forest(3, random_state=0).fit(S, z).shape_ is None


@pytest.mark.extra
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, None),
        ({"column": 99}, "no signal"),
        ({"column": -99}, "no signal"),
        ({"column": 1.0}, "unit of a forest"),
        ({"typical": 0.0}, "unit of a forest"),
        ({"power": 2.0}, "unit of a forest"),
        ({"power": None}, "damaged"),
    ],
)
def test_units_in_archives(change, error, tmp_path):
    locus, X = fitted(80)
    path = tmp_path / "x.locus"
    Scorer(locus, alphas=(0.1,)).save(path)
    assert_loads(forged_state(path, path, ["engine_", "unit_"], change), locus, X, error)
