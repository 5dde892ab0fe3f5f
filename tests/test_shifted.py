"""`Shifted` through Locus and Scorer: where weights come from, and what is refused."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from engines_for_tests import ConstantNormal
from helpers import assert_binomial, assert_close, raises, warns
from locuscore import Locus, LocusWarning, Score, Scorer
from locuscore._laws.calibration import conformal_rank
from locuscore.calibration import Shifted
from locuscore.calibration import _density_ratio as density_ratio
from locuscore.calibration._density_ratio import learn_ratio
from locuscore.engines import Forest

N = 400


def zero(X):
    return np.zeros(X.shape[0])


def first(X):
    """Weights that make rows with a large first feature more frequent."""
    return np.asarray(X)[:, 0] + 0.1


def data(n=N, seed=0, a=1.0):
    """Rows whose noise grows with the first feature, which has the density of Beta(a, 1)."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.beta(a, 1, size=n), rng.uniform(size=n)])
    return X, (0.1 + X[:, 0]) * rng.normal(size=n)


def locus_of(weights=None, target=None, X=None, y=None, **more):
    settings = {"engine": Forest(n_trees=5, min_samples_leaf=20), "signals": "x"} | more
    choice = Shifted(weights) if not isinstance(weights, Shifted) else weights
    if X is None:
        X, y = data()
    made = Locus(zero, calibration=choice, random_state=0, **settings)
    return made.fit(X, y, target=target)


X, Y = data()
NEW, _ = data(30, seed=1)


@pytest.fixture
def few_rounds(monkeypatch):
    monkeypatch.setattr("locuscore._inputs.opinion_models.MORE_ROUNDS", (20,))


# Where weights come from


def by_hand(locus, rows, weights, alpha):
    """Bounds from the tails of D2, which are in the order of the weights kept beside them."""
    kept = locus.calibration_
    levels = []
    for own in weights:
        sums = own + np.append(0.0, np.cumsum(kept.weights))
        place = int(np.argmax(sums / (own + kept.weights.sum()) > alpha))
        levels.append(0.0 if place == 0 else kept.tails[place - 1])
    return locus.loss_dist(rows).isf(np.array(levels))


def test_a_function_an_array_and_a_column_give_the_same_bounds():
    pd = pytest.importorskip("pandas")
    by_function, by_array = locus_of(first), locus_of(first(X))
    bounds = by_function.loss_bound(NEW, [0.2, 0.1])
    assert_close(bounds[:, 1], by_hand(by_function, NEW, first(NEW), 0.1), rtol=1e-12)
    assert_close(by_array.loss_bound(NEW, [0.2, 0.1], weights=first(NEW)), bounds)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(w=first(X))
    column = locus_of("w", X=frame, y=Y, signals=lambda X: X[["a", "b"]].to_numpy())
    new = pd.DataFrame(NEW, columns=["a", "b"]).assign(w=first(NEW))
    assert_close(column.loss_bound(new, [0.2, 0.1]).to_numpy(), bounds)


def test_each_weight_belongs_to_its_row():
    locus = locus_of(first)
    rows = X[locus.calibration_rows_]
    tails = locus.loss_model_.tails(locus.calibration_signals_, locus.calibration_losses_)
    order = np.argsort(tails, kind="stable")
    assert_close(locus.calibration_.weights, first(rows)[order])


def test_exceedance_and_bound_agree():
    locus = locus_of(first)
    taus = np.quantile(locus.loss_bound(NEW, 0.2), [0.3, 0.7])
    bounds, levels = locus.loss_bound(NEW, [0.1, 0.25]), locus.exceedance(NEW, taus)
    for j, alpha in enumerate((0.1, 0.25)):
        for t, tau in enumerate(taus):
            near = np.isclose(bounds[:, j], tau, rtol=1e-9)
            assert ((levels[:, t] <= alpha) == (bounds[:, j] <= tau))[~near].all()


