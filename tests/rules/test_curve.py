import numpy as np
import pytest

from helpers import assert_close
from locuscore import operating_curve
from locuscore._rules.curve import _nodes
from locuscore.metrics import exceedance_curve


@pytest.mark.parametrize("digits", [1, 2, 8])
def test_points_are_those_of_the_metrics(digits, rng):
    for n in (1, 2, 7, 8, 9, 40, 300):
        score, losses = rng.uniform(size=(2, n)).round(digits)
        score[rng.uniform(size=n) < 0.1] = np.inf
        curve, expected = operating_curve(score, losses, 0.8), exceedance_curve(score, losses, 0.8)
        assert_close(curve.threshold, expected.threshold)
        assert_close(curve.acceptance, expected.acceptance, rtol=1e-15)
        assert_close(curve.exceedance, expected.exceedance, rtol=1e-15)


def test_bands_contain_the_estimates(rng):
    score = rng.uniform(size=2000)
    losses = (rng.uniform(size=2000) < 0.02 + 0.6 * score**2).astype(float)
    curve = operating_curve(score, losses, 0.5)
    assert (curve.low <= curve.exceedance).all()
    assert (curve.exceedance <= curve.high).all()
    assert (curve.acceptance_low <= curve.acceptance).all()
    assert (curve.acceptance <= curve.acceptance_high).all()
    for values in (curve.low, curve.high, curve.acceptance_low, curve.acceptance_high):
        assert values.min() >= 0
        assert values.max() <= 1


def test_bands_are_of_use():
    """Half the width of what the Dvoretzky-Kiefer-Wolfowitz inequality gives."""
    rng = np.random.default_rng(0)
    score = rng.uniform(size=1000)
    bad = rng.uniform(size=1000) < 0.02 + 0.6 * score**2
    curve = operating_curve(score, bad, 0.5)
    at = np.searchsorted(curve.threshold, 0.3) - 1
    slack = np.sqrt(np.log(4 / 0.05) / 2000)
    joint = curve.acceptance[at] * curve.exceedance[at]
    simple = (joint + slack) / (curve.acceptance[at] - slack)
    assert curve.high[at] - curve.exceedance[at] < 0.5 * (simple - curve.exceedance[at])


def test_smaller_delta_is_wider(rng):
    score, losses = rng.uniform(size=(2, 500))
    wide, narrow = (operating_curve(score, losses, 0.8, delta) for delta in (0.01, 0.2))
    assert (wide.high >= narrow.high).all()
    assert (wide.low <= narrow.low).all()
    assert (wide.acceptance_high >= narrow.acceptance_high).all()


def test_nodes_are_ascending_and_end_beyond_the_last_row():
    for n in (*range(1, 200), 10_000, 1_000_000):
        nodes = _nodes(n)
        assert nodes[-1] == n + 1
        assert (np.diff(nodes) > 0).all()
        assert nodes[0] >= min(8, n + 1)


def test_extremes_of_tau(rng):
    score, losses = rng.uniform(size=(2, 400))
    none_bad, all_bad = operating_curve(score, losses, 2.0), operating_curve(score, losses, -1.0)
    assert not none_bad.low.any()
    assert none_bad.high[-1] < 0.05
    assert (all_bad.high == 1).all()
    assert all_bad.low[-1] > 0.95
    # Good and bad change places, and so do the bands.
    assert_close(none_bad.high, 1 - all_bad.low, atol=1e-9)


def test_all_scores_equal(rng):
    losses = rng.uniform(size=400)
    curve = operating_curve(np.ones(400), losses, 0.9)
    assert len(curve.threshold) == 1
    assert curve.low[0] < 0.1 < curve.high[0] < 0.2


def test_rows_in_another_order_give_the_same_curve(rng):
    score, losses = rng.uniform(size=(2, 300)).round(1)
    order = rng.permutation(300)
    one, other = (
        operating_curve(score, losses, 0.5),
        operating_curve(score[order], losses[order], 0.5),
    )
    assert_close(one.high, other.high)
    assert_close(one.low, other.low)


def test_infinite_scores_are_never_accepted():
    curve = operating_curve([np.inf, 0.0, -np.inf, np.inf], [0, 0, 0, 1], 0.5)
    assert curve.threshold.tolist() == [0.0]
    assert curve.acceptance.tolist() == [0.25]
    nothing = operating_curve([np.inf, np.inf], [0, 1], 0.5)
    assert len(nothing.threshold) == len(nothing.high) == 0


def test_what_it_says(rng):
    curve = operating_curve(*rng.uniform(size=(2, 50)), 0.5, 0.1)
    assert "Theorem: with probability at least 0.9 over these rows" in str(curve)


@pytest.mark.extra
def test_as_a_frame(rng):
    curve = operating_curve(*rng.uniform(size=(2, 50)), 0.5)
    frame = curve.to_frame()
    names = ["threshold", "acceptance", "acceptance_low", "acceptance_high"]
    assert list(frame) == [*names, "exceedance", "low", "high"]
    assert_close(frame["high"], curve.high)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], 1), "length"),
        (([0.1], [0.1, 0.2], 1), "length"),
        (([np.nan], [0.1], 1), "missing"),
        (([0.1], [np.inf], 1), "non-finite"),
        (([0.1], [0.1], np.nan), "tau"),
        (([0.1], [0.1], 1, 0.0), "delta"),
        (([0.1], [0.1], 1, 1.0), "delta"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        operating_curve(*arguments)
