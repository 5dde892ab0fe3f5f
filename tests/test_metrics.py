from dataclasses import astuple, dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm
from scipy.stats import t as student

import reference_metrics as slow
from helpers import assert_binomial, assert_close
from locuscore import metrics
from locuscore._inputs.losses import finite_support
from locuscore._laws.distribution import LossDistribution
from locuscore.draws import NormalDraws, ShapeDraws, WeightedDraws

ALL_OF_TWO_ARRAYS = {
    "coverage": metrics.coverage,
    "exceedance_rates": lambda z, v: metrics.exceedance_rates(z, np.asarray(v) > 0, 1.0),
    "pinball_loss": lambda z, v: metrics.pinball_loss(z, v, 0.1),
    "local_coverage": lambda z, v: metrics.local_coverage(z, np.zeros(len(z)), v, n_bins=2),
    "local_coverage_bound": lambda z, v: metrics.local_coverage(z, v, np.zeros(len(z)), n_bins=2),
    "exceedance_curve": lambda z, v: metrics.exceedance_curve(v, z, 1.0),
    "exceedance_area": lambda z, v: metrics.exceedance_area(v, z, 1.0),
}

# Few distinct values, so that ties are common.
values = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))
rows = st.lists(st.tuples(values, values), min_size=1, max_size=30)
few_rows = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)


def columns(pairs):
    return (np.array(column, dtype=float) for column in zip(*pairs, strict=True))


@dataclass(frozen=True)
class Points:
    """Laws with equal points in every row and one weight each."""

    points: np.ndarray
    weights: np.ndarray

    def sf(self, z):
        return (self.weights * (self.points > np.asarray(z)[..., None])).sum(axis=-1)

    def isf(self, level):
        # The survival just below a point; the largest point that reaches the level.
        below = self.weights[::-1].cumsum()[::-1]
        reached = below >= np.asarray(level)[..., None] - 1e-12
        return self.points[np.maximum(reached.sum(axis=-1) - 1, 0)]


# Against slow loops


@given(rows)
def test_coverage_and_pinball_loss_match_loops(pairs):
    z, u = columns(pairs)
    assert metrics.coverage(z, u) == slow.coverage(z, u)
    assert_close(metrics.pinball_loss(z, u, 0.1), slow.pinball_loss(z, u, 0.1), rtol=1e-12)


@given(st.lists(st.tuples(values, st.booleans()), min_size=1, max_size=30), values)
def test_exceedance_rates_match_loops(pairs, tau):
    z, accepted = columns(pairs)
    rates = metrics.exceedance_rates(z, accepted.astype(bool), tau)
    assert_close(astuple(rates), slow.exceedance_rates(z, accepted, tau), rtol=1e-14)


@given(rows, values)
def test_exceedance_curve_matches_loops(pairs, tau):
    score, z = columns(pairs)
    curve = metrics.exceedance_curve(score, z, tau)
    assert_close(np.column_stack(astuple(curve)), slow.exceedance_curve(score, z, tau), rtol=1e-14)


@settings(max_examples=60)
@given(few_rows)
def test_exceedance_area_is_the_mean_over_orders_of_ties(pairs):
    score, z = columns(pairs)
    assert_close(
        metrics.exceedance_area(score, z, 0.5), slow.exceedance_area(score, z, 0.5), rtol=1e-13
    )


def test_local_coverage_matches_loops_and_scipy_intervals(rng):
    group = rng.integers(0, 5, size=200).astype(str)
    z, u = rng.exponential(size=200), rng.exponential(3.0, size=200)
    local = metrics.local_coverage(z, u, group, delta=0.1)
    assert list(local.group) == ["0", "1", "2", "3", "4"]
    for i, name in enumerate(local.group):
        own = group == name
        k, n = int(np.sum(z[own] <= u[own])), int(own.sum())
        interval = binomtest(k, n).proportion_ci(0.9, method="exact")
        assert (local.n_rows[i], local.coverage[i]) == (n, k / n)
        assert_close([local.low[i], local.high[i]], list(interval), rtol=1e-9)