def test_what_weights_may_be_called_with():
    by_array, by_function = locus_of(first(X)), locus_of(first)
    with raises(ValueError, "weights as an array", "weights="):
        by_array.loss_bound(NEW)
    with raises(ValueError, "got weights=", "takes nothing"):
        by_function.loss_bound(NEW, weights=first(NEW))
    with raises(ValueError, "30 in all", "(2,)"):
        by_array.loss_bound(NEW, weights=[1.0, 2.0])
    # A score that is a function of D1 needs no weights.
    assert by_array.scores(NEW, Score.tail(0.5)).shape == (30,)


def test_clone_and_pickle():
    locus = locus_of(first)
    again = clone(locus).fit(X, Y)
    assert_close(again.loss_bound(NEW), locus.loss_bound(NEW))
    assert_close(pickle.loads(pickle.dumps(locus)).loss_bound(NEW), locus.loss_bound(NEW))


def test_the_card_says_what_is_promised(few_rounds):
    known, learned = locus_of(first), locus_of(target=data(200, 2, a=2.0)[0])
    size = known.calibration_.effective_size
    assert f"worth {size:.3g}" in Scorer(known, alphas=(0.1,)).card
    card = Scorer(learned, alphas=(0.1,)).card
    for words in ("200 target rows", "E|w_hat - w| / 2", "1/30 and 30", "0.1"):
        assert words in card
    rule = known.tau_rule(tau=0.5, alpha=0.1)
    assert "weighted form of Theorem 1" in rule.guarantee
    assert "coverage_beta" not in rule.evidence


def test_rows_that_are_like_new_ones_have_no_weights():
    more, y = data(100, seed=5)
    for weights in (first, first(X)):
        locus = locus_of(weights)
        again = locus.recalibrate(more, y)
        tails = locus.loss_model_.tails(locus.row_signals(more), np.abs(y))
        assert_close(again.calibration_.tails, np.sort(tails))
        assert again.calibration_.asks is None
    with raises(ValueError, "groups=", "weights="):
        locus.recalibrate(more, y, groups=np.zeros(100))


@pytest.mark.parametrize("weights", [first, first(X)])
def test_weighted_rows_certify_no_groups(weights):
    with raises(ValueError, "largest_weight"):
        locus_of(weights).certify_groups(0, 1.0, 0.2, 0.1)


# Learned weights


def test_learned_weights_follow_the_ratio(few_rounds):
    X, y = data(1200)
    target, _ = data(800, seed=3, a=3.0)
    locus = locus_of(target=target, X=X, y=y)
    ratio = locus.calibration_.reader(X)
    # The target's density is 3 x^2.
    assert np.corrcoef(ratio, 3 * X[:, 0] ** 2)[0, 1] > 0.9
    assert ratio.max() <= density_ratio.CLIP * (1 + 1e-12)
    gap = 0.5 * np.mean(np.abs(ratio / ratio.mean() - 3 * X[:, 0] ** 2))
    unweighted = 0.5 * np.mean(np.abs(1 - 3 * X[:, 0] ** 2))
    assert gap < 0.4 * unweighted


def test_without_a_shift_all_weigh_about_the_same(few_rounds):
    spreads = [np.std(np.log(learn_ratio(X, data(N, seed)[0], 0)(NEW))) for seed in (8, 9, 10)]
    assert np.mean(spreads) < 0.1


def test_learned_weights_are_independent_of_d2(few_rounds):
    """Other rows in D2 leave them as they are: they come from D1 and the target."""
    target = data(100, 2, a=2.0)[0]
    size = np.arange(300, 400)
    one = locus_of(target=target, calibration_size=size)
    other_X, other_y = data(seed=7)
    changed = np.vstack([X[:300], other_X[300:]]), np.append(Y[:300], other_y[300:])
    two = locus_of(target=target, calibration_size=size, X=changed[0], y=changed[1])
    assert_close(one.calibration_.reader(NEW), two.calibration_.reader(NEW))
    assert not np.allclose(one.calibration_.weights, two.calibration_.weights)


