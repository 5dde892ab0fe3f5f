"""Rows that look different, without labels: bets both ways, rows looked at, a look at signals."""

import json
from datetime import timedelta

import numpy as np
import pytest

from helpers import assert_close
from locuscore import Locus, Score, Scorer
from locuscore.engines import Forest

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch import Watch  # noqa: E402
from locuscore.watch._drift import ScoreDrift  # noqa: E402
from locuscore.watch._evidence import two_samples  # noqa: E402
from locuscore.watch._evidence.both_ways import BothWays, bins, borders  # noqa: E402
from locuscore.watch._look import FIRST  # noqa: E402
from locuscore.watch._places import A_DAY, MOST_A_DAY, Place, picked  # noqa: E402
from locuscore.watch._reference import packed, reference_of, unpacked  # noqa: E402

DAY = 86_400_000_000
SECRET = b"s" * 32


def rows(n, seed, low=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, 1, size=(n, 2))
    return X, X[:, 0] + X[:, 1] * rng.normal(size=n)


def made_locus():
    signals = ["x", "predictor"]
    return Locus(lambda X: X[:, 0], engine=Forest(n_trees=10), signals=signals, random_state=0)


@pytest.fixture(scope="module")
def locus():
    return made_locus().fit(*rows(2_000, 0))


@pytest.fixture(scope="module")
def scorer(locus):
    return Scorer(locus, locus.certify(0.8, 0.1, 0.05))


class Clock:
    now = 1_700_000_000_000_000

    def __call__(self):
        return self.now


def slow_log_factors(values, reference):
    """Both bets of every row, from the words of the docstring."""
    bets, before, found = BothWays(np.array([1, 1])).down, list(reference), []
    for value in values:
        n = len(before) + 1
        up = (1 + sum(other >= value for other in before)) / n
        down = (1 + sum(other <= value for other in before)) / n
        found.append(bets.log_bets(np.array([down, up])).ravel())
        before.append(value)
    return np.array(found)


def test_bets_go_both_ways_as_written(rng):
    reference, values = rng.integers(0, 6, 40), rng.integers(0, 6, 300)
    made = BothWays(np.bincount(reference, minlength=6))
    parts = [made.log_factors(part.astype(float), np.ones(len(part), bool)) for part in
             np.split(values, [100, 130])]  # fmt: skip
    assert_close(np.vstack(parts), slow_log_factors(values, reference), atol=1e-12)
    other = BothWays(np.bincount(reference, minlength=6))
    other.restore(json.loads(json.dumps(made.to_state())))
    more = values[:50].astype(float)
    known = np.ones(50, bool)
    assert_close(other.log_factors(more, known), made.log_factors(more, known))


def test_bins_hold_equally_many_and_rounding_changes_no_bin(rng):
    reference = rng.normal(size=1_000)
    edges = borders(reference)
    counts = np.bincount(bins(reference, edges), minlength=len(edges) + 1)
    assert 90 <= len(counts) <= 101
    assert counts.max() <= 21
    tied = np.repeat([0.1, 0.2, 0.7, np.inf], 50)
    edges = borders(tied)
    exact = bins(np.array([0.1, 0.2, 0.7, np.inf]), edges)
    assert exact.tolist() == [0, 1, 2, 3]
    rounded = np.array([0.1, 0.2, 0.7]) * (1 + 1e-14)
    assert bins(rounded, edges).tolist() == [0, 1, 2]
    assert bins(np.array([np.nan]), edges).tolist() == [3]
    same = borders(np.full(50, 3.0))
    assert bins(np.array([2.0, 3.0, 3.0 + 1e-14, 4.0]), same).tolist() == [0, 1, 1, 2]


