"""ByGroup: a level for each group, from labels of any kind, through every part of the chain."""

import datetime
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from archives_for_tests import forged_state
from engines_for_tests import ConstantNormal
from helpers import assert_close, raises, warns
from locuscore import ArchiveError, Locus, LocusWarning, Scorer, prediction_column
from locuscore._laws.calibration import MarginalCalibration, conformal_rank
from locuscore._protocols import Part
from locuscore.calibration import ByGroup
from locuscore.calibration._by_group import GroupCalibration
from locuscore.calibration._row_labels import Groups, RowLabels, plain_label
from locuscore.engines import Forest
from locuscore.report import report

ALPHAS = np.array([0.5, 0.2, 0.1, 0.03])


def rows(rng, n=400, groups=3):
    """The loss grows with the group; the group is the last column."""
    X = np.column_stack([rng.uniform(size=(n, 2)), rng.integers(groups, size=n)])
    return X, X[:, 0] + (1 + 3 * X[:, 2]) * rng.normal(size=n)


def fitted(by, X, y, pool_below=None, **settings):
    settings = {"engine": ConstantNormal(), "signals": "x", "random_state": 0} | settings
    choice = ByGroup(by, pool_below=pool_below)
    return Locus(prediction_column(0), calibration=choice, **settings).fit(X, y)


def made(tails, codes, n_groups):
    groups = Groups(tuple(range(n_groups)))
    return GroupCalibration.of(Part(None, None, None, tails), codes, groups, RowLabels((0,)))


def slow_level(tails, codes, group, alpha):
    own = np.sort(tails[codes == group])[::-1]
    k = conformal_rank(len(own), alpha)
    return 0.0 if k > len(own) else own[k - 1]


def slow_smallest_alpha(tails, codes, group, survival):
    own = tails[codes == group]
    return (1 + np.sum(own <= survival)) / (len(own) + 1)


# The levels


@pytest.mark.parametrize("ties", [False, True])
def test_levels_and_alphas_are_those_of_the_definition(ties, rng):
    tails, codes = rng.uniform(size=300), rng.integers(6, size=300) ** 2 // 5  # uneven, one empty
    tails = np.round(tails, 1) if ties else tails
    found = made(tails, codes, 6)
    entries = rng.integers(7, size=80)  # 6 is a label that no group has
    survival = np.where(rng.uniform(size=(80, 2)) < 0.5, rng.choice(tails, (80, 2)), 0.4)
    levels, alphas = found.level(ALPHAS, entries), found.smallest_alpha(survival, entries)
    for i, group in enumerate(entries):
        for j, alpha in enumerate(ALPHAS):
            assert levels[i, j] == slow_level(tails, codes, group, alpha)
        for j in range(2):
            assert alphas[i, j] == slow_smallest_alpha(tails, codes, group, survival[i, j])
    assert_close(found.level(0.2, entries), levels[:, 1])
    assert found.level(0.2, entries).shape == (80,)


def test_a_level_is_above_survival_exactly_when_the_smallest_alpha_is_at_most_alpha(rng):
    tails, codes = np.round(rng.uniform(size=90), 2), rng.integers(3, size=90)
    found, entries = made(tails, codes, 3), rng.integers(4, size=500)
    survival = rng.choice(tails, size=(500, 1))
    smallest = found.smallest_alpha(survival, entries)
    for alpha in [*ALPHAS, *np.unique(smallest[smallest < 1])]:
        above = found.level(alpha, entries)[:, None] > survival
        assert (above == (smallest <= alpha)).all()


def test_one_group_is_marginal(rng):
    tails = rng.uniform(size=50)
    found, marginal = made(tails, np.zeros(50, dtype=int), 1), MarginalCalibration(np.sort(tails))
    zeros = np.zeros(4, dtype=int)
    assert_close(found.level(ALPHAS, zeros), np.tile(marginal.level(ALPHAS), (4, 1)))
    survival = rng.uniform(size=(4, 3))
    assert_close(found.smallest_alpha(survival, zeros), marginal.smallest_alpha(survival))


