import math

import numpy as np
import pytest

from helpers import assert_close
from locuscore import operating_curve
from locuscore._rules import curve as curve_module
from locuscore._rules.curve_band import mass_range, upper_band
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


def slow_upper(bad, good, masses, n, delta):
    """The smallest share on a fine grid at which the average is 1 / delta for every mass tried."""
    largest = 1.5 * math.sqrt(n)
    sizes = [0.7]
    while sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
    for r in np.arange(bad / (bad + good), 1.0, 2e-4):
        averages = []
        for f in np.geomspace(*masses, 30):
            ratios = []
            for x in (size / n for size in sizes):
                y = x / f
                ratio = ((r - y) / r) ** bad * ((1 - r + y) / (1 - r)) ** good if y < r else 0.0
                ratios.append(ratio)
            averages.append(sum(ratios) / len(ratios))
        if min(averages) >= 1 / delta:
            return r
    return 1.0


@pytest.mark.parametrize(("bad", "good", "n"), [(3, 20, 60), (5, 80, 100), (0, 30, 40)])
def test_the_band_is_that_of_the_definition(bad, good, n):
    rows = np.array([bad + good])
    mass = mass_range(rows, n, 0.01)
    fast = upper_band(np.array([float(bad)]), np.array([float(good)]), mass, n, 0.09)[0]
    slow = slow_upper(bad, good, [float(end[0]) for end in mass], n, 0.09)
    # The fast one is on the safe side of masses between those that it looks at.
    assert slow - 5e-4 <= fast <= slow + 0.02


def test_an_upper_band_alone_is_narrower(rng):
    score = rng.uniform(size=400)
    bad = rng.uniform(size=400) < 0.3 * score
    both, one = operating_curve(score, bad, 0.5), operating_curve(score, bad, 0.5, lower=False)
    assert (one.high <= both.high).all()
    assert one.high.mean() < both.high.mean()
    assert not one.low.any()


def test_many_thresholds_share_cells_on_the_safe_side(rng, monkeypatch):
    score = rng.uniform(size=800)
    bad = rng.uniform(size=800) < 0.3 * score
    each = operating_curve(score, bad, 0.5)
    monkeypatch.setattr(curve_module, "MOST_CELLS", 100)
    shared = operating_curve(score, bad, 0.5)
    assert (shared.high >= each.high - 0.02).all()
    assert (shared.low <= each.low + 0.02).all()
    assert (shared.acceptance_high >= each.acceptance_high).all()
    assert np.mean(shared.high - each.high) < 0.02


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
