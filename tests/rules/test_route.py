import numpy as np
import pytest
from scipy.stats import binomtest

from helpers import assert_close, warns
from locuscore import LocusWarning, exceedance_interval, route, route_by_cost


def test_the_riskiest_rows_are_reviewed(rng):
    score = rng.permutation(100)
    for budget, reviewed in ((0, 0), (7, 7), (100, 100), (1000, 100), (0.07, 7), (0.075, 7)):
        routing = route(score, budget)
        assert routing.n_reviewed == reviewed
        assert_close(routing.accepted, score < 100 - reviewed)
    assert route(score, 0.29).n_reviewed == 29  # 0.29 * 100 is below 29 in floating point
    assert route(score, 1.0).threshold == -np.inf


def test_ties_at_the_cut_are_accepted_together():
    score = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    assert route(score, 1).accepted.tolist() == [True, True, True, True, False]
    assert route(score, 3).n_reviewed == 1  # the three ties do not fit
    assert route(score, 4).n_reviewed == 4
    assert route(np.ones(10), 9).n_reviewed == 0
    assert route(np.ones(10), 10).n_reviewed == 10


def test_infinite_scores_are_always_reviewed():
    score = [0.0, np.inf, np.inf, -np.inf]
    with warns(LocusWarning, "3 rows", "infinite"):
        assert route(score, 1).accepted.tolist() == [True, False, False, False]
    assert route(score, 3).n_reviewed == 3
    labelled = {"score_cal": [0.0, -np.inf], "losses_cal": [0.0, 1.0], "tau": 0.5}
    assert route(score, 3, **labelled).exceedance.n_accepted == 1


def test_the_interval_is_clopper_pearson(rng):
    losses, accepted = rng.uniform(size=80), rng.uniform(size=80) < 0.6
    found = exceedance_interval(losses, accepted, 0.9, 0.1)
    test = binomtest(found.n_bad, found.n_accepted).proportion_ci(0.9, "exact")
    assert found.n_accepted == accepted.sum()
    assert found.n_bad == (losses[accepted] > 0.9).sum()
    assert_close([found.low, found.high], [test.low, test.high], rtol=1e-12)
    assert_close(found.estimate, found.n_bad / found.n_accepted)


def test_intervals_at_the_ends():
    none = exceedance_interval(np.zeros(10), np.ones(10), 1.0)
    assert (none.low, none.n_bad) == (0.0, 0)
    assert_close(none.high, 1 - 0.025 ** (1 / 10), rtol=1e-12)
    every = exceedance_interval(np.ones(10), np.ones(10), 0.0)
    assert every.high == 1.0
    empty = exceedance_interval(np.zeros(10), np.zeros(10), 1.0)
    assert np.isnan(empty.estimate)
    assert (empty.low, empty.high) == (0.0, 1.0)


def test_labelled_rows_are_judged_by_the_cut_of_the_batch(rng):
    score, labelled, losses = rng.uniform(size=(3, 500))
    labelled[:5] = np.inf
    routing = route(score, 0.2, score_cal=labelled, losses_cal=losses, tau=0.7, delta=0.1)
    expected = exceedance_interval(losses, labelled <= routing.threshold, 0.7, 0.1)
    assert routing.exceedance == expected
    assert "P(loss > 0.7 | accepted)" in str(routing)
    assert "Nothing is guaranteed" in str(route(score, 0.2))


def test_rows_are_reviewed_where_accepting_costs_more():
    p = np.array([0.0, 0.1, 0.25, 0.5, 1.0])
    routing = route_by_cost(p, review_cost=2, exceedance_cost=8)
    assert routing.accepted.tolist() == [True, True, True, False, False]  # equality accepts
    assert_close(routing.expected_cost, 8 * 0.35 + 4)
    assert_close(routing.expected_exceedance, 0.35 / 3, rtol=1e-15)
    assert routing.threshold == 0.25
    assert "Estimate, by the model" in str(routing)


def test_no_other_split_is_expected_to_cost_less(rng):
    p, review, exceed = rng.uniform(size=(3, 8))
    best = route_by_cost(p, review, exceed).expected_cost
    for split in range(2**8):
        accepted = (split >> np.arange(8)) & 1 == 1
        assert best <= np.where(accepted, p * exceed, review).sum() + 1e-12


def test_free_mistakes_and_free_reviews():
    p = np.array([0.0, 0.5, 1.0])
    assert route_by_cost(p, 1.0, 0.0).accepted.all()
    assert route_by_cost(p, 0.0, 1.0).accepted.tolist() == [True, False, False]
    nothing = route_by_cost([0.5], 0.0, 1.0)
    assert np.isnan(nothing.expected_exceedance)
    assert str(nothing) == (
        "1 of 1 rows for review, the rest accepted. Estimate, by the model: the batch costs 0."
    )
    given = {"probability_cal": [0.5], "losses_cal": [1.0], "tau": 0.5}
    assert "no labelled row is accepted" in str(route_by_cost([0.5], 0.0, 1.0, **given))
    assert "nan" not in str(route_by_cost([0.5], 0.0, 1.0, **given))


def test_costs_with_labelled_rows(rng):
    p, p_cal, losses = rng.uniform(size=(3, 100))
    found = route_by_cost(p, 1, 4, probability_cal=p_cal, losses_cal=losses, tau=0.5)
    assert found.exceedance == exceedance_interval(losses, p_cal <= 0.25, 0.5)
    with pytest.raises(ValueError, match="their own"):
        route_by_cost(p, np.ones(100), 4, probability_cal=p_cal, losses_cal=losses, tau=0.5)


@pytest.mark.parametrize("budget", [-1, 1.5, -0.1, np.nan, True, "2"])
def test_bad_budgets(budget):
    with pytest.raises(ValueError, match="review_budget"):
        route([0.0, 1.0], budget)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: route([], 1), "length"),
        (lambda: route([np.nan], 1), "missing"),
        (lambda: route([0.0], 1, score_cal=[0.0]), "all three"),
        (lambda: route([0.0], 1, score_cal=[0.0], losses_cal=[1.0, 2.0], tau=1), "length"),
        (lambda: route([0.0], 1, score_cal=[0.0], losses_cal=[1.0], tau=1, delta=0), "delta"),
        (lambda: route_by_cost([1.1], 1, 1), "probability"),
        (lambda: route_by_cost([0.5, 0.5], [1, 2, 3], 1), "review_cost"),
        (lambda: route_by_cost([0.5], 1, -1), "exceedance_cost"),
        (lambda: route_by_cost([0.5], 1, np.nan), "exceedance_cost"),
        (lambda: exceedance_interval([0.5], [0.3], 1), "True or False"),
        (lambda: exceedance_interval([0.5], [1], np.nan), "tau"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
