"""The expected mean loss, and the expected total loss, of the accepted are at most a level."""

import numpy as np
import pytest

from helpers import assert_binomial, repeated
from locuscore import select_mean_loss, select_total_loss

REPEATS = repeated(2_000)


def assert_mean_at_most(values, limit, rng):
    """Exact: a number v from 0 to 1 becomes an event of probability v, and events are counted."""
    assert_binomial(np.sum(rng.uniform(size=len(values)) < values), len(values), limit, "greater")


def mean_loss(new, cal, losses, level, **weights):
    return select_mean_loss(new, cal, losses, level, largest_loss=1, **weights).accepted


def total_loss(new, cal, losses, level, **weights):
    return select_total_loss(new, cal, losses, level, largest_loss=1, **weights).accepted


def plug_in(new, cal, losses, level):
    """The twin: the largest threshold whose estimated mean loss is at most the level."""
    finite = [t for t in np.sort(new) if t < np.inf]
    share = len(new) / len(cal)
    ok = [t for t in finite if losses[cal <= t].sum() * share <= level * np.sum(new <= t)]
    return new <= max(ok, default=-np.inf)


def ties_in_favour(new, cal, losses, level):
    """The twin: labelled rows of the same score are not counted."""
    return mean_loss(np.nextafter(new, -np.inf), cal, losses, level)


def total_without_the_row(new, cal, losses, level):
    """The twin: the row itself is not counted, as if it lost nothing."""
    return np.array([losses[cal <= s].sum() / len(cal) <= level for s in new])


def all_lost(size, rng):
    return rng.uniform(size=size), np.ones(size)


def all_lost_tied(size, rng):
    return np.floor(3 * rng.uniform(size=size)), np.ones(size)


def rising(size, rng):
    score = rng.uniform(size=size)
    return score, rng.uniform(size=size) ** 2 * score


def tied(size, rng):
    score, losses = rising(size, rng)
    return np.where(rng.uniform(size=size) < 0.1, -np.inf, np.floor(4 * score)), losses


def constant(size, rng):
    return rng.uniform(size=size), np.full(size, 0.25)


def shares(method, rng, n, m, level, law, repeats=REPEATS):
    """Mean loss of the accepted, and their total over the size of the batch, by repetition."""
    found = np.empty((repeats, 2))
    for i in range(repeats):
        score, losses = law(n + m, rng)
        accepted = method(score[n:], score[:n], losses[:n], level)
        lost = losses[n:][accepted].sum()
        found[i] = lost / max(1, accepted.sum()), lost / m
    return found.T


@pytest.mark.parametrize("law", [all_lost, all_lost_tied, rising, tied, constant])
@pytest.mark.parametrize(("n", "m", "level"), [(19, 1, 0.2), (60, 20, 0.12)])
def test_the_mean_loss(n, m, level, law, rng):
    assert_mean_at_most(shares(mean_loss, rng, n, m, level, law)[0], level, rng)


@pytest.mark.parametrize("law", [all_lost, all_lost_tied, rising, tied])
def test_the_total_loss(law, rng):
    assert_mean_at_most(shares(total_loss, rng, 39, 5, 0.1, law)[1], 0.1, rng)


def test_the_total_loss_is_exact_without_ties(rng):
    """Where every row loses all, the expected share is the level itself: 4 of 40 ranks."""
    total = shares(total_loss, rng, 39, 1, 0.1, all_lost)[1]
    assert_binomial(total.sum(), REPEATS, 0.1)


@pytest.mark.parametrize(
    ("twin", "law", "n", "m"),
    [(plug_in, all_lost, 10, 1), (ties_in_favour, all_lost_tied, 19, 4)],
)
def test_twins_of_the_mean_are_noticed(twin, law, n, m, rng):
    values = shares(twin, rng, n, m, 0.2, law)[0]
    with pytest.raises(AssertionError):
        assert_mean_at_most(values, 0.2, rng)


def test_a_total_without_the_row_itself_is_noticed(rng):
    values = shares(total_without_the_row, rng, 10, 1, 0.2, all_lost)[1]
    with pytest.raises(AssertionError):
        assert_mean_at_most(values, 0.2, rng)


def shifted_shares(method, rng, weighted, repeats=REPEATS):
    """New rows have density 5 u^4 and lose u / 2 on average, where labelled ones are uniform."""
    n, m, found = 60, 15, np.empty((repeats, 2))
    for i in range(repeats):
        cal, new = rng.uniform(size=n), rng.uniform(size=m) ** 0.2
        lost_cal, lost_new = (rng.uniform(size=len(s)) < 0.5 * s for s in (cal, new))
        weights = {"weights_new": new**4, "weights_cal": cal**4} if weighted else {}
        accepted = method(1 - new, 1 - cal, lost_cal.astype(float), 0.3, **weights)
        found[i] = lost_new[accepted].sum() / np.array([max(1, accepted.sum()), m])
    return found.T


@pytest.mark.parametrize(("method", "which"), [(mean_loss, 0), (total_loss, 1)])
def test_another_mix_by_known_weights(method, which, rng):
    assert_mean_at_most(shifted_shares(method, rng, True)[which], 0.3, rng)


@pytest.mark.parametrize(("method", "which"), [(mean_loss, 0), (total_loss, 1)])
def test_another_mix_without_weights_is_noticed(method, which, rng):
    values = shifted_shares(method, rng, False)[which]
    with pytest.raises(AssertionError):
        assert_mean_at_most(values, 0.3, rng)


def test_something_is_accepted(rng):
    score, losses = rising(800, rng)
    assert mean_loss(score[:400], score[400:], losses[400:], 0.1).mean() > 0.4
    assert total_loss(score[:400], score[400:], losses[400:], 0.1).mean() > 0.6
