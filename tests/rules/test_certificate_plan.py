"""Plans of whole certificates, simulated from a pilot."""

import numpy as np
import pytest

from helpers import raises
from locuscore import Locus, certify_threshold, plan_certificate
from locuscore.engines import Forest

CLAIM = (0.5, 0.1, 0.1)  # tau, eta, delta


def rising(n, rng):
    u = rng.uniform(size=n)
    return u, (rng.uniform(size=n) < 0.02 + 0.6 * u**2).astype(float)


def test_the_plan_says_what_certificates_accept(rng):
    """From a large pilot; the start is planned once, so certificates are cheap to repeat."""
    score, losses = rising(2_000, rng)
    plan = plan_certificate(score, losses, *CLAIM, rows=600)
    rule = certify_threshold(*rising(600, rng), *CLAIM, reference=score, reference_losses=losses)
    start = rule.evidence["starts_at_n"][0] / 600
    found = np.array(
        [
            max(certify_threshold(*rising(600, rng), *CLAIM, starts=[start]).threshold, 0.0)
            for _ in range(100)
        ]
    )
    assert plan.acceptance == pytest.approx(found.mean(), abs=0.06)
    assert np.mean((found >= plan.low) & (found <= plan.high)) > 0.6


def test_a_small_pilot_is_less_sure(rng):
    small, large = (plan_certificate(*rising(n, rng), *CLAIM, rows=2_000) for n in (150, 2_000))
    assert small.high - small.low > 1.5 * (large.high - large.low)
    assert large.low < large.acceptance < large.high


def test_rows_for_a_wanted_share(rng, monkeypatch):
    score, losses = rising(1_000, rng)
    plan = plan_certificate(score, losses, *CLAIM, acceptance=0.5)
    assert plan.acceptance >= 0.5
    fewer = plan_certificate(score, losses, *CLAIM, rows=round(plan.rows / 1.4))
    assert fewer.acceptance < 0.5
    monkeypatch.setattr("locuscore._rules.certificate_plan.MOST_ROWS", 4_000)
    with raises(ValueError, "4,000 rows", "0.9"):
        plan_certificate(score, losses, *CLAIM, acceptance=0.9)


def test_too_few_rows_accept_nothing(rng):
    plan = plan_certificate(*rising(300, rng), *CLAIM, rows=20)
    assert (plan.acceptance, plan.nothing) == (0.0, 1.0)
    assert "With 20 labelled rows" in str(plan)
    assert "accepts about 0%" in str(plan)


def test_tied_scores_are_planned_at_their_thresholds(rng):
    """Half of the rows tie at a safe score; ranks among them could not be told apart."""
    score = np.where(rng.uniform(size=1_000) < 0.5, 0.1, 0.9)
    losses = (rng.uniform(size=1_000) < np.where(score < 0.5, 0.01, 0.5)).astype(float)
    plan = plan_certificate(score, losses, *CLAIM, rows=300)
    assert plan.acceptance == pytest.approx(0.5, abs=0.05)


def test_one_of_rows_and_acceptance(rng):
    score, losses = rising(100, rng)
    for given in ({}, {"rows": 100, "acceptance": 0.5}):
        with raises(ValueError, "one of them"):
            plan_certificate(score, losses, *CLAIM, **given)
    with raises(ValueError, "whole number"):
        plan_certificate(score, losses, *CLAIM, rows=0.5)


def test_a_locus_plans_on_d1(rng):
    X = rng.uniform(size=(800, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=800)
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=30), random_state=0).fit(X, y)
    plan = locus.plan_certificate(0.8, 0.1, 0.1, rows=len(locus.calibration_rows_))
    assert 0.2 < plan.acceptance < 0.9
    assert plan.n_pilot == len(locus.fit_rows_)
    assert locus.plan_certificate(0.8, 0.1, 0.1, acceptance=0.3).acceptance >= 0.3
    for name in ("fit_signals_", "fit_losses_", "fit_errors_"):
        delattr(locus, name)
    with raises(ValueError, "plan_certificate", "no rows of D1"):
        locus.plan_certificate(0.8, 0.1, 0.1, rows=100)
