"""Theorem 1: ``P(tail > s) <= k / (n2 + 1) <= P(Z <= U)``, given D1, for every engine and loss."""

import numpy as np
import pytest

from experiment import (
    BLOCK,
    CASES,
    CONTINUOUS,
    LOSSES,
    POOL,
    Outcome,
    Pool,
    Repetitions,
    accepted,
    check_theorem,
    continuous,
    make_pool,
    run,
)
from helpers import assert_binomial
from locuscore._laws.calibration import conformal_rank
from locuscore._laws.distribution import LossDistribution
from locuscore.draws import StepDraws

SIZES_AND_ALPHAS = ((9, 0.1), (9, 0.3), (19, 0.5), (39, 0.1), (39, 0.02))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", CASES)
def test_marginal_validity(case, loss, rng):
    pool = make_pool(case, loss, rng)
    for n, alpha in SIZES_AND_ALPHAS:
        outcome = run(pool, n, alpha)
        check_theorem(outcome, n, alpha)
        outcome.assert_one_event()
        if loss == "continuous" and case in CONTINUOUS:
            # No ties: both sides of the theorem meet.
            probability = conformal_rank(n, alpha) / (n + 1)
            assert_binomial(outcome.covered.sum(), len(outcome.covered), probability)


def step_pool(rng):
    """Laws of ten points that have little to do with the losses: flats and jumps everywhere."""
    S = rng.uniform(size=(POOL, 2))
    points = np.quantile(np.linspace(0, 3, 101), np.linspace(0.05, 0.95, 10))
    stretch = 0.5 + np.round(S[:, 0], 1)

    def law(rows):
        values = stretch[rows, None, None] * points[None, None, :]
        return LossDistribution(StepDraws(values, values.max(axis=(1, 2)), np.ones(len(values))))

    z = continuous(rng, S)
    pool = Pool(None, S, z, law(slice(None)).tail(z))
    pool.law = law
    return pool


def test_marginal_validity_of_coarse_steps(rng):
    pool = step_pool(rng)
    for n, alpha in SIZES_AND_ALPHAS:
        outcome = run(pool, n, alpha)
        check_theorem(outcome, n, alpha)
        outcome.assert_one_event()


def test_a_rank_one_too_low_is_noticed(rng):
    pool = make_pool("Gaussian", "continuous", rng)
    n, alpha = 9, 0.1
    repetitions = Repetitions.cut(pool, n)
    k = conformal_rank(n, alpha) - 1
    levels = np.sort(repetitions.cal_tail, axis=1)[:, n - k]
    rows = repetitions.test_rows
    outcome = Outcome(pool.z[rows], pool.tail[rows], levels, pool.law(rows).isf(levels))
    with pytest.raises(AssertionError):
        check_theorem(outcome, n, alpha)


def test_a_rank_one_too_high_is_noticed(rng):
    """Safe, but wasteful: the two-sided test sees it."""
    pool = make_pool("Gaussian", "continuous", rng)
    n, alpha = 9, 0.3
    repetitions = Repetitions.cut(pool, n)
    k = conformal_rank(n, alpha) + 1
    levels = np.sort(repetitions.cal_tail, axis=1)[:, n - k]
    rows = repetitions.test_rows
    covered = pool.z[rows] <= pool.law(rows).isf(levels)
    with pytest.raises(AssertionError):
        assert_binomial(covered.sum(), len(covered), conformal_rank(n, alpha) / (n + 1))


def lower_inverse(dist, level):
    """``inf{z : P(Z > z) <= level}``, the usual inverse of F = 1 - sf at 1 - level."""
    low, high = np.full(len(level), -1.0), np.full(len(level), 1e6)
    for _ in range(80):
        middle = (low + high) / 2
        reached = dist.sf(middle) <= level * (1 + 1e-12)
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def test_the_lower_inverse_is_noticed(rng):
    pool = step_pool(rng)
    n, alpha = 9, 0.3
    repetitions = Repetitions.cut(pool, n)
    levels, rows = repetitions.levels(alpha), repetitions.test_rows
    # The paper's own inverse of the level t = 1 - s: the left end of the flat before the loss.
    bound = lower_inverse(pool.law(rows), levels)
    with pytest.raises(AssertionError):
        check_theorem(Outcome(pool.z[rows], pool.tail[rows], levels, bound), n, alpha)


@pytest.mark.parametrize(
    ("case", "share"),
    [("Forest", 0.6), ("Forest, gamma", 0.5), ("Scale", 0.6), ("Bagged Scale", 0.6)],
)
def test_most_rows_of_a_0_1_loss_are_accepted(case, share, rng):
    """Twenty per cent of errors and alpha 0.1: accepted at tau = 0 is where the bound is zero."""
    pool = make_pool(case, "0-1", rng)
    assert_binomial(pool.z.sum(), len(pool.z), 0.2)
    n, alpha = 99, 0.1
    check_theorem(run(pool, n, alpha), n, alpha)
    # The best rule there is accepts 79 %.
    assert accepted(pool, n, alpha).mean() > share


def test_a_tail_without_its_atom_is_noticed(rng):
    """Calibrated by F(z), a 0-1 loss is valid and useless: no row is ever accepted."""
    pool = make_pool("Forest", "0-1", rng)
    blocks = [slice(start, start + BLOCK) for start in range(0, POOL, BLOCK)]
    without = [pool.law(block).sf(pool.z[block]) for block in blocks]
    broken = Pool(pool.locus, pool.S, pool.z, np.concatenate(without))
    assert accepted(pool, 99, 0.1).mean() > 0.6
    assert accepted(broken, 99, 0.1).sum() == 0


def test_a_tail_without_its_atom_breaks_the_identity(rng):
    """The event "tail >= s" is no longer "Z <= U", so one side of the theorem says nothing."""
    pool = step_pool(rng)
    # Every loss moved to the next point of its law, so that it sits on an atom.
    points = pool.law(slice(None)).draws.points[:, 0]
    place = np.minimum((points < pool.z[:, None]).sum(axis=1), points.shape[1] - 1)
    pool.z = points[np.arange(POOL), place]
    pool.tail = pool.law(slice(None)).tail(pool.z)
    run(pool, 39, 0.1).assert_one_event()
    pool.tail = pool.law(slice(None)).sf(pool.z)
    with pytest.raises(AssertionError):
        run(pool, 39, 0.1).assert_one_event()
