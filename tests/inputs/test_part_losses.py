"""Losses of answers with parts: each beside a slow transcription, and through a whole Locus."""

import pickle
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from engines_for_tests import ConstantNormal
from helpers import assert_close, raises
from locuscore import (
    ArchiveError,
    Locus,
    Scorer,
    cost_per_unit,
    ndcg,
    norm,
    prediction_column,
    relative,
)
from locuscore._archive.estimator import decode_loss
from locuscore._inputs.losses import resolve_loss
from locuscore._inputs.part_losses import levenshtein
from locuscore._laws.signed_errors import ErrorLoss
from locuscore.engines import Forest

WORDS = ["red", "blue", "green", "old", "new"]


def value(loss, y, g):
    return resolve_loss(loss)(y, g)


def objects(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def fitted(loss, predictor, X, y, **settings):
    settings = {"engine": ConstantNormal(), "random_state": 0} | settings
    return Locus(predictor, loss=loss, **settings).fit(X, y)


# Several outputs


@pytest.mark.parametrize(
    ("loss", "one"),
    [
        ("euclidean", lambda u: sum(v * v for v in u) ** 0.5),
        ("max", lambda u: max(abs(v) for v in u)),
        ("sum", lambda u: sum(abs(v) for v in u)),
        (norm("max"), lambda u: max(abs(v) for v in u)),
        (
            norm("euclidean", [1, 10, 2]),
            lambda u: (u[0] ** 2 + 100 * u[1] ** 2 + 4 * u[2] ** 2) ** 0.5,
        ),
        (norm("max", [1, 10, 2]), lambda u: max(abs(u[0]), 10 * abs(u[1]), 2 * abs(u[2]))),
        (norm("sum", [1, 10, 2]), lambda u: abs(u[0]) + 10 * abs(u[1]) + 2 * abs(u[2])),
    ],
)
def test_norms_equal_a_loop(loss, one, rng):
    X = rng.normal(size=(60, 3))
    y = X + rng.normal(size=(60, 3))
    locus = fitted(loss, lambda X: X.copy(), X, y)
    assert_close(locus.losses(X, y), [one(row) for row in y - X], rtol=1e-12)
    assert np.isfinite(locus.loss_bound(X, alpha=0.2)).all()


def test_a_norm_of_one_output_is_its_size(rng):
    X = rng.normal(size=(40, 1))
    for target in (X[:, 0] + 1, X + 1):
        assert_close(
            fitted("max", lambda X: X, X, target).losses(X, target), np.ones(40), rtol=1e-9
        )


def test_absolute_on_several_outputs_names_the_reductions(rng):
    X = rng.normal(size=(40, 2))
    with raises(ValueError, "(40, 2)", "'euclidean'", "'max'", "'sum'", "norm(kind, weights)"):
        fitted("absolute", lambda X: X, X, X)


def test_bad_norms(rng):
    X = rng.normal(size=(40, 2))
    with raises(ValueError, "('euclidean', 'max', 'sum')", "'l2'"):
        norm("l2")
    for weights in ([1, 0], [1, -1], [np.inf, 1]):
        with raises(ValueError, "positive and finite"):
            norm("max", weights)
    with raises(ValueError, "3 weights", "2 outputs"):
        fitted(norm("max", [1, 2, 3]), lambda X: X, X, X)
    with raises(ValueError, "(40, 2)", "(40,)"):
        fitted("max", lambda X: X[:, 0], X, X)


# Numbers


@pytest.mark.parametrize(("over", "under"), [(2.0, 10.0), (3.0, 0.0), (0.0, 1.0)])
def test_cost_per_unit_equals_a_loop(over, under, rng):
    y, g = rng.normal(size=50), rng.normal(size=50)
    expected = [over * (b - a) if b > a else under * (a - b) for a, b in zip(y, g, strict=True)]
    loss = cost_per_unit(over, under)
    assert_close(loss(y, g), expected, rtol=1e-13)
    assert loss.of_error == ErrorLoss(above=under, below=over)
    assert_close(loss.of_error(y - g), expected, rtol=1e-13)


def test_of_two_errors_of_one_size_the_dearer_side_has_the_higher_bound(rng):
    X = rng.uniform(size=(600, 1))
    y = np.where(X[:, 0] < 0.5, -1.0, 1.0) * rng.uniform(1, 2, size=600)
    settings = {"signals": "x", "engine": Forest(n_trees=20)}
    locus = fitted(cost_per_unit(1, 10), lambda X: np.zeros(len(X)), X, y, **settings)
    too_high, too_low = locus.loss_bound([[0.2], [0.8]], alpha=0.1)
    assert 1 < too_high < 3
    assert 10 < too_low < 30


def test_bad_costs_per_unit():
    for over, under in ((-1, 1), (0, 0), (np.inf, 1), (np.nan, 1)):
        with raises(ValueError, "over=", "under="):
            cost_per_unit(over, under)
    with raises(TypeError, "number"):
        cost_per_unit("a", 1)


def test_relative_error_says_where_the_truth_is_zero(rng):
    y, g = np.array([2.0, -4.0, 0.5]), np.array([1.0, -5.0, 0.0])
    assert_close(value("relative", y, g), [0.5, 0.25, 1.0])
    assert_close(relative(1.0)(y, g), [0.5, 0.25, 0.5])
    X = rng.normal(size=(40, 1))
    with raises(ValueError, "y is 0 in 1 rows out of 40", "relative(floor"):
        fitted("relative", lambda X: X[:, 0], X, np.r_[0.0, np.ones(39)])
    for floor in (0, -1, np.inf, [1, 2]):
        with raises(ValueError, "floor"):
            relative(floor)


def test_censored_error_counts_what_is_known_to_be_lost(rng):
    y = np.array([[5.0, 1], [5.0, 0], [5.0, 0], [5.0, 1]])
    assert_close(value("censored", y, np.array([3.0, 3.0, 8.0, 8.0])), [2.0, 2.0, 0.0, 3.0])
    X = rng.uniform(size=(60, 1))
    time = np.column_stack([rng.exponential(size=60), rng.integers(0, 2, size=60)])
    locus = fitted("censored", lambda X: X, X, time)
    assert_close(locus.losses(X, time), value("censored", time, X[:, 0]))
    with raises(ValueError, "(60,)", "np.column_stack([time, event])"):
        fitted("censored", lambda X: X[:, 0], X, time[:, 0])
    with raises(ValueError, "1 or 0", "got 2"):
        fitted("censored", lambda X: X[:, 0], X, time + np.array([0.0, 2.0]))


def test_a_grade_is_the_loss_of_an_answer(rng):
    X = np.column_stack([rng.uniform(size=80), rng.integers(0, 3, size=80)])
    grades = (X[:, 0] + rng.normal(size=80) > 0.8).astype(int)
    locus = fitted("graded", prediction_column(1), X, grades, support={0, 1})
    assert_close(locus.losses(X, grades), grades)
    assert set(locus.loss_bound(X, alpha=0.3)) <= {0.0, 1.0}
    with raises(TypeError, "grades", "text"):
        fitted("graded", prediction_column(1), X, np.full(80, "good"))
    with raises(ValueError, "one grade per row", "(80, 2)"):
        fitted("graded", prediction_column(1), X, X)


# Masks


def slow_iou(a, b):
    pairs = list(zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
    either = sum(x or y for x, y in pairs)
    return 1 - sum(x and y for x, y in pairs) / either if either else 0.0


def test_iou_equals_a_loop_for_images_of_one_size_and_of_several(rng):
    y, g = (rng.uniform(size=(30, 5, 4)) < 0.3 for _ in range(2))
    y[0] = g[0] = False
    expected = [slow_iou(a, b) for a, b in zip(y, g, strict=True)]
    assert expected[0] == 0.0
    assert_close(value("iou", y, g.astype(float)), expected, rtol=1e-14)
    assert_close(value("iou", objects(list(y)), objects([m.astype(int) for m in g])), expected)
    ragged = [y[0], y[1][:3], y[2][:, :2]], [g[0], g[1][:3], g[2][:, :2]]
    assert_close(
        value("iou", *map(objects, ragged)), [slow_iou(*p) for p in zip(*ragged, strict=True)]
    )


@pytest.mark.extra
def test_masks_go_through_fit_bound_rule_and_scorer(rng, tmp_path):
    X = rng.uniform(size=(300, 36))
    y = X.reshape(-1, 6, 6) + 0.3 * rng.normal(size=(300, 6, 6)) > 0.5

    def segment(X):
        return X.reshape(-1, 6, 6) > 0.5

    locus = fitted("iou", segment, X, y, signals=["x", "predictor"], engine=Forest(n_trees=20))
    assert_close(locus.losses(X, y), value("iou", y, segment(X)))
    assert 0 < locus.loss_bound(X, alpha=0.2).max() <= 1
    scorer = Scorer(locus, locus.tau_rule(0.6, 0.2))
    found = scorer(X[:4])
    assert_close(found["prediction"], segment(X[:4]))
    with pytest.warns(UserWarning, match="left out of the archive"):
        scorer.save(tmp_path / "masks.locus")
    again = Scorer.load(tmp_path / "masks.locus", predictor=segment)
    assert_close(again.locus.losses(X, y), locus.losses(X, y))
    assert_close(again(X[:4])["bound_0.1"], found["bound_0.1"], rtol=1e-12)
    bad = X[:3].copy()
    bad[1, 0] = np.inf
    columns, is_bad = scorer.tolerate(bad)
    assert is_bad.tolist() == [False, True, False]
    assert columns["prediction"].shape == (3, 6, 6)


def test_bad_masks_are_told_in_one_sentence(rng):
    y = rng.uniform(size=(20, 4, 4)) < 0.5
    with raises(ValueError, "(4, 4)", "(16,)"):
        value("iou", y, y.reshape(20, 16))
    with raises(ValueError, "0 and 1", "predictor", "threshold"):
        value("iou", y, rng.uniform(size=(20, 4, 4)))
    with raises(ValueError, "0 and 1", "y"):
        value("iou", np.where(y, "a", "b"), y)


# Texts, tokens and sets


def slow_distance(a, b):
    table = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            change = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, change)
    return table[-1][-1]


def test_edit_distance_equals_the_table(rng):
    texts = ["".join(rng.choice(list("abc"), size=n)) for n in rng.integers(0, 90, size=60)]
    for a, b in combinations([*texts[:12], "", "a"], 2):
        assert levenshtein(a, b) == slow_distance(a, b)
    y, g = np.array(texts[:30]), np.array(texts[30:])
    expected = [
        slow_distance(a, b) / max(len(a), len(b), 1)
        for a, b in zip(texts[:30], texts[30:], strict=True)
    ]
    assert_close(value("edit", y, g), expected, rtol=1e-14)
    tokens = [objects([list(t) for t in part]) for part in (texts[:30], texts[30:])]
    assert_close(value("edit", *tokens), expected, rtol=1e-14)
    assert value("edit", np.array([""]), np.array([""]))[0] == 0.0


def slow_f1(a, b):
    rest, both = list(b), 0
    for token in a:
        if token in rest:
            rest.remove(token)
            both += 1
    return 1 - 2 * both / (len(a) + len(b)) if len(a) + len(b) else 0.0


def test_f1_of_tokens_texts_sets_and_masks_equals_a_loop(rng):
    bags = [rng.choice(WORDS, size=n).tolist() for n in rng.integers(0, 6, size=40)]
    y, g = bags[:20], bags[20:]
    expected = [slow_f1(a, b) for a, b in zip(y, g, strict=True)]
    assert_close(value("f1", objects(y), objects(g)), expected, rtol=1e-14)
    texts = [np.array([" ".join(bag) for bag in part]) for part in (y, g)]
    assert_close(value("f1", *texts), expected, rtol=1e-14)
    sets = [[set(bag) for bag in part] for part in (y, g)]
    of_sets = [slow_f1(sorted(a), sorted(b)) for a, b in zip(*sets, strict=True)]
    assert_close(value("f1", *map(objects, sets)), of_sets, rtol=1e-14)
    masks = [np.array([[w in bag for w in WORDS] for bag in part]) for part in (y, g)]
    assert_close(value("f1", *masks), of_sets, rtol=1e-14)


@pytest.mark.parametrize("kind", ["texts", "tokens", "sets"])
def test_documents_go_through_fit_bound_and_a_certificate(kind, rng, tmp_path):
    X = rng.uniform(size=(240, 2))
    n = rng.integers(2, 5, size=240)
    tokens = [rng.choice(WORDS, size=k).tolist() for k in n]
    said = [[w for w in row if u < x] for row, (u, x) in zip(tokens, X, strict=True)]
    make = {"texts": " ".join, "tokens": list, "sets": set}[kind]
    y, answers = [make(row) for row in tokens], [make(row) for row in said]
    table = {tuple(row): answer for row, answer in zip(X.tolist(), answers, strict=True)}

    def g(X):
        return [table[tuple(row)] for row in X.tolist()]

    loss = "f1" if kind == "sets" else "edit"
    signals = ["x", "opinion"] if kind == "sets" else "x"
    locus = fitted(loss, g, X, y, signals=signals, engine=Forest(n_trees=20))
    assert_close(locus.losses(X, y), value(loss, objects(y), objects(answers)))
    easy, hard = locus.loss_bound([X[X[:, 1] - X[:, 0] > 0.5][0], X[X[:, 0] - X[:, 1] > 0.5][0]])
    assert easy < hard
    rule = locus.certify(tau=0.5, eta=0.4, delta=0.1)
    assert rule.standing == "certificate"
    # The digests of rows with such labels are the same whatever container they come in.
    with raises(ValueError, "these rows were used to fit"):
        locus.certify(tau=0.5, eta=0.4, delta=0.1, X=X, y=objects(y))


def test_what_g_says_of_documents_is_their_length(rng):
    X = rng.uniform(size=(60, 1))
    lists = [list(range(int(10 * x))) for x in X[:, 0]]

    def g(X):
        return [list(range(int(10 * x))) for x in X[:, 0]]

    locus = fitted("f1", g, X, lists, signals="predictor")
    assert_close(locus.row_signals(X)[:, 0], [len(row) for row in lists])


@pytest.mark.parametrize(
    ("loss", "y", "g", "facts"),
    [
        ("edit", ["ab"], [["a", "b"]], ("str", "list", "'edit'")),
        ("edit", [{"a"}], [{"a"}], ("set", "'f1'")),
        ("f1", ["ab"], [{"ab"}], ("str", "set", "'f1'")),
        ("f1", [3], [4], ("int", "two texts")),
        ("edit", [np.zeros((2, 2))], [np.zeros((2, 2))], ("(2, 2)",)),
    ],
)
def test_bad_documents_are_told_in_one_sentence(loss, y, g, facts):
    with raises(ValueError, *facts):
        value(loss, objects(y), objects(g))


def test_masks_of_f1_have_one_shape():
    with raises(ValueError, "(2,)", "(3,)"):
        value("f1", objects([np.array([True, False])]), objects([np.array([True] * 3)]))


# Rankings


def test_ndcg_equals_the_mean_over_all_orders_of_ties(rng):
    gain = rng.integers(0, 4, size=(20, 5)).astype(float)
    score = rng.integers(0, 3, size=(20, 5)).astype(float)
    gain[0] = 0.0
    for top in (2, 5):
        expected = []
        for a, s in zip(gain, score, strict=True):
            orders = [o for o in permutations(range(5)) if np.all(np.diff(s[list(o)]) <= 0)]
            found = [sum(a[i] / np.log2(2 + r) for r, i in enumerate(o[:top])) for o in orders]
            best = max(
                sum(a[i] / np.log2(2 + r) for r, i in enumerate(o[:top]))
                for o in permutations(range(5))
            )
            expected.append(1 - np.mean(found) / best if best else 0.0)
        assert_close(ndcg(top)(gain, score), expected, atol=1e-12)
    assert_close(
        value("ndcg", gain, score)[1:],
        1 - np.array([ndcg_score([a], [s]) for a, s in zip(gain[1:], score[1:], strict=True)]),
        atol=1e-12,
    )
    ragged = [objects([row[: 2 + i % 3] for i, row in enumerate(part)]) for part in (gain, score)]
    one_by_one = [value("ndcg", a[None], s[None])[0] for a, s in zip(*ragged, strict=True)]
    assert_close(value("ndcg", *ragged), one_by_one)


def test_inversions_equal_a_loop(rng):
    gain, score = (rng.integers(0, 3, size=(20, 6)).astype(float) for _ in range(2))
    gain[0] = 1.0
    expected = []
    for a, s in zip(gain, score, strict=True):
        pairs = [(i, j) for i in range(6) for j in range(6) if a[i] > a[j]]
        wrong = sum(1.0 if s[i] < s[j] else 0.5 if s[i] == s[j] else 0.0 for i, j in pairs)
        expected.append(wrong / len(pairs) if pairs else 0.0)
    assert_close(value("inversions", gain, score), expected, rtol=1e-14)


def test_queries_go_through_fit_and_bound(rng):
    X = rng.uniform(size=(200, 4))
    gain = (X + rng.normal(size=X.shape) > 0.8).astype(int)
    for loss in ("ndcg", "inversions"):
        locus = fitted(loss, lambda X: X, X, gain, signals="x")
        assert (
            0 <= locus.loss_bound(X, alpha=0.2).min() <= locus.loss_bound(X, alpha=0.1).max() <= 1
        )


@pytest.mark.parametrize("loss", ["ndcg", "inversions"])
def test_bad_rankings_are_told_in_one_sentence(loss):
    with raises(ValueError, loss, "(3,)", "(4,)"):
        value(loss, np.ones((2, 3)), np.ones((2, 4)))
    with raises(ValueError, loss, "finite"):
        value(loss, np.ones((2, 3)), np.full((2, 3), np.nan))
    if loss == "ndcg":
        with raises(ValueError, "gains of at least 0", "-1"):
            value(loss, -np.ones((2, 3)), np.ones((2, 3)))
        with raises(ValueError, "top", "0"):
            ndcg(0)


# All of them


MADE = [cost_per_unit(2, 5), relative(0.5), norm("max", [1.0, 2.0]), ndcg(3)]


@pytest.mark.parametrize("loss", MADE, ids=lambda loss: loss.name)
def test_losses_with_parameters_survive_pickle(loss):
    again = pickle.loads(pickle.dumps(loss))
    y, g = np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    assert_close(again(y, g), loss(y, g))
    assert repr(again) == repr(loss)


@pytest.mark.extra
@pytest.mark.parametrize("loss", [*MADE, "euclidean", "iou", "graded"], ids=str)
def test_an_archive_keeps_a_loss_by_name_and_parameters(loss, rng, tmp_path):
    X = rng.integers(0, 2, size=(60, 2)).astype(float)
    several = resolve_loss(loss).name.startswith(("norm", "ndcg", "euclidean", "iou"))
    y = X[:, ::-1].copy() if several else X[:, 1]
    g = (lambda X: X) if several else prediction_column(0)
    locus = fitted(loss, g, X, y, unit="points", signals="x", engine=Forest(n_trees=20))
    if several:
        with pytest.warns(UserWarning, match="left out of the archive"):
            Scorer(locus).save(tmp_path / "a.locus")
    else:
        Scorer(locus).save(tmp_path / "a.locus")
    again = Scorer.load(tmp_path / "a.locus", predictor=g if several else None)
    assert_close(again.locus.losses(X, y), locus.losses(X, y))
    assert again.locus.loss_.name == locus.loss_.name
    assert again.locus.unit_ == "points"


@pytest.mark.parametrize(
    "state",
    [
        {"name": "cost_per_unit", "parameters": {"over": -1.0, "under": 1.0}},
        {"name": "cost_per_unit", "parameters": {"over": "a", "under": 1.0}},
        {"name": "cost_per_unit", "parameters": {"over": 1.0, "under": 1.0, "more": 1.0}},
        {"name": "norm", "parameters": {"kind": "max", "weights": [1.0, np.nan]}},
        {"name": "norm", "parameters": {"kind": ["max"], "weights": [1.0]}},
        {"name": "relative", "parameters": {"floor": [[1.0]]}},
        {"name": "ndcg", "parameters": {"top": 1.5}},
        {"name": "system", "parameters": {"command": "true"}},
        {"name": ["norm"], "parameters": {}},
        {"name": "norm", "parameters": [1]},
    ],
    ids=str,
)
def test_a_forged_loss_is_refused(state):
    reader = SimpleNamespace(decode=lambda value: value)
    with pytest.raises((ArchiveError, ValueError)):
        decode_loss(state, reader, None)


def test_lists_of_several_lengths_are_no_targets_of_a_loss_of_numbers(rng):
    X = rng.normal(size=(20, 1))
    with raises(ValueError, "one value per row", "'f1'"):
        fitted("absolute", lambda X: X[:, 0], X, [[1.0]] * 19 + [[1.0, 2.0]])
