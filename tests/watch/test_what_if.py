"""Recalibration tried on the ledger: against a transcription week by week, and in the status."""

from datetime import timedelta

import numpy as np
import pytest

from helpers import assert_close
from locuscore import Locus, Scorer, certify_threshold
from locuscore.engines import Forest

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch import Watch, WatchSettings  # noqa: E402
from locuscore.watch._claims import Claim  # noqa: E402
from locuscore.watch._what_if import joint_threshold, level, tried_bounds, tried_rule  # noqa: E402

DAY = 86_400_000_000
WEEK = 7 * DAY
SECRET = b"s" * 32


def logged(rng, weeks=10, n=300, worse=1.0):
    """Rows of some weeks with a score; from week 3 on a row is bad more often at the same score."""
    total = weeks * n
    time = np.sort(rng.integers(0, weeks * WEEK, total))
    score = rng.uniform(size=total)
    risk = score**2 * np.where(time < 3 * WEEK, 0.5, 0.5 * worse)
    return {
        "id": np.array([str(i) for i in range(total)], dtype=object),
        "time": time,
        "score": score,
        "flagged": score > 0.65,
        "chance": np.ones(total),
        "drawn": np.ones(total, dtype=bool),
        "group_name": np.array([None] * total, dtype=object),
        "loss": (rng.uniform(size=total) < risk).astype(float),
        "label_time": time + 2.0 * DAY,
    }


CLAIM = Claim(
    name="share", kind="accepted", promised=0.1, among="accepted", labels="accepted", tau=0.5,
    delta=0.1, share=1.0,
)  # fmt: skip


def slow_shares(rows, weeks):
    """Share of bad rows and of accepted rows under a rule that is certified again every week."""
    accepted, bad, total = 0, 0, 0
    for week in range(1, weeks):
        start = week * WEEK
        past = (rows["time"] >= start - 4 * WEEK) & (rows["label_time"] < start)
        past &= ~np.isnan(rows["loss"])
        rule = certify_threshold(rows["score"][past], rows["loss"][past], 0.5, 0.1, 0.1)
        now = (rows["time"] >= start) & (rows["time"] < start + WEEK)
        kept = now & (rows["score"] <= rule.threshold)
        total, accepted = total + now.sum(), accepted + kept.sum()
        bad += rows["loss"][kept].sum()
    return bad / accepted, accepted / total


def test_a_rule_is_chosen_again_every_week_from_the_labels_that_were_there(rng):
    rows = logged(rng, worse=3.0)
    settings = WatchSettings(age=timedelta(days=2))
    found = tried_rule(CLAIM, rows, settings, SECRET)
    share, accepted = slow_shares(rows, 10)
    later = (rows["time"] >= WEEK) & ~rows["flagged"]
    assert f"would have been {share:.1%} (with {accepted:.0%} of rows accepted)" in found.sentence
    lately = (rows["time"] >= 6 * WEEK) & ~rows["flagged"]
    assert f" instead of {rows['loss'][lately].mean():.1%}." in found.sentence
    was = np.mean(~rows["flagged"], where=rows["time"] >= WEEK)
    assert f"instead of {rows['loss'][later].mean():.1%} (with {was:.0%})" in found.sentence
    assert "since 1970-01-08" in found.sentence
    assert found.helped is bool(share <= 0.1 + 2 * np.sqrt(share * (1 - share) / 1_200))


def test_what_is_too_early_and_what_is_not_enough_is_said(rng):
    settings = WatchSettings()
    early = tried_rule(CLAIM, logged(rng, weeks=3), settings, SECRET)
    assert early.helped is None
    assert tried_rule(CLAIM, logged(rng, weeks=1), settings, SECRET) is None
    hopeless = logged(rng)
    hopeless["loss"] = (rng.uniform(size=len(hopeless["loss"])) < 0.3).astype(float)
    found = tried_rule(CLAIM, hopeless, settings, SECRET)
    assert found.helped is False
    assert "no row would have been accepted" in found.sentence


