"""Certificates: the share of repetitions that break eta is compatible with delta, exactly.

Every generator has a closed form: the score is uniform on (0, 1) and the rate of bad rows is
constant on cells, so P(bad | score <= t) is known for every threshold t. Thresholds near the worst
case are included: rates a hair above eta, and cliffs just behind a crossing.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest

from helpers import assert_binomial, repeated
from locuscore import (
    Locus,
    Score,
    certify_groups,
    certify_threshold,
    certify_threshold_holm,
    certify_threshold_paper,
)
from locuscore._laws.calibration import smallest_alpha
from locuscore._rules import certify
from locuscore._rules.binomial_tests import binomial_p_value
from locuscore._rules.certificate import ExceedanceCertificate
from locuscore._rules.planned_starts import Pilot, planned_start
from locuscore.engines import Scale
from locuscore.testing import GENERATORS

ETA = DELTA = 0.1
REPEATS = repeated(1_000)


@dataclass(frozen=True)
class Risk:
    """Rates of bad rows on equal cells of (0, 1); `levels` rounds the score up, to make ties."""

    rates: tuple
    levels: int | None = None

    def sample(self, n, rng):
        u = rng.uniform(size=n)
        rates = np.array(self.rates)
        bad = rng.uniform(size=n) < rates[(u * len(rates)).astype(int)]
        score = u if self.levels is None else np.ceil(u * self.levels) / self.levels
        return score, bad.astype(float)

    def exceedance(self, threshold):
        """P(bad | score <= threshold); 0 where nothing is accepted, as in the paper."""
        t = np.clip(threshold, 0.0, 1.0)
        if self.levels is not None:
            t = np.floor(t * self.levels + 1e-9) / self.levels
        if t <= 0:
            return 0.0
        edges = np.linspace(0, 1, len(self.rates) + 1)
        return np.interp(t, edges, np.append(0, np.cumsum(self.rates)) / len(self.rates)) / t


HAIR = ETA + 1e-9
RISKS = {
    "just_bad": Risk((HAIR,) * 10),
    "just_bad_tied": Risk((HAIR,) * 10, levels=10),
    "cliff": Risk((0.0,) * 9 + (1.0,) + (0.05,) * 10),
    "crossing": Risk(tuple(np.linspace(0.02, 0.3, 20))),
    "crossing_tied": Risk(tuple(np.linspace(0.02, 0.3, 20)), levels=8),
    "waves": Risk((0.05, 0.2, 0.05, 0.12, 0.0, 0.3, 0.0, 0.0, 0.2, 0.3)),
    "waves_tied": Risk((0.3, 0.0, 0.0, 0.3, 0.0, 0.0, 0.3, 0.1, 0.2, 0.3), levels=20),
    "falling": Risk((0.2, 0.15, 0.1, 0.05, 0.002, 0.1, 0.1, 0.1, 0.1, 0.2)),
}
GRID = np.linspace(0.05, 1.0, 20)


def own(score, bad, rng):
    return certify_threshold(score, bad, 0.5, ETA, DELTA)


def several_starts(score, bad, rng):
    return certify_threshold(score, bad, 0.5, ETA, DELTA, starts=[0.3, 0.5, 0.8])


def with_reference(score, bad, rng):
    return certify_threshold(score, bad, 0.5, ETA, DELTA, reference=GRID)


@lru_cache
def pilot(levels=None):
    """Labelled rows of an easier population: it misleads about power, never about validity."""
    rng = np.random.default_rng(22)
    score, labels = Risk((0.05,) * 10, levels).sample(200, rng)
    return score, labels


@lru_cache
def plan_of(levels, n):
    """The plan of a pilot, made once: it is a function of the pilot and of n alone."""
    score, labels = pilot(levels)
    claim = ExceedanceCertificate(n_rows=n, tau=0.5, eta=ETA, delta=DELTA)
    return planned_start(Pilot.of(score, labels > 0.5), np.unique(score), n, claim)


def planned_on(levels, score, bad):
    """`certify_threshold` with a labelled reference, without making the same plan 2,000 times."""
    reference, labels = pilot(levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certify, "planned_start", lambda *_: plan_of(levels, len(score)))
        return certify_threshold(
            score, bad, 0.5, ETA, DELTA, reference=reference, reference_losses=labels
        )


def with_labels(score, bad, rng):
    return planned_on(None, score, bad)


def with_tied_labels(score, bad, rng):
    return planned_on(4, score, bad)


def with_holm(score, bad, rng):
    return certify_threshold_holm(score, bad, 0.5, ETA, DELTA, GRID)


CERTIFICATES = [own, several_starts, with_reference, with_labels, with_tied_labels, with_holm]


def failures(certify, risk, rng, n=150, repeats=REPEATS):
    """Count the repetitions that certify a threshold whose true exceedance is above eta."""
    count = 0
    for _ in range(repeats):
        score, bad = risk.sample(n, rng)
        count += risk.exceedance(certify(score, bad, rng).threshold) > ETA
    return count


@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_own_scores_certify(risk, rng):
    assert_binomial(failures(own, risk, rng), REPEATS, DELTA, "greater")


@pytest.mark.parametrize("certify", CERTIFICATES, ids=lambda f: f.__name__)
def test_infinite_scores_break_nothing(certify, rng):
    """Rows of -inf are all good, rows of inf all bad, and the finite ones at the edge of eta.

    A certificate that counted the good rows, which are never accepted, would certify too much.
    """
    risk, count = RISKS["just_bad"], 0
    for _ in range(REPEATS):
        score, bad = risk.sample(200, rng)
        sign = rng.choice([-np.inf, np.inf, 0.0], p=[0.2, 0.1, 0.7], size=200)
        score, bad = np.where(sign == 0, score, sign), np.where(sign == 0, bad, sign > 0)
        rule = certify(score, bad, rng)
        assert not rule.accepts(score, rule.score)[sign != 0].any()
        count += risk.exceedance(rule.threshold) > ETA
    assert_binomial(count, REPEATS, DELTA, "greater")


@pytest.mark.parametrize("certify", CERTIFICATES[1:], ids=lambda f: f.__name__)
@pytest.mark.parametrize("risk", ["just_bad", "waves_tied"])
def test_other_certificates(certify, risk, rng):
    assert_binomial(failures(certify, RISKS[risk], rng), REPEATS, DELTA, "greater")


def test_the_bound_is_nearly_attained(rng):
    """The certificate spends its delta: at the worst case it fails almost that often."""
    assert failures(own, RISKS["just_bad"], rng) / REPEATS > 0.7 * DELTA


@pytest.mark.parametrize("certify", CERTIFICATES, ids=lambda f: f.__name__)
def test_good_rows_are_accepted(certify, rng):
    """No certificate is valid by accepting nothing."""
    score, bad = Risk((0.01,) * 10).sample(600, rng)
    assert certify(score, bad, rng).threshold > 0.8


def uncorrected(score, bad, rng):
    """The twin: the largest threshold whose own p-value is at most delta."""
    order = np.argsort(score)
    n = np.arange(1, len(score) + 1)
    good = np.flatnonzero(binomial_p_value(np.cumsum(bad[order]), n, ETA) <= DELTA)
    rule = certify_threshold(score, bad, 0.5, ETA, DELTA)
    threshold = score[order][good[-1]] if len(good) else -np.inf
    return type(rule)(rule.score, threshold, "certificate", "")


def test_testing_every_threshold_uncorrected_would_be_noticed(rng):
    count = failures(uncorrected, RISKS["just_bad"], rng)
    with pytest.raises(AssertionError):
        assert_binomial(count, REPEATS, DELTA, "greater")


def test_the_two_kinds_of_planned_starts_are_tried():
    assert plan_of(None, 150).on_ranks
    assert not plan_of(4, 150).on_ranks


def planned_on_itself(score, bad, rng):
    """The twin: the start is planned on the certifying rows."""
    return certify_threshold(score, bad, 0.5, ETA, DELTA, reference=score, reference_losses=bad)


def test_a_plan_made_on_the_certifying_rows_would_be_noticed(rng):
    repeats = repeated(200)
    count = failures(planned_on_itself, RISKS["just_bad"], rng, n=600, repeats=repeats)
    with pytest.raises(AssertionError):
        assert_binomial(count, repeats, DELTA, "greater")


def test_paper_bound(rng):
    """Theorem 5, at an eta and N where it certifies anything at all."""
    eta, n, harmful = 0.3, 2_000, Risk((0.0,) * 6 + (1.0,) * 4)
    count = accepted = 0
    for _ in range(REPEATS):
        rule = certify_threshold_paper(*harmful.sample(n, rng), 0.5, eta, DELTA, GRID)
        accepted += rule.threshold > 0
        count += harmful.exceedance(rule.threshold) > eta
    assert accepted == REPEATS
    assert_binomial(count, REPEATS, DELTA, "greater")


@pytest.mark.parametrize("pool", [(), ("d", "e")], ids=["alone", "pooled"])
def test_groups_hold_together(pool, rng):
    """Any group's failure counts; every group is at its worst case."""
    groups = np.repeat(["a", "b", "c", "d", "e"], [90, 80, 70, 15, 15])
    risk, count = RISKS["just_bad"], 0
    for _ in range(REPEATS):
        score, bad = risk.sample(len(groups), rng)
        rules = certify_groups(score, bad, groups, 0.5, ETA, DELTA, pool=pool)
        count += any(risk.exceedance(rule.threshold) > ETA for rule in rules.values())
    assert_binomial(count, REPEATS, DELTA, "greater")


