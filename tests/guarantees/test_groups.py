"""Groups: ``P(Z <= U | group) >= 1 - alpha``, exactly ``k / (n_g + 1)`` where tails do not tie."""

import numpy as np
import pytest

from experiment import Repetitions, make_pool
from helpers import assert_binomial
from locuscore._laws.calibration import calibrated_level, conformal_rank
from locuscore._protocols import Part
from locuscore.calibration._by_group import GroupCalibration
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