def test_local_coverage_at_none_and_all():
    local = metrics.local_coverage([1.0, 1.0, 3.0], [2.0, 2.0, 2.0], ["a", "a", "b"])
    assert_close(local.coverage, [1.0, 0.0])
    assert_close([local.low[0], local.high[0]], [0.025**0.5, 1.0], rtol=1e-12)
    assert_close([local.low[1], local.high[1]], [0.0, 0.975], rtol=1e-12)


# CRPS


@settings(max_examples=50)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8, unique=True), st.floats(-8, 8))
def test_crps_of_a_step_law_is_exact(points, z):
    points = np.sort(points)
    weights = np.arange(1.0, len(points) + 1) / np.arange(1.0, len(points) + 1).sum()
    expected = slow.crps_of_points(z, points, weights)
    assert_close(metrics.crps([z], Points(points, weights)), expected, rtol=1e-9, atol=1e-9)


def test_crps_of_a_zero_one_loss_is_the_brier_score():
    law = Points(np.array([0.0, 1.0]), np.array([0.83, 0.17]))
    assert_close(metrics.crps([0.0, 1.0], law), (0.17**2 + 0.83**2) / 2, rtol=1e-14)


@pytest.mark.parametrize("z", [-3.0, -0.5, 0.0, 1.2, 5.0])
def test_crps_of_a_normal_law(z):
    expected = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)
    assert_close(metrics.crps([z], norm()), expected, rtol=2e-4)
    assert_close(metrics.crps([z], norm(), n_levels=1000), expected, rtol=2e-5)


@pytest.mark.parametrize("z", [-2.0, 0.0, 30.0])
def test_crps_of_a_heavy_tailed_law(z):
    law = student(3)
    expected = slow.crps_by_quadrature(z, law.cdf, -2000, 2000)
    assert_close(metrics.crps([z], law), expected, rtol=5e-4)


def test_crps_is_the_mean_over_rows_and_prefers_the_truth(rng):
    z = rng.normal(size=2000)
    assert_close(
        metrics.crps(z[:3], norm()), np.mean([metrics.crps([v], norm()) for v in z[:3]]), rtol=1e-13
    )
    truth = metrics.crps(z, norm())
    assert truth < metrics.crps(z, norm(0.3)) < metrics.crps(z, norm(1.0))
    assert truth < metrics.crps(z, norm(scale=1.5))


def test_crps_of_the_laws_of_an_engine(rng):
    location, scale = rng.normal(size=(6, 1)), rng.uniform(0.5, 2.0, size=(6, 1))
    z = rng.normal(size=6)
    own = [
        metrics.crps([v], norm(m, s))
        for v, m, s in zip(z, location[:, 0], scale[:, 0], strict=True)
    ]
    dist = LossDistribution(NormalDraws(location, scale))
    assert_close(metrics.crps(z, dist), np.mean(own), rtol=1e-9)
    binary = LossDistribution(NormalDraws(location, scale), None, finite_support([0.0, 1.0]))
    truth = (z > 0).astype(float)
    brier = np.mean((binary.sf(0.0) - truth) ** 2)
    assert_close(metrics.crps(truth, binary), brier, rtol=1e-12)