def test_many_alphas_are_not_all_kept(rng):
    found = made(rng.uniform(size=50), rng.integers(2, size=50), 2)
    levels = found.level(np.linspace(0.01, 0.99, 250), np.array([0, 1]))
    assert_close(found.level(0.99, np.array([0, 1])), levels[:, -1])
    assert len(found._levels) <= 100


# Through Locus


def test_every_group_covers_its_own_rows_of_d2(rng):
    """Contract 11 in each group: at least k of its calibration rows are within their bound."""
    X, y = rows(rng)
    locus = fitted(2, X, y)
    cal = locus.calibration_rows_
    z = locus.losses(X[cal], y[cal])
    for alpha in (0.5, 0.2, 0.1):
        covered = z <= locus.loss_bound(X[cal], alpha)
        for group in range(3):
            own = X[cal, 2] == group
            assert covered[own].sum() >= conformal_rank(int(own.sum()), alpha)


@pytest.mark.filterwarnings("ignore:.*of a group without calibration rows")
def test_bound_and_exceedance_say_the_same(rng):
    X, y = rows(rng)
    locus = fitted(2, X, y)
    new, _ = rows(rng, 200, groups=4)  # the last group is unseen
    bounds = locus.loss_bound(new, ALPHAS[:3])
    assert np.isinf(bounds[new[:, 2] == 3]).all()
    assert np.isfinite(bounds[new[:, 2] < 3]).all()
    assert (np.diff(bounds[new[:, 2] < 3], axis=1) >= 0).all()
    for tau in (0.5, 2.0, 6.0):
        found = locus.exceedance(new, tau)
        for j, alpha in enumerate(ALPHAS[:3]):
            assert ((found <= alpha) == (bounds[:, j] <= tau)).all()


def test_column_function_and_array_agree(rng):
    X, y = rows(rng)
    labels = np.array(["calm", "rough", "wild"])[X[:, 2].astype(int)]
    column = fitted(2, X, y).loss_bound(X)
    function = fitted(lambda X: X[:, 2].astype(int).astype(str), X, y).loss_bound(X)
    array = fitted(labels, X, y)
    assert_close(function, column)
    assert_close(array.loss_bound(X, groups=labels.tolist()), column)
    assert_close(array.loss_bound(X[:3], groups=labels[:3].astype(object)), column[:3])
    with raises(ValueError, "groups=", "one per row"):
        array.loss_bound(X)
    with raises(ValueError, "400", "groups"):
        array.loss_bound(X, groups=labels[:7])
    with raises(ValueError, "nothing beside the rows"):
        fitted(2, X, y).loss_bound(X, groups=labels)
    assert_close(fitted([2], X, y).loss_bound(X), column)  # a list of one column


def test_a_choice_survives_clone_and_pickle(rng):
    X, y = rows(rng)
    locus = fitted(2, X, y)
    assert clone(locus).calibration.by == 2
    again = pickle.loads(pickle.dumps(locus.calibration_))
    assert_close(again.level(0.1, np.arange(4)), locus.calibration_.level(0.1, np.arange(4)))


def test_other_calibration_rows(rng):
    X, y = rows(rng)
    locus = fitted(2, X, y)
    other, _ = rows(rng, 120, groups=4)
    tails = rng.uniform(size=120)
    found = locus.calibration_.again(Part(other, np.arange(120), None, tails))
    entries = found.reads(other)
    assert found.n == 120
    for group in range(4):  # one more than before
        at = entries[other[:, 2] == group][:1]
        assert found.level(0.2, at) == slow_level(tails, other[:, 2], group, 0.2)
    labelled = fitted(X[:, 2].copy(), X, y).calibration_
    part = Part(None, np.arange(120), None, tails, given=other[:, 2])
    assert_close(labelled.again(part).level(0.2, entries), found.level(0.2, entries))


