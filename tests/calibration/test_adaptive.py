"""Adaptive bounds: tickets, late labels, state, windows; the promise is in guarantees/."""

import json

import numpy as np
import pytest

from archives_for_tests import rows
from calibrations_for_tests import LevelPerRow
from engines_for_tests import quick
from helpers import assert_close, raises
from locuscore import AdaptiveBounds
from locuscore._laws.calibration import MarginalCalibration

X, Y = rows(400, seed=1)


@pytest.fixture(scope="module")
def locus():
    return quick().fit(*rows(400))


def run(stream, batches):
    """Decide batches, each labelled before the next."""
    for at in batches:
        decision = stream.bound(X[at])
        stream.update(decision.ticket, X[at], Y[at])
    return stream


def test_the_first_bounds_are_those_of_the_locus(locus):
    one = locus.adapt(0.2).bound(X)
    assert one.bound.shape == (400,)
    assert_close(one.bound, locus.loss_bound(X, 0.2))
    assert_close(one.alpha, [0.2])
    several = locus.adapt([0.2, 0.4]).bound(X)
    assert_close(several.bound, locus.loss_bound(X, [0.2, 0.4]))


def test_bounds_follow_alpha_and_the_newest_rows(locus):
    stream = locus.adapt([0.1, 0.5], step=0.01, window=50)
    first, second, third = np.arange(30), np.arange(30, 70), np.arange(70, 90)
    run(stream, [first, second])
    tails = locus.loss_dist(X[:70]).tail(locus.losses(X[:70], Y[:70]))
    newest = MarginalCalibration(np.sort(tails[-50:]))
    found = stream.bound(X[third])
    above = stream.above
    now = np.array([0.1, 0.5]) + 0.01 * (70 * np.array([0.1, 0.5]) - above)
    assert_close(found.alpha, now, atol=1e-12)
    assert_close(found.bound, locus.loss_dist(X[third]).isf(newest.level(now)[None, :]))
    fixed = run(locus.adapt([0.1, 0.5], step=0.01, window=0), [first, second])
    levels = locus.calibration_.level(fixed.alpha_now)
    assert_close(fixed.bound(X[third]).bound, locus.loss_dist(X[third]).isf(levels[None, :]))


def test_d2_fills_the_window_in_no_order_of_size(locus):
    stream = locus.adapt(0.1, step=0.01, window=60)
    assert_close(stream.calibration.tails, locus.tails_)
    run(stream, [np.arange(10)])
    kept = stream.calibration.tails[np.isin(stream.calibration.tails, locus.tails_)]
    assert len(stream.calibration.tails) == 60
    assert 0.2 < np.mean(kept) < 0.8


def test_ends(locus):
    low, high = locus.adapt([0.1, 0.9], step=0.5), locus.adapt([0.1, 0.9], step=0.5)
    decision = low.bound(X[:4])
    low.update_losses(decision.ticket, np.full(4, 1e6))
    assert_close(low.bound(X[:2]).bound[:, 0], [np.inf, np.inf])
    decision = high.bound(X[:4])
    high.update_losses(decision.ticket, np.zeros(4))
    assert_close(high.bound(X[:2]).bound[:, 1], [-np.inf, -np.inf])
    bounded = quick(support=(0, 9)).fit_losses(X, np.minimum(np.abs(Y), 9)).adapt(0.1, step=0.9)
    decision = bounded.bound(X[:2])
    bounded.update_losses(decision.ticket, [9.0, 9.0])
    assert_close(bounded.bound(X[:2]).bound, [9.0, 9.0])


def test_labels_come_late_in_parts_and_in_any_order(locus):
    stream = locus.adapt(0.1, step=0.01, window=0)
    first, second = stream.bound(X[:5]), stream.bound(X[5:15])
    z = locus.losses(X, Y)
    stream.update_losses(second.ticket, z[[14, 5]], rows=[9, 0])
    assert stream.longest_wait == 10
    stream.update(first.ticket, X[:5], Y[:5])
    assert stream.longest_wait == 15
    assert {ticket: list(left) for ticket, left in stream.waiting.items()} == {
        second.ticket: list(range(1, 9))
    }
    stream.update(second.ticket, X[6:14], Y[6:14], rows=np.arange(1, 9))
    assert not stream.waiting
    shown = np.concatenate([first.bound, second.bound])
    assert stream.above == np.sum(z[:15] > shown)
    (promise,) = stream.promise()
    assert (promise.labels, promise.longest_wait) == (15, 15)
    assert_close(promise.most, min(1.0, 0.1 + (0.1 + 0.01 * 0.9 * 15) / (0.01 * 15)))
    assert "15" in promise.sentence


