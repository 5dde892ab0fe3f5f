"""Calibration by clusters: the level, its inverse, what is refused, archives."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives_for_tests import assert_same_scores, forge, members_of
from helpers import raises, warns
from locuscore import ArchiveError, Locus, LocusWarning, Scorer
from locuscore._inputs.opinion_models import folds_of
from locuscore._inputs.split import split_rows
from locuscore._laws.calibration import MarginalCalibration
from locuscore._protocols import Part
from locuscore.calibration import ClusterRows
from locuscore.calibration._clusters import ClusterCalibration, ClusterRowsCalibration
from locuscore.engines import Forest

SMALL = {"engine": Forest(n_trees=3, min_samples_leaf=10), "signals": ["x"], "random_state": 0}
eighths = st.integers(0, 8).map(lambda i: i / 8)  # ties are the rule
clusters_of_tails = st.lists(st.lists(eighths, min_size=1, max_size=6), min_size=1, max_size=8)
alphas = st.integers(1, 99).map(lambda p: p / 100) | st.floats(1e-6, 1 - 1e-6)


def part(clusters):
    """Rows of D2 from a list of lists of tails, with labels that are no codes from 0."""
    codes = np.repeat(7 + 3 * np.arange(len(clusters)), [len(tails) for tails in clusters])
    return Part(None, None, None, np.concatenate(clusters), codes)


def by_clusters(clusters):
    return ClusterCalibration.of(part(clusters))


def by_rows(clusters, largest):
    return ClusterRows(largest).calibrate(None, part(clusters), None, 0)


def slow_cluster_alpha(clusters, survival):
    """(1 + the sum over clusters of the share of its tails up to the survival) / (m + 1)."""
    total = Fraction(1)
    for tails in clusters:
        total += Fraction(sum(tail <= survival for tail in tails), len(tails))
    return total / (len(clusters) + 1)


def slow_rows_holds(clusters, s, alpha, largest):
    """Whether a level s keeps the sum of (1{tail < s} - alpha), with the worst new cluster."""
    total = largest * (1 - alpha)
    for tails in clusters:
        for tail in tails:
            total += (tail < s) - alpha
    return total <= 0


@given(clusters_of_tails, eighths)
def test_smallest_alpha_is_the_formula_rounded_once(clusters, survival):
    found = by_clusters(clusters).smallest_alpha(np.array([[survival]]))
    assert found[0, 0] == float(slow_cluster_alpha(clusters, survival))


@given(clusters_of_tails, eighths, st.integers(1, 99))
def test_rows_take_the_largest_level_that_keeps_the_sum(clusters, survival, percent):
    alpha = Fraction(percent, 100)
    level = by_rows(clusters, 6).level(float(alpha))
    tried = sorted({0.0, *np.concatenate(clusters).tolist()})
    kept = [s for s in tried if slow_rows_holds(clusters, s, alpha, 6)]
    assert level == max(kept, default=0.0)


@pytest.mark.parametrize("kind", [by_clusters, lambda clusters: by_rows(clusters, 6)])
@given(clusters=clusters_of_tails, survival=eighths, data=st.data())
def test_bound_and_exceedance_are_the_same_statement(kind, clusters, survival, data):
    calibration = kind(clusters)
    steps = st.sampled_from(calibration.shares[:-1].tolist())
    alpha = data.draw(alphas | steps)
    fits = survival < calibration.level(alpha)
    assert fits == (calibration.smallest_alpha(np.array([[survival]]))[0, 0] <= alpha)


@given(st.lists(eighths, min_size=1, max_size=30), eighths, alphas)
def test_clusters_of_one_row_are_marginal(tails, survival, alpha):
    marginal = MarginalCalibration(np.sort(tails))
    at = np.array([[survival]])
    for same in (by_clusters([[t] for t in tails]), by_rows([[t] for t in tails], 1)):
        assert same.level(alpha) == marginal.level(alpha)
        assert same.smallest_alpha(at) == marginal.smallest_alpha(at)
        assert (same.too_few(alpha) is None) == (marginal.too_few(alpha) is None)


def test_decimals_are_exact():
    """Weights 1/3 and 1/7 and alpha = 0.3: floats summed one by one would miss the tie."""
    clusters = [[0.1] * 3, [0.2] * 7, *[[0.9]] * 7]
    assert by_clusters(clusters).smallest_alpha(np.array([[0.2]]))[0, 0] == 0.3
    assert by_clusters(clusters).level(0.3) == 0.9
    assert by_clusters(clusters).level(0.299) == 0.2


def test_sizes_without_a_common_divisor(rng):
    """The common unit has hundreds of digits; quotients are still rounded once."""
    clusters = [rng.uniform(size=size).tolist() for size in range(1, 90)]
    found = by_clusters(clusters)
    for survival in rng.uniform(size=5).tolist():
        assert found.smallest_alpha(np.array([[survival]]))[0, 0] == float(
            slow_cluster_alpha(clusters, survival)
        )


def test_levels_of_several_alphas_fall_with_alpha(rng):
    clusters = [rng.uniform(size=size) for size in rng.integers(1, 9, size=40)]
    grid = np.linspace(0.01, 0.99, 50)
    for calibration in (by_clusters(clusters), by_rows(clusters, 9)):
        levels = calibration.level(grid)
        assert levels.shape == grid.shape
        assert np.all(np.diff(levels) >= 0)
        assert [float(calibration.level(a)) for a in grid] == levels.tolist()


def test_too_few_counts_clusters():
    clusters = [[0.5] * 100] * 8
    text = by_clusters(clusters).too_few(0.1, np.inf)
    assert text.startswith("8 calibration clusters")
    assert "infinite" in text
    assert "At least 9" in text
    assert by_clusters(clusters[:1] * 9).too_few(0.1) is None
    # Rows: B (1 - alpha) / alpha = 900 of them, in nine clusters like these.
    text = by_rows(clusters, 100).too_few(0.1)
    assert "At least 9" in text
    assert "900 rows" in text
    assert "may have 100" in text
    assert by_rows(clusters[:1] * 9, 100).too_few(0.1) is None


def test_sentences_name_clusters():
    clusters = [[0.5, 0.6]] * 12
    text = by_clusters(clusters).sentence([0.1])
    assert "random row of a random new cluster" in text
    assert "12 calibration clusters" in text
    assert "counts once" in text
    text = by_rows(clusters, 5).sentence([0.1, 0.2])
    assert "all rows" in text
    assert "at most 5 rows" in text
    assert "0.1, 0.2" in text


def test_again_takes_other_clusters():
    clusters = [[0.5, 0.6], [0.1]]
    assert by_clusters(clusters).again(part([[0.2], [0.3]])).n_clusters == 2
    assert by_rows(clusters, 3).again(part([[0.2], [0.3]])).largest == 3
    with raises(ValueError, "4 rows", "largest, 3"):
        by_rows(clusters, 3).again(part([[0.2] * 4]))
    with raises(ValueError, "clusters="):
        by_clusters(clusters).again(Part(None, None, None, np.array([0.5])))


# The estimator


def labelled(rng, n_clusters=60, largest=8):
    size = rng.integers(1, largest + 1, size=n_clusters)
    label = np.repeat([f"day {i}" for i in range(n_clusters)], size)
    X = rng.uniform(size=(len(label), 2))
    shift = np.repeat(rng.normal(size=n_clusters), size)
    return X, X[:, 0] + shift + 0.1 * rng.normal(size=len(label)), label


def first_column(X):
    return X[:, 0]


def test_fit_keeps_clusters_whole_and_counts_them(rng):
    X, y, label = labelled(rng)
    locus = Locus(first_column, **SMALL).fit(X, y, clusters=label)
    inside, outside = set(label[locus.calibration_rows_]), set(label[locus.fit_rows_])
    assert not inside & outside
    assert len(inside) == 29 == locus.calibration_.n_clusters  # half of 60, as of 60 rows
    assert locus.calibration_.n == len(locus.calibration_rows_)
    assert "29 calibration clusters" in Scorer(locus).card
    assert "random new cluster" in locus.tau_rule(1.0, 0.1).guarantee
    with warns(LocusWarning, "29 calibration clusters", "At least 99"):
        assert np.isinf(locus.loss_bound(X, alpha=0.01)).all()


def test_the_free_identity(rng):
    """On D2 itself the clusters' shares above their bound sum to at most alpha (m + 1) - 1."""
    X, y, label = labelled(rng)
    locus = Locus(first_column, **SMALL).fit(X, y, clusters=label)
    rows = locus.calibration_rows_
    for alpha in (0.05, 0.1, 0.33, 0.5):
        above = locus.losses(X[rows], y[rows]) > locus.loss_bound(X[rows], alpha)
        shares = [above[label[rows] == name].mean() for name in np.unique(label[rows])]
        assert sum(shares) <= alpha * (len(shares) + 1) - 1 + 1e-9


