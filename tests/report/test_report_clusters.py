"""Reports with clusters: claims are tested by whole clusters, however the stream is cut."""

import numpy as np
import pytest

from helpers import assert_close, raises
from locuscore import Locus, Score, Scorer, certify_groups, certify_threshold, tune_threshold
from locuscore.calibration import ClusterRows
from locuscore.engines import Forest
from locuscore.metrics import cluster_coverage_p_value
from locuscore.report import Batch, report, report_batches


def labelled(rng, n_clusters, first=0, spread=1.0):
    size = rng.integers(3, 12, size=n_clusters)
    label = np.repeat(first + np.arange(n_clusters), size)
    X = rng.uniform(size=(len(label), 2))
    shift = np.repeat(spread * rng.normal(size=n_clusters), size)
    return X, X[:, 0] + shift + 0.3 * rng.normal(size=len(label)), label


def fitted(choice=None):
    X, y, label = labelled(np.random.default_rng(0), 120)
    engine = Forest(n_trees=5, min_samples_leaf=10)
    locus = Locus(
        lambda X: X[:, 0], engine=engine, signals=["x"], calibration=choice, random_state=0
    )
    return locus.fit(X, y, clusters=label)


@pytest.fixture(scope="module")
def locus():
    return fitted()


def claims(found):
    return found.summary["verdict"]["claims"]


def test_coverage_is_tested_by_clusters(locus):
    X, y, label = labelled(np.random.default_rng(1), 80, first=1000)
    (claim,) = claims(report(Scorer(locus), X, y, clusters=label))
    z = locus.losses(X, y)
    above = z > locus.loss_bound(X, 0.1)
    by_cluster = np.mean([above[label == name].mean() for name in np.unique(label)])
    assert_close(claim["observed"], by_cluster, rtol=1e-12)
    assert "each cluster counting once" in claim["sentence"]
    assert "80 clusters" in claim["sentence"]
    p = cluster_coverage_p_value(
        locus.tails_, locus.calibration_.clusters, locus.loss_dist(X).tail(z), label, 0.1
    )
    assert_close(claim["p_value"], p, atol=0.02)  # clusters are drawn in another order
    assert claim["verdict"] == "kept"


def test_worse_clusters_contradict(locus):
    X, y, label = labelled(np.random.default_rng(2), 80, first=1000, spread=3.0)
    found = report(Scorer(locus, locus.tau_rule(1.0, 0.1)), X, y, clusters=label)
    joint, coverage = claims(found)
    assert coverage["verdict"] == "contradicted"
    assert found.is_broken
    # Where the bound is above tau nothing is accepted, so the rule keeps its promise.
    accepted = locus.loss_bound(X, 0.1) <= 1.0
    bad = accepted & (locus.losses(X, y) > 1.0)
    assert joint["observed"] == np.mean([bad[label == name].mean() for name in np.unique(label)])
    assert joint["p_value"] == 1.0


def test_rows_of_clusters_count_by_rows():
    locus = fitted(ClusterRows(12))
    X, y, label = labelled(np.random.default_rng(1), 80, first=1000)
    (claim,) = claims(report(Scorer(locus), X, y, clusters=label))
    assert_close(claim["observed"], np.mean(locus.losses(X, y) > locus.loss_bound(X, 0.1)))
    assert "by its rows" in claim["sentence"]


def test_certificates_are_tested_by_clusters(locus):
    rule = locus.certify(3.0, 0.3, 0.1)
    assert rule.threshold > -np.inf
    X, y, label = labelled(np.random.default_rng(1), 80, first=1000)
    own, _ = claims(report(Scorer(locus, rule), X, y, clusters=label))
    assert own["verdict"] == "kept"
    assert "clusters counting once" in own["sentence"]
    X, y, label = labelled(np.random.default_rng(1), 80, first=1000, spread=20.0)
    own, _ = claims(report(Scorer(locus, rule), X, y, clusters=label))
    assert own["verdict"] == "contradicted"


def test_without_clusters_nothing_is_tested(locus):
    X, y, _ = labelled(np.random.default_rng(1), 40)
    for rule in (None, locus.tau_rule(1.0, 0.1), locus.certify(3.0, 0.3, 0.1)):
        for claim in claims(report(Scorer(locus, rule), X, y)):
            assert claim["p_value"] is None
            assert "clusters=" in claim["sentence"]


def test_rules_that_take_rows_as_independent_are_not_tested(locus):
    # One cluster in five is bad as a whole, and that often is allowed: rows by rows it looks worse.
    X, y, label = labelled(np.random.default_rng(6), 40, first=1000)
    score, losses = locus.scores(X, Score.tail(1.0)), locus.losses(X, y)
    tuned = tune_threshold(score, losses, 1.0, 0.05, of=Score.tail(1.0), min_acceptance=0.5)
    by_rows = certify_threshold(score, losses, 1.0, 0.9, 0.5, of=Score.tail(1.0))
    groups = certify_groups(score, losses, X[:, 0] < 0.5, 1.0, 0.9, 0.5, of=Score.tail(1.0))
    for rule, told in ((tuned, None), (by_rows, None), (groups, X[:, 0] < 0.5)):
        assert not rule.accepts_nothing
        found = report(Scorer(locus, rule), X, y, clusters=label, groups=told)
        own = [claim for claim in claims(found) if claim["kind"] == "conditional"]
        assert own
        for claim in own:
            assert claim["p_value"] is None
            assert claim["verdict"] == "not tested"
            assert "clusters" in claim["sentence"]
        assert claims(found)[-1]["p_value"] is not None  # coverage is tested by clusters


def test_batches_change_nothing(locus):
    X, y, label = labelled(np.random.default_rng(1), 40, first=1000)
    scorer, names = Scorer(locus), label.astype(str)
    whole = report(scorer, X, y, clusters=names)
    cuts = np.array_split(np.random.default_rng(3).permutation(len(y)), 4)
    parts = [Batch(X[at], y[at], clusters=names[at]) for at in cuts]
    split = report_batches(scorer, parts)
    for name in ("observed", "p_value"):
        assert_close(claims(split)[0][name], claims(whole)[0][name], rtol=1e-9, atol=0.02)


def test_bad_clusters(locus):
    X, y, label = labelled(np.random.default_rng(1), 40)
    with raises(ValueError, "clusters", "one label per row"):
        report(Scorer(locus), X, y, clusters=label[1:])
    with raises(ValueError, "missing labels"):
        report(Scorer(locus), X, y, clusters=[None, *label[1:]])
    plain = Locus(lambda X: X[:, 0], engine=Forest(n_trees=3), signals=["x"]).fit(X, y)
    with raises(ValueError, "calibrated without clusters", "fit("):
        report(Scorer(plain), X, y, clusters=label, allow_rows_used_in_fit=True)
    with raises(ValueError, "every batch"):
        report_batches(Scorer(locus), [Batch(X, y, clusters=label), Batch(X, y)])


def test_the_metric_refuses_bad_input():
    tails, label = np.linspace(0, 1, 20), np.repeat(np.arange(4), 5)
    with raises(ValueError, "1 clusters are in"):
        cluster_coverage_p_value(tails, label, tails, label + 3, 0.1)
    with raises(ValueError, "clusters", "one label per row"):
        cluster_coverage_p_value(tails, label, tails, label[1:] + 10, 0.1)
    with raises(ValueError, "probabilities"):
        cluster_coverage_p_value(tails + 1, label, tails, label + 10, 0.1)
