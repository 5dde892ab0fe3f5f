"""`certify_weighted`: what it says, what it refuses, and how `Locus.certify` calls it."""

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import (
    FlagRule,
    Locus,
    Score,
    Scorer,
    WeightedCertificate,
    certify_threshold,
    certify_weighted,
)
from locuscore._rules import weighted as module
from locuscore.calibration import Shifted
from locuscore.engines import Forest
from locuscore.report import report


@pytest.fixture(autouse=True)
def few_thresholds(monkeypatch):
    monkeypatch.setattr(module, "MOST_THRESHOLDS", 6)


def rows(rng, n=600):
    s = rng.uniform(size=n)
    return s, (rng.uniform(size=n) < 0.3 * s).astype(float), 0.2 + s


def test_what_the_certificate_says(rng):
    s, losses, w = rows(rng)
    rule = certify_weighted(s, losses, w, 0.5, 0.2, 0.1, largest_weight=1.2)
    found = rule.certificate
    assert isinstance(found, WeightedCertificate)
    assert rule.standing == "certificate"
    assert found.n_rows == 480  # a fifth is set aside
    assert found.p_value <= 0.1
    assert 0 < found.effective_rows < 480
    assert 0 < found.acceptance <= 1
    assert FlagRule.from_dict(rule.to_dict()) == rule
    assert isinstance(FlagRule.from_dict(rule.to_dict()).certificate, WeightedCertificate)
    for words in ("new row of the mix", "confidence 0.9", "largest weight = 1.2"):
        assert words in " ".join(str(rule).split())


def test_the_estimates_are_weighted(rng):
    s, losses, w = rows(rng)
    other = rng.uniform(size=200)
    more = {"largest_weight": 1.2, "reference": other, "reference_weights": 0.2 + other}
    rule = certify_weighted(s, losses, w, 0.5, 0.25, 0.1, **more)
    accepted = s <= rule.threshold
    found = rule.certificate
    assert_close(found.acceptance, w[accepted].sum() / w.sum(), rtol=1e-12)
    assert_close(found.exceedance, np.average(losses[accepted], weights=w[accepted]), rtol=1e-12)
    assert found.n_accepted == accepted.sum()
    assert found.n_rows == len(s)


def test_equal_weights_do_about_as_well_as_the_binomial_test(rng):
    s = rng.uniform(size=600)
    losses, other = (rng.uniform(size=600) < 0.6 * s**3).astype(float), rng.uniform(size=300)
    more = {"largest_weight": 1.0, "reference": other}
    rule = certify_weighted(
        s, losses, np.ones(600), 0.5, 0.1, 0.1, reference_weights=np.ones(300), **more
    )
    exact = certify_threshold(s, losses, 0.5, 0.1, 0.1, reference=other)
    assert 0.8 * exact.threshold < rule.threshold <= exact.threshold


def test_light_rows_of_low_scores_do_not_hold_up_the_start(rng):
    """The start is where there is enough weight, not where there are enough rows."""
    s = rng.uniform(size=1000)
    losses, other = (rng.uniform(size=1000) < 0.05).astype(float), rng.uniform(size=500)
    more = {"largest_weight": 1.0, "reference": other, "reference_weights": other**4}
    rule = certify_weighted(s, losses, s**4, 0.5, 0.2, 0.1, **more)
    assert rule.threshold > 0.9
    assert min(rule.table["threshold"]) > 0.3


def test_nothing_can_be_certified(rng):
    s, _, w = rows(rng, 100)
    rule = certify_weighted(s, np.ones(100), w, 0.5, 0.1, 0.1, largest_weight=1.2)
    assert rule.threshold == -np.inf
    assert "Nothing is accepted" in rule.guarantee
    assert rule.certificate.start_exceedance == 1.0
    assert rule.certificate.accepted_rows_needed_without_a_bad_one > 22
    none = certify_weighted(np.full(100, np.inf), np.ones(100), w, 0.5, 0.1, 0.1, largest_weight=2)
    assert none.threshold == -np.inf