def test_rows_of_clusters_in_fit(rng):
    X, y, label = labelled(rng)
    locus = Locus(first_column, calibration=ClusterRows(10), **SMALL).fit(X, y, clusters=label)
    n = len(locus.calibration_rows_)
    assert locus.calibration_.shares[0] == 10 / (10 + n)
    rows = locus.calibration_rows_
    above = locus.losses(X[rows], y[rows]) > locus.loss_bound(X[rows], 0.2)
    assert above.sum() + 10 <= 0.2 * (n + 10)


def test_size_counts_clusters(rng):
    codes = np.repeat(np.arange(40), rng.integers(1, 30, size=40))
    n = len(codes)
    assert len(np.unique(codes[split_rows(n, 7, 0, codes)[1]])) == 7
    assert len(np.unique(codes[split_rows(n, 0.25, 0, codes)[1]])) == 10
    assert len(np.unique(codes[split_rows(n, 0.999, 0, codes)[1]])) == 38
    fit, cal = split_rows(n, np.flatnonzero(codes < 5), 0, codes)
    assert set(codes[cal]) == set(range(5))
    assert len(fit) + len(cal) == n
    fit, cal = split_rows(4, None, 0, np.array([0, 0, 1, 1]))
    assert len(fit) == len(cal) == 2


