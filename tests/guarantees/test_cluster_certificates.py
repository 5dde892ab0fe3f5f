"""Certificates and verdicts by whole clusters are wrong as rarely as they say; by rows far oftener.

In the generators below, rows of one cluster share their fate, and the risk of accepted rows is a
little above eta at every threshold: whatever is certified is wrong.
"""

import numpy as np
import pytest

from helpers import assert_binomial, repeated
from locuscore import certify_clusters, certify_threshold
from locuscore._laws.calibration import MarginalCalibration, coverage_p_value
from locuscore._shared import cluster_coverage
from locuscore._shared.cluster_coverage import cluster_p_values, permutation_p_value

ETA, DELTA, REPEATS = 0.1, 0.1, repeated(100)


def shared_fate(rng):
    """Sixty clusters of 20 to 60 rows, bad or good as a whole; the score says nothing."""
    size = rng.integers(20, 61, size=60)
    code = np.repeat(np.arange(60), size)
    is_bad = rng.uniform(size=60) < ETA + 0.001
    return rng.uniform(size=len(code)), is_bad[code].astype(float), code


def by_score(rng):
    """Below 0.5 no row is bad, above it a fifth of the clusters: 0.101 of all rows."""
    size = rng.integers(1, 21, size=60)
    code = np.repeat(np.arange(60), size)
    score = rng.uniform(size=len(code))
    fate = rng.uniform(size=60)[code]
    return score, (fate < np.where(score < 0.5, 0.0, 0.202)).astype(float), code


def test_certificates_of_clusters_are_rarely_wrong(rng):
    wrong, wrong_by_rows = 0, 0
    for _ in range(REPEATS):
        score, losses, code = shared_fate(rng)
        settings = {"reference": [1.0]}
        rule = certify_clusters(score, losses, code, 0.5, ETA, DELTA, **settings)
        wrong += rule.threshold > -np.inf
        rows = certify_threshold(score, losses, 0.5, ETA, DELTA, **settings)
        wrong_by_rows += rows.threshold > -np.inf
    assert_binomial(wrong, REPEATS, DELTA, "greater")
    with pytest.raises(AssertionError):
        assert_binomial(wrong_by_rows, REPEATS, DELTA, "greater")


def test_sequences_end_where_the_risk_is_too_high(rng):
    """Up to 0.5 thresholds are certified; with all rows eta is broken."""
    wrong = right = 0
    for _ in range(REPEATS):
        score, losses, code = by_score(rng)
        settings = {"reference": [0.5, 1.0], "starts": [0.5]}
        rule = certify_clusters(score, losses, code, 0.5, ETA, DELTA, **settings)
        wrong += rule.threshold == 1.0
        right += rule.threshold == 0.5
    assert right > REPEATS / 2
    assert_binomial(wrong, REPEATS, DELTA, "greater")


# Coverage, by clusters that change places


def clustered_tails(rng, n_clusters):
    """Uniform tails, but those of one cluster are alike."""
    size = rng.integers(1, 21, size=n_clusters)
    code = np.repeat(np.arange(n_clusters), size)
    centre = rng.uniform(size=n_clusters)[code]
    return (centre + 0.2 * rng.uniform(size=len(code))) % 1.0, code


def test_the_coverage_of_clusters_cries_wolf_rarely_and_that_of_rows_often(rng, monkeypatch):
    monkeypatch.setattr(cluster_coverage, "MOST_CHOICES", 199)
    monkeypatch.setattr(cluster_coverage, "FEWEST_CHOICES", 199)
    level, alarms, alarms_by_rows = 0.05, 0, 0
    for seed in range(REPEATS):
        (tails, code), (new, new_code) = clustered_tails(rng, 30), clustered_tails(rng, 30)
        alarms += cluster_p_values((tails, new), (code, new_code), 0.2, seed=seed)[0] <= level
        rows = MarginalCalibration(np.sort(tails))
        covered = int(np.sum(new >= rows.level(0.2)))
        alarms_by_rows += coverage_p_value(rows.n, 0.2, len(new), covered) <= level
    assert_binomial(alarms, REPEATS, level, "greater")
    with pytest.raises(AssertionError):
        assert_binomial(alarms_by_rows, REPEATS, level, "greater")


def test_all_choices_of_few_clusters_add_up():
    """Of the ten choices of two clusters among five, the p-value counts those as large."""
    values = np.array([0.0, 0.1, 0.2, 0.5, 0.9])
    sums = sorted(values[i] + values[j] for i in range(5) for j in range(i))
    for i in range(5):
        for j in range(i):
            new = values[[i, j]]
            exact = np.mean(np.array(sums) >= new.sum() - 1e-12)
            found = permutation_p_value(np.delete(values, [i, j]), new, seed=0)
            assert abs(found - exact) < 0.02


def test_new_clusters_that_are_worse_are_noticed(rng):
    tails, code = clustered_tails(rng, 60)
    new, new_code = clustered_tails(rng, 60)
    p, doubled = cluster_p_values((tails, new**3), (code, new_code), 0.1)
    assert p < 0.01
    assert doubled < 0.05
    by_rows = cluster_p_values((tails, new**3), (code, new_code), 0.1, by_rows=True)[0]
    assert by_rows < 0.01
    # Leaving out what was missed can only raise the p-value.
    few = rng.uniform(size=len(new)) < 0.2
    assert p < cluster_p_values((tails, new**3), (code, new_code), 0.1, counted=few)[0]