def test_groups_without_dividing_delta_would_be_noticed(rng):
    risk, count = RISKS["just_bad"], 0
    for _ in range(REPEATS):
        score, bad = risk.sample(240, rng)
        parts = [certify_threshold(score[i::3], bad[i::3], 0.5, ETA, DELTA) for i in range(3)]
        count += any(risk.exceedance(rule.threshold) > ETA for rule in parts)
    with pytest.raises(AssertionError):
        assert_binomial(count, REPEATS, DELTA, "greater")


def pooled_failures(sizes, rng, repeats=1_000):
    """How often two groups, half of the new rows each, are certified although 16 % are bad."""
    count = 0
    for _ in range(repeats):
        groups = np.repeat(["safe", "risky"], sizes(rng))
        rate = np.where(groups == "safe", 0.02, 0.30)
        bad = (rng.uniform(size=len(groups)) < rate).astype(float)
        score = rng.uniform(size=len(groups))
        rules = certify_groups(score, bad, groups, 0.5, ETA, DELTA, pool=["safe", "risky"])
        count += rules["safe"].threshold > -np.inf
    return count, repeats, DELTA, "greater"


def test_a_pool_holds_where_its_groups_come_as_among_new_rows(rng):
    def drawn(rng):
        safe = rng.binomial(130, 0.5)
        return [safe, 130 - safe]

    assert_binomial(*pooled_failures(drawn, rng))