def test_labels_of_flagged_rows_that_were_not_drawn_are_left_alone(rng):
    rows = logged(rng)
    unknown = WatchSettings(audit=0.5)
    assert unknown.audit_flagged is None
    rows["chance"] = np.full(len(rows["time"]), 0.5)
    first = tried_rule(CLAIM, rows, unknown, SECRET)
    rows["loss"] = np.where(rows["flagged"], 0.0, rows["loss"])  # reviewers sent good ones only
    assert tried_rule(CLAIM, rows, unknown, SECRET) == first


def test_the_joint_threshold_is_the_largest_that_keeps_alpha(rng):
    score, bad = rng.uniform(size=200), rng.uniform(size=200) < 0.3
    for alpha in (0.001, 0.05, 0.1, 0.5):
        t = joint_threshold(score, bad, 200, alpha)
        allowed = [s for s in np.sort(score) if (1 + np.sum(bad & (score <= s))) <= alpha * 201]
        accepted = np.sum(score <= t)
        assert accepted == len(allowed)


def test_bounds_are_calibrated_again_every_week(rng):
    rows = logged(rng)
    n = len(rows["time"])
    rows["loss"] = rng.exponential(np.where(rows["time"] < 3 * WEEK, 1.0, 2.0), n)
    rows["signals"] = np.zeros((n, 1))
    claim = Claim(name="misses", kind="coverage", promised=0.1, alpha=0.1, share=1.0)
    bound = np.full(n, np.log(10.0))

    def tails_of(S, z):
        return np.exp(-z)

    found = tried_bounds(claim, rows, bound, tails_of, WatchSettings(), SECRET)
    missed = []
    for week in range(1, 10):
        start = week * WEEK
        past = (rows["time"] >= start - 4 * WEEK) & (rows["label_time"] < start)
        now = (rows["time"] >= start) & (rows["time"] < start + WEEK)
        k = int(np.ceil(0.9 * (past.sum() + 1)))
        missed += (rows["loss"][now] > np.sort(rows["loss"][past])[k - 1]).tolist()
    assert f"{np.mean(missed):.1%} of losses" in found.sentence
    assert f"instead of {np.mean(rows['loss'] > bound, where=rows['time'] >= WEEK):.1%}" in (
        found.sentence
    )
    lately = np.mean(rows["loss"] > bound, where=rows["time"] >= 6 * WEEK)
    assert found.sentence.endswith(f" instead of {lately:.1%}.")
    assert level(np.array([0.5]), 0.1) == 0.0
    assert_close(level(np.linspace(0.01, 0.99, 99), 0.1), 0.1, atol=1e-12)
    assert tried_bounds(claim, rows | {"signals": np.empty((n, 0))}, bound, tails_of,
                        WatchSettings(), SECRET) is None  # fmt: skip


def test_a_status_with_an_alarm_ends_in_what_recalibration_would_have_done(tmp_path):
    class Clock:
        now = 1_700_000_000_000_000

        def __call__(self):
            return self.now

    def batch(seed, size):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(120, 2))
        return X, X[:, 0] + size * X[:, 1] * rng.normal(size=120)

    clock, rng = Clock(), np.random.default_rng(0)
    X = rng.uniform(size=(2_000, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=2_000)
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=10), signals="x", random_state=0)
    scorer = Scorer(locus.fit(X, y))
    watch = Watch(tmp_path / "d.db", scorer, age=timedelta(0), clock=clock, keep_signals=True)
    for day in range(0, 63, 3):
        X, y = batch(day, 1.0 if day < 14 else 2.0)
        watch.label(watch.score(X)["id"], y)
        clock.now += 3 * DAY
    status = watch.status()
    assert status.alarm
    assert status.action.kind in ("recalibrate", "refit")
    assert "With weekly recalibration since 2023-11-" in status.action.sentence
    assert watch.status().action == status.action
