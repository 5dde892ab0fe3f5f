"""The verdict of a report: an exact test of every claim, and one line that judges them together."""

import json

import numpy as np
import pytest
from scipy.stats import betabinom, binom

from helpers import assert_close
from locuscore import (
    Locus,
    Score,
    Scorer,
    certify_groups,
    certify_mean_loss,
    match_acceptance,
    tune_threshold,
)
from locuscore._laws.calibration import conformal_rank, coverage_p_value
from locuscore.engines import Forest
from locuscore.report import report
from locuscore.report._claims import coverage_claim, too_many_p_value
from locuscore.report._verdict import ERROR, contradicted_thresholds, judge
from report_data import calibration_of

TAU, ETA, DELTA = 0.75, 0.2, 0.1


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, (0.2 + X[:, 1]) * np.abs(rng.normal(size=n))


@pytest.fixture(scope="module")
def locus():
    X, z = rows(2000, 0)
    settings = {"engine": Forest(n_trees=20), "calibration_size": 500, "random_state": 0}
    return Locus(lambda X: X[:, 0], signals="x", **settings).fit_losses(X, z)


@pytest.fixture(scope="module")
def rule(locus):
    return locus.certify(tau=TAU, eta=ETA, delta=DELTA)


@pytest.fixture(scope="module")
def fresh():
    return rows(1500, 5)


def worse(locus, rule, X, z, share, alpha):
    """Losses of which so many are bad among the accepted, though coverage is what it was."""
    z, score = z.copy(), locus.loss_dist(X).sf(np.full(len(X), rule.score.tau))
    accepted = rule.accepts(score, rule.score)
    room = accepted & (z <= TAU) & (locus.loss_bound(X, alpha) > TAU)
    missing = int(np.ceil(share * accepted.sum())) - int(np.sum(accepted & (z > TAU)))
    z[np.flatnonzero(room)[:missing]] = np.nextafter(TAU, np.inf)
    assert np.mean(z[accepted] > TAU) >= share
    return z


@pytest.fixture(scope="module")
def broken(locus, rule, fresh):
    X, z = fresh
    return report(
        Scorer(locus, rule, alphas=(0.3, 0.1)), X, losses=worse(locus, rule, X, z, 0.26, 0.3)
    )


def verdicts(summary):
    return [(part["kind"], part["verdict"]) for part in summary["verdict"]["claims"]]


def test_too_many_bad_rows_among_the_accepted_turn_the_verdict(broken):
    """26 % bad against 20 %, with the coverage right at every alpha: no green banner."""
    summary = broken.summary
    assert all(part["agrees"] or part["rate"] > part["high"] for part in summary["coverage"])
    found = summary["verdict"]
    assert (found["kind"], found["broken"], broken.is_broken) == ("bad", True, True)
    assert verdicts(summary) == [
        ("conditional", "contradicted"),
        ("coverage", "kept"),
        ("coverage", "kept"),
    ]
    claim = found["claims"][0]
    n, bad = claim["n"], round(claim["observed"] * claim["n"])
    assert 0.26 <= claim["observed"] < 0.27
    assert claim["promised"] == ETA
    assert_close(claim["p_value"], binom.sf(bad - 1, n, ETA), rtol=1e-9)
    assert f"{bad:,} of {n:,} accepted rows (26." in found["sentence"]
    assert "1 of 3 claims" in found["sentence"]
    assert found["sentence"] in str(broken)
    json.loads(broken.to_json())


def test_certified_points_turn_with_the_certificate(broken):
    certified = broken.summary["explorer"]["threshold"]["certified"]
    assert certified["contradicted"] == certified["passed"]
    assert any(certified["contradicted"])


def test_rows_like_the_certifying_ones_keep_every_claim(locus, rule, fresh):
    X, z = fresh
    found = report(Scorer(locus, rule, alphas=(0.3, 0.1)), X, losses=z).summary
    assert found["verdict"]["kind"] == "good"
    assert {part["verdict"] for part in found["verdict"]["claims"]} == {"kept"}
    # The deployed rule and the smallest alpha are in the line.
    assert "accepted rows" in found["verdict"]["sentence"]
    assert "alpha = 0.1," in found["verdict"]["sentence"]
    assert not any(found["explorer"]["threshold"]["certified"]["contradicted"])


