"""Certificates of whole clusters: the formula, its table, cards, and what is refused."""

import json

import numpy as np
import pytest

from helpers import assert_close, raises, warns
from locuscore import (
    ClusterCertificate,
    FlagRule,
    Locus,
    LocusWarning,
    Score,
    certify_clusters,
    certify_mean_loss,
    mean_loss_p_value,
)
from locuscore._rules.certificate import certificate_from
from locuscore._rules.certify_clusters import clusters_needed
from locuscore.engines import Forest

TAU, ETA, DELTA = 0.5, 0.2, 0.1


def labelled(rng, n_clusters=80, largest=12):
    size = rng.integers(1, largest + 1, size=n_clusters)
    label = np.repeat([f"c{i}" for i in range(n_clusters)], size)
    score = rng.uniform(size=len(label))
    shift = np.repeat(rng.uniform(0.5, 1.5, size=n_clusters), size)
    return score, (rng.uniform(size=len(label)) < 0.7 * shift * score**2).astype(float), label


def slow_p_value(score, losses, label, threshold):
    """Each cluster's mean of 1{accepted} (1{bad} - eta), moved to lie from 0 to 1."""
    means = []
    for name in sorted(set(label)):
        accepted = score[label == name] <= threshold
        bad = losses[label == name] > TAU
        if accepted.any():
            means.append(np.mean(accepted * (bad - ETA)) + ETA)
    return mean_loss_p_value(np.clip(means, 0, 1), ETA, 0, 1)


def test_p_values_are_the_formula(rng):
    score, losses, label = labelled(rng)
    rule = certify_clusters(score, losses, label, TAU, ETA, DELTA, reference=[0.3, 0.5, 0.7, 0.9])
    for row in zip(*rule.table.values(), strict=True):
        at = dict(zip(rule.table, row, strict=True))
        p = slow_p_value(score, losses, label, at["threshold"])
        assert_close(at["p_value"], p, rtol=2e-3)
        accepted = score <= at["threshold"]
        assert at["n_accepted"] == accepted.sum()
        assert at["n_bad"] == (accepted & (losses > TAU)).sum()
        assert at["n_clusters"] == len(set(label[accepted]))
    shares = [np.mean(score[label == name] <= rule.threshold) for name in sorted(set(label))]
    assert_close(rule.evidence["acceptance"], np.mean(shares), rtol=1e-12)


def test_the_largest_before_the_first_failure(rng):
    score, losses, label = labelled(rng)
    rule = certify_clusters(score, losses, label, TAU, ETA, DELTA, reference=np.linspace(0, 1, 200))
    failed = np.flatnonzero(np.array(rule.table["p_value"]) > DELTA)
    assert rule.threshold == rule.table["threshold"][failed[0] - 1]
    assert rule.certificate.p_value <= DELTA
    assert rule.certificate.n_clusters == 80
    low = certify_clusters(
        score, losses, label, TAU, ETA, DELTA, reference=np.linspace(0, 1, 200), starts=[0.2, 0.6]
    )
    assert 0.1 < low.threshold <= rule.threshold


def test_order_and_names_change_nothing(rng):
    score, losses, label = labelled(rng)
    order = rng.permutation(len(score))
    rules = [
        certify_clusters(score, losses, label, TAU, ETA, DELTA),
        certify_clusters(score[order], losses[order], label[order], TAU, ETA, DELTA),
        certify_clusters(score, losses, [("x", name) for name in label], TAU, ETA, DELTA),
    ]
    for other in rules[1:]:
        assert other.threshold == rules[0].threshold
        for name, column in other.table.items():
            assert_close(column, rules[0].table[name], rtol=1e-9)
    assert rules[0].threshold > 0
    assert "set aside" in rules[0].certificate.thresholds
    assert rules[0].certificate.n_clusters == 64


def test_clusters_of_one_row_test_what_rows_do(rng):
    score, losses, _ = labelled(rng)
    reference = [0.4, 0.6]
    rule = certify_clusters(
        score, losses, range(len(score)), TAU, ETA, DELTA, reference=reference, starts=[0.1]
    )
    rows = certify_mean_loss(score, losses, ETA, DELTA, support=(0, 1), reference=reference)
    by_row = dict(zip(rows.table["threshold"], rows.table["p_value"], strict=True))
    for threshold, p in zip(rule.table["threshold"], rule.table["p_value"], strict=True):
        if threshold in by_row:
            assert_close(p, by_row[threshold], rtol=1e-9)
    assert set(by_row) & set(rule.table["threshold"])


