"""Rolling origin: what a policy sees, and what is measured."""

import numpy as np
import pytest

from archives_for_tests import rows
from engines_for_tests import quick
from helpers import assert_close, raises
from locuscore.metrics import (
    adapted_bounds,
    pinball_loss,
    recalibrated_bounds,
    rolling_origin,
    same_bounds,
)

X, Y = rows(300, seed=1)
DAYS = np.repeat(np.arange(30), 10)
MONTHS = np.repeat(["may", "june", "july"], 100)


@pytest.fixture(scope="module")
def locus():
    return quick().fit(*rows(300))


@pytest.fixture(scope="module")
def z(locus):
    return locus.losses(X, Y)


@pytest.mark.parametrize("delay", [1, 3])
def test_a_policy_sees_the_past_alone(z, delay):
    seen = []

    def policy(X_past, z_past, X_now):
        seen.append((X_past, z_past, X_now))
        return np.full(len(X_now), 1.0)

    rolling_origin(policy, X, z, batches=DAYS, delay=delay)
    assert len(seen) == 30
    for day, (X_past, z_past, X_now) in enumerate(seen):
        n = 10 * max(0, day + 1 - delay)
        assert_close(X_past, X[:n])
        assert_close(z_past, z[:n])
        assert_close(X_now, X[10 * day : 10 * day + 10])


def test_records_by_period(locus, z):
    bound = locus.loss_bound(X, 0.2)
    found = rolling_origin(same_bounds(locus, 0.2), X, z, batches=DAYS, periods=MONTHS, alpha=0.2)
    assert [one.period for one in found] == ["may", "june", "july"]
    for one in found:
        at = one.period == MONTHS
        assert one.n_rows == 100
        assert_close(one.coverage, np.mean(z[at] <= bound[at]))
        assert_close(one.mean_bound, np.mean(bound[at]), rtol=1e-12)
        assert_close(one.pinball, pinball_loss(z[at], bound[at], 0.2), rtol=1e-12)
        assert one.infinite == 0.0
    assert len(rolling_origin(same_bounds(locus), X, z, batches=DAYS)) == 30


def test_infinite_bounds_are_counted_apart(z):
    bounds = np.where(np.arange(300) % 4 == 0, np.inf, 2.0)
    bounds[:10] = np.inf
    numbers = iter(np.split(bounds, 30))
    first, second, *_ = rolling_origin(lambda *_: next(numbers), X, z, batches=DAYS)
    assert (first.infinite, first.coverage) == (1.0, 1.0)
    assert np.isnan([first.mean_bound, first.pinball]).all()
    assert (second.infinite, second.mean_bound) == (0.2, 2.0)


def test_recalibrated_bounds(locus, z):
    policy = recalibrated_bounds(locus, 0.2, window=50)
    assert_close(policy(X[:40], z[:40], X), locus.loss_bound(X, 0.2))
    by_hand = locus.recalibrate(X[50:100], Y[50:100]).loss_bound(X, 0.2)
    assert_close(policy(X[:100], z[:100], X), by_hand)
    fading = recalibrated_bounds(locus, 0.2, window=50, half_life=30)
    by_hand = locus.recalibrate(X[50:100], Y[50:100], half_life=30).loss_bound(X, 0.2)
    assert_close(fading(X[:100], z[:100], X), by_hand)
    with raises(ValueError, "window", "0"):
        recalibrated_bounds(locus, window=0)


def test_adapted_bounds(locus, z):
    found = rolling_origin(adapted_bounds(locus, 0.2, step=0.02), X, z, batches=DAYS, delay=2)
    stream, waiting = locus.adapt(0.2, step=0.02), []
    for day, one in enumerate(found):
        at = np.arange(10 * day, 10 * day + 10)
        if len(waiting) == 2:
            stream.update_losses(*waiting.pop(0))
        decision = stream.bound(X[at])
        waiting.append((decision.ticket, z[at]))
        assert_close(one.mean_bound, np.mean(decision.bound))


@pytest.mark.extra
def test_frames(locus, z):
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abc"))
    named = quick().fit(pd.DataFrame(rows(300)[0], columns=list("abc")), rows(300)[1])
    found = rolling_origin(adapted_bounds(named), frame, z, batches=pd.Series(DAYS))
    assert [one.n_rows for one in found] == [10] * 30


def test_bad_input(locus, z):
    policy = same_bounds(locus)
    with raises(ValueError, "30 batches", "31 pieces", "Sort"):
        rolling_origin(policy, X, z, batches=np.append(DAYS[:-1], 0))
    with raises(ValueError, "300", "299"):
        rolling_origin(policy, X, z[:-1], batches=DAYS)
    with raises(ValueError, "batches", "300"):
        rolling_origin(policy, X, z, batches=DAYS[:-1])
    with raises(ValueError, "periods", "300"):
        rolling_origin(policy, X, z, batches=DAYS, periods=MONTHS[:5])
    with raises(ValueError, "delay", "0"):
        rolling_origin(policy, X, z, batches=DAYS, delay=0)
    with raises(ValueError, "one bound for each of the 10 rows", "(3,)"):
        rolling_origin(lambda *_: np.zeros(3), X, z, batches=DAYS)
    with raises(ValueError, "missing"):
        rolling_origin(lambda *_: np.full(10, np.nan), X, z, batches=DAYS)
    with raises(ValueError, "non-finite"):
        rolling_origin(policy, X, np.full(300, np.inf), batches=DAYS)