def test_the_smallest_alpha_is_judged_and_not_the_first_alone(locus, fresh):
    X, z = fresh
    low, high = locus.loss_bound(X, 0.3), locus.loss_bound(X, 0.02)
    far = np.flatnonzero((z > low) & (z <= high))[:60]
    z = z.copy()
    z[far] = 2 * high[far]
    found = report(Scorer(locus, alphas=(0.3, 0.02)), X, losses=z).summary
    assert found["coverage"][0]["agrees"]
    assert verdicts(found) == [("coverage", "kept"), ("coverage", "contradicted")]
    assert found["verdict"]["kind"] == "bad"
    assert "alpha = 0.02" in found["verdict"]["sentence"]


def test_the_joint_share_of_a_tau_rule_is_tested(locus, fresh):
    X, z = fresh
    rule = locus.tau_rule(tau=TAU, alpha=0.3)
    accepted = locus.loss_bound(X, 0.3) <= TAU
    for wrong, verdict in ((0, "kept"), (600, "contradicted")):
        losses = z.copy()
        losses[np.flatnonzero(accepted & (z <= TAU))[:wrong]] = 2 * TAU
        claim = report(Scorer(locus, rule), X, losses=losses).summary["verdict"]["claims"][0]
        bad, n2 = int(np.sum(accepted & (losses > TAU))), len(locus.tails_)
        k = conformal_rank(n2, 0.3)
        assert claim["kind"] == "joint"
        assert claim["observed"] == bad / len(z)
        assert claim["verdict"] == verdict
        expected = betabinom(len(z), k, n2 + 1 - k).cdf(len(z) - bad)
        assert_close(claim["p_value"], max(expected, 1e-15), rtol=1e-6)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "kept"), (0.5, "contradicted")])
def test_a_mean_loss_is_tested(locus, fresh, factor, verdict):
    X, z = fresh
    score = Score.tail(TAU)
    tail = locus.loss_dist(X).sf(np.full(len(X), TAU))
    top = float(z.max()) + 1
    made = certify_mean_loss(tail, factor * z, 0.4, DELTA, support=(0.0, top), of=score)
    (claim, *_) = report(Scorer(locus, made), X, losses=z).summary["verdict"]["claims"]
    accepted = made.accepts(tail, score)
    assert claim["kind"] == "mean loss"
    assert_close(claim["observed"], z[accepted].mean(), rtol=1e-12)
    assert claim["verdict"] == verdict


def test_losses_outside_the_certified_support_contradict_it(locus, fresh):
    X, z = fresh
    score = Score.tail(TAU)
    tail = locus.loss_dist(X).sf(np.full(len(X), TAU))
    made = certify_mean_loss(tail, z / z.max(), 0.4, DELTA, support=(0.0, 1.0), of=score)
    (claim, *_) = report(Scorer(locus, made), X, losses=z).summary["verdict"]["claims"]
    assert claim["verdict"] == "contradicted"
    assert "outside [0, 1]" in claim["sentence"]


def test_an_aim_that_is_missed_is_no_broken_promise(locus, rule, fresh):
    X, z = fresh
    tail = locus.loss_dist(X).sf(np.full(len(X), TAU))
    tuned = tune_threshold(tail, z, TAU, 0.1, of=Score.tail(TAU))
    losses = worse(locus, tuned, X, z, 0.16, 0.1)
    found = report(Scorer(locus, tuned, alphas=(0.1,)), X, losses=losses)
    assert found.summary["verdict"]["kind"] == "warn"
    assert not found.is_broken
    assert verdicts(found.summary)[0] == ("conditional", "contradicted")
    assert "never promised" in found.summary["verdict"]["sentence"]


