"""How many rows to audit: the plan against a simulation of the alarm, week by week."""

import numpy as np
import pytest

from helpers import assert_binomial, raises
from locuscore import Locus, Scorer
from locuscore.engines import Gaussian

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch import Claim, claims_of, plan_audits  # noqa: E402
from locuscore.watch import _plan as module  # noqa: E402
from locuscore.watch._evidence.alarm import BetsAlarm  # noqa: E402
from locuscore.watch._evidence.betting import MeanBets  # noqa: E402

ETA, DELTA = 0.1, 0.05


def noticed_in_time(per_week, repeats, *, before=ETA, after=2 * ETA, weeks=4, healthy=10):
    """Streams of single weeks, given to the alarm as they come; how many are noticed in time."""
    rng, found = np.random.default_rng(7), 0
    for _ in range(repeats):
        alarm, first = BetsAlarm(MeanBets(ETA), DELTA), None
        for week in range(healthy + weeks):
            rate = before if week < healthy else after
            alarm.update((rng.uniform(size=per_week) < rate).astype(float))
            if alarm.alarm and first is None:
                first = week
        found += first is not None and first >= healthy
    return found


def test_the_plan_is_that_of_a_direct_simulation():
    plan = plan_audits(ETA, weeks_before=10, delta=DELTA)
    found = noticed_in_time(plan.per_week, 200)
    # Both are simulated: the direct one with the share that the plan's simulation had.
    assert_binomial(found, 200, plan.noticed)
    assert plan.noticed >= 0.8
    # With half of the audits the goal is clearly missed.
    with pytest.raises(AssertionError):
        assert_binomial(noticed_in_time(plan.per_week // 2, 200), 200, 0.8)
    assert int(plan) == plan.per_week
    assert str(plan.per_week) in str(plan)
    assert "0.1 to 0.2" in str(plan)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "SIMULATIONS", 40)


def test_what_makes_it_harder_needs_more_audits(quick):
    plain = plan_audits(ETA, weeks_before=10)
    assert plan_audits(ETA, weeks_before=10, after=0.3).per_week < plain.per_week
    assert plan_audits(ETA, weeks_before=10, weeks=8).per_week < plain.per_week
    assert plan_audits(ETA, weeks_before=10, labelled=0.8).per_week > plain.per_week
    assert plan_audits(ETA, weeks_before=10, delta=0.001).per_week > plain.per_week
    assert plan_audits(ETA, weeks_before=10).per_week == plain.per_week


def test_claims_of_a_scorer_have_their_part_of_delta(quick):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6_000, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=6_000)
    locus = Locus(lambda X: X[:, 0], engine=Gaussian(), random_state=0).fit(X, y)
    claims = claims_of(Scorer(locus, locus.tau_rule(1.0, 0.1), alphas=(0.2,)))
    coverage, joint, exchangeable = claims
    for claim in (coverage, joint):
        plan = plan_audits(claim, weeks_before=4, power=0.5)
        assert f"{DELTA * claim.share:.3g}" in str(plan)
        assert plan.noticed >= 0.5
    with raises(ValueError, "share of rows", "exchangeable"):
        plan_audits(exchangeable)


def test_bad_input_is_refused(quick, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 500)
    with raises(ValueError, "0.1 is promised", "after = 0.1"):
        plan_audits(ETA, after=0.1)
    with raises(ValueError, "before = 0.2"):
        plan_audits(ETA, before=0.2)
    with raises(ValueError, "labelled = 0.3"):
        plan_audits(ETA, labelled=0.3)
    with raises(ValueError, "claim", "between 0 and 1"):
        plan_audits(1.5)
    with raises(ValueError, "not tested", "nothing"):
        plan_audits(Claim(name="share", kind="accepted", promised=0.1, why_not="nothing"))
    with raises(ValueError, "audits a week", "more weeks"):
        plan_audits(0.0001, weeks=1, weeks_before=0, delta=1e-12)
