"""The verdict of a report: claims that hold are contradicted in one case in twenty at most."""

import functools

import numpy as np
import pytest

from helpers import assert_binomial
from locuscore import tune_threshold
from locuscore._laws.calibration import conformal_rank
from locuscore.report._claims import Accepted, coverage_claim, rule_claim
from locuscore.report._verdict import ERROR, judge
from report_data import calibration_of


@pytest.fixture(scope="module")
def judged():
    """Verdicts on claims that all hold, the certificate as barely as can be; 2,000 times."""
    rng = np.random.default_rng(14)
    n2, n, eta = 200, 500, 0.1
    rule = tune_threshold([0.1, 0.9], [0, 1], 0.5, eta)
    coverage, found, calibration = functools.cache(coverage_claim), [], calibration_of(n2)
    for _ in range(2000):
        tails = np.sort(rng.uniform(size=n2))[::-1]
        new = rng.uniform(size=n)
        claims = [
            coverage(
                calibration, alpha, n, int(np.sum(new >= tails[conformal_rank(n2, alpha) - 1]))
            )
            for alpha in (0.1, 0.05)
        ]
        claims.append(rule_claim(rule, Accepted(n, n, int(rng.binomial(n, eta))), calibration))
        found.append(judge(claims)["claims"])
    return found


def test_claims_that_hold_are_contradicted_in_one_case_in_twenty_at_most(judged):
    wrong = sum("contradicted" in [part["verdict"] for part in claims] for claims in judged)
    assert_binomial(wrong, len(judged), ERROR, "greater")
    assert wrong > 0.3 * ERROR * len(judged)  # and the tests have power


def test_without_sharing_the_level_too_many_would_be_contradicted(judged):
    wrong = sum(min(part["p_value"] for part in claims) <= ERROR for claims in judged)
    with pytest.raises(AssertionError):
        assert_binomial(wrong, len(judged), ERROR, "greater")
