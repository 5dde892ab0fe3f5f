import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import select_batch, select_mean_loss, select_total_loss
from locuscore._rules.batch_loss import SLACK

TINY = 1e-9


def slow_e_value(j, new, cal, x, level, w_new, w_cal):
    """The definition: the smallest over the losses l that row j may have, one threshold a time."""
    n, m = len(cal), len(new)
    others = np.delete(new, j)
    places = [t for t in np.unique(np.concatenate([cal, new])) if np.isfinite(t)]

    def share(t):
        return level * (1 + np.sum(others <= t)) / m - SLACK / (n + 1)

    def lost(t, own):
        total = np.sum((w_cal * x)[cal <= t]) + own * w_new[j] * (new[j] <= t)
        return total / (w_cal.sum() + w_new[j])

    # T changes where a threshold stops to hold: try just before and at every such loss.
    at = [(share(t) - lost(t, 0.0)) * (w_cal.sum() + w_new[j]) / w_new[j] for t in places]
    tried = [one for loss in at for one in (loss - TINY, loss) if TINY < one <= 1] + [TINY, 1.0]
    found = []
    for own in tried:
        passed = [t for t in places if lost(t, own) <= share(t) + 1e-12]
        top = max(passed, default=-np.inf)
        found.append(1 / share(top) if new[j] <= top and np.isfinite(new[j]) else 0.0)
    return min(found)


@pytest.mark.parametrize("digits", [1, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_e_values_agree_with_the_definition(digits, weighted, rng):
    seen = 0
    for _ in range(12):
        n, m = rng.integers(5, 16, size=2)
        cal, new = rng.uniform(size=n).round(digits), rng.uniform(size=m).round(digits)
        new[rng.uniform(size=m) < 0.1], cal[rng.uniform(size=n) < 0.1] = np.inf, -np.inf
        x = rng.uniform(size=n) * np.where(np.isfinite(cal), cal, 1.0) ** 2
        w_new, w_cal = (0.2 + rng.uniform(size=k) if weighted else np.ones(k) for k in (m, n))
        level, never = float(rng.choice([0.3, 0.6])), np.where(np.isfinite(cal), cal, np.inf)
        batch = select_mean_loss(
            new, cal, 5 * x, 5 * level, largest_loss=5, weights_new=w_new, weights_cal=w_cal
        )
        slow = [slow_e_value(j, new, never, x, level, w_new, w_cal) for j in range(m)]
        assert_close(batch.e_values, slow, rtol=1e-9)
        # Benjamini and Hochberg for e-values; a uniform number may add to what they accept.
        size = max(k for k in range(m + 1) if k == 0 or np.sort(slow)[-k] >= m / (level * k))
        certain = np.asarray(slow) >= (m / (level * size) if size else np.inf)
        assert np.all(batch.accepted[certain])
        assert not batch.accepted[batch.e_values == 0].any()
        seen += certain.sum()
    assert seen > 5


def test_equal_weights_are_no_weights(rng):
    cal, new = rng.uniform(size=60), rng.uniform(size=50)
    for select in (select_mean_loss, select_total_loss):
        plain = select(new, cal, cal**3, 0.2, largest_loss=1)
        same = {"weights_new": np.full(50, 3.0), "weights_cal": np.full(60, 3.0)}
        weighted = select(new, cal, cal**3, 0.2, largest_loss=1, **same)
        assert_close(weighted.accepted, plain.accepted)
        assert plain.n_accepted > 10


def test_the_total_by_its_definition(rng):
    for digits in (1, 8):
        cal, new = rng.uniform(size=80).round(digits), rng.uniform(size=70).round(digits)
        w_cal, w_new = 0.1 + rng.uniform(size=80), 0.1 + rng.uniform(size=70)
        given = {"largest_loss": 2, "weights_new": w_new, "weights_cal": w_cal}
        batch = select_total_loss(new, cal, 2 * cal**2, 0.2, **given)
        lost = np.array([np.sum((w_cal * cal**2)[cal <= s]) for s in new])
        assert_close(batch.accepted, lost + w_new <= 0.1 * (w_cal.sum() + w_new))
        assert 0 < batch.n_accepted < 70


def test_zero_one_losses_are_close_to_conformal_selection(rng):
    shares = []
    for _ in range(20):
        cal, new = rng.uniform(size=400), rng.uniform(size=400)
        bad = (rng.uniform(size=400) < 0.5 * cal**2).astype(float)
        best = select_batch(new, cal, bad, 0.5, 0.1).n_accepted
        shares.append(select_mean_loss(new, cal, bad, 0.1, largest_loss=1).n_accepted / best)
    assert 0.9 < np.mean(shares) <= 1.0


def test_one_answer_whatever_the_order(rng):
    cal, new = rng.uniform(size=100), rng.uniform(size=90)
    losses, other, place = cal**2, rng.permutation(100), rng.permutation(90)
    one = select_mean_loss(new, cal, losses, 0.1, largest_loss=1)
    two = select_mean_loss(new[place], cal[other], losses[other], 0.1, largest_loss=1)
    assert_close(two.accepted, one.accepted[place])


@pytest.mark.parametrize("select", [select_mean_loss, select_total_loss])
def test_extremes(select):
    score = np.linspace(0, 1, 100)
    assert select(score, score, np.zeros(100), 0.1, largest_loss=1).accepted.all()
    assert not select(score, score, np.ones(100), 0.009, largest_loss=1).accepted.any()
    infinite = select([0.0, np.inf, -np.inf], score, np.zeros(100), 0.5, largest_loss=1)
    assert infinite.accepted.tolist() == [True, False, False]
    assert not select([np.inf], score, np.zeros(100), 0.5, largest_loss=1).accepted.any()
    text = str(infinite)
    assert text.startswith("1 of 3 rows accepted. Theorem:")
    assert "not a certificate" in text


@pytest.mark.parametrize("select", [select_mean_loss, select_total_loss])
def test_bad_input(select):
    good = {"score_new": [0.1], "score_cal": [0.1, 0.2], "losses_cal": [0.0, 1.0]}
    good |= {"level": 0.5, "largest_loss": 1.0}
    for change, facts in (
        ({"losses_cal": [0.0, 2.0]}, ["1 losses", "[0, 1]"]),
        ({"losses_cal": [-0.1, 0.5]}, ["1 losses", "negative"]),
        ({"level": 1.0}, ["level"]),
        ({"level": 0.0}, ["level"]),
        ({"largest_loss": np.inf}, ["largest_loss"]),
        ({"score_new": [np.nan]}, ["missing"]),
        ({"score_new": []}, ["length"]),
        ({"weights_new": [1.0]}, ["weights_cal"]),
        ({"weights_new": [0.0], "weights_cal": [1.0, 1.0]}, ["positive"]),
        ({"weights_new": [1.0], "weights_cal": [1.0, -1.0]}, ["weights_cal", "negative"]),
        ({"weights_new": [1.0], "weights_cal": [1.0]}, ["length"]),
    ):
        with raises(ValueError, *facts):
            select(**{**good, **change})