def test_a_pool_with_fixed_sizes_would_be_noticed(rng):
    """The guarantee is for the mixture of new rows: 120 and 10 are no sample of half and half."""
    failed = pooled_failures(lambda _: [120, 10], rng, 200)
    assert failed[0] > 100
    with pytest.raises(AssertionError):
        assert_binomial(*failed)


def test_neither_own_scores_nor_a_reference_certify_more_for_every_shape(rng):
    """A jump just above the start favours a reference; a smooth rise the rows' own scores."""

    def certified(risk, eta, delta, n, reference_size, repeats=200):
        counts = np.zeros(2)
        for _ in range(repeats):
            u = rng.uniform(size=n)
            bad = (rng.uniform(size=n) < risk(u)).astype(float)
            for i, reference in enumerate((None, rng.uniform(size=reference_size))):
                rule = certify_threshold(u, bad, 0.5, eta, delta, reference=reference)
                counts[i] += rule.threshold > -np.inf
        return counts / repeats

    own, reference = certified(lambda u: np.where(u < 0.415, 0.005, 1.0), 0.1, 0.05, 140, 1_000)
    assert own < 0.6
    assert reference > 0.8
    own, reference = certified(lambda u: 0.02 + 0 * u, 0.1, 0.1, 60, 20)
    assert own > reference + 0.05


@pytest.fixture(scope="module")
def pool():
    """A fitted Locus, with tails and true exceedances of many rows at one tau."""
    data, tau = GENERATORS["misfit"], 0.3
    X, y = data.sample(400, rng=0)
    locus = Locus(data.predictor, engine=Scale(), random_state=0).fit(X, y)
    X, _ = data.sample(40_000, rng=1)
    truth = data.exceedance(X, data.predictor, tau)
    return locus, data, X, locus.scores(X, Score.tail(tau)), truth


def test_the_calibration_rows_certify_the_raw_tail(pool, rng):
    """D2 redrawn given D1: eta lies a hair below the exceedance at the start, the worst case."""
    _, _, _, tail, truth = pool
    order = np.argsort(tail)
    rate = np.cumsum(truth[order]) / np.arange(1, len(tail) + 1)
    eta = float(rate[int(0.42 * len(tail)) :].min()) * 0.999
    count = 0
    for _ in range(REPEATS):
        rows = rng.integers(len(tail), size=150)
        bad = (rng.uniform(size=150) < truth[rows]).astype(float)
        rule = certify_threshold(tail[rows], bad, 0.5, eta, DELTA, of=Score.tail(0.3))
        accepted = rule.accepts(tail, Score.tail(0.3))
        count += accepted.any() and truth[accepted].mean() > eta
    assert count > 0
    assert_binomial(count, REPEATS, DELTA, "greater")


def test_a_tau_read_off_the_calibration_rows_would_be_noticed(rng):
    """The calibrated exceedance on D2, with the first tau among D2's losses that certifies.

    Losses are uniform and do not depend on x, but the loss model thinks so: which rows it finds
    safe turns with tau, so every tau is one more chance. All of them are below 1 - eta, where the
    true exceedance ``1 - tau`` is above eta for any set of rows.
    """
    n, repeats, count = 2_000, repeated(300), 0

    def survival(x, tau):
        return 1.0 - tau + 0.0015 * np.sin(2 * np.pi * (x + 100 * tau))

    for _ in range(repeats):
        x, z = rng.uniform(size=(2, n))
        tails = survival(x, z)
        for tau in np.sort(z[(z > 0.87) & (z < 1 - ETA - 1e-6)])[::2]:
            exceedance = smallest_alpha(tails, survival(x, tau))
            below = exceedance < np.sort(exceedance)[int(0.4 * n)]
            if binomial_p_value(np.sum(z[below] > tau), below.sum(), ETA) <= DELTA:
                count += 1
                break
    with pytest.raises(AssertionError):
        assert_binomial(count, repeats, DELTA, "greater")