def test_the_promise_in_numbers(locus):
    stream = run(locus.adapt(0.1, step=0.05), np.split(np.arange(400), 100))
    (promise,) = stream.promise()
    assert_close(promise.most, 0.1 + (0.1 + 0.05 * 0.9 * 4) / (0.05 * 400), rtol=1e-12)
    assert_close(promise.least, 0.1 - (0.9 + 0.05 * 0.1 * 4) / (0.05 * 400), rtol=1e-12)
    assert promise.least <= promise.share_above <= promise.most
    assert "400" in promise.sentence
    assert "0.114" in promise.sentence
    assert "nothing is promised" in locus.adapt().promise()[0].sentence


def test_step_and_window_follow_the_first_batch(locus):
    small, large = locus.adapt(), locus.adapt()
    assert (small.step, small.window) == (None, None)
    small.bound(X[:0])
    assert small.step is None
    small.bound(X[:2])
    large.bound(X[:200])
    small.bound(X[:100])
    assert (small.step, small.window) == (0.005, 1000)
    assert (large.step, large.window) == (0.1 / 200, 4000)


def test_state_comes_back_from_json(locus):
    stream = run(locus.adapt([0.1, 0.4], step=0.02, window=80), np.split(np.arange(200), 10))
    late = stream.bound(X[200:210])
    stream.update(late.ticket, X[203:205], Y[203:205], rows=[3, 4])
    text = json.dumps(stream.state(), allow_nan=False)
    back = locus.resume(json.loads(text))
    assert isinstance(back, AdaptiveBounds)
    for one in (stream, back):
        one.update(late.ticket, X[205:210], Y[205:210], rows=[5, 6, 7, 8, 9])
    assert back.promise() == stream.promise()
    assert_close(back.bound(X[:7]).bound, stream.bound(X[:7]).bound)
    assert back.state() == stream.state()
    fresh = locus.adapt(0.1)
    assert locus.resume(json.loads(json.dumps(fresh.state()))).state() == fresh.state()
    # Infinite bounds wait too.
    ends = locus.adapt(0.1, step=0.5)
    ends.update_losses(ends.bound(X[:3]).ticket, np.full(3, 1e6))
    ticket = ends.bound(X[:2]).ticket
    ends = locus.resume(json.loads(json.dumps(ends.state(), allow_nan=False)))
    ends.update_losses(ticket, [1e9, 1e9])
    assert ends.above == 3


def test_a_recalibrated_locus_goes_on(locus):
    stream = run(locus.adapt(0.1, step=0.01, window=0), [np.arange(50)])
    new = locus.recalibrate(X[:50], 3 * Y[:50])
    later = new.resume(stream.state())
    assert later.labels == 50
    assert_close(later.bound(X).bound, new.loss_bound(X, float(later.alpha_now[0])))


def waiting(**changes):
    sound = {"ticket": 0, "start": 0, "n": 2, "rows": [1], "bounds": [[1.0]], "signals": [[1.0]]}
    return [sound | changes]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("labels", -1),
        ("labels", 1.5),
        ("labels", True),
        ("labels", 10**6),
        ("above", [999]),
        ("above", [1, 2]),
        ("above", 3),
        ("alpha", 2.0),
        ("alpha", "x"),
        ("step", 0.0),
        ("step", None),
        ("window", -1),
        ("window", None),
        ("tails", [2.0]),
        ("tails", ["nan"]),
        ("waiting", 3),
        ("waiting", [{}]),
        ("waiting", waiting(rows=[5])),
        ("waiting", waiting(rows=[])),
        ("waiting", waiting(bounds=[["nan"]])),
        ("waiting", waiting(bounds=[[1.0, 2.0]])),
        ("waiting", waiting(signals=[1.0])),
        ("waiting", waiting(ticket=99)),
        ("waiting", waiting(signals=[[1.0], "x"])),
        ("waiting", waiting(n=10**9)),
        ("waiting", waiting(start=21)),
        ("waiting", waiting() + waiting(ticket=1, start=1)),
        ("next_ticket", "1"),
        ("more", 1),
        ("decided", 10**400),
        ("longest_wait", 0),
        ("longest_wait", 23),
        ("tails", []),
        ("tails", [[0.5], 0.5]),
        ("tails", [0.5] * 2000),
        ("support", None),
    ],
)
def test_a_state_that_is_none_is_refused(locus, part, value):
    stream = run(locus.adapt(0.1, step=0.02), [np.arange(20)])
    stream.bound(X[:2])
    with pytest.raises(ValueError, match=r"\.$") as caught:
        locus.resume(stream.state() | {part: value})
    assert "Error(" not in str(caught.value)  # the words are ours
    assert locus.resume(stream.state() | {"waiting": waiting()}).waiting


