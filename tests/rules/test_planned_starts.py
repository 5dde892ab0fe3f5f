"""Starts of certificates that are planned on other labelled rows."""

import copy

import numpy as np
import pytest

from locuscore import Locus, certify_threshold
from locuscore._rules.binomial_tests import allowed_bad, most_bad, rows_needed
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.planned_starts import (
    MOST_EXACT_ROWS,
    MOST_PILOT_ROWS,
    Pilot,
    Samples,
    planned_rank,
    planned_start,
    start_ranks,
)
from locuscore._rules.thresholds import CandidateThresholds, Start, largest_certified
from locuscore.engines import Forest, Scale
from locuscore.engines._left_out import left_out_tails

ETA = DELTA = 0.1


def claim(n, eta=ETA):
    return ExceedanceCertificate(n_rows=n, tau=0.5, eta=eta, delta=DELTA)


def rising(n, rng, levels=None):
    u = rng.uniform(size=n)
    bad = rng.uniform(size=n) < 0.02 + 0.6 * u**2
    return (u if levels is None else np.ceil(u * levels) / levels), bad


@pytest.mark.parametrize(("eta", "level"), [(0.1, 0.1), (0.05, 0.03), (0.3, 0.6)])
def test_allowed_bad_rows_at_once(eta, level):
    n = np.arange(300)
    assert most_bad(n, eta, level).tolist() == [allowed_bad(int(k), eta, level) for k in n]


def rebuilt(samples, i, pilot, n, seed):
    """Scores and labels of one sample, drawn again: slow and plain."""
    score, bad = np.append(pilot.score[:1], pilot.score), np.append(True, pilot.bad)
    m, rng = len(score), np.random.default_rng(seed)
    weights = rng.multinomial(m, np.full(m, 1 / m), size=len(samples.n)) / m
    rows = np.repeat(np.arange(m), rng.multinomial(n, weights)[i])
    return score[rows], bad[rows]


@pytest.mark.parametrize("levels", [None, 9])
def test_a_sequence_on_a_sample_is_the_one_that_certifies(levels, rng):
    """Accepted rows from each rank and each threshold, by the code that makes certificates."""
    score, bad = rising(60, rng, levels)
    score[:3] = np.inf  # never accepted
    pilot, n = Pilot.of(score, bad), 80
    ranks = start_ranks(n, claim(n))
    left, right = (Samples.of(pilot, n, side, 7) for side in ("left", "right"))
    by_rank, by_edge = left.accepted_from_ranks(ranks, ETA, DELTA), right.accepted(ETA, DELTA)
    for i in range(0, len(by_rank), 20):
        drawn = rebuilt(left, i, pilot, n, 7)
        own = CandidateThresholds.own_scores(*drawn)
        fixed = CandidateThresholds.on_grid(*drawn, right.edge)
        for candidates, starts, found in ((own, ranks, by_rank), (fixed, None, by_edge)):
            for j, at in enumerate(range(len(right.edge)) if starts is None else starts):
                end, _ = largest_certified(candidates, [Start(int(at), DELTA)], ETA)
                assert found[i, j] == (0 if end is None else candidates.count(end)[0])


def test_a_start_can_pass():
    for n in (10, 22, 23, 150):
        ranks = start_ranks(n, claim(n))
        assert ranks[0] == min(rows_needed(0, ETA, DELTA), n)
        assert ranks[-1] == n


def test_a_start_among_ties_has_the_rows_it_needs(rng):
    """The 22 rows that a clean start needs end inside a block; the plan starts behind it."""
    score, bad = np.repeat([1.0, 2.0, 3.0, 4.0], [15, 15, 15, 55]), np.zeros(100, dtype=bool)
    bad[45:] = True
    plan = planned_rank(Pilot.of(score, bad), 100, claim(100))
    assert plan.start.position > 30  # where 30 rows are strictly below in the pilot


def test_few_rows_get_the_best_start_that_there_is(rng):
    """Where no sample passes, the starts are those without a plan."""
    pilot = Pilot.of(*rising(300, rng))
    assert planned_start(pilot, np.unique(pilot.score), 15, claim(15)) is None
    score, bad = rising(15, rng)
    rule = certify_threshold(
        score, bad, 0.5, ETA, DELTA, reference=pilot.score, reference_losses=pilot.bad
    )
    assert rule == certify_threshold(score, bad, 0.5, ETA, DELTA)


def test_large_samples_are_planned_on_a_grid(rng):
    """Interpolated counts and a thinned pilot give nearly the same plan."""
    score, bad = rising(5 * MOST_PILOT_ROWS, rng)
    assert len(Pilot.of(score, bad).bad) == MOST_PILOT_ROWS
    n = 2 * MOST_EXACT_ROWS
    plan = planned_rank(Pilot.of(score, bad), n, claim(n))
    u, labels = rising(n, rng)
    assert plan.accepted / n == pytest.approx(0.62, abs=0.03)  # 0.632 would be valid
    rule = certify_threshold(u, labels, 0.5, ETA, DELTA, reference=score, reference_losses=bad)
    assert rule.threshold == pytest.approx(plan.accepted / n, abs=0.03)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1_200, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=1_200)
    return Locus(lambda X: X[:, 0], engine=Forest(n_trees=30), random_state=0).fit(X, y)


def test_the_plan_of_a_locus_is_a_function_of_d1_alone(fitted):
    """D2 with other losses starts at the same rank."""
    first = fitted.certify(0.5, 0.1, 0.1)
    other = copy.copy(fitted)
    other.calibration_losses_ = np.zeros_like(fitted.calibration_losses_)
    second = other.certify(0.5, 0.1, 0.1)
    assert first.evidence["starts_at_n"] == second.evidence["starts_at_n"]
    assert second.threshold > first.threshold


def test_left_out_tails_do_not_know_their_own_loss(fitted):
    S, z, errors = fitted.fit_signals_, fitted.fit_losses_, fitted.fit_errors_
    tails, losses = left_out_tails(fitted.loss_model_, S, z, errors, 0.5)
    assert len(tails) == len(losses) == len(z)
    seen = fitted.loss_model_.survival(S, 0.5)
    # By trees that have seen a bad row, it looks worse than by those that have not.
    assert seen[z > 0.5].mean() > tails[z > 0.5].mean() + 0.02


@pytest.mark.parametrize("engine", [Scale(), Forest(n_trees=30)])
def test_other_engines_and_many_rows_have_a_stand_in(engine, monkeypatch, rng):
    monkeypatch.setattr("locuscore.engines._left_out.MOST_ROWS", 200)
    monkeypatch.setattr("locuscore.engines._left_out.MOST_STAND_IN_ROWS", 150)
    X = rng.uniform(size=(500, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=500)
    locus = Locus(lambda X: X[:, 0], engine=engine, random_state=0).fit(X, y)
    rule = locus.certify(0.5, 0.2, 0.1)
    assert "planned on 150 other" in rule.evidence["thresholds"]
    assert rule == locus.certify(0.5, 0.2, 0.1)  # the same each time
