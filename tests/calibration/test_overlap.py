"""Overlapping groups: cutoffs as linear programs say, levels that never cross, and the chain."""

import pickle

import numpy as np
import pytest
from scipy.optimize import linprog

from archives_for_tests import forged_state
from engines_for_tests import ConstantNormal
from helpers import assert_close, raises, warns
from locuscore import ArchiveError, Locus, LocusWarning, Scorer, prediction_column
from locuscore._laws.calibration import calibrated_level
from locuscore._protocols import Part
from locuscore.calibration import ByGroup, _overlap
from locuscore.calibration._overlap import ALPHAS, OverlapCalibration, _one_hot, solved_levels
from locuscore.calibration._quantile_simplex import cutoffs
from locuscore.engines import Forest

WIDTHS = (2, 3)
EVERY = np.array([(a, b) for a in range(2) for b in range(3)])
SOME = np.array([0.5, 0.2, 0.1])


def problem(rng, n=25, ties=False, widths=WIDTHS):
    codes = np.column_stack([rng.integers(width, size=n) for width in widths])
    scores = rng.exponential(size=n)
    return codes, np.round(scores, 1) if ties else scores


def fast(codes, scores, new, alphas, widths=WIDTHS):
    types, which = np.unique(codes, axis=0, return_inverse=True)
    return cutoffs(_one_hot(types, widths), which.ravel(), scores, _one_hot(new, widths), alphas)


# The cutoffs


def smallest_weight(vectors, scores, alpha):
    """The least weight of the last row among all solutions of the regression's dual."""
    b = alpha * vectors.sum(axis=0)
    best = linprog(-scores, A_eq=vectors.T, b_eq=b, bounds=(0, 1))
    last = np.zeros(len(scores))
    last[-1] = 1.0
    among = linprog(
        last, A_eq=vectors.T, b_eq=b, bounds=(0, 1), A_ub=-scores[None], b_ub=[1e-9 + best.fun]
    )
    return among.x[-1]


def slow_cutoff(codes, scores, new, alpha):
    """The largest score of the new row that does not get the weight 1, by bisection."""
    vectors = _one_hot(np.vstack([codes, new]), WIDTHS)
    low, high = -50.0, 50.0
    if smallest_weight(vectors, np.append(scores, high), alpha) < 1 - 1e-3:
        return np.inf
    while high - low > 1e-5:
        middle = (low + high) / 2
        is_in = smallest_weight(vectors, np.append(scores, middle), alpha) < 1 - 1e-3
        low, high = (middle, high) if is_in else (low, middle)
    return low


@pytest.mark.parametrize("ties", [False, True])
def test_a_cutoff_is_the_largest_score_without_the_whole_weight(ties, rng):
    codes, scores = problem(rng, ties=ties)
    found = fast(codes, scores, EVERY[[0, 5]], SOME)
    for i, new in enumerate(EVERY[[0, 5]]):
        for j, alpha in enumerate(SOME):
            assert_close(found[i, j], slow_cutoff(codes, scores, new, alpha), atol=2e-5)


def slope(codes, scores, new, alpha, widths):
    """``-M'(1-)``, the same from two linear programs."""
    vectors, own = _one_hot(codes, widths), _one_hot(new[None], widths)[0]

    def value(t):
        b = alpha * (vectors.sum(axis=0) + own) - t * own
        found = linprog(-scores, A_eq=vectors.T, b_eq=b, bounds=(0, 1))
        return -found.fun if found.status == 0 else None

    at_one, before = value(1.0), value(1 - 1e-5)
    return np.inf if at_one is None else (before - at_one) / 1e-5


@pytest.mark.parametrize("ties", [False, True])
def test_cutoffs_are_slopes_of_the_value(ties, rng):
    widths = (2, 3, 2)
    every = np.array([(a, b, c) for a, b in EVERY for c in range(2)])
    for _ in range(3):
        codes, scores = problem(rng, int(rng.integers(15, 70)), ties, widths)
        found = fast(codes, scores, every, SOME, widths)
        for i in range(0, len(every), 4):
            for j, alpha in enumerate(SOME):
                expected = slope(codes, scores, every[i], alpha, widths)
                assert_close(found[i, j], expected, atol=1e-4)