def test_many_target_rows_are_thinned_out(few_rounds, monkeypatch):
    monkeypatch.setattr(density_ratio, "MOST_TARGET_ROWS", 50)
    found = learn_ratio(X[:40], data(3000, 4, a=2.0)[0], 0)
    assert found.n_target == 3000
    assert np.isfinite(found(NEW)).all()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "sparse"])
def test_frames_of_every_kind(kind, few_rounds):
    target = data(100, 2, a=2.0)[0]
    expected = locus_of(target=target).loss_bound(NEW)
    if kind == "sparse":
        locus = locus_of(target=sparse.csr_array(target), X=sparse.csr_array(X), y=Y)
        assert_close(locus.loss_bound(sparse.csr_array(NEW)), expected)
        return
    library = pytest.importorskip(kind)
    frame = library.table if kind == "pyarrow" else library.DataFrame
    X_frame, T_frame, new = (frame({"a": R[:, 0], "b": R[:, 1]}) for R in (X, target, NEW))
    settings = {"signals": lambda X: np.column_stack([np.asarray(X["a"]), np.asarray(X["b"])])}
    locus = Locus(
        lambda X: np.zeros(X.shape[0]),
        calibration=Shifted(),
        random_state=0,
        engine=Forest(n_trees=5, min_samples_leaf=20),
        **settings,
    ).fit(X_frame, Y, target=T_frame)
    assert_close(np.asarray(locus.loss_bound(new)), expected)