def test_folds_keep_clusters_whole(rng):
    codes = np.repeat(np.arange(100, 140), rng.integers(1, 9, size=40))
    folds = folds_of(len(codes), 3, codes)
    assert len(folds) == 5
    assert sorted(np.concatenate([out for _, out in folds])) == list(range(len(codes)))
    for kept, out in folds:
        assert not set(codes[kept]) & set(codes[out])
        assert len(kept) + len(out) == len(codes)
    assert np.ptp([len(out) for _, out in folds]) <= 8
    assert len(folds_of(30, 0, np.arange(30) % 3)) == 3
    assert len(folds_of(30, 0, np.zeros(30, dtype=int))) == 5
    others = folds_of(len(codes), 4, codes)
    assert any(set(a[1]) != set(b[1]) for a, b in zip(folds, others, strict=True))


def test_a_class_in_one_cluster_leaves_no_opinion(rng):
    X = rng.uniform(size=(120, 2))
    label = np.arange(120) // 20
    y = (label == 2).astype(int)
    locus = Locus(lambda X: np.zeros(len(X), dtype=int), loss="zero_one", random_state=0)
    locus.fit(X, y, clusters=label)
    assert locus.signals_.opinion is None


def test_bad_clusters(rng):
    X, y, label = labelled(rng)
    locus = Locus(first_column, **SMALL)
    with raises(ValueError, "one label per row", str(len(X))):
        locus.fit(X, y, clusters=label[:-1])
    missing = np.array([None, *label[1:]], dtype=object)
    with raises(ValueError, "missing labels", f"1 of {len(X)}"):
        locus.fit(X, y, clusters=missing)
    with raises(ValueError, "only one label", "at least 2"):
        locus.fit(X, y, clusters=np.zeros(len(X)))
    cut = Locus(first_column, calibration_size=[0], **SMALL)
    two = np.arange(len(X)) // 2
    with raises(ValueError, "cuts through 1 of", "whole clusters"):
        cut.fit(X, y, clusters=two)
    with raises(ValueError, "calibration_size = 60"):
        Locus(first_column, calibration_size=60, **SMALL).fit(X, y, clusters=label)


