"""Which rows to label: the plan, its certificate, ties, infinite scores, errors."""

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import Score, certify_threshold, plan_labels
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.labels import _Bins, _mean_acceptance

TAU, ETA, DELTA = 0.5, 0.1, 0.1


def rows(rng, n):
    score = rng.uniform(size=n)
    return score, (rng.uniform(size=n) < score**2).astype(float)


def planned(rng, pool, budget=200, **more):
    known, losses = rows(rng, 1_000)
    more = {"reference": known, "reference_losses": losses, "random_state": 0} | more
    return plan_labels(pool, budget, TAU, ETA, DELTA, **more)


def test_rows_are_a_random_sample_below_the_ceiling(rng):
    pool = rng.uniform(size=5_000)
    plan = planned(rng, pool)
    below = np.flatnonzero(pool <= plan.ceiling)
    assert len(plan.rows) == len(set(plan.rows.tolist())) == 200
    assert set(plan.rows.tolist()) <= set(below.tolist())
    # The largest valid threshold is 0.548; what is worth trying is about that.
    assert 0.4 < plan.ceiling < 0.7
    assert 0.3 < plan.acceptance < 0.55
    assert f"{len(below):,} rows" in str(plan)
    again = planned(np.random.default_rng(1), pool)
    assert not np.array_equal(again.rows, plan.rows)


def test_the_same_seed_gives_the_same_plan(rng):
    pool = rng.uniform(size=1_000)
    known, losses = rows(rng, 400)
    one, two = (
        plan_labels(pool, 50, TAU, ETA, DELTA, reference=known, reference_losses=losses,
                    random_state=3)
        for _ in range(2)
    )  # fmt: skip
    assert one.rows.tolist() == two.rows.tolist()
    assert one.ceiling == two.ceiling


def test_its_certificate_is_the_exact_one_up_to_the_ceiling(rng):
    pool = rng.uniform(size=5_000)
    plan = planned(rng, pool, of=Score.other("mine"))
    score = pool[plan.rows]
    losses = (rng.uniform(size=200) < 0.7 * score**2).astype(float)
    rule = plan.certify(losses)
    # In order, by the definition.
    last = -np.inf
    for edge in plan.thresholds[plan.start :]:
        inside = score <= edge
        if binomial_p_value(losses[inside].sum(), inside.sum(), ETA) > DELTA:
            break
        last = edge
    assert rule.threshold == last
    assert plan.thresholds[plan.start] <= rule.threshold <= plan.ceiling
    assert rule.score == Score.other("mine")
    assert_close(rule.certificate.acceptance, np.mean(pool <= rule.threshold))
    assert any("at random" in one for one in rule.assumptions)
    # Without a ceiling, rows of which none was labelled would be accepted.
    assert certify_threshold(score[score < 0.2], losses[score < 0.2], TAU, 0.5, 0.5).threshold > 1
    assert plan.certify(np.zeros(200)).threshold == plan.ceiling
    nothing = plan.certify(np.ones(200))
    assert nothing.accepts_nothing


def test_more_labels_raise_the_ceiling_and_what_is_expected(rng):
    pool = rng.uniform(size=20_000)
    known, losses = rows(rng, 4_000)
    plans = [
        planned(rng, pool, budget, reference=known, reference_losses=losses)
        for budget in (60, 500, 5_000)
    ]
    expected = [plan.acceptance for plan in plans]
    assert expected == sorted(expected)
    assert plans[0].ceiling < plans[2].ceiling


def test_a_small_pool_is_labelled_whole(rng):
    pool = np.array([0.1, np.inf, 0.2, -np.inf, 0.99])
    plan = planned(rng, pool)
    assert sorted(plan.rows.tolist()) == [0, 2]


def test_ties_are_accepted_or_left_together(rng):
    known, losses = rows(rng, 1_000)
    known = np.ceil(known * 5) / 5
    pool = np.ceil(rng.uniform(size=2_000) * 5) / 5
    plan = planned(rng, pool, reference=known, reference_losses=losses)
    assert plan.ceiling in (0.2, 0.4, 0.6)
    assert set(pool[plan.rows]) <= set(known)
    losses = (rng.uniform(size=200) < pool[plan.rows] ** 2 / 2).astype(float)
    assert plan.certify(losses).threshold in (0.2, 0.4, 0.6)


def test_mean_acceptance_is_that_of_a_slow_loop(rng):
    passed = rng.uniform(size=(30, 8)) < 0.7
    accepted = np.sort(rng.uniform(size=(30, 8)), axis=1)
    slow = []
    for start in range(8):
        found = []
        for ok, share in zip(passed, accepted, strict=True):
            end = start
            while end < 8 and ok[end]:
                end += 1
            found.append(share[end - 1] if end > start else 0.0)
        slow.append(np.mean(found))
    assert_close(_mean_acceptance(passed, accepted), slow, rtol=1e-12)


def test_where_nothing_can_pass_there_is_still_a_plan(rng):
    known = rng.uniform(size=50)
    plan = plan_labels(known, 5, TAU, 0.01, DELTA, reference=known, reference_losses=np.ones(50))
    assert plan.acceptance == 0.0
    assert plan.certify(np.ones(len(plan.rows))).accepts_nothing
    assert len(_Bins.of(known, np.ones(50, dtype=bool)).edge) == 50


def test_bad_input_is_refused(rng):
    with raises(ValueError, "budget", "0"):
        planned(rng, [0.1], 0)
    with raises(ValueError, "no finite score"):
        planned(rng, [0.1], reference=[np.inf], reference_losses=[0.0])
    with raises(ValueError, "no row of the pool", "same score"):
        planned(rng, [5.0, np.inf])
    with raises(ValueError, "losses", "200"):
        planned(rng, rng.uniform(size=900)).certify([0.0])
    with pytest.raises(TypeError):
        plan_labels([0.1], 5, TAU, ETA, DELTA)