# Labels


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("a", "a"),
        (np.str_("a"), "a"),
        (3, 3),
        (np.int8(3), 3),
        (3.0, 3),
        (2.5, 2.5),
        (True, True),
        (np.bool_(False), False),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        (datetime.datetime(2024, 5, 1), "2024-05-01"),
        (np.datetime64("2024-05-01", "ns"), "2024-05-01"),
        (datetime.datetime(2024, 5, 1, 12, 30), "2024-05-01 12:30:00"),
        (None, None),
        (np.nan, None),
        (np.datetime64("NaT"), None),
    ],
)
def test_labels_have_one_form(value, label):
    found = plain_label(value)
    assert found == label
    assert type(found) is type(label)


@pytest.mark.parametrize("value", [("a", 1), b"a", 1j, ["a"]])
def test_other_labels_are_refused(value):
    groups = Groups(("a",))
    with raises(TypeError, type(value).__name__, "text"):
        groups.codes(["a", value])


def test_codes_of_mixed_and_missing_labels():
    groups = Groups((1, "1", 2.5, "2024-05-01"))
    given = [1.0, True, "1", np.float32(2.5), datetime.date(2024, 5, 1), None, np.nan, "x", 0]
    assert groups.codes(given).tolist() == [0, 0, 1, 2, 3, 4, 4, 4, 4]


LABELS = {
    "text": ["a", "b", "c"],
    "category": ["a", "b", "c"],
    "whole": [1, 2, 3],
    "float": [0.5, 1.0, 2.0],
    "truth": [True, False, True],
    "date": [datetime.date(2024, m, 1) for m in (1, 2, 3)],
    "time": [datetime.datetime(2024, m, 1, 6) for m in (1, 2, 3)],
}


def on_a_frame(frame, y, by="g"):
    return Locus(
        lambda X: np.asarray(X["a"]),
        calibration=ByGroup(by),
        engine=ConstantNormal(),
        signals=lambda X: np.asarray(X["a"], dtype=float)[:, None],
        random_state=0,
    ).fit(frame, y)


@pytest.mark.extra
@pytest.mark.parametrize("kind", LABELS)
def test_frames_of_both_libraries_give_the_same(kind, rng):
    import pandas as pd
    import polars as pl

    X, y = rows(rng, 200)
    labels = [LABELS[kind][int(code)] for code in X[:, 2]]
    pandas, polars = (lib.DataFrame({"a": X[:, 0], "g": labels}) for lib in (pd, pl))
    if kind == "category":
        pandas["g"] = pandas["g"].astype("category")
        polars = polars.with_columns(pl.col("g").cast(pl.Categorical))
    if kind in ("date", "time"):
        pandas["g"] = pd.to_datetime(pandas["g"])
    one, other = on_a_frame(pandas, y), on_a_frame(polars, y)
    assert_close(one.loss_bound(pandas, 0.2), other.loss_bound(polars, 0.2))
    # Each reads the labels of the other library's frame, and of its columns.
    expected = one.calibration_.reads(pandas)
    assert (one.calibration_.reads(polars) == expected).all()
    for column in (pandas["g"], polars["g"], labels):
        assert (one.calibration_.entries(column, 200) == expected).all()


@pytest.mark.extra
def test_a_missing_label_of_a_new_row_is_unseen(rng):
    import pandas as pd

    X, y = rows(rng)
    labels = np.array(["x", "y", "z"])[X[:, 2].astype(int)]
    locus = on_a_frame(pd.DataFrame({"a": X[:, 0], "g": labels}), y)
    new = pd.DataFrame({"a": [0.1] * 4, "g": ["x", None, np.nan, "new"]})
    with warns(LocusWarning, "3 of 4 rows", "fit has not seen"):
        bound = locus.loss_bound(new)
    assert np.isfinite(bound).tolist() == [True, False, False, False]
    with raises(ValueError, "no column 'h'"):
        on_a_frame(pd.DataFrame({"a": X[:, 0], "g": labels}), y, by="h")
    labels = pd.Series(labels)
    with raises(ValueError, "another order"):
        on_a_frame(pd.DataFrame({"a": X[:, 0]}), y, by=labels[::-1])


