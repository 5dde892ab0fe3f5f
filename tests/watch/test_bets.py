"""Alarms by bets, the detector and the intervals, against transcriptions row by row."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.integrate import quad

pytest.importorskip("sqlalchemy")

from alarms_for_tests import check_alarm, in_pieces, slow_p_values
from helpers import assert_close, raises
from locuscore.watch._evidence.alarm import ROWS, BetsAlarm
from locuscore.watch._evidence.betting import LARGE, ODDS, MeanBets, cluster_values
from locuscore.watch._evidence.detector import LUCK, Detector
from locuscore.watch._evidence.intervals import RATES, mean_interval
from locuscore.watch._evidence.martingale import RankBets

pytestmark = pytest.mark.extra


def weight(j):
    return 0.2 if j == 0 else 0.8 * math.log(ROWS) / ((j + ROWS) * math.log(j + ROWS) ** 2)


def slow_values(factors):
    """Mean over bets of the sum over starts, start by start: the evidence after each row."""
    weights, found = np.array([weight(j) for j in range(len(factors))]), []
    for t in range(1, len(factors) + 1):
        products = np.cumprod(factors[:t][::-1], axis=0)[::-1]  # from each start on
        found.append(weight(t) + np.mean(weights[:t] @ products))
    return np.log(found)


def slow_factors(z, eta, low, high, sizes):
    return 1 + np.outer((z - eta) / (eta - low), sizes)


@pytest.mark.parametrize("later", [0.1, 0.35])
def test_a_share_is_bet_on_as_the_formula_says(rng, later):
    bad = (rng.random(400) < np.where(np.arange(400) < 250, 0.1, later)).astype(float)
    known = rng.random(400) < 0.9
    theta = [c * 0.1 / (0.9 + c * 0.1) for c in ODDS]
    z = bad * known
    factors = np.array(
        [[t / 0.1 if one else (1 - t) / 0.9 for t in theta] for one in z]
    )  # fmt: skip
    alarm = check_alarm(
        lambda: BetsAlarm(MeanBets(0.1), 0.05), bad, known, slow_values(factors), rng
    )
    assert alarm.interval(0.1) == mean_interval(400, z.sum(), z.sum() + np.sum(~known), 0.1)


def test_a_mean_loss_is_bet_on_as_the_formula_says(rng):
    z, known = rng.uniform(1.0, 6.0, size=300), rng.random(300) < 0.95
    bets = MeanBets(2.0, low=1.0, high=5.0, are_shares=False)
    assert bets.sizes[-2:].tolist() == list(LARGE)
    factors = slow_factors(np.where(known, z, 1.0), 2.0, 1.0, 5.0, bets.sizes)
    alarm = check_alarm(
        lambda: BetsAlarm(MeanBets(2.0, low=1.0, high=5.0, are_shares=False), 0.05),
        z, known, slow_values(factors), rng,
    )  # fmt: skip
    low, high = alarm.interval(0.05)
    assert 1.0 < low < np.minimum(z, 5.0).mean() < high <= 5.0


def test_a_loss_below_the_support_counts_as_its_end():
    given, clipped = (BetsAlarm(MeanBets(2.0, low=1.0, high=5.0), 0.1) for _ in range(2))
    given.update([-40.0, 3.0])
    clipped.update([1.0, 3.0])
    assert given.to_state() == clipped.to_state()


@pytest.mark.parametrize(("n_bins", "shares"), [(2, (0.1,)), (3, (0.05, 0.2)), (40, ())])
def test_ranks_are_bet_on_as_the_formula_says(rng, n_bins, shares):
    counts = rng.integers(1, 30, size=n_bins).tolist()
    bins = np.floor(n_bins * rng.random(600) ** 1.5)
    known = rng.random(600) < 0.9
    p = slow_p_values(bins, known, counts)
    bets = RankBets(counts, shares)
    assert_close(bets.p_values(np.where(known, bins, np.nan), known), p, rtol=1e-14)
    expected = slow_values(np.exp(RankBets(counts, shares).log_bets(p))[:300])
    check_alarm(
        lambda: BetsAlarm(RankBets(counts, shares), 0.2), bins[:300], known[:300], expected, rng
    )
    assert BetsAlarm(RankBets(counts, shares), 0.2).interval(0.1) is None


@pytest.mark.parametrize("shares", [(0.1,), (0.3, 0.9), ()])
def test_bets_on_ranks_do_not_increase_and_have_integral_one(shares):
    bets = RankBets([5, 5], shares)
    p = np.linspace(1e-6, 1, 5_000)
    assert (np.diff(bets.log_bets(p), axis=0) <= 1e-12).all()
    for j in range(bets.n_bets):
        edges = [0.0, *bets.steps, 1.0]
        total = sum(
            quad(lambda x, j=j: math.exp(bets.log_bets(np.array([x]))[0, j]), a + 1e-12, b)[0]
            for a, b in itertools.pairwise(edges)
        )
        assert 0.99 < total <= 1 + 1e-7


def test_worse_rows_never_lower_the_evidence_of_shares(rng):
    for _ in range(20):
        z = rng.random(200)
        more = np.maximum(z, rng.random(200) * (rng.random(200) < 0.1))
        small, large = (BetsAlarm(MeanBets(0.4, are_shares=False), 0.1) for _ in range(2))
        small.update(z)
        large.update(more)
        assert small.log_value <= large.log_value + 1e-9
        assert small.largest <= large.largest + 1e-9


def slow_calls(factors, run_length):
    """Calls of the detector, row by row."""
    r, calls = np.zeros(factors.shape[1]), []
    for t, f in enumerate(factors):
        r = (1 + r) * f
        if r.mean() >= run_length:
            calls.append(t + 1)
            r = np.zeros(len(r))
    return calls, r


@pytest.mark.parametrize("run_length", [20, 500])
def test_the_detector_calls_and_starts_again(rng, run_length):
    bad = (rng.random(3_000) < 0.2).astype(float)
    bets = MeanBets(0.1)
    calls, r = slow_calls(slow_factors(bad, 0.1, 0.0, 1.0, bets.sizes), run_length)
    known = np.ones(len(bad), dtype=bool)
    whole = Detector(MeanBets(0.1), run_length)
    whole.update(bad)
    pieces = in_pieces(lambda: Detector(MeanBets(0.1), run_length), bad, known, rng)
    for detector in (whole, pieces):
        assert detector.calls == len(calls) > 1
        assert detector.called_at == calls[-100:]
        assert_close(detector.log_value, np.log(1 + r.mean()), atol=1e-9)
    assert len(json.dumps(whole.to_state())) < 3_000


def test_the_detector_of_an_urn_allows_for_the_luck_of_calibration():
    detector = Detector.of_urn(101, 900, 5_000)
    assert_close(detector.run_length * (1 - LUCK), 5_000, rtol=1e-12)
    assert 0.11 < detector.bets.eta < 0.13


def test_an_interval_is_where_neither_mixture_reaches_its_limit(rng):
    def mixture(p, rates, total):
        logs = [r * total - 400 * math.log(1 - p + p * math.exp(r)) for r in rates]
        return np.mean(np.exp(logs))

    low, high = mean_interval(400, 37.0, 45.0, 0.1)
    assert 0.04 < low < 37 / 400 < 45 / 400 < high < 0.19
    assert_close(mixture(low, RATES, 37.0), 20.0, rtol=1e-6)
    assert_close(mixture(high, -RATES, 45.0), 20.0, rtol=1e-6)
    assert mean_interval(0, 0.0, 0.0, 0.1) == (0.0, 1.0)
    assert mean_interval(30, 0.0, 30.0, 0.1) == (0.0, 1.0)
    assert mean_interval(10**8, 10.0**7, 10.0**7, 0.05)[1] < 0.1003


def test_clusters_count_once_or_by_their_rows():
    codes, bad = [0, 0, 1, 2, 2, 2], [1, 0, 0, 1, 1, 0]
    once = cluster_values(codes, bad, 0.25, [4, 1, 3])
    assert_close(once, [0.25 + 0.5 / 4, 0.0, 0.25 + 1.25 / 3], rtol=1e-14)
    by_rows = cluster_values(codes, bad, 0.25, [5, 5, 5, 5])
    assert_close(by_rows, [0.25 + 0.5 / 5, 0.2, 0.25 + 1.25 / 5, 0.25], rtol=1e-14)
    with raises(ValueError, "sizes", "3 rows"):
        cluster_values(codes, bad, 0.25, [2, 2, 2])


def test_impossible_settings_are_refused():
    for numbers in ((0.5, 0.5, 1.0), (0.0, 1.0, 1.0), (0.0, math.nan, 1.0), (0.0, 0.1, math.inf)):
        low, eta, high = numbers
        with pytest.raises(ValueError, match="eta"):
            MeanBets(eta, low=low, high=high)
    with raises(ValueError, "two bins"):
        RankBets([5])
    with raises(ValueError, "bins from 0 to 1", "2"):
        BetsAlarm(RankBets([5, 5]), 0.1).update([0.0, 2.0])
    with raises(ValueError, "run_length", "1"):
        Detector(MeanBets(0.1), 1.0)
    state = BetsAlarm(MeanBets(0.1), 0.1).to_state()
    with raises(ValueError, "6 bets", "4"):
        BetsAlarm(MeanBets(0.1, are_shares=False), 0.1).restore(state)
    with raises(ValueError, "counts"):
        BetsAlarm(RankBets([5, 5]), 0.1).restore(
            {**BetsAlarm(RankBets([5, 5]), 0.1).to_state(), "counts": None}
        )
    with raises(ValueError, "2 bins"):
        BetsAlarm(RankBets([5, 5]), 0.1).restore(
            {**BetsAlarm(RankBets([5, 5]), 0.1).to_state(), "counts": [1, 2, 3]}
        )