@pytest.mark.parametrize("n", [9, 19, 99, 137])
def test_one_column_has_the_ranks_of_its_groups(n, rng):
    """Also where ``alpha (n_g + 1)`` is whole, and the quantile is not unique."""
    codes = np.repeat(np.arange(2), [n, 99])[:, None]
    tails = rng.uniform(size=n + 99)
    levels = solved_levels(codes, tails, np.array([[0], [1]]))
    for group in range(2):
        own = tails[codes[:, 0] == group]
        expected = [calibrated_level(own, float(alpha)) for alpha in ALPHAS]
        assert_close(levels[group], expected, rtol=2e-9)
        assert (levels[group] <= expected).all()  # so that ties are covered


def test_nested_columns_are_those_of_the_inner_one(rng):
    """A county lies in one state: its groups are sums of others, and nothing is lost."""
    county = rng.integers(4, size=300)
    codes, tails = np.column_stack([county // 2, county]), rng.uniform(size=300)
    sets = np.array([(0, 0), (0, 1), (1, 2), (1, 3), (1, 0)])
    levels = solved_levels(codes, tails, sets)
    inner = solved_levels(codes[:, 1:], tails, np.arange(4)[:, None])
    assert_close(levels[:4], inner, rtol=1e-8)
    assert (levels[4] == 0).all()  # no such county in that state: no row is like it


def test_levels_that_cross_are_put_in_order(rng):
    crossed = 0
    for _ in range(6):
        codes, scores = problem(rng, 40)
        raw = np.exp(-fast(codes, scores, EVERY, ALPHAS[::-1]))[:, ::-1]
        levels = solved_levels(codes, np.exp(-scores), EVERY)
        crossed += np.sum(np.diff(raw, axis=1) < -1e-9)
        assert (np.diff(levels, axis=1) >= 0).all()
        expected = np.minimum.accumulate(raw[:, ::-1], axis=1)[:, ::-1]
        assert_close(levels, np.minimum(expected, 1), rtol=3e-9)
        assert (levels <= expected).all()
    assert crossed > 0


def test_tails_of_zero_and_many_ties(rng):
    codes, _ = problem(rng, 200)
    tails = rng.choice([0.0, 0.1, 1.0], size=200)
    levels = solved_levels(codes, tails, EVERY)
    assert np.isfinite(levels).all()
    assert (np.diff(levels, axis=1) >= 0).all()
    assert levels.max() <= 1.0
    one = solved_levels(np.zeros((200, 1), dtype=int), tails, np.zeros((1, 1), dtype=int))[0]
    expected = [calibrated_level(tails, float(alpha)) for alpha in ALPHAS]
    assert_close(one, expected, rtol=2e-9)  # zero where the tail is


# The calibration


def rows(rng, n=600, last=3):
    """The loss grows with both of the last two columns."""
    X = np.column_stack([rng.uniform(size=n), rng.integers(2, size=n), rng.integers(last, size=n)])
    return X, X[:, 0] + (1 + X[:, 1]) * (1 + 2 * X[:, 2]) * rng.normal(size=n)


def fitted(by, X, y, pool_below=None, **settings):
    settings = {"engine": ConstantNormal(), "signals": "x", "random_state": 0} | settings
    choice = ByGroup(by, pool_below=pool_below)
    return Locus(prediction_column(0), calibration=choice, **settings).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*of a group without calibration rows")
def test_bound_and_exceedance_say_the_same_and_never_cross(rng):
    X, y = rows(rng)
    locus = fitted([1, 2], X, y, calibration_size=0.5)
    new, _ = rows(rng, 200, last=4)  # one group is unseen
    alphas = np.array([0.9995, 0.5, 0.3333, 0.2, 0.1, 0.05])
    bounds = locus.loss_bound(new, alphas)
    is_unseen = new[:, 2] == 3
    assert np.isinf(bounds[is_unseen]).all()
    assert np.isfinite(bounds[~is_unseen]).all()
    assert (np.diff(bounds[~is_unseen], axis=1) >= 0).all()
    for tau in (0.0, 0.5, 2.0, 8.0, 30.0):
        found = locus.exceedance(new, tau)
        assert set(found) <= {*ALPHAS, 1.0}
        for j, alpha in enumerate(alphas):
            assert ((found <= alpha) == (bounds[:, j] <= tau)).all()
        # At its own exceedance, if there is one, the bound is at most tau, and not just below it.
        for value in np.unique(found[(found < 1) & (found > 0.05)]):
            own, below = found == value, ALPHAS[np.searchsorted(ALPHAS, value) - 1]
            assert (locus.loss_bound(new[own], value) <= tau).all()
            assert (locus.loss_bound(new[own], below) > tau).all()


@pytest.mark.extra
def test_columns_functions_and_frames_agree(rng):
    import pandas as pd
    import polars as pl

    X, y = rows(rng)
    expected = fitted([1, 2], X, y).loss_bound(X, 0.2)
    assert_close(fitted((1, lambda X: X[:, 2]), X, y).loss_bound(X, 0.2), expected)
    data = {"a": X[:, 0], "b": np.array(["x", "y"])[X[:, 1].astype(int)], "c": X[:, 2].astype(int)}
    for library in (pd, pl):
        frame = library.DataFrame(data)
        locus = Locus(
            prediction_column("a"),
            calibration=ByGroup(["b", "c"]),
            engine=ConstantNormal(),
            signals=lambda X: np.asarray(X["a"])[:, None],
            random_state=0,
        ).fit(frame, y)
        assert_close(locus.loss_bound(frame, 0.2), expected)


@pytest.mark.filterwarnings("ignore:.*of a group without calibration rows")
def test_all_combinations_are_solved_or_those_that_occur(rng, monkeypatch):
    X, y = rows(rng)
    X[(X[:, 1] == 1) & (X[:, 2] == 2), 2] = 0  # two groups that never meet
    new = np.array([[0.5, 1.0, 2.0], [0.5, 1.0, 1.0], [0.5, 9.0, 1.0]])
    locus = fitted([1, 2], X, y)
    assert np.isfinite(locus.loss_bound(new, 0.2)).tolist() == [True, True, False]
    assert "A row of a group without calibration rows has no" in locus.calibration_.sentence([0.2])
    monkeypatch.setattr(_overlap, "MOST_SETS", 5)
    locus = fitted([1, 2], X, y)
    assert len(locus.calibration_.sets) == 5
    assert np.isfinite(locus.loss_bound(new, 0.2)).tolist() == [False, True, False]
    assert "never meet in fit" in locus.calibration_.sentence([0.2])
    monkeypatch.setattr(_overlap, "MOST_SETS", 4)
    with raises(ValueError, "5 different sets", "at most 4", "pool_below"):
        fitted([1, 2], X, y)
    with raises(ValueError, "5 different sets", "at most 4"):
        fitted([1, 2], X, y, pool_below=2)


def test_pools_of_columns(rng):
    X, y = rows(rng)
    X[:30, 2] = 10 + np.arange(30) % 6
    locus = fitted([1, 2], X, y, pool_below=20, calibration_size=0.5)
    found = locus.calibration_
    assert set(found.groups[1].names) == {0, 1, 2}
    assert "6 groups by 2 with fewer than 20 rows in D1" in found.sentence([0.1])
    new = np.array([[0.5, 0.0, 10.0], [0.5, 0.0, 99.0]])
    assert_close(*locus.loss_bound(new, 0.3))
    with warns(LocusWarning, "the pool of 2 (", "alpha = 0.01", "At least 99"):
        locus.loss_bound(new, 0.01)


def test_small_groups_and_alphas_are_named(rng):
    X, y = rows(rng)
    X[:8, 2] = 7
    locus = fitted([1, 2], X, y, calibration_size=0.5)
    with warns(LocusWarning, "7 of 2 (", "At least 9", "infinite"):
        bounds = locus.loss_bound(X, 0.1)
    assert np.isinf(bounds[:8]).all()
    assert np.isfinite(bounds[8:]).all()
    with warns(LocusWarning, "from alpha = 0.001 on", "0.0005"):
        assert np.isinf(locus.loss_bound(X, 0.0005)).all()
    assert locus.calibration_.too_few(0.5) is None


def test_a_set_without_a_solution_is_named(rng):
    """Groups may have enough rows each, and yet a set of them too few beside what they share."""
    codes = np.array([(0, 0)] * 40 + [(1, 1)] * 40 + [(0, 1)] * 2)
    tails = rng.uniform(size=82)
    locus = fitted([1, 2], *rows(rng)).calibration_
    groups = [type(locus.groups[0])(("a", "b")), type(locus.groups[0])(("x", "y"))]
    part = Part(None, None, None, tails)
    found = OverlapCalibration.of(part, codes, codes, tuple(groups), locus.labels)
    text = found.too_few(0.1)
    assert "'a' with 'y'" in text
    assert "'a' with 'x'" not in text
    assert "too few" in text


def test_other_calibration_rows(rng):
    X, y = rows(rng)
    calibration = fitted([1, 2], X, y).calibration_
    other, _ = rows(rng, 300, last=4)
    tails = rng.uniform(size=300)
    found = calibration.again(Part(other, np.arange(300), None, tails))
    entries = found.reads(other)
    sets, which = np.unique(other[:, 1:].astype(int), axis=0, return_inverse=True)
    expected = solved_levels(other[:, 1:].astype(int), tails, sets)
    at = np.flatnonzero(ALPHAS == 0.2)[0]
    assert_close(found.level(0.2, entries), expected[which.ravel(), at], rtol=1e-9)


def test_pickled_it_gives_the_same(rng):
    X, y = rows(rng)
    calibration = fitted([1, 2], X, y).calibration_
    again = pickle.loads(pickle.dumps(calibration))
    entries = calibration.reads(X)
    assert_close(again.level(SOME, entries), calibration.level(SOME, entries))


@pytest.mark.parametrize(
    ("by", "error", "facts"),
    [
        ([1, 9], ValueError, ["no column 9"]),
        ([1, None], TypeError, ["None"]),
        ([1, np.zeros(3)], TypeError, ["array", "list"]),
        ([1, 1], ValueError, ["each once"]),
        ([1, 0], ValueError, ["600 different labels"]),
        ([0, 1, 2, 3, 4, 5, 6], ValueError, ["7", "at most 6"]),
        ([1, lambda X: np.where(X[:, 2] == 0, np.nan, X[:, 2])], ValueError, ["missing"]),
    ],
)
def test_lists_that_give_no_groups(by, error, facts, rng):
    X, y = rows(rng)
    with raises(error, *facts):
        fitted(by, X, y)


# Archives


def scorer_of(by, pool_below=None):
    X, y = rows(np.random.default_rng(0))
    locus = fitted(by, X, y, pool_below, engine=Forest(n_trees=2, min_samples_leaf=50))
    return Scorer(locus, locus.tau_rule(tau=2.0, alpha=0.2), alphas=(0.1, 0.25))


@pytest.fixture
def saved(rng, tmp_path):
    """Save a scorer, and check that it scores the same when loaded."""
    new, _ = rows(rng, 50, last=4)

    def make(by, pool_below=None, **told):
        scorer = scorer_of(by, pool_below)
        scorer.save(path := tmp_path / "x.locus")
        before, after = scorer(new), Scorer.load(path, **told)(new)
        for name, values in before.items():
            assert_close(after[name], values)
        return path, scorer

    return make


def second(X):
    return X[:, 2].astype(int).astype(str)


def first(X):
    return X[:, 1] > 0


@pytest.mark.extra
def test_archives_keep_columns_and_ask_for_functions(saved):
    _, scorer = saved([1, 2])
    assert "and over all rows" in scorer.card
    saved([1, 2], pool_below=100)
    path, _ = saved([1, second], groups=second)
    with raises(ArchiveError, "groups", "function"):
        Scorer.load(path)
    path, _ = saved([first, second], groups=[first, second])
    with raises(ArchiveError, "2 functions"):
        Scorer.load(path, groups=first)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "x.locus"
    scorer_of([1, 2]).save(path, keep_rows=False)
    return path


LEVELS = np.tile(np.linspace(0.1, 0.9, len(ALPHAS)), (6, 1))


@pytest.mark.extra
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("levels", LEVELS[:5]),
        ("levels", LEVELS[:, :9]),
        ("levels", LEVELS[:, ::-1]),
        ("levels", LEVELS * 2),
        ("levels", LEVELS * np.nan),
        ("levels", LEVELS.astype(np.float32)),
        ("levels", LEVELS[0]),
        ("alphas", ALPHAS[::-1]),
        ("alphas", ALPHAS * 2),
        ("alphas", ALPHAS[:, None]),
        ("alphas", np.zeros(0)),
        ("sets", EVERY[::-1]),
        ("sets", EVERY[:, :1]),
        ("sets", EVERY + 9),
        ("sets", EVERY - 1),
        ("sets", EVERY * 1.0),
        ("sets", EVERY.ravel()),
        ("sizes", np.zeros(3, dtype=int)),
        ("sizes", np.zeros(7)),
        ("tails", np.linspace(1, 0, 99)),
        ("names", [[0, 1]]),
        ("names", [0, 1]),
        ("names", [[0, 1], [0, 0, 1]]),
        ("n_pooled", 0),
        ("n_pooled", [0]),
        ("n_pooled", [0, "x"]),
        ("pool_below", 0.5),
        ("told", [1]),
        ("told", [1, 2, 3]),
        ("told", [1, 2.0]),
    ],
)
def test_forged_sets_are_refused(sound, tmp_path, field, value):
    assert Scorer.load(sound).locus.calibration_.levels.shape == LEVELS.shape
    path = forged_state(sound, tmp_path / "x.locus", ["calibration_"], {field: value})
    with pytest.raises(ArchiveError):
        Scorer.load(path)