def test_rows_of_weight_zero_say_nothing(rng):
    """Bad ones among them do not count."""
    s, losses, w = rows(rng, 400)
    s = np.append(s, rng.uniform(size=50))
    losses, w = np.append(losses, np.ones(50)), np.append(w, np.zeros(50))
    other = rng.uniform(size=100)
    more = {"largest_weight": 1.2, "reference": other, "reference_weights": 0.2 + other}
    assert certify_weighted(s, losses, w, 0.5, 0.2, 0.1, **more).threshold > 0.2


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"weights": [1.0, -1.0, 1.0]}, ["1 weights are negative"]),
        ({"weights": [1.0, np.inf, 1.0]}, ["1 weights", "not finite"]),
        ({"weights": [1.0, 3.0, 1.0]}, ["1 weights are above largest_weight = 2", "up to 3"]),
        ({"weights": [0.0, 0.0, 0.0]}, ["all weights are zero"]),
        ({"weights": [1.0, 1.0]}, ["weights", "(2,)"]),
        ({"largest_weight": 0.0}, ["largest_weight"]),
        ({"eta": 1.0}, ["eta"]),
        ({"delta": 0.0}, ["delta"]),
    ],
)
def test_bad_input(change, facts):
    good = {
        "score": [1.0, 2.0, 3.0],
        "losses": [0.0, 1.0, 0.0],
        "weights": [1.0, 1.0, 1.0],
        "tau": 0.5,
        "eta": 0.1,
        "delta": 0.1,
        "largest_weight": 2.0,
    }
    with raises(ValueError, *facts):
        certify_weighted(**good | change)


# Through Locus


def zero(X):
    return np.zeros(len(X))


def heavy(X):
    return 0.2 + np.asarray(X)[:, 0]


def data(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, X[:, 0] * rng.normal(size=n)


X, Y = data()


def locus_of(choice, **more):
    small = {"engine": Forest(n_trees=5, min_samples_leaf=20), "signals": "x", "random_state": 0}
    return Locus(zero, calibration=choice, **small).fit(X, Y, **more)


def test_locus_certifies_on_d2_by_its_weights():
    locus = locus_of(Shifted(heavy, largest_weight=1.2))
    rule = locus.certify(tau=0.8, eta=0.3, delta=0.1)
    assert isinstance(rule.certificate, WeightedCertificate)
    assert rule.threshold > 0
    # The same from arrays.
    some = np.linspace(0, len(locus.fit_rows_) - 1, len(locus.fit_rows_)).astype(int)
    score = Score.tail(0.8)
    by_hand = certify_weighted(
        locus.scores(X[locus.calibration_rows_], score),
        np.abs(Y[locus.calibration_rows_]),
        heavy(X[locus.calibration_rows_]),
        0.8,
        0.3,
        0.1,
        largest_weight=1.2,
        of=score,
        reference=locus.scores(X[locus.fit_rows_][some], score),
        reference_weights=heavy(X[locus.fit_rows_][some]),
    )
    assert by_hand == rule
    # And from an array of weights.
    other = locus_of(Shifted(heavy(X), largest_weight=1.2)).certify(0.8, 0.3, 0.1)
    assert other.threshold == rule.threshold
    new, y = data(300, seed=3)
    verdict = report(Scorer(locus, rule, alphas=(0.1,)), new, y).summary["verdict"]
    assert "conditional" in [claim["kind"] for claim in verdict["claims"]]
    with raises(ValueError, "starts"):
        locus.certify(0.8, 0.3, 0.1, starts=[0.5])
    with raises(ValueError, "cannot certify it"):
        locus.certify(0.8, 0.3, 0.1, of=Score.bound(0.1))


def test_what_cannot_certify(monkeypatch):
    monkeypatch.setattr("locuscore._inputs.opinion_models.MORE_ROUNDS", (20,))
    with raises(ValueError, "largest_weight=..."):
        locus_of(Shifted(heavy)).certify(0.8, 0.3, 0.1)
    learned = locus_of(Shifted(), target=np.sqrt(data(300, 5)[0]))
    with raises(ValueError, "weights of this Locus are learned", "drawn from the target"):
        learned.certify(0.8, 0.3, 0.1)
    # Labelled rows of the target need no weights.
    new, y = data(400, seed=4)
    rule = learned.certify(0.8, 0.3, 0.1, new, y, of=Score.bound(0.1))
    expected = certify_threshold(
        learned.loss_bound(new, 0.1), np.abs(y), 0.8, 0.3, 0.1, of=Score.bound(0.1)
    )
    assert rule.threshold == expected.threshold
