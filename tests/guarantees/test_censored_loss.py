"""What is promised of a censored error: Theorem 1 for what is known to be lost, and no more."""

import numpy as np
import pytest

from helpers import assert_binomial
from locuscore import conformal_rank
from locuscore._inputs.losses import resolve_loss

N, ALPHA, REPEATS, LIMIT = 39, 0.1, 20_000, 1.5
K = conformal_rank(N, ALPHA)
G = 1.0  # the predicted time


def experiment(rng):
    """Known losses, true losses and events of one new row, and the bound from n others."""
    time = rng.exponential(size=(REPEATS, N + 1))
    censored_at = rng.uniform(0.0, LIMIT, size=time.shape)
    event = time <= censored_at
    y = np.column_stack([np.minimum(time, censored_at).ravel(), event.ravel()])
    known = resolve_loss("censored")(y, np.full(time.size, G)).reshape(time.shape)
    # Ties would make every count too good: losses of 0 are spread below all others.
    known = np.where(known > 0, known, -rng.uniform(size=time.shape))
    bound = np.partition(known[:, :-1], K - 1, axis=1)[:, K - 1]
    return known[:, -1], np.abs(time - G)[:, -1], event[:, -1], bound


def test_the_bound_holds_for_what_is_known_to_be_lost(rng):
    known, _, _, bound = experiment(rng)
    assert_binomial(np.sum(known <= bound), REPEATS, K / (N + 1))


def test_seen_events_above_the_bound_are_at_most_alpha_of_all_rows(rng):
    known, true, event, bound = experiment(rng)
    assert np.all(known[event & (true > bound)] > bound[event & (true > bound)])
    assert_binomial(np.sum(event & (true > bound)), REPEATS, ALPHA, "greater")


def test_the_share_above_the_bound_is_at_most_alpha_and_the_share_censored(rng):
    _, true, event, bound = experiment(rng)
    most = ALPHA + float(np.mean(~event))
    assert np.mean(true > bound) <= most


def test_the_bound_does_not_hold_for_the_whole_loss(rng):
    _, true, _, bound = experiment(rng)
    with pytest.raises(AssertionError, match="against"):
        assert_binomial(np.sum(true <= bound), REPEATS, K / (N + 1), "less")
