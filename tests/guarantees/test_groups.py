"""Groups: ``P(Z <= U | group) >= 1 - alpha``, exactly ``k / (n_g + 1)`` where tails do not tie."""

import numpy as np
import pytest
from scipy.optimize import linprog

from experiment import Repetitions, make_pool
from helpers import assert_binomial
from locuscore._laws.calibration import calibrated_level, conformal_rank
from locuscore._protocols import Part
from locuscore.calibration._by_group import GroupCalibration
from locuscore.calibration._overlap import _one_hot
from locuscore.calibration._quantile_simplex import cutoffs
from locuscore.calibration._row_labels import Groups, RowLabels

SIZES = (9, 19, 30)
CODES = np.repeat(np.arange(3), SIZES)
POWERS = np.array([0.5, 1.0, 3.0])  # a law that is too light, right, and too heavy
REPEATS = 4_000


def by_group(tails, codes, n_groups=3):
    groups = Groups(tuple(range(n_groups)))
    return GroupCalibration.of(Part(None, None, None, tails), codes, groups, RowLabels((0,)))


def covered_by_group(rng, alpha, level, digits=None):
    """Whether a new row of each group is covered, (REPEATS, 3)."""
    tails = rng.uniform(size=(REPEATS, len(CODES) + 3)) ** POWERS[[*CODES, 0, 1, 2]]
    tails = tails if digits is None else np.round(tails, digits)
    levels = np.array([level(row[:-3], alpha) for row in tails])
    return tails[:, -3:] >= levels


def own_level(tails, alpha):
    return by_group(tails, CODES).level(alpha, np.arange(3))


def check_exact(covered, alpha):
    for group, n in enumerate(SIZES):
        probability = conformal_rank(n, alpha) / (n + 1)
        assert_binomial(covered[:, group].sum(), REPEATS, probability)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_coverage_is_exact_in_every_group(alpha, rng):
    check_exact(covered_by_group(rng, alpha, own_level), alpha)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_ties_can_only_cover_more(alpha, rng):
    covered = covered_by_group(rng, alpha, own_level, digits=1)
    for group in range(3):
        assert_binomial(covered[:, group].sum(), REPEATS, 1 - alpha, "less")


def test_a_level_for_all_groups_is_noticed(rng):
    def marginal(tails, alpha):
        return np.full(3, calibrated_level(tails, alpha))

    covered = covered_by_group(rng, 0.1, marginal)
    with pytest.raises(AssertionError):
        assert_binomial(covered[:, 2].sum(), REPEATS, 0.9, "less")


@pytest.mark.parametrize("off", [-1, 1])
def test_a_wrong_rank_in_one_group_is_noticed(off, rng):
    def wrong(tails, alpha):
        levels = own_level(tails, alpha)
        k = conformal_rank(SIZES[1], alpha) + off
        levels[1] = np.sort(tails[CODES == 1])[SIZES[1] - k]
        return levels

    with pytest.raises(AssertionError):
        check_exact(covered_by_group(rng, 0.3, wrong), 0.3)


def test_bounds_of_groups_told_by_x(rng):
    """With laws of an engine and groups of random sizes; a group may have too few rows."""
    pool, n, alpha = make_pool("Gaussian", "continuous", rng), 59, 0.2
    codes = np.digitize(pool.S[:, 0], [0.2, 0.5])
    repetitions = Repetitions.cut(pool, n)
    cal = np.arange(len(repetitions.test_rows) * (n + 1)).reshape(-1, n + 1)[:, :-1]
    rows = repetitions.test_rows
    pairs = zip(repetitions.cal_tail, codes[cal], codes[rows], strict=True)
    levels = np.array([by_group(t, c).level(alpha, np.array([g]))[0] for t, c, g in pairs])
    covered = pool.z[rows] <= pool.law(rows).isf(levels)
    sizes = np.sum(codes[cal] == codes[rows, None], axis=1)
    for group in range(3):
        own = codes[rows] == group
        assert_binomial(covered[own].sum(), own.sum(), 1 - alpha, "less")
    for size in np.unique(sizes):  # given the size, from both sides
        own = sizes == size
        assert_binomial(covered[own].sum(), own.sum(), conformal_rank(size, alpha) / (size + 1))


def test_the_pool_is_covered_as_a_whole(rng):
    """Twelve small groups share a level; some of them are covered less."""
    shares = np.full(12, 1 / 12)
    covered, groups = np.empty(REPEATS, dtype=bool), np.empty(REPEATS, dtype=int)
    for i in range(REPEATS):
        member = rng.choice(12, p=shares, size=31)
        tails = rng.uniform(size=31) ** (0.5 + member / 4)
        found = by_group(tails[:-1], np.zeros(30, dtype=int), n_groups=0)  # all of them pooled
        covered[i], groups[i] = tails[-1] >= found.level(0.2, np.zeros(1, dtype=int))[0], member[-1]
    assert_binomial(covered.sum(), REPEATS, conformal_rank(30, 0.2) / 31)
    with pytest.raises(AssertionError):  # there is no promise for each of them
        assert_binomial(covered[groups == 11].sum(), (groups == 11).sum(), 0.8, "less")