def test_categories_and_missing_values(few_rounds):
    """A level that only the target has is far from D1; nothing breaks."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)

    def frame(n, levels):
        kind = rng.choice(levels, size=n)
        size = np.where(rng.uniform(size=n) < 0.1, np.nan, rng.uniform(size=n))
        return pd.DataFrame({"kind": kind, "size": size})

    rows, target = frame(300, ["a", "b"]), frame(200, ["b", "c"])
    locus = Locus(
        lambda X: np.zeros(len(X)),
        engine=Forest(n_trees=3, min_samples_leaf=20),
        calibration=Shifted(),
        random_state=0,
    )
    locus.fit(rows, rng.normal(size=300), target=target)
    weight = locus.calibration_.reader(pd.DataFrame({"kind": ["a", "b"], "size": [0.5, 0.5]}))
    assert weight[0] < 0.2 < weight[1]


# What is refused


@pytest.mark.parametrize(
    ("choice", "more", "facts"),
    [
        (Shifted(), {}, ["target=X_unlabelled"]),
        (Shifted(first), {"target": X}, ["leave out one"]),
        (Shifted(first), {"clusters": np.arange(N) // 4}, ["clusters"]),
        (Shifted(), {"target": X[:, :1]}, ["target", "expected 2 columns", "got 1"]),
        (Shifted(), {"target": X[:0]}, ["target has 0 rows", "30"]),
        (Shifted(), {"target": X[:29]}, ["target has 29 rows", "30"]),
        (Shifted(), {"target": X[0]}, ["target", "2D"]),
        (Shifted(first(X)[:5]), {}, ["400 in all", "(5,)"]),
        (Shifted(lambda X: X), {}, ["400 in all", "(400, 2)"]),
        (Shifted(-first(X)), {}, ["400 weights are negative"]),
        (Shifted(np.where(X[:, 0] > 0.99, np.nan, 1.0)), {}, ["not finite"]),
        (Shifted(np.zeros(N)), {}, ["weights of the calibration rows are zero"]),
        (Shifted(1.0), {}, ["400 in all", "()"]),
        (Shifted(first, largest_weight=0.5), {}, ["above 0.5", "declare a larger one"]),
        (Shifted(first, largest_weight=-1.0), {}, ["largest_weight", "-1"]),
        (Shifted(largest_weight=2.0), {"target": X}, ["largest_weight", "learns"]),
    ],
)
def test_bad_input(choice, more, facts):
    locus = Locus(zero, engine=ConstantNormal(), calibration=choice, random_state=0)
    with raises(ValueError, *facts):
        locus.fit(X, Y, **more)


def test_a_target_with_other_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"])
    locus = Locus(zero, engine=ConstantNormal(), calibration=Shifted())
    with raises(ValueError, "target", "missing: ['b']", "not seen in fit: ['c']"):
        locus.fit(frame, Y, target=frame.rename(columns={"b": "c"}))
    with raises(TypeError, "target", "an array without names"):
        locus.fit(frame, Y, target=X)
    with raises(ValueError, "no column 'w'"):
        Locus(zero, engine=ConstantNormal(), calibration=Shifted("w")).fit(frame, Y)
    turned = pd.Series(first(X), index=frame.index).iloc[::-1]
    with raises(ValueError, "weights", "another order"):
        Locus(zero, engine=ConstantNormal(), calibration=Shifted(turned)).fit(frame, Y)


def test_few_rows_of_d1():
    locus = Locus(zero, engine=ConstantNormal(), calibration=Shifted(), calibration_size=380)
    with raises(ValueError, "D1 has 20 rows"):
        locus.fit(X, Y, target=X)


def test_a_bad_new_row_is_named_and_can_be_flagged():
    locus = locus_of(lambda X: np.where(X[:, 0] < 0.9, 1.0, 0.0))
    scorer = Scorer(locus, alphas=(0.1,))
    rows = np.full((5, 2), 0.5)
    rows[3, 0] = 0.95
    with raises(ValueError, "1 weight is zero", "row 3"):
        scorer(rows)
    table, is_bad = scorer.tolerate(rows)
    assert is_bad.tolist() == [False, False, False, True, False]
    assert np.isinf(table["bound_0.1"]).tolist() == is_bad.tolist()


def test_a_small_effective_size_warns_and_a_heavy_row_has_no_bound():
    def heavy(X):
        return np.where(np.asarray(X)[:, 0] > 0.9, 1e4, 1.0)

    with warns(LocusWarning, "99 calibration rows", "equal weight"):
        locus = locus_of(heavy)
    assert locus.calibration_.effective_size < 30
    with warns(LocusWarning, "99 calibration rows", "alpha = 0.01"):
        bounds = locus.loss_bound([[0.95, 0.5], [0.5, 0.5]], alpha=0.01)
    assert np.isinf(bounds).tolist() == [True, False]


# The promise, through Locus


def cover(calibration, seed, repeats=300):
    """How often a new row of the density 2 x is covered; D2 and the new row are drawn afresh."""
    rng = np.random.default_rng(seed)
    n, alpha, covered = 60, 0.2, 0
    for _ in range(repeats):
        tails, x = np.empty(n + 1), np.append(rng.uniform(size=n), np.sqrt(rng.uniform()))
        # A law that takes no notice of x, while losses grow with it.
        tails = np.exp(-(x * np.abs(rng.normal(size=n + 1))))
        covered += tails[-1] >= calibration(tails[:-1], x, alpha)
    return covered, repeats, alpha


def test_coverage_where_the_loss_model_is_wrong():
    from locuscore.calibration._weighted import WeightedCalibration

    def weighted(tails, x, alpha):
        order = np.argsort(tails)
        return WeightedCalibration(tails[order], x[:-1][order]).level(alpha, x[-1:])[0]

    def marginal(tails, x, alpha):
        return np.sort(tails)[len(tails) - conformal_rank(len(tails), alpha)]

    covered, repeats, alpha = cover(weighted, 0, 3000)
    assert_binomial(covered, repeats, 1 - alpha, "less")
    covered, repeats, alpha = cover(marginal, 0, 3000)
    with pytest.raises(AssertionError):
        assert_binomial(covered, repeats, 1 - alpha, "less")
