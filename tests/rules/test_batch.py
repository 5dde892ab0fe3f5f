import numpy as np
import pytest

from helpers import assert_close
from locuscore import select_batch


def slow_selection(new, cal, losses, tau, fdr):
    """P-values and acceptance by the definitions, one row at a time."""
    n, m = len(cal), len(new)
    p = np.array([(1 + sum((losses > tau) & (cal <= s))) / (n + 1) for s in new])
    p[new == np.inf] = 1.0
    ranks = [k for k in range(1, m + 1) if np.sort(p)[k - 1] <= fdr * k / m + 1e-12]
    return p, p <= (np.sort(p)[max(ranks) - 1] if ranks else -1.0)


@pytest.mark.parametrize("digits", [1, 2, 8])
def test_agrees_with_the_definition(digits, rng):
    for _ in range(200):
        n, m = rng.integers(1, 60, size=2)
        cal, new = rng.uniform(size=n).round(digits), rng.uniform(size=m).round(digits)
        new[rng.uniform(size=m) < 0.1] = np.inf
        cal[rng.uniform(size=n) < 0.1] = np.inf
        losses = rng.uniform(size=n) * np.where(np.isinf(cal), 1.0, cal)
        fdr = rng.choice([0.05, 0.1, 0.3, 0.7])
        batch = select_batch(new, cal, losses, 0.2, fdr)
        p, accepted = slow_selection(new, cal, losses, 0.2, fdr)
        assert_close(batch.p_values(new), p)
        assert_close(batch.accepted, accepted)
        assert batch.n_accepted == accepted.sum()
        assert_close(batch.accepted, (new <= batch.threshold) & (new < np.inf))


def test_a_level_met_exactly_is_met():
    # One row, nine calibration rows, none bad: p = 1 / 10.
    assert select_batch([0.0], np.zeros(9), np.zeros(9), 1.0, 0.1).n_accepted == 1
    assert select_batch([0.0], np.zeros(8), np.zeros(8), 1.0, 0.1).n_accepted == 0
    # 0.07 * 100 is a little above 7 in floating point, 0.29 * 100 a little below 29.
    for fdr, bad in ((0.07, 6), (0.29, 28)):
        losses = np.arange(99) < bad
        assert select_batch([0.0], np.zeros(99), losses, 0.5, fdr).n_accepted == 1
        losses = np.arange(99) < bad + 1
        assert select_batch([0.0], np.zeros(99), losses, 0.5, fdr).n_accepted == 0


def test_extremes_of_tau():
    score, losses = np.arange(50.0), np.arange(50.0)
    nothing_bad = select_batch(score, score, losses, 1e9, 0.1)
    assert nothing_bad.accepted.all()
    assert nothing_bad.n_bad == 0
    all_bad = select_batch(score, score, losses, -1.0, 0.1)
    assert not all_bad.accepted.any()
    assert all_bad.threshold == -np.inf


def test_equal_scores_count_against_a_row():
    score = np.zeros(100)
    few = select_batch(score, score, np.arange(100) < 4, 0.5, 0.1)
    many = select_batch(score, score, np.arange(100) < 40, 0.5, 0.1)
    assert few.accepted.all()
    assert not many.accepted.any()


def test_infinite_scores_are_never_accepted():
    batch = select_batch([0.0, np.inf, -np.inf], np.zeros(99), np.zeros(99), 1.0, 0.5)
    assert batch.accepted.tolist() == [True, False, False]
    assert batch.p_values([-np.inf, np.inf]).tolist() == [1.0, 1.0]
    assert not select_batch([np.inf], np.zeros(99), np.zeros(99), 1.0, 0.5).accepted.any()


def test_minus_infinity_is_not_accepted_when_nothing_is():
    """The threshold of an empty selection is -inf, and no score is at most that."""
    new = [-np.inf, -np.inf, 0.5]
    batch = select_batch(new, np.linspace(0, 1, 50), np.ones(50), 0.5, 0.1)
    assert batch.threshold == -np.inf
    assert not batch.accepted.any()


def test_says_that_it_is_an_average():
    text = str(select_batch([0.0], np.zeros(99), np.zeros(99), 1.0, 0.1))
    assert text.startswith("1 of 1 rows accepted. Theorem:")
    assert "not a certificate" in text


GOOD = {"score_new": [0.1], "score_cal": [0.1, 0.2], "losses_cal": [0.0, 1.0], "tau": 1, "fdr": 0.1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score_new": []}, "length"),
        ({"score_new": [np.nan]}, "missing"),
        ({"score_cal": [0.1]}, "length"),
        ({"score_cal": [], "losses_cal": []}, "length"),
        ({"losses_cal": [0.0, np.inf]}, "non-finite"),
        ({"tau": np.inf}, "tau"),
        ({"tau": [1, 2]}, "tau"),
        ({"fdr": 0.0}, "fdr"),
        ({"fdr": 1.0}, "fdr"),
        ({"fdr": np.nan}, "fdr"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        select_batch(**{**GOOD, **change})
