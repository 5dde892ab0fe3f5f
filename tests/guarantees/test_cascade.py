"""The certificate of a cascade: the share of repetitions that break eta is compatible with delta.

Scores of the two models are uniform and independent, rates of bad answers are constant on cells of
each score, so the share of bad answers among those sent is known for every pair of thresholds.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from helpers import assert_binomial, repeated
from locuscore import CascadeRule, certify_cascade
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.cascade_path import GradedRows, safe_to_cheap

ETA = DELTA = 0.1
REPEATS = repeated(250)
COSTS = (1.0, 10.0, 200.0)


@dataclass(frozen=True)
class Risk:
    """Rates of bad answers on equal cells of each score; `levels` rounds scores up: ties."""

    small: tuple
    large: tuple
    levels: int | None = None

    def sample(self, n, rng):
        u = rng.uniform(size=(n, 2))
        rates = [
            np.array(part)[(u[:, k] * len(part)).astype(int)]
            for k, part in enumerate((self.small, self.large))
        ]
        bad = rng.uniform(size=(n, 2)) < np.column_stack(rates)
        scores = u if self.levels is None else np.ceil(u * self.levels) / self.levels
        return scores, bad.astype(float)

    def shares(self, thresholds):
        """P(sent) and P(sent and bad)."""
        t = np.clip(thresholds, 0.0, 1.0)
        if self.levels is not None:
            t = np.floor(t * self.levels + 1e-9) / self.levels
        small, large = (
            np.interp(x, np.linspace(0, 1, len(r) + 1), np.append(0, np.cumsum(r)) / len(r))
            for x, r in zip(t, (self.small, self.large), strict=True)
        )
        return t[0] + (1 - t[0]) * t[1], small + (1 - t[0]) * large

    def breaks(self, thresholds, among_all=False):
        sent, bad = self.shares(thresholds)
        return bad > ETA * (1 if among_all else sent)


HAIR = ETA + 1e-9
RISKS = {
    "just_bad": Risk((HAIR,) * 4, (HAIR,) * 4),
    "just_bad_tied": Risk((HAIR,) * 4, (HAIR,) * 4, levels=6),
    "crossing": Risk(tuple(np.linspace(0.02, 0.5, 20)), tuple(np.linspace(0.0, 0.3, 20))),
    "waves": Risk((0.05, 0.2, 0.0, 0.3), (0.3, 0.0, 0.1, 0.15, 0.0)),
    "waves_tied": Risk((0.05, 0.2, 0.0, 0.3), (0.3, 0.0, 0.1, 0.15, 0.0), levels=8),
}
# Half of the small model's answers are usable, and none of the large one's.
JOINT = Risk((0.15, 1.0), (1.0,))


def on_reference(scores, losses, rng, **more):
    """The path comes from rows of an easier kind, which misleads about power alone."""
    other = Risk((0.0, 0.05, 0.1), (0.0, 0.02)).sample(100, rng)
    known = dict(zip(("reference", "reference_losses"), other, strict=True))
    return certify_cascade(scores, losses, 0.5, ETA, DELTA, costs=COSTS, **known, **more)


def set_aside(scores, losses, rng, **more):
    return certify_cascade(scores, losses, 0.5, ETA, DELTA, costs=COSTS, **more)


def failures(certify, risk, rng, n=200, repeats=REPEATS, **more):
    """Count the repetitions that certify thresholds whose true share of bad answers is too high."""
    count = 0
    for _ in range(repeats):
        rule = certify(*risk.sample(n, rng), rng, **more)
        count += risk.breaks(rule.thresholds, **more)
    return count


@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_a_cascade_is_certified(risk, rng):
    count = failures(on_reference, risk, rng)
    assert_binomial(count, REPEATS, DELTA, "greater")
    if risk is RISKS["just_bad"]:  # the worst case: it fails almost as often as it may
        assert count / REPEATS > 0.5 * DELTA


@pytest.mark.parametrize("risk", ["just_bad", "waves_tied"])
def test_rows_that_are_set_aside_may_fix_the_path(risk, rng):
    assert_binomial(failures(set_aside, RISKS[risk], rng), REPEATS, DELTA, "greater")


def test_the_share_among_all_questions_is_certified(rng):
    """Half of the questions are sent, bad at a rate of 0.15: 0.075 of all questions."""
    joint = conditional = 0
    for _ in range(REPEATS):
        rule = set_aside(*JOINT.sample(400, rng), rng, among_all=True)
        joint += JOINT.breaks(rule.thresholds, among_all=True)
        conditional += JOINT.breaks(rule.thresholds)
    assert_binomial(joint, REPEATS, DELTA, "greater")
    with pytest.raises(AssertionError):  # the other claim is not made, and does not hold
        assert_binomial(conditional, REPEATS, DELTA, "greater")


def test_infinite_scores_break_nothing(rng):
    """Answers of -inf are all good, of inf all bad, and the finite ones at the edge of eta.

    A certificate that counted the good ones, which are never sent, would certify too much.
    """
    risk, count = RISKS["just_bad"], 0
    for _ in range(REPEATS):
        scores, bad = risk.sample(200, rng)
        sign = rng.choice([-np.inf, np.inf, 0.0], p=[0.2, 0.1, 0.7], size=scores.shape)
        scores, bad = np.where(sign == 0, scores, sign), np.where(sign == 0, bad, sign > 0)
        rule = on_reference(scores, bad, rng)
        chosen = rule.choose(scores)
        sent = np.flatnonzero(chosen < 2)
        assert (sign[sent, chosen[sent]] == 0).all()
        count += not rule.accepts_nothing
    assert_binomial(count, REPEATS, DELTA, "greater")


def cheapest_that_looks_valid(scores, losses, rng):
    """The twin: all pairs of a grid on the same rows, the cheapest whose own p-value is small."""
    rows = GradedRows(scores, losses > 0.5, np.array(COSTS))
    grid = [np.append(-np.inf, np.linspace(0.1, 1.0, 10))] * 2
    cost, sent, bad = (part.ravel() for part in rows.counts_on_grid(grid))
    passed = binomial_p_value(bad, sent, ETA) <= DELTA
    pairs = np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1).reshape(-1, 2)
    found = pairs[np.argmin(np.where(passed, cost, np.inf))] if passed.any() else [-np.inf] * 2
    return CascadeRule(("small", "large"), tuple(found), "heuristic", "")


def path_from_the_same_rows(scores, losses, rng):
    """Another twin: a proper sequence, along a path that the certifying rows themselves chose."""
    return certify_cascade(
        scores, losses, 0.5, ETA, DELTA, costs=COSTS, reference=scores, reference_losses=losses
    )


@pytest.mark.parametrize("twin", [cheapest_that_looks_valid, path_from_the_same_rows])
def test_choosing_on_the_certifying_rows_would_be_noticed(twin, rng):
    count = failures(twin, RISKS["just_bad"], rng, repeats=200)
    with pytest.raises(AssertionError):
        assert_binomial(count, 200, DELTA, "greater")


def test_good_answers_are_sent_and_cheap_ones_first(rng):
    scores, losses = Risk((0.01,) * 4, (0.01,) * 4).sample(1_000, rng)
    rule = set_aside(scores, losses, rng)
    assert (rule.choose(scores) == 0).mean() > 0.95
    scores, losses = Risk((0.6,) * 4, (0.01,) * 4).sample(1_000, rng)
    chosen = set_aside(scores, losses, rng).choose(scores)
    assert (chosen == 0).mean() < 0.2
    assert (chosen == 1).mean() > 0.75


def test_the_path_falls_in_cost(rng):
    scores, losses = RISKS["crossing"].sample(300, rng)
    rows = GradedRows(scores, losses > 0.5, np.array(COSTS))
    path = safe_to_cheap(rows, ETA, False)
    totals = rows.outcomes(path)[0] @ np.cumsum(COSTS)
    assert len(path) > 5
    assert np.all(np.diff(totals) < 0)
