"""Archives with a second opinion: the same scores again, and forged ones do no harm."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

from archives_for_tests import forged
from helpers import raises
from locuscore import ArchiveError, Scorer, prediction_column
from locuscore._shared.boosting import BoostedTrees
from opinions_for_tests import KINDS, kind_of, of_errors, opinion_of, waves

pytestmark = pytest.mark.extra

X, Y = waves(150)
NEW, _ = waves(7, seed=1)
COLUMN = prediction_column(0)  # an archive holds no function


def scorer_of(locus):
    return Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.5, 0.1))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A scorer of each kind, and its archive."""
    folder, found = tmp_path_factory.mktemp("saved"), {}

    def scorer_and_path(kind):
        if kind not in found:
            is_of_errors = "class" not in kind and kind != "size"
            settings = {"predictor": COLUMN} if is_of_errors else {}
            found[kind] = scorer_of(KINDS[kind](X, Y, **settings)), folder / f"{kind}.locus"
            found[kind][0].save(found[kind][1], keep_rows=False)
        return found[kind]

    return scorer_and_path


def assert_same(one, other, rows=NEW):
    assert np.array_equal(one.locus.row_signals(rows), other.locus.row_signals(rows))
    before, after = one(rows), other(rows)
    for name in one.column_names:
        assert np.array_equal(np.asarray(before[name]), np.asarray(after[name]))


# Round trips


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back_to_the_last_bit(saved, kind):
    scorer, path = saved(kind)
    again = Scorer.load(path)
    assert kind_of(again.locus) == kind_of(scorer.locus)
    assert_same(scorer, again)
    if "class" in kind:
        part = opinion_of(again.locus)
        assert part.boosted is not None
        assert part.linear is not None
        assert tuple(part.labels) == opinion_of(scorer.locus).labels


def squares(X):
    return np.asarray(X)[:, :2] ** 2


def sums(X):
    return np.asarray(X).sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("signals", "given"),
    [
        (["all", squares], squares),
        (["all", squares], ["all", squares]),
        ([squares, "opinion"], [squares]),
        (["x", squares, sums, "opinion"], [squares, sums]),
        ([squares, sums], (squares, sums)),
    ],
)
def test_lists_with_functions(path, signals, given):
    scorer = scorer_of(of_errors(X, Y, predictor=COLUMN, signals=signals))
    scorer.save(path, keep_rows=False)
    again = Scorer.load(path, signals=given)
    assert_same(scorer, again)
    for nothing in (None, "x", ["all"]):
        with raises(ArchiveError, "function of your own", "Scorer.load(path, signals=...)"):
            Scorer.load(path, signals=nothing)
    with pytest.raises(ValueError, match=r"features|signals"):
        Scorer.load(path, signals=[squares, sums, sums])(NEW)


def test_lists_without_functions_need_none(path):
    scorer = scorer_of(of_errors(X, Y, predictor=COLUMN, signals=["x", "opinion"]))
    scorer.save(path)
    assert_same(scorer, Scorer.load(path))


# Forged ones


@pytest.fixture
def changed_and_loaded(saved, path):
    """Save an archive again, its state changed by a function that may add parts."""
    return lambda kind, change: Scorer.load(forged(saved(kind)[1], path, change))


def opinion(locus):
    return locus["signals_"]["state"]["opinion"]["state"]


def objects(items, shape):
    return {"is": "objects", "shape": list(shape), "items": items}


def in_signals(**changes):
    return lambda locus, part: locus["signals_"]["state"].update(changes)


def in_part(**changes):
    """Change the opinion's own parts; a function makes a part of the archive."""

    def change(locus, part):
        for name, value in changes.items():
            made = value(part) if callable(value) else value
            opinion(locus)["part"]["state"][name] = made

    return change


def in_engine(**changes):
    def change(locus, part):
        for name, value in changes.items():
            locus["engine_"]["state"][name] = value(part) if callable(value) else value

    return change


def in_loss(**changes):
    return lambda locus, part: locus["engine_"]["state"]["error_loss_"]["state"].update(changes)


def another_part(value):
    return lambda locus, part: opinion(locus).update({"part": value})