# Groups that overlap

WIDTHS = (2, 3)


def overlapping(rng, n, digits=None):
    """Groups of two columns, and scores whose law depends on both of them."""
    codes = np.column_stack([rng.integers(2, size=n), rng.choice(3, p=[0.6, 0.3, 0.1], size=n)])
    scores = rng.exponential(size=n) * (1 + 3 * codes[:, 0]) * (1 + codes[:, 1] * codes[:, 0])
    return codes, scores if digits is None else np.round(scores, digits)


def cutoff(codes, scores, new, alpha):
    types, which = np.unique(codes, axis=0, return_inverse=True)
    vectors, own = _one_hot(types, WIDTHS), _one_hot(new[None], WIDTHS)
    return cutoffs(vectors, which.ravel(), scores, own, np.array([alpha]))[0, 0]


def groups_of(codes):
    """Indicators of all rows, and of every group of every column."""
    return [np.ones(len(codes), dtype=bool)] + [
        codes[:, j] == code for j, width in enumerate(WIDTHS) for code in range(width)
    ]


def missed_one_by_one(codes, scores, alpha, cut=cutoff):
    """Whether each row is above the cutoff that the others give it."""
    others = [np.arange(len(scores)) != i for i in range(len(scores))]
    found = [cut(codes[o], scores[o], codes[i], alpha) for i, o in enumerate(others)]
    return scores > np.array(found)


@pytest.mark.parametrize("digits", [None, 0])
@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_the_sum_behind_the_theorem(alpha, digits, rng):
    """Of exchangeable rows each may be the new one: in no group are more than alpha missed."""
    for _ in range(3):
        codes, scores = overlapping(rng, 60, digits)
        missed = missed_one_by_one(codes, scores, alpha)
        for group in groups_of(codes):
            assert missed[group].sum() <= alpha * group.sum() + 1e-9
        # Nothing is given away but what the rows on the fit take, one for each dimension.
        assert digits is not None or missed.sum() >= alpha * len(codes) - 4


def test_a_marginal_cutoff_breaks_the_sum(rng):
    def marginal(codes, scores, new, alpha):
        return -calibrated_level(-scores + scores.max(), alpha) + scores.max()

    codes, scores = overlapping(rng, 60)
    missed = missed_one_by_one(codes, scores, 0.25, marginal)
    assert missed.sum() <= 0.25 * 60
    assert any(missed[group].sum() > 0.25 * group.sum() + 2 for group in groups_of(codes))


def test_a_fit_without_the_new_row_breaks_the_sum(rng):
    """The quantile regression of the others alone, which is what is usually done."""

    def without(codes, scores, new, alpha):
        vectors, own = _one_hot(codes, WIDTHS), _one_hot(new[None], WIDTHS)[0]
        found = linprog(-scores, A_eq=vectors.T, b_eq=alpha * vectors.sum(axis=0), bounds=(0, 1))
        return -found.eqlin.marginals @ own

    codes, scores = overlapping(rng, 60)
    missed = missed_one_by_one(codes, scores, 0.1, without)
    assert any(missed[group].sum() > 0.1 * group.sum() + 1e-6 for group in groups_of(codes))


def test_coverage_in_every_overlapping_group(rng):
    """By exact tests, with one new row for each draw of the calibration rows."""
    repeats, n, alpha = 600, 39, 0.2
    outcomes = {"exact": [], "marginal": []}
    rows = []
    for _ in range(repeats):
        codes, scores = overlapping(rng, n + 1)
        level = cutoff(codes[:-1], scores[:-1], codes[-1], alpha)
        outcomes["exact"].append(scores[-1] <= level)
        k = conformal_rank(n, alpha)
        outcomes["marginal"].append(scores[-1] <= np.sort(scores[:-1])[k - 1])
        rows.append(codes[-1])
    exact, marginal = (np.array(found) for found in outcomes.values())
    for group in groups_of(np.array(rows)):
        assert_binomial(exact[group].sum(), group.sum(), 1 - alpha, "less")
    assert_binomial(exact.sum(), repeats, 1 - alpha + 4 / (n + 1), "greater")
    worst = np.array(rows)[:, 0] == 1
    with pytest.raises(AssertionError):
        assert_binomial(marginal[worst].sum(), worst.sum(), 1 - alpha, "less")