def test_cards_speak_of_clusters(rng):
    score, losses, label = labelled(rng)
    rule = certify_clusters(score, losses, label, TAU, ETA, DELTA)
    assert "random row of a random new cluster" in rule.guarantee
    assert "64 certifying clusters" in rule.guarantee
    assert "independent clusters" in str(rule)
    assert isinstance(rule.certificate, ClusterCertificate)
    assert certificate_from(dict(rule.evidence)) == rule.certificate
    assert FlagRule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule


def test_few_clusters_accept_nothing_and_say_how_many(rng):
    score, label = rng.uniform(size=200), np.repeat(np.arange(5), 40)
    rule = certify_clusters(score, np.zeros(200), label, TAU, 0.1, 0.1, reference=score)
    assert rule.threshold == -np.inf
    needed = rule.certificate.clusters_needed_without_a_bad_row
    assert needed == int(np.ceil(clusters_needed(1.0, 0.1, 0.1))) == 25
    assert "25 such clusters" in rule.guarantee
    # So many do.
    score, label = rng.uniform(size=1000), np.repeat(np.arange(25), 40)
    rule = certify_clusters(score, np.zeros(1000), label, TAU, 0.1, 0.1, reference=[1.0])
    assert rule.threshold == 1.0


def test_infinite_scores_are_never_accepted(rng):
    score, losses, label = labelled(rng)
    score[::3] = np.inf
    rule = certify_clusters(score, losses, label, TAU, ETA, DELTA, reference=[0.5, np.inf])
    assert np.isfinite(rule.table["threshold"]).all()
    assert rule.table["n_accepted"][-1] == np.sum(score <= 0.5)
    nothing = certify_clusters(score, losses, label, TAU, ETA, DELTA, reference=[np.inf])
    assert nothing.threshold == -np.inf
    assert "no finite score" in nothing.guarantee


def test_bad_input(rng):
    score, losses, label = labelled(rng)
    with raises(ValueError, "clusters", "one label per row"):
        certify_clusters(score, losses, label[1:], TAU, ETA, DELTA)
    with raises(ValueError, "clusters", "missing"):
        certify_clusters(score, losses, [None, *label[1:]], TAU, ETA, DELTA)
    with raises(ValueError, "starts"):
        certify_clusters(score, losses, label, TAU, ETA, DELTA, starts=[0.0])


# The estimator


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(150), 6)
    X = rng.uniform(size=(900, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=900) + 0.1 * rng.normal(size=150)[label]
    engine = Forest(n_trees=10, min_samples_leaf=10)
    locus = Locus(lambda X: X[:, 0], engine=engine, signals=["x"], random_state=0)
    return locus.fit(X, y, clusters=label), X, y, label


def test_d2_certifies_by_its_clusters(fitted):
    locus, *_ = fitted
    rule = locus.certify(1.0, 0.2, 0.1)
    tail = Score.tail(1.0)
    model, known = locus.loss_model_, locus.reference_signals_
    by_hand = certify_clusters(
        tail.before_calibration(model, locus.calibration_signals_),
        locus.calibration_losses_,
        locus.calibration_clusters_,
        1.0,
        0.2,
        0.1,
        of=tail,
        reference=tail.before_calibration(model, known),
    )
    assert rule == by_hand
    assert rule.threshold > 0
    assert rule.certificate.n_clusters == locus.calibration_.n_clusters


def test_fresh_rows_need_their_clusters(fitted):
    locus, X, y, label = fitted
    rng = np.random.default_rng(1)
    fresh = rng.uniform(size=(600, 2))
    y_fresh = fresh[:, 0] + fresh[:, 1] * rng.normal(size=600)
    with raises(ValueError, "fitted with clusters", "clusters="):
        locus.certify(1.0, 0.2, 0.1, fresh, y_fresh)
    with raises(ValueError, "go with fresh rows"):
        locus.certify(1.0, 0.2, 0.1, clusters=label)
    groups = np.repeat(np.arange(100), 6)
    rule = locus.certify(1.0, 0.2, 0.1, fresh, y_fresh, of=Score.bound(0.1), clusters=groups)
    assert rule.threshold > 0
    assert rule.certificate.rows_also_in_fit == 0
    with warns(LocusWarning, "were used to fit"):
        used = locus.certify(1.0, 0.2, 0.1, X, y, clusters=label, allow_rows_used_in_fit=True)
    assert used.standing == "heuristic"
    assert used.certificate.rows_also_in_fit == 900


def test_a_locus_without_clusters_takes_those_of_fresh_rows(fitted):
    _, X, y, label = fitted
    plain = Locus(lambda X: X[:, 0], engine=Forest(n_trees=3), signals=["x"], random_state=0)
    plain.fit(X[:400], y[:400])
    rule = plain.certify(1.0, 0.3, 0.1, X[400:], y[400:], clusters=label[400:])
    assert isinstance(rule.certificate, ClusterCertificate)