TEXT = ["high", "low", "middle"]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("class", in_part(costs=lambda part: part(np.ones((3, 4))))),
        ("class", in_part(costs=lambda part: part(np.ones((3, 3, 2))))),
        ("class", in_part(costs=[[0.0, 1.0], [1.0, 0.0]])),
        ("class", in_part(costs=None)),
        ("class", in_part(costs=None, loss="absolute")),
        ("class", in_part(costs=None, loss=3)),
        ("class", in_part(labels=TEXT[:2])),
        ("class", in_part(labels=[[1], [2], [3]])),
        ("class", in_part(labels=7)),
        ("class", in_part(weight={"is": "float", "value": "nan"})),
        ("class", in_part(weight=2.0)),
        ("class", in_part(weight=None)),
        ("class", in_part(weight=lambda part: part(np.ones((9, 1))))),
        ("class", in_part(boosted=lambda part: part(boosted_on(9)))),
        ("class", in_part(boosted=None)),
        ("class", in_part(linear=lambda part: part(with_classes([0, 1, 7])))),
        ("class", in_part(linear=lambda part: part(with_classes([0, 1, 1])))),
        ("class", in_part(linear=lambda part: part(with_classes([0.0, 1.0, 2.0])))),
        ("class", in_part(costs=lambda part: objects([part(np.ones((9, 1)))] * 9, (3, 3)))),
        ("class", in_part(costs=lambda part: part(np.full((3, 3), "x" * 99)))),
        ("class", in_part(unit=0.0)),
        ("size", in_part(unit="1")),
        ("error", in_part(unit={"is": "float", "value": "nan"})),
        ("error", in_signals(function_width=-(10**9))),
        ("error", in_signals(own_width="a")),
        ("error", in_signals(own_width=10**9)),
        ("error", in_engine(table_=lambda part: part(np.full((900, 4), "x" * 99)))),
        ("error", in_engine(table_=lambda part: objects([part(np.ones((2, 2)))], (1, 1)))),
        ("error", in_engine(error_table_=lambda part: objects(["x"], (1, 1)))),
        ("class", in_part(linear=None)),
        ("class, log", in_part(loss="absolute")),
        ("class, log", in_part(labels=[str(j) for j in range(101)])),
        ("class, log", in_part(labels=[])),
        ("error", another_part(None)),
        ("error", another_part([1, 2])),
        ("error", another_part({"is": "object", "kind": "Encoder", "state": {"codes_": []}})),
        ("error", lambda locus, part: opinion(locus).update({"output_encoder": "x"})),
        ("error", in_loss(power=10**9)),
        ("error", in_loss(power="1")),
        ("error", in_loss(above=None)),
        ("error", in_loss(below=[1.0, 2.0])),
        ("error", in_engine(error_column_=lambda part: part(np.arange(3)))),
    ],
)
def test_what_is_refused_when_it_is_read(changed_and_loaded, kind, change):
    with pytest.raises(ArchiveError):
        changed_and_loaded(kind, change)


def with_classes(codes):
    model = LogisticRegression().fit(X, np.arange(len(X)) % len(codes))
    model.classes_ = np.array(codes)
    return model


def boosted_on(n_features):
    rng = np.random.default_rng(0)
    S = rng.uniform(size=(50, n_features))
    return BoostedTrees(max_iter=2).fit(S, S[:, 0])


def wide(n_outputs):
    return LinearRegression().fit(X[:, [0, 1, 2]], np.repeat(Y[:, None], n_outputs, axis=1))


@pytest.mark.parametrize(
    ("kind", "change", "error"),
    [
        ("error", in_part(model=lambda part: part(boosted_on(2))), "2 features"),
        ("size", in_part(model=lambda part: part(boosted_on(9))), "9 features"),
        ("error", in_part(model=lambda part: part(wide(3))), r"\(7, 3\)"),
        ("error", in_part(model=lambda part: part(StandardScaler().fit(X))), "predict"),
        ("error", in_part(model=[]), "list"),
        ("error", in_part(model=3), "int"),
        ("error", in_engine(error_table_=lambda part: part(np.ones((1, 4)))), "other leaves"),
        ("error", in_engine(error_table_=lambda part: part(np.ones((1, 10**6)))), "other leaves"),
        ("error", in_engine(error_column_=99), "other leaves"),
        ("error", in_engine(error_column_=-99), "other leaves"),
        ("error", in_engine(error_column_=None), "other leaves"),
        ("error", in_engine(error_column_=True), "other leaves"),
        ("error", in_engine(error_loss_=None), "other leaves"),
        ("error", in_engine(n_trees=10**12), "other trees"),
        ("error", in_engine(shape_=3), "other leaves"),
        ("error", in_engine(unit_=3), "unknown unit"),
        ("error", in_engine(error_loss_=lambda part: part(StandardScaler().fit(X))), "other leave"),
    ],
)
def test_what_is_an_error_before_a_row_is_scored(changed_and_loaded, kind, change, error):
    scorer = changed_and_loaded(kind, change)
    with pytest.raises((ValueError, TypeError, AttributeError), match=error):
        scorer(NEW)


def test_an_opinion_that_was_taken_away_is_missed(changed_and_loaded):
    """Its columns are among those the engine was fitted on."""

    def without(locus, part):
        locus["signals_"]["state"]["opinion"] = None

    scorer = changed_and_loaded("error", without)
    with raises(ValueError, "5 signals", "got 3"):
        scorer(NEW)