def test_bad_rows_of_clusters(rng):
    X, y, label = labelled(rng)
    with raises(ValueError, "ClusterRows", "clusters="):
        Locus(first_column, calibration=ClusterRows(10), **SMALL).fit(X, y)
    with raises(ValueError, "8 rows", "largest, 5"):
        Locus(first_column, calibration=ClusterRows(5), **SMALL).fit(X, y, clusters=label)
    for largest in (0, 2.5, True, 2**60):
        with raises(ValueError, "largest"):
            Locus(first_column, calibration=ClusterRows(largest), **SMALL).fit(X, y, clusters=label)
    with raises(ValueError, "target", "Shifted"):
        Locus(first_column, calibration=ClusterRows(10), **SMALL).fit(
            X, y, clusters=label, target=X
        )


# Archives


@pytest.mark.extra
@pytest.mark.parametrize("choice", [None, ClusterRows(10)])
def test_round_trips(choice, rng, path):
    X, y, label = labelled(rng)
    fitted = Locus(first_column, calibration=choice, **SMALL).fit(X, y, clusters=label)
    scorer = Scorer(fitted, fitted.tau_rule(1.0, 0.2), alphas=(0.1, 0.3))
    with warns(LocusWarning, "left out"):
        scorer.save(path)
    loaded = Scorer.load(path, predictor=first_column)
    assert_same_scores(scorer, loaded, X)
    assert loaded.locus.calibration_.n_clusters == 29
    assert loaded.locus.calibration_.sentence([0.1]) == fitted.calibration_.sentence([0.1])
    assert_same_scores(scorer, pickle.loads(pickle.dumps(scorer)), X)
    assert not hasattr(scorer.without_rows().locus, "calibration_clusters_")


FORGED = [
    ([0, 0], "no codes"),
    ([0.0, 0.5, 1.0], "no codes"),
    ([0, -1, 1], "no codes"),
    ([0, 1, 3], "no codes"),
    ([[0], [1], [1]], "no codes"),
    ([2, 2, 1], "no rows"),
]


@pytest.mark.parametrize(("clusters", "fact"), FORGED)
@pytest.mark.parametrize("kind", [ClusterCalibration, ClusterRowsCalibration])
def test_forged_clusters_are_refused(kind, clusters, fact):
    parts = {"tails": np.array([0.1, 0.2, 0.3]), "clusters": np.array(clusters), "largest": 2}
    with raises(ValueError, fact):
        kind.from_parts(parts)


@pytest.mark.parametrize("largest", [1, 2.0, True, None, 10**30])
def test_a_forged_largest_is_refused(largest):
    parts = {
        "tails": np.array([0.1, 0.2, 0.3]),
        "clusters": np.array([0, 0, 1]),
        "largest": largest,
    }
    with raises(ValueError, "larger"):
        ClusterRowsCalibration.from_parts(parts)


def test_no_tails_are_refused():
    with raises(ValueError, "no calibration tails"):
        ClusterCalibration.from_parts({"tails": np.empty(0), "clusters": np.array([], dtype=int)})
    with raises(ValueError, "ascending"):
        ClusterCalibration.from_parts({"tails": np.array([0.2, 0.1]), "clusters": np.array([0, 1])})


@pytest.mark.extra
def test_a_forged_archive_is_refused(rng, path):
    X, y, label = labelled(rng)
    fitted = Locus(first_column, **SMALL).fit(X, y, clusters=label)
    with warns(LocusWarning, "left out"):
        Scorer(fitted, alphas=(0.1,)).save(path)
    state = members_of(path)["scorer.json"]
    forge(path, {"scorer.json": state.replace(b'"Clusters"', b'"Marginal"')})
    with raises(ArchiveError, "x.locus"):
        Scorer.load(path, predictor=first_column)