@pytest.mark.parametrize("z", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("n_draws", [1, 3])
def test_crps_of_a_mixture_is_that_of_its_law(z, n_draws):
    """A smooth part and one with jumps: the knots are those of the parts, nested ones too."""
    smooth = NormalDraws(np.linspace(1.0, 2.0, n_draws)[None, :], np.full((1, n_draws), 0.7))
    jumps = ShapeDraws(np.ones((1, 1)), np.array([0.5, 0.9, 1.1]), 1e-9)
    inner = WeightedDraws([jumps, smooth], np.array([0.3, 0.7]))
    law = LossDistribution(WeightedDraws([inner, jumps], np.array([0.6, 0.4])))
    t = np.linspace(-5.0, 9.0, 140_001)
    cdf = 0.42 * norm(smooth.location, 0.7).cdf(t[:, None]).mean(axis=1)
    cdf += 0.58 * np.searchsorted([0.5, 0.9, 1.1, 1.1], t, side="right") / 4
    expected = np.mean((cdf - (t >= z)) ** 2) * 14.0
    assert_close(metrics.crps([z], law), expected, rtol=5e-4)
    levels = np.linspace(0.02, 0.98, 49)[None, :]
    knots = np.sort(np.append(law.knots(levels), [-5.0, 9.0]))[None, :]
    within = law.sf(knots)[:, :-1] - law.sf(np.nextafter(knots, -np.inf))[:, 1:]
    assert within.max() < 0.0201
    enveloped = LossDistribution(law.draws, np.array([0.5]))
    assert_close(enveloped.knots(levels[:, :3]), enveloped.isf(levels[:, :3]))


def test_crps_is_infinite_for_mass_at_infinity():
    law = Points(np.array([0.0, np.inf]), np.array([0.5, 0.5]))
    assert metrics.crps([1.0], law) == np.inf


# Uniformity


def test_tails_of_the_right_law_have_a_uniform_p_value(rng):
    p = [metrics.pit_uniformity(rng.uniform(size=50)).p_value for _ in range(1000)]
    for level in (0.05, 0.5):
        assert_binomial(np.sum(np.array(p) <= level), len(p), level)


def test_a_wrong_law_is_noticed(rng):
    assert metrics.pit_uniformity(rng.uniform(size=500) ** 1.3).p_value < 1e-3


def test_uniformity_is_the_largest_gap_and_symmetric(rng):
    tails = np.array([0.1, 0.2, 0.9])
    result = metrics.pit_uniformity(tails)
    assert_close(result.statistic, 2 / 3 - 0.2, rtol=1e-15)
    assert_close(metrics.pit_uniformity(1 - tails).p_value, result.p_value, rtol=1e-12)


def test_atoms_need_randomised_tails(rng):
    p_error = rng.uniform(0.1, 0.4, size=2000)
    z = rng.uniform(size=2000) < p_error
    tails, survival = np.where(z, p_error, 1.0), np.where(z, 0.0, p_error)
    assert metrics.pit_uniformity(tails).p_value < 1e-6
    assert metrics.pit_uniformity(metrics.randomized_tails(tails, survival, 0)).p_value > 1e-3
    wrong = metrics.randomized_tails(np.where(z, p_error / 2, 1.0), survival / 2, 0)
    assert metrics.pit_uniformity(wrong).p_value < 1e-6


# Properties


@given(rows, values)
def test_the_curve_and_its_area_depend_on_ranks_alone(pairs, tau):
    score, z = columns(pairs)
    rank = np.unique(score, return_inverse=True)[1]
    transformed = np.array([-(2.0**60), *np.exp2(np.arange(-30.0, 30))])[rank]
    first, second = (metrics.exceedance_curve(s, z, tau) for s in (score, transformed))
    assert_close(first.acceptance, second.acceptance)
    assert_close(first.exceedance, second.exceedance)
    assert metrics.exceedance_area(score, z, tau) == metrics.exceedance_area(transformed, z, tau)
    bins = [metrics.local_coverage(z, score, s, n_bins=3) for s in (score, transformed)]
    assert_close(bins[0].coverage, bins[1].coverage)


@given(rows, values, st.randoms(use_true_random=False))
def test_the_order_of_rows_is_irrelevant(pairs, tau, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    (s, z), (s2, z2) = columns(pairs), columns(shuffled)
    assert metrics.coverage(z, s) == metrics.coverage(z2, s2)
    assert_close(
        metrics.pinball_loss(z, s, 0.2), metrics.pinball_loss(z2, s2, 0.2), rtol=1e-9, atol=1e-9
    )
    assert metrics.exceedance_area(s, z, tau) == metrics.exceedance_area(s2, z2, tau)
    assert metrics.exceedance_rates(z, s <= 0, tau).joint == (
        metrics.exceedance_rates(z2, s2 <= 0, tau).joint
    )


@given(rows, values)
def test_the_area_lies_between_the_best_and_the_worst_ranking(pairs, tau):
    score, z = columns(pairs)
    exceeds = (z > tau).astype(float)
    area = metrics.exceedance_area(score, z, tau)
    best = metrics.exceedance_area(exceeds, z, tau)
    worst = metrics.exceedance_area(-exceeds, z, tau)
    assert 0 <= best <= area + 1e-12
    assert area - 1e-12 <= worst <= 1
    assert_close(metrics.exceedance_area(np.ones(len(z)), z, tau), exceeds.mean(), rtol=1e-12)


def test_a_random_ranking_has_the_marginal_rate_on_average(rng):
    z = np.arange(40.0)
    areas = [metrics.exceedance_area(rng.uniform(size=40), z, 29.5) for _ in range(4000)]
    assert abs(np.mean(areas) - 0.25) < 5 * np.std(areas) / np.sqrt(len(areas))


@given(rows, values)
def test_the_curve_is_made_of_the_rates(pairs, tau):
    score, z = columns(pairs)
    curve = metrics.exceedance_curve(score, z, tau)
    assert np.all(np.diff(curve.threshold) > 0)
    assert np.all(np.diff(curve.acceptance) > 0)
    assert curve.acceptance[-1] == 1.0
    for threshold, acceptance, exceedance in zip(*astuple(curve), strict=True):
        assert acceptance == metrics.acceptance_rate(score, threshold)
        rates = metrics.exceedance_rates(z, score <= threshold, tau)
        assert_close(rates.conditional, exceedance, rtol=1e-14)
        assert_close(rates.joint, acceptance * exceedance, rtol=1e-12)
        assert rates.joint <= rates.marginal


@given(rows, st.integers(-20, 20))
def test_scale(pairs, power):
    z, u = columns(pairs)
    c = 2.0**power
    assert metrics.coverage(c * z, c * u) == metrics.coverage(z, u)
    assert_close(
        metrics.pinball_loss(c * z, c * u, 0.25), c * metrics.pinball_loss(z, u, 0.25), rtol=1e-13
    )
    assert metrics.exceedance_area(u, c * z, c) == metrics.exceedance_area(u, z, 1.0)
    spread = norm(0.0, 2.0), norm(0.0, 2.0 * c)
    assert_close(metrics.crps(c * z, spread[1]), c * metrics.crps(z, spread[0]), rtol=1e-9)


def test_the_pinball_loss_is_smallest_at_the_quantile(rng):
    z = rng.exponential(size=10_001)
    at = {q: np.full(len(z), np.quantile(z, q)) for q in (0.85, 0.9, 0.95)}
    at = {q: metrics.pinball_loss(z, bound, 0.1) for q, bound in at.items()}
    assert at[0.9] < min(at[0.85], at[0.95])


@given(rows, st.integers(1, 12))
def test_bins_keep_ties_together_and_lose_no_row(pairs, n_bins):
    score, z = columns(pairs)
    local = metrics.local_coverage(z, np.zeros(len(z)), score, n_bins=n_bins)
    assert len(local.group) <= n_bins
    assert local.n_rows.sum() == len(z)
    assert_close(local.n_rows @ local.coverage, np.sum(z <= 0), rtol=1e-12)
    # A bin is named by its largest score, so the rows up to it are known.
    assert_close(np.cumsum(local.n_rows), [np.sum(score <= g) for g in local.group])
    assert np.all((local.low <= local.coverage) & (local.coverage <= local.high))


def test_bins_are_equal_where_scores_differ(rng):
    local = metrics.local_coverage(rng.normal(size=100), np.zeros(100), rng.normal(size=100), 10)
    assert_close(local.n_rows, 10)


def test_intervals_hold_as_often_as_they_say(rng):
    held = 0
    for _ in range(1000):
        local = metrics.local_coverage(rng.uniform(size=30), np.full(30, 0.9), np.zeros(30))
        held += bool(local.low[0] <= 0.9 <= local.high[0])
    assert_binomial(held, 1000, 0.95, "less")


# Infinite values and bad input


def test_infinite_scores_come_last_and_are_never_accepted():
    score, z = [1.0, np.inf, 0.0, np.inf], [0.0, 9.0, 0.0, 0.0]
    assert metrics.acceptance_rate(score, 1e300) == 0.5
    curve = metrics.exceedance_curve(score, z, 1.0)
    assert_close(curve.threshold, [0.0, 1.0])
    assert_close(curve.acceptance, [0.25, 0.5])
    assert_close(metrics.exceedance_area(score, z, 1.0), (0.5 / 3 + 1 / 4) / 4, rtol=1e-14)
    assert len(metrics.exceedance_curve([np.inf], [1.0], 0.0).threshold) == 0
    assert metrics.local_coverage([1.0, 1.0], [np.inf, 0.0], score[:2], 2).group[-1] == np.inf


def test_infinite_bounds():
    assert metrics.coverage([1.0, 2.0], [np.inf, -np.inf]) == 0.5
    assert metrics.pinball_loss([1.0, 2.0], [np.inf, 2.0], 0.1) == np.inf
    assert metrics.pinball_loss([1.0, 2.0], [np.inf, -np.inf], 0.1) == np.inf


def test_nothing_accepted():
    rates = metrics.exceedance_rates([1.0, 3.0], [False, False], 2.0)
    assert (rates.marginal, rates.joint) == (0.5, 0.0)
    assert np.isnan(rates.conditional)


@pytest.mark.parametrize("name", ALL_OF_TWO_ARRAYS)
@pytest.mark.parametrize(
    ("z", "v", "message"),
    [
        ([1.0, 2.0], [1.0], "length"),
        ([], [], "length"),
        ([[1.0], [2.0]], [[1.0], [2.0]], "length"),
        ([1.0, np.nan], [1.0, 1.0], "losses.* 1 missing"),
        ([1.0, np.inf], [1.0, 1.0], "losses.* 1 non-finite"),
    ],
)
def test_bad_arrays(name, z, v, message):
    with pytest.raises(ValueError, match=message):
        ALL_OF_TWO_ARRAYS[name](z, v)


@pytest.mark.parametrize("name", sorted(set(ALL_OF_TWO_ARRAYS) - {"exceedance_rates"}))
def test_missing_scores(name):
    with pytest.raises(ValueError, match="missing"):
        ALL_OF_TWO_ARRAYS[name]([1.0, 2.0], [1.0, np.nan])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.exceedance_rates([1.0], [0.3], 1.0), "score <= threshold"),
        (lambda: metrics.exceedance_rates([1.0], [True], np.inf), "finite"),
        (lambda: metrics.exceedance_rates([1.0], [True], [1.0, 2.0]), "one number"),
        (lambda: metrics.acceptance_rate([], 1.0), "length"),
        (lambda: metrics.acceptance_rate([np.nan], 1.0), "missing"),
        (lambda: metrics.acceptance_rate([1.0], np.nan), "one number"),
        (lambda: metrics.pinball_loss([1.0], [1.0], 1.0), "alpha"),
        (lambda: metrics.crps([], norm()), "length"),
        (lambda: metrics.crps([np.inf], norm()), "non-finite"),
        (lambda: metrics.crps([1.0], norm(), n_levels=0), "n_levels"),
        (lambda: metrics.pit_uniformity([0.5, 1.5]), "probabilities"),
        (lambda: metrics.pit_uniformity([]), "length"),
        (lambda: metrics.randomized_tails([0.2], [0.3]), "tail"),
        (lambda: metrics.local_coverage([1.0], [1.0], [1.0], n_bins=0), "n_bins"),
        (lambda: metrics.local_coverage([1.0], [1.0], ["a", "b"]), "one label per row"),
        (lambda: metrics.local_coverage([1.0], [1.0], [np.nan]), "missing labels"),
        (lambda: metrics.local_coverage([1.0], [1.0], ["a"], delta=0.0), "delta"),
    ],
)
def test_bad_numbers(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_lists_and_whole_numbers_will_do():
    assert metrics.coverage([1, 2], (1, 1)) == 0.5
    assert metrics.exceedance_rates([1, 2], [1, 0], 0).conditional == 1.0


def test_public_names():
    assert metrics.__all__ == sorted(metrics.__all__, key=str)
    for name in metrics.__all__:
        assert getattr(metrics, name).__doc__


def test_an_infinite_score_is_never_accepted():
    score = [-np.inf, 0.1, 0.2, np.inf]
    assert metrics.acceptance_rate(score, np.inf) == 0.5
    curve = metrics.exceedance_curve(score, [5.0, 0.0, 5.0, 5.0], tau=1.0)
    assert curve.acceptance.tolist() == [0.25, 0.5]
    assert curve.exceedance.tolist() == [0.0, 0.5]