def test_a_state_that_breaks_the_promise_is_refused(locus):
    state = run(locus.adapt(0.1, step=0.02), [np.arange(20)] * 20).state()
    (run_of_labels,) = locus.resume(state).promise()
    assert run_of_labels.labels == 400
    most = int(400 * run_of_labels.most)
    assert locus.resume(state | {"above": [most]}).above == most
    with raises(ValueError, "contradict"):
        locus.resume(state | {"above": [most + 1]})


def test_waiting_batches_of_a_forged_state_take_no_memory_together(locus):
    stream = run(locus.adapt(0.1, step=0.02), [np.arange(20)])
    n = 10**7
    batches = [waiting(ticket=i, start=i * n, n=n)[0] for i in range(9)]
    with raises(ValueError, "too large"):
        locus.resume(stream.state() | {"waiting": batches, "decided": 10**9, "next_ticket": 9})


def test_states_of_other_things_are_refused(locus):
    with raises(ValueError, "alpha", "waiting", "7"):
        locus.resume({"x": 7})
    with raises(ValueError, "state"):
        locus.resume(None)


def test_a_label_counts_once(locus):
    stream = locus.adapt(0.1)
    first, second = stream.bound(X[:5]), stream.bound(X[5:8])
    z = locus.losses(X, Y)
    stream.update_losses(first.ticket, z[:2], rows=[0, 1])
    with raises(ValueError, "counts once", "2 of these rows", "rows="):
        stream.update_losses(first.ticket, z[:5])
    with raises(ValueError, "counts once", "1 come twice"):
        stream.update_losses(first.ticket, z[:2], rows=[3, 3])
    stream.update_losses(second.ticket, z[5:8])
    before = stream.state()
    with raises(ValueError, f"ticket {second.ticket}", "counts once"):
        stream.update_losses(second.ticket, z[5:8])
    for ticket in (77, "0", -1, None, [0], True):
        with raises(ValueError, "no ticket", str(first.ticket)):
            stream.update_losses(ticket, z[:1])
    for at in ([5], [-1]):
        with raises(ValueError, "0 to 4"):
            stream.update_losses(first.ticket, z[:1], rows=at)
    for at in ([0.5], [[2]], ["a"], [True]):
        with raises(ValueError, "positions", "0 to 4"):
            stream.update_losses(first.ticket, z[:1], rows=at)
    with raises(ValueError, "(3,)", "(2,)"):
        stream.update_losses(first.ticket, z[:2], rows=[2, 3, 4])
    with raises(ValueError, "non-finite"):
        stream.update_losses(first.ticket, [np.nan], rows=[2])
    with raises(ValueError, "support"):
        stream.update_losses(first.ticket, [-1.0], rows=[2])
    stream.update_losses(first.ticket, [], rows=[])
    assert stream.state() == before
    stream.drop(first.ticket)
    assert not stream.waiting
    with raises(ValueError, "dropped"):
        stream.drop(first.ticket)
    assert stream.labels == 5


@pytest.mark.parametrize("step", [0.0, 1.0, -0.1, float("nan"), "x"])
def test_bad_steps(locus, step):
    with pytest.raises((ValueError, TypeError), match="step"):
        locus.adapt(0.1, step=step)


def test_bad_settings(locus):
    with raises(ValueError, "alpha", "0"):
        locus.adapt(0.0)
    for window in (-1, 2.5):
        with raises(ValueError, "window", window):
            locus.adapt(0.1, window=window)
    with raises(ValueError, "features"):
        locus.adapt(0.1).bound(X[:, :2])
    with raises(ValueError, "not fitted"):
        quick().adapt(0.1)


def test_other_calibrations_keep_their_levels(locus):
    own = locus.recalibrate(X, Y)
    own.calibration_ = LevelPerRow(own.tails_, 2)
    stream = own.adapt(0.2)
    assert_close(stream.bound(X).bound, own.loss_bound(X, 0.2))
    assert stream.window == 0
    with raises(ValueError, "window=0", "LevelPerRow"):
        own.adapt(0.2, window=100)


@pytest.mark.extra
def test_frames_give_frames():
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(400) + 7)
    locus = quick().fit(frame, pd.Series(Y, index=frame.index))
    stream = locus.adapt([0.1, 0.3])
    decision = stream.bound(frame[:20])
    assert list(decision.bound.columns) == ["bound_0.1", "bound_0.3"]
    assert (decision.bound.index == frame.index[:20]).all()
    stream.update(decision.ticket, frame[:20], pd.Series(Y[:20], index=frame.index[:20]))
    one = locus.adapt(0.1).bound(frame[:20]).bound
    assert one.name == "bound_0.1"
    assert stream.labels == 20