# Small groups


def with_small_groups(rng):
    """Groups 0 to 2 are large; 10 to 16 have six rows each."""
    X, y = rows(rng, 600)
    X[:42, 2] = 10 + np.arange(42) % 7
    return X, y


def test_small_groups_are_named(rng):
    X, y = with_small_groups(rng)
    locus = fitted(2, X, y, calibration_size=0.5)
    with warns(LocusWarning, "7 of 10 groups", "alpha = 0.1", "At least 9", "2 others", "infinite"):
        bounds = locus.loss_bound(X, 0.1)
    assert (np.isinf(bounds) == (X[:, 2] >= 10)).all()
    assert locus.calibration_.too_few(0.5) is None
    assert "the top of the support, 5" in locus.calibration_.too_few(0.1, 5.0)


def test_a_pool_is_made_of_groups_small_in_d1(rng):
    X, y = with_small_groups(rng)
    locus = fitted(2, X, y, pool_below=20, calibration_size=0.5)
    on_fit, on_cal = X[locus.fit_rows_, 2], X[locus.calibration_rows_, 2]
    names, sizes = np.unique(on_fit, return_counts=True)
    own = set(names[sizes >= 20])
    assert own == {0, 1, 2}
    found = locus.calibration_
    assert set(found.groups.names) == own
    in_pool = ~np.isin(on_cal, list(own))
    assert found.sizes[-1] == in_pool.sum()
    cal = locus.calibration_rows_
    tails = locus.loss_dist(X[cal]).tail(locus.losses(X[cal], y[cal]))
    expected = slow_level(tails, in_pool, True, 0.1)
    entries = found.reads(np.array([[0, 0, 12.0], [0, 0, 99.0]]))  # pooled, and unseen
    assert_close(found.level(0.1, entries), [expected, expected], rtol=1e-12)
    text = found.sentence([0.1])
    assert "7 groups with fewer than 20 rows in D1" in text
    assert "not of each of its groups" in text
    with warns(LocusWarning, "the pool (", "4 of 4 groups"):
        locus.loss_bound(X, 0.001)


def test_d2_does_not_choose_the_pool(rng):
    """With other labels in D2, D1 makes the same pool."""
    X, y = with_small_groups(rng)
    locus = fitted(2, X, y, pool_below=20, calibration_size=0.5)
    other = X.copy()
    other[locus.calibration_rows_, 2] = 10.0
    again = fitted(2, other, y, pool_below=20, calibration_size=0.5)
    assert again.calibration_.groups.names == locus.calibration_.groups.names
    part = Part(other[:50], np.arange(50), None, rng.uniform(size=50))
    assert locus.calibration_.again(part).groups.names == locus.calibration_.groups.names


# What is refused


@pytest.mark.parametrize(
    ("by", "error", "facts"),
    [
        (7, ValueError, ["no column 7"]),
        ("g", TypeError, ["'g' is a name", "array"]),
        (None, TypeError, ["by is", "None"]),
        (1.5, TypeError, ["1.5"]),
        (True, TypeError, ["True"]),
        ([], ValueError, ["no column"]),
        ([2, 2], ValueError, ["each once"]),
        (["a"] * 400, ValueError, ["400", "as an array"]),
        (np.zeros(7), ValueError, ["by", "400", "(7,)"]),
        (np.zeros((400, 2)), ValueError, ["400"]),
        (np.zeros(400), ValueError, ["one group"]),
        (lambda X: X[:, 0], ValueError, ["400 different labels", "bins"]),
        (lambda X: "a", ValueError, ["one label per row"]),
        (lambda X: X[:, :2], ValueError, ["one label per row"]),
        (np.array(["a", None] * 200, dtype=object), ValueError, ["200 of 400", "missing"]),
        (np.array(["b", ("a",)] * 200, dtype=object), TypeError, ["tuple", "text"]),
        (np.array(["b", ["a"]] * 200, dtype=object), TypeError, ["list", "text"]),
    ],
)
def test_labels_that_give_no_groups(by, error, facts, rng):
    X, y = rows(rng)
    with raises(error, *facts):
        fitted(by, X, y)