def test_a_rule_without_a_share_makes_no_claim(locus, fresh):
    X, z = fresh
    rule = match_acceptance(locus.loss_bound(X, 0.1), 0.5, of=Score.bound(0.1))
    assert verdicts(report(Scorer(locus, rule), X, losses=z).summary) == [("coverage", "kept")]


def test_what_cannot_be_tested_is_not_called_kept(locus, fresh):
    X, z = fresh
    tail = locus.loss_dist(X).sf(np.full(len(X), TAU))
    labels = np.where(X[:, 0] < 0.5, "a", "b")
    group = certify_groups(tail, z, labels, TAU, ETA, DELTA, of=Score.tail(TAU))["a"]
    nothing = locus.certify(tau=TAU, eta=1e-6, delta=DELTA)
    assert nothing.threshold == -np.inf
    for rule in (group, nothing):
        found = report(Scorer(locus, rule), X, losses=z).summary["verdict"]
        assert found["claims"][0]["verdict"] == "too few rows to tell"
        assert found["claims"][0]["p_value"] is None
        assert found["kind"] == "plain"


@pytest.mark.parametrize(
    ("n2", "alpha", "n", "covered", "verdict"),
    [
        (1000, 0.1, 1000, 900, "kept"),
        (1000, 0.1, 1000, 800, "contradicted"),
        (1000, 0.01, 100, 99, "too few rows to tell"),  # two bad rows would be nothing unusual
        (1000, 0.01, 2000, 1980, "kept"),
        (20, 0.1, 100_000, 90_000, "too few rows to tell"),  # few rows of calibration
        (5, 0.1, 50, 50, "too few rows to tell"),  # no bound at all
    ],
)
def test_kept_is_said_where_a_doubled_share_would_be_noticed(n2, alpha, n, covered, verdict):
    found = judge([coverage_claim(calibration_of(n2), alpha, n, covered)])
    assert found["claims"][0]["verdict"] == verdict
    kind = {"kept": "good", "contradicted": "bad"}.get(verdict, "plain")
    assert found["kind"] == kind


def test_no_p_value_is_zero(locus, rule, fresh):
    X, z = fresh
    found = report(Scorer(locus, rule), X, losses=100 + z)
    for part in found.summary["verdict"]["claims"]:
        assert part["p_value"] == 1e-15
        assert "p < 1e-15" in part["sentence"]
    assert found.summary["coverage"][0]["p_value"] == 1e-15
    assert "p < 1e-15" in found.summary["coverage"][0]["sentence"]
    assert "p = 0" not in found.to_json()


@pytest.mark.parametrize(("n2", "alpha", "n"), [(40, 0.1, 17), (225, 0.3, 400), (500, 0.02, 3000)])
def test_the_p_value_of_coverage_is_the_lower_tail(n2, alpha, n):
    k = conformal_rank(n2, alpha)
    law = betabinom(n, k, n2 + 1 - k)
    for covered in {0, n // 2, round(n * 0.8), round(n * 0.9), n - 1, n}:
        assert_close(
            coverage_p_value(n2, alpha, n, covered), law.cdf(covered), rtol=1e-6, atol=1e-300
        )
    assert 0 < coverage_p_value(1000, 0.1, 1000, 300) < 1e-100


def test_the_p_value_of_too_many_is_the_upper_tail():
    n = np.array([0, 1, 10, 500])
    for bad in (np.zeros(4, int), n // 3, n):
        wanted = binom.sf(bad - 1, n, 0.2)
        assert_close(too_many_p_value(bad, n, 0.2), wanted, rtol=1e-9)


def test_single_certified_points_share_the_level():
    accepted, bad = np.array([40, 100, 200, 400]), np.array([11, 40, 30, 50])
    passed = np.array([True, True, True, False])
    found = contradicted_thresholds(accepted, bad, passed, 0.15, is_broken=False)
    p_values = binom.sf(bad - 1, accepted, 0.15)
    assert p_values[0] < ERROR  # by itself it would be, among three it is not
    assert found.tolist() == [False, True, False, False]
    every = contradicted_thresholds(accepted, bad, passed, 0.15, is_broken=True)
    assert every.tolist() == passed.tolist()
