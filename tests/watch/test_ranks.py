"""The alarm of exchangeability, against a transcription row by row."""

import math

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")

from alarms_for_tests import check_alarm, slow_p_values
from helpers import assert_close, raises
from locuscore.watch._evidence.ranks import BEYOND, BLOCK, BLOCKS, LEVELS, ODDS, RankAlarm
from locuscore.watch._evidence.starts import active_starts

pytestmark = pytest.mark.extra


def slow_values(p, n, levels, beyond):
    """Evidence after each row: bets multiplied start by start, as the docstring of the module."""
    bets = [(a, c * a / (1 - a + c * a), x) for a in levels for c in ODDS for x in beyond]
    found = []
    for t in range(len(p)):
        total = 0.0
        for j in active_starts(t // BLOCK):
            weight = 0.8 if j else 0.2
            if j:
                weight *= math.log(BLOCKS) / ((j + BLOCKS) * math.log(j + BLOCKS) ** 2)
            known = n + j * BLOCK
            ages = np.arange(t + 1 - j * BLOCK)
            for a, b, x in bets:
                step = np.minimum(b, x * (a * known + b * ages) / (known + ages))
                factors = np.where(p[j * BLOCK : t + 1] <= step, b / step, (1 - b) / (1 - step))
                total += weight / len(bets) * np.prod(factors)
        found.append(math.log(total))
    return np.array(found)


@pytest.mark.parametrize(("n_bins", "shares"), [(3, (0.05, 0.2)), (40, ())])
def test_ranks_are_bet_on_as_the_formula_says(rng, n_bins, shares):
    counts = rng.integers(1, 30, size=n_bins).tolist()
    bins = np.floor(n_bins * rng.random(420) ** 1.5)
    known = rng.random(420) < 0.9
    p = slow_p_values(bins, known, counts)
    levels, beyond = (shares, BEYOND) if shares else (LEVELS, (1.0,))
    expected = slow_values(p, sum(counts), levels, beyond)
    alarm = check_alarm(lambda: RankAlarm(counts, shares, 0.2), bins, known, expected, rng)
    assert alarm.interval(0.1) is None
    assert len(alarm.starts) > 2


@pytest.mark.parametrize("shares", [(0.1,), (0.3, 0.95), ()])
def test_bets_do_not_increase_and_have_integral_one(shares):
    alarm = RankAlarm([50, 50], shares, 0.1)
    p = (np.arange(20_000) + 0.5) / 20_000
    for known, age in ((100, 0), (100, 7), (100, 300), (5_000, 10**6)):
        logs = alarm.log_bets(p, np.full(1, known), np.full(1, age))
        assert (np.diff(logs, axis=0) <= 1e-12).all()
        assert_close(np.exp(logs).mean(axis=0), np.ones(len(alarm.rates)), atol=1e-3)


def test_it_notices_a_late_change_that_lasts(rng):
    tails = np.append(rng.random(3_000), rng.random(3_000) ** 1.3)
    bins = np.searchsorted(np.sort(rng.random(500)), tails)
    alarm = RankAlarm([1] * 500 + [0], (), 0.05)
    alarm.update(bins)
    assert 3_000 < alarm.alarmed_at < 4_500


def test_a_state_of_other_settings_is_refused():
    alarm = RankAlarm([5, 5], (0.1,), 0.1)
    alarm.update(np.zeros(300))
    with raises(ValueError, "wealth", "300 rows", "other settings"):
        RankAlarm([5, 5], (0.1, 0.5), 0.1).restore(alarm.to_state())
    with raises(ValueError, "wealth"):
        RankAlarm([5, 5], (0.1,), 0.1).restore(alarm.to_state() | {"wealth": [math.nan]})