def test_what_does_not_go_with_groups(rng):
    X, y = rows(rng)
    locus = fitted(2, X, y)
    with raises(ValueError, "clusters", "ByGroup"):
        locus.fit(X, y, clusters=X[:, 2])
    with raises(ValueError, "target", "Shifted"):
        locus.fit(X, y, target=X)
    with raises(ValueError, "pool_below", "2"):
        fitted(2, X, y, pool_below=1)
    with raises(ValueError, "no group", "1000", "smaller pool_below"):
        fitted(2, X, y, pool_below=1000)


# Archives and the report


def scorer_of(by, pool_below=None):
    X, y = rows(np.random.default_rng(0))
    locus = fitted(by, X, y, pool_below, engine=Forest(n_trees=2, min_samples_leaf=50))
    return Scorer(locus, locus.tau_rule(tau=2.0, alpha=0.2), alphas=(0.1, 0.25))


@pytest.fixture
def saved(rng, tmp_path):
    """Save a scorer with groups by `by`, and check that it scores the same when loaded."""
    new, _ = rows(rng, 50, groups=4)

    def make(by, pool_below=None, given=None, **told):
        scorer = scorer_of(by, pool_below)
        path = tmp_path / "x.locus"
        scorer.save(path)
        groups = None if given is None else given(new)
        before = scorer(new, groups=groups)
        after = Scorer.load(path, **told)(new, groups=groups)
        for name, values in before.items():
            assert_close(after[name], values)
        return path, scorer

    return make


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "x.locus"
    scorer_of(2).save(path, keep_rows=False)
    return path


@pytest.mark.extra
def test_archives_keep_columns_arrays_and_functions(saved):
    _, scorer = saved(2)
    assert "each of the 3 groups" in scorer.card
    saved(2, pool_below=100)
    names = np.array(["a", "b", "c", "d"])

    def named(X):
        return names[X[:, 2].astype(int)]

    saved(named(rows(np.random.default_rng(0))[0]), given=named)
    path, _ = saved(named, groups=named)
    with raises(ArchiveError, "groups", "function"):
        Scorer.load(path)
    with raises(ArchiveError, "got 3"):
        Scorer.load(path, groups=3)
    path, _ = saved(2)
    with raises(ArchiveError, "no use for a function"):
        Scorer.load(path, groups=named)


@pytest.mark.extra
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("codes", np.zeros(3, dtype=int)),
        ("codes", np.full(99, 9)),
        ("codes", np.full(99, -1)),
        ("codes", np.zeros(99)),
        ("codes", np.zeros((99, 1), dtype=int)),
        ("tails", np.linspace(1, 0, 99)),
        ("tails", np.zeros(0)),
        ("names", [1, 1, 2]),
        ("names", [None, 1, 2]),
        ("names", [[1], [2], [3]]),
        ("names", [{"is": "float", "value": "nan"}, 1, 2]),
        ("told", 2),
        ("told", [2, 1]),
        ("told", [True]),
        ("told", [[2]]),
        ("pool_below", "x"),
        ("n_pooled", 0.5),
    ],
)
def test_forged_groups_are_refused(sound, tmp_path, field, value):
    assert Scorer.load(sound).locus.calibration_.n == 99
    path = forged_state(sound, tmp_path / "x.locus", ["calibration_"], {field: value})
    with pytest.raises(ArchiveError):
        Scorer.load(path)


@pytest.mark.extra
def test_the_report_does_not_take_an_infinite_group_for_all_rows(rng):
    X, y = with_small_groups(rng)
    locus = fitted(2, X, y, calibration_size=0.5)
    with warns(LocusWarning, "7 of 10 groups"):
        scorer = Scorer(locus, alphas=(0.1,))
    new, y_new = rows(rng, 300)
    found = report(scorer, new, y_new).summary["coverage"][0]
    assert found["agrees"]
    assert "promised on average" in found["sentence"]