def test_the_rows_looked_at_are_fixed_beforehand_and_not_too_many():
    whole = picked(17, 5_000, 8, SECRET)
    assert len(whole) in (622, 623, 624)
    assert np.all(np.diff(whole // 8 - (whole % 8 == 0)) == 1)  # one of every eight
    parts = [picked(a, b, 8, SECRET) for a, b in ((17, 100), (100, 101), (101, 5_000))]
    assert np.array_equal(np.concatenate(parts), whole)
    place, n = Place(0), 0
    for day in range(10):
        place.enter(day)
        for _ in range(4):
            n = len(place.take(place.cursor + 16_000, 50_000, SECRET))
        assert place.today <= MOST_A_DAY
    assert place.step == 16
    assert 0.9 * A_DAY < place.today < 1.1 * A_DAY
    assert n == 1_000
    place = Place(0)
    place.enter(0)
    assert len(place.take(30_000, 7_000, SECRET)) == place.cursor == 7_000  # the rest comes later
    assert len(place.take(30_000, 50_000, SECRET)) == MOST_A_DAY - 7_000
    assert place.cursor == 30_000  # a first day with too many is not read on
    place.enter(1)
    assert place.step == 4
    some = place.take(10**12, 50_000, SECRET)  # the work does not depend on how many there are
    assert len(some) == MOST_A_DAY
    assert place.cursor == 10**12
    whole, parts = Place(0, sizes=[30_000]), Place(0, sizes=[30_000])
    expected = whole.take(9_001, 50_000, SECRET)
    found = [parts.take(9_001, 100, SECRET) for _ in range(30)]
    assert np.array_equal(np.concatenate(found), expected)


def test_without_a_reference_the_first_decisions_are_it(rng):
    values = np.concatenate([rng.normal(size=FIRST), rng.normal(0.5, 1, 1_500)])
    times = np.arange(len(values)) * DAY
    test, given = ScoreDrift(None, 0.05), ScoreDrift(values[:FIRST], 0.05)
    for part in np.array_split(np.arange(len(values)), 7):
        test.see(values[part], times[part])
        again = ScoreDrift(None, 0.05)
        again.restore(json.loads(json.dumps(test.to_state())))
        test = again
    given.see(values[FIRST:], times[FIRST:])
    assert_close(test.alarm.log_value, given.alarm.log_value, atol=1e-9)
    assert test.moved_at == given.moved_at
    assert FIRST * DAY < test.moved_at < 1_500 * DAY


def test_scores_of_d2_are_the_reference_where_they_are_exchangeable(locus, scorer):
    exceedance = locus.certify(0.8, 0.1, 0.05, *rows(500, 1), of=Score.exceedance(0.8))
    for rule in (scorer.rule, exceedance):
        made = Scorer(locus, rule)
        found = reference_of(made, keep_signals=True)
        scores = made(locus.calibration_inputs_)["score"]
        kept = unpacked(found["scores"])[:, 0]
        assert len(kept) == min(500, len(scores))
        assert np.all(np.abs(kept[:, None] - scores).min(axis=1) < 1e-12)
        assert found["names"][:2] == ["x0", "x1"]
        assert unpacked(found["signals"]).shape[1] == locus.calibration_signals_.shape[1]
    # The level of a bound is from D2, which ties its rows together.
    for rule, value in ((None, "bound"), (locus.tau_rule(0.8, 0.1), "score")):
        bound = reference_of(Scorer(locus, rule), keep_signals=False)
        assert (bound["value"], bound["scores"]) == (value, None)
    bare = reference_of(scorer.without_rows(), keep_signals=True)
    assert bare["scores"] is None
    S = np.array([[1.0, np.nan], [3.0, 4.0]])
    assert_close(unpacked(json.loads(json.dumps(packed(S)))), S)


def test_a_look_tells_samples_apart_only_if_they_differ(rng):
    A = rng.normal(size=(400, 4))
    same = [two_samples.compare(A, rng.normal(size=(400, 4)), seed).p_value for seed in range(6)]
    assert min(same) > 0.005
    B = rng.normal(size=(400, 4)) + np.array([0, 0.6, 0, 0])
    look = two_samples.compare(A, B, 0)
    assert look.p_value == 1 / 2_000
    assert look.auc > 0.55
    assert np.argmax(look.shifts) == 1
    assert two_samples.compare(A, B[:20], 0) is None
    assert two_samples.share_far(A, rng.normal(size=(400, 4))) < 0.05
    assert two_samples.share_far(A, rng.normal(size=(400, 4)) + 5) > 0.9
    A[::3, 0] = np.nan
    assert two_samples.share_far(A, A + 1e-9) <= 0.05
    assert_close(two_samples.ks_distance(A[:, 0], np.full(9, np.nan)), 2 / 3, atol=0.01)
    assert two_samples.ks_distance(np.array([1.0, 2.0]), np.array([0.0])) == -1.0


def test_rows_that_move_look_different_and_break_no_promise(scorer, tmp_path):
    clock = Clock()
    watch = Watch(tmp_path / "d.db", scorer, clock=clock, age=timedelta(0), keep_signals=True)
    for day in range(14):
        X, y = rows(150, 10 + day, low=0.0 if day < 7 else 0.5)
        found = watch.score(X)
        watch.label(found["id"], y)
        clock.now += DAY
        if day == 6:
            calm = watch.status().data["drift"]
    assert calm["score"]["since"] is None
    assert calm["score"]["n"] == 1_050
    assert calm["sentence"].startswith("The score is like that of the calibration rows")
    assert calm["auc"] < 0.62
    assert calm["outside"] < 0.05
    status = watch.status()
    drift = status.data["drift"]
    assert drift["score"]["n"] == 2_100  # each row once
    assert drift["score"]["since"] >= "2023-11-21"
    assert drift["sentence"].startswith("Rows look different")
    assert drift["auc"] > 0.7
    assert drift["p_value"] <= 0.001
    assert {one["name"] for one in drift["signals"][:2]} <= {"x0", "x1", "prediction"}
    assert status.level in ("notice", "alarm")
    assert "Without labels: Rows look different" in str(status)
    assert Watch(tmp_path / "d.db", clock=clock).status().data["drift"] == drift


def test_bounds_are_compared_where_there_is_no_rule(locus, tmp_path):
    watch = Watch(tmp_path / "d.db", Scorer(locus), clock=Clock(), age=timedelta(0))
    watch.score(rows(900, 3)[0])
    drift = watch.status().data["drift"]
    assert drift["score"] is None
    assert "first 1,000 rows" in drift["sentence"]
    watch.score(rows(400, 4)[0])
    drift = watch.status().data["drift"]
    assert drift["score"]["n"] == 300
    assert drift["auc"] is None


def test_rows_in_clusters_are_not_tested_one_by_one(tmp_path):
    X, y = rows(1_200, 5)
    locus = made_locus().fit(X, y, clusters=np.arange(1_200) // 4)
    clock = Clock()
    watch = Watch(tmp_path / "d.db", Scorer(locus), clock=clock, keep_signals=True)
    clock.now += 8 * DAY
    watch.score(rows(300, 6)[0])
    drift = watch.status().data["drift"]
    assert drift["score"] is None
    assert drift["p_value"] is None
    assert drift["auc"] < 0.7
    assert "clusters" in drift["sentence"]
