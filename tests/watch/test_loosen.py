"""Watch.loosen: audited rows of a ledger loosen a rule, each counted once, across deployments."""

import json
from datetime import timedelta

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import AnytimeCertificate, Locus, Score, Scorer, anytime_certificate
from locuscore.engines import Gaussian

pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.extra

from locuscore.watch import Watch  # noqa: E402

TAU, ETA, DELTA = 0.8, 0.1, 0.1
SCORE = Score.tail(TAU)
DAY = 86_400_000_000


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, X[:, 0] + X[:, 1] * rng.normal(size=n)


@pytest.fixture(scope="module")
def locus():
    return Locus(lambda X: X[:, 0], engine=Gaussian(), random_state=0).fit(*rows(800, 0))


class Clock:
    now = 1_700_000_000_000_000

    def __call__(self):
        return self.now


def begun(locus, **more):
    known = locus.scores(rows(500, 99)[0], SCORE)
    return anytime_certificate(known, TAU, ETA, DELTA, of=SCORE, **more)


def test_a_rule_loosens_over_deployments(locus, tmp_path):
    clock, asked = Clock(), {"audit": 0.5, "audit_flagged": 0.25, "age": timedelta(days=2)}
    certificate = direct = begun(locus, least=0.25)
    thresholds, pending = [], []
    for week in range(5):
        scorer = Scorer(locus, certificate.rule)
        watch = Watch(tmp_path / "decisions.db", scorer, clock=clock, **asked)
        X, y = rows(900, 10 + week)
        decided = watch.score(X)
        drawn = decided["audit"]
        # Some labels never come, and rows whose label nobody asked for are no part of this.
        come = drawn & (np.arange(900) % 50 != 0)
        watch.label(decided["id"][come], y[come])
        watch.label(decided["id"][~drawn][:20], y[~drawn][:20], source="complaint")
        losses = np.where(come, locus.losses(X, y), np.nan)
        chance = np.where(decided["flag"], 0.25, 0.5)
        pending.append((locus.scores(X, SCORE)[drawn], losses[drawn], chance[drawn]))
        assert watch.loosen(certificate) is certificate  # the rows are too young
        clock.now += 7 * DAY
        certificate = watch.loosen(certificate)
        direct = direct.after(*pending[-1])
        certificate = AnytimeCertificate.from_state(json.loads(json.dumps(certificate.state())))
        thresholds.append(certificate.rule.threshold)
        assert watch.loosen(certificate) is certificate  # each row once
    assert_close(certificate.largest, direct.largest, atol=1e-9)
    assert certificate.n_labelled == sum(len(score) for score, *_ in pending)
    assert thresholds == sorted(thresholds)
    assert thresholds[-1] > -np.inf
    # The rule that is deployed is watched like any other.
    scorer = Scorer(locus, certificate.rule)
    watch = Watch(tmp_path / "decisions.db", scorer, clock=clock, **asked)
    (claim,) = [claim for claim in watch.claims if claim.kind == "accepted"]
    assert claim.is_tested
    assert claim.promised == ETA
    assert not watch.status().alarm


def test_only_rows_with_the_same_score_are_read(locus, tmp_path):
    clock, store = Clock(), tmp_path / "decisions.db"
    other = Locus(lambda X: X[:, 0], engine=Gaussian(), random_state=1).fit(*rows(600, 5))
    certificate = begun(locus)
    for one in (other, locus):
        scorer = Scorer(one, certificate.rule)
        watch = Watch(store, scorer, clock=clock, age=timedelta(0))
        X, y = rows(100, 7)
        watch.label(watch.score(X)["id"], y)
        clock.now += DAY
    assert watch.loosen(certificate).n_labelled == 100


def test_what_it_cannot_be_given_is_said(locus, tmp_path):
    certificate = begun(locus)
    scorer = Scorer(locus, certificate.rule)
    half = Watch(tmp_path / "half.db", scorer, audit=0.5, age=timedelta(0))
    with raises(ValueError, "flagged rows", "audit_flagged"):
        half.loosen(certificate)
    bounds = Watch(tmp_path / "bounds.db", Scorer(locus, locus.tau_rule(TAU, 0.1)))
    with raises(ValueError, "tail", "bound"):
        bounds.loosen(certificate)
    without = Watch(tmp_path / "without.db", Scorer(locus))
    with raises(ValueError, "no score of one rule"):
        without.loosen(certificate)
    seldom = Watch(tmp_path / "seldom.db", scorer, audit=0.5, audit_flagged=0.2, age=timedelta(0))
    X, y = rows(200, 3)
    decided = seldom.score(X)
    seldom.label(decided["id"], y)
    with raises(ValueError, "least = 1", "smaller least"):
        seldom.loosen(certificate)
