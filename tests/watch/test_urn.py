"""The alarm for coverage, against a transcription row by row."""

import json
import math

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import betabinom

pytest.importorskip("sqlalchemy")

from helpers import assert_close, raises
from locuscore import conformal_rank
from locuscore.watch._evidence.alarm import ROWS
from locuscore.watch._evidence.starts import LIFETIME, active_starts, log_weight, recent_starts
from locuscore.watch._evidence.urn import BLOCKS, ODDS, UrnAlarm

pytestmark = pytest.mark.extra


def slow_starts(block):
    """Starts that are active in a block, from the words of the docstring."""
    zeros = {j: (j & -j).bit_length() - 1 for j in range(1, block + 1)}
    return [0, *(j for j, v in zeros.items() if block - j < LIFETIME * 2**v)]


def slow_ratio(m, t, m0, h0):
    """E as the docstring has it."""
    null = betaln(m0 + m, h0 + t - m) - betaln(m0, h0)
    others = [betaln(c * m0 + m, h0 + t - m) - betaln(c * m0, h0) for c in ODDS]
    return math.fsum(math.exp(other - null) for other in others) / len(ODDS)


def slow_alarm(bad, m0, h0, delta, block):
    """Logarithm of the evidence after each row, and the first alarm."""
    sums = np.concatenate([[0], np.cumsum(bad)]).astype(int)
    values = []
    for t in range(1, len(bad) + 1):
        found = []
        for j in slow_starts((t - 1) // block):
            s = j * block
            x = j + BLOCKS
            w = 0.2 if j == 0 else 0.8 * math.log(BLOCKS) / (x * math.log(x) ** 2)
            found.append(w * slow_ratio(sums[t] - sums[s], t - s, m0, h0))
        values.append(math.log(max(found)))
    over = np.flatnonzero(np.array(values) >= math.log(1 / delta))
    return np.array(values), int(over[0]) + 1 if len(over) else None


STREAMS = [(0.1, 0.1, 40), (0.1, 0.3, 40), (0.5, 0.7, 3), (0.05, 0.4, 1)]


@pytest.mark.parametrize(("alpha", "later", "m0"), STREAMS)
def test_alarm_is_that_of_the_formula_row_by_row(rng, alpha, later, m0):
    h0 = round(m0 / alpha) - m0
    rate = np.where(np.arange(700) < 450, alpha, later)
    bad = (rng.random(700) < rate).astype(float)
    alarm = UrnAlarm(m0, h0, 0.02)
    values, first = slow_alarm(bad, m0, h0, 0.02, alarm.block)
    at = np.sort(rng.integers(0, 701, size=8))
    for part in np.split(bad, at):
        alarm.update(part)
        assert_close(alarm.log_value, values[alarm.n - 1] if alarm.n else math.log(0.2), atol=1e-9)
    assert alarm.alarmed_at == first
    assert_close(alarm.largest, max(values.max(), math.log(0.2)), atol=1e-9)
    whole = UrnAlarm(m0, h0, 0.02)
    whole.update(bad)
    assert whole.to_state() == alarm.to_state()


def test_a_late_jump_is_found_and_pieces_agree(rng):
    bad = (rng.random(60_000) < np.where(np.arange(60_000) < 50_000, 0.1, 0.2)).astype(float)
    whole, pieces = UrnAlarm(100, 901, 0.05), UrnAlarm(100, 901, 0.05)
    whole.update(bad)
    for part in np.array_split(bad, 37):
        pieces = UrnAlarm(100, 901, 0.05).restore(json.loads(json.dumps(pieces.to_state())))
        pieces.update(part)
    assert whole.alarmed_at is not None
    assert 50_000 < whole.alarmed_at < 51_500
    assert pieces.to_state() == whole.to_state()
    assert len(json.dumps(whole.to_state())) < 1_000


def test_starts_are_few_and_weights_add_up_to_one_at_most():
    for block in range(200):
        assert active_starts(block) == slow_starts(block)
    assert len(active_starts(10**6)) < 50
    for c in (BLOCKS, ROWS):
        weights = np.exp(log_weight(np.arange(10**6), c))
        beyond = 0.8 * math.log(c) / math.log(10**6 - 1 + c)  # the integral from there on
        assert 0.9 < weights.sum() + beyond <= 1.0
    assert (recent_starts(np.array([5]), 3) == -1).all()


def test_a_further_miss_never_lowers_the_evidence(rng):
    """So ties, rows without labels and promises that are more than kept lower it at most."""
    for _ in range(15):
        m0, h0 = int(rng.integers(1, 60)), int(rng.integers(1, 300))
        bad = (rng.random(400) < rng.random()).astype(float)
        more = np.maximum(bad, rng.random(400) < rng.choice([0.002, 0.05]))
        small, large = (UrnAlarm(m0, h0, 0.1) for _ in range(2))
        for part, with_more in zip(np.split(bad, 8), np.split(more, 8), strict=True):
            small.update(part)
            large.update(with_more)
            assert small.log_value <= large.log_value + 1e-9
        assert small.largest <= large.largest + 1e-9


def test_rows_without_a_label_count_as_hits_and_widen_the_interval(rng):
    bad, known = (rng.random(900) < 0.2).astype(float), rng.random(900) < 0.7
    some, good = UrnAlarm(20, 180, 0.1), UrnAlarm(20, 180, 0.1)
    some.update(np.where(known, bad, np.nan), known)
    good.update(bad * known)
    assert (some.log_value, some.largest) == (good.log_value, good.largest)
    assert some.missing == np.sum(~known)
    assert some.interval(0.1)[0] == good.interval(0.1)[0]
    assert some.interval(0.1)[1] > good.interval(0.1)[1] + 0.2


def test_the_urn_is_the_law_of_the_report():
    """One step of the urn after another is the beta-binomial law of the number of misses."""
    n, alpha, t = 30, 0.2, 6
    k = conformal_rank(n, alpha)
    law = np.zeros(t + 1)
    law[0] = 1.0
    for i in range(t):
        miss = (n + 1 - k + np.arange(t + 1)) / (n + 1 + i)
        law = law * (1 - miss) + np.concatenate([[0], (law * miss)[:-1]])
    assert_close(law, betabinom(t, n + 1 - k, k).pmf(np.arange(t + 1)), rtol=1e-12)


def test_the_evidence_of_one_start_is_a_martingale_under_the_urn():
    alarm, (m0, h0) = UrnAlarm(3, 17, 0.1), (3, 17)
    m = np.arange(12)
    now = np.exp(alarm._log_ratio(m, np.full(12, 11)))
    missed, hit = (np.exp(alarm._log_ratio(m + more, np.full(12, 12))) for more in (1, 0))
    miss = (m0 + m) / (m0 + h0 + 11)
    assert_close(miss * missed + (1 - miss) * hit, now, rtol=1e-10)
    assert_close(np.exp(alarm._log_ratio(np.zeros(1, int), np.zeros(1, int))), 1.0, rtol=1e-12)
    t = np.repeat(np.arange(1, 40), 40)
    m = np.tile(np.arange(40), 39) % (t + 1)
    assert (alarm._log_ratio_at_most(m, t) >= alarm._log_ratio(m, t) - 1e-9).all()


def test_what_is_no_row_is_refused():
    alarm = UrnAlarm(3, 17, 0.1)
    with raises(ValueError, "1 labelled rows", "labelled=False"):
        alarm.update([0.0, np.nan])
    with raises(ValueError, "one number per row", "(1, 2)"):
        alarm.update([[0.0, 1.0]])
    with raises(ValueError, "labelled", "2 rows", "(3,)"):
        alarm.update([0.0, 1.0], [True, False, True])
    with raises(ValueError, "above 1", "0.9"):
        UrnAlarm(3, 17, 0.1, odds=(0.9,))
    for wrong in (0, -1, 1.5):
        with pytest.raises((TypeError, ValueError), match="misses"):
            UrnAlarm(wrong, 17, 0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", -1), ("n", 1.0), ("misses", None), ("largest", math.nan), ("starts", [7]),
     ("before", "x"), ("alarmed_at", -3)],
)  # fmt: skip
def test_a_changed_state_is_refused(name, value):
    state = UrnAlarm(3, 17, 0.1).to_state() | {name: value}
    with pytest.raises(ValueError, match="state of an alarm"):
        UrnAlarm(3, 17, 0.1).restore(state)
