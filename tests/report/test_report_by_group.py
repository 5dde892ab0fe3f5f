"""Claims of a calibration by group are tested in every group."""

import numpy as np
import pytest

from locuscore import Locus, Scorer
from locuscore._laws.calibration import coverage_p_value
from locuscore.calibration import ByGroup, CrossFit
from locuscore.engines import Scale
from locuscore.report import report

ALPHAS = (0.1, 0.3)


def rows(rng, n, worse=1.0):
    """Rows of three groups; the losses of the last one are larger by a factor."""
    X = np.column_stack([rng.uniform(size=n), rng.integers(3, size=n)])
    return X, (1 + X[:, 0]) * np.where(X[:, 1] == 2, worse, 1.0) * rng.normal(size=n)


def scorer_of(rng, calibration):
    X, y = rows(rng, 1800)
    size = None if isinstance(calibration, CrossFit) else 0.5
    locus = Locus(
        lambda X: np.zeros(len(X)),
        engine=Scale(),
        calibration=calibration,
        calibration_size=size,
        random_state=0,
    ).fit(X, y)
    return Scorer(locus, locus.tau_rule(2.0, 0.1), alphas=ALPHAS)


def claims_of(scorer, X, y):
    return report(scorer, X, y, random_state=0).summary["verdict"]


def test_the_smallest_p_value_of_the_groups_counts(rng):
    scorer = scorer_of(rng, ByGroup(1))
    X, y = rows(rng, 1200)
    found = claims_of(scorer, X, y)
    assert found["kind"] == "good"
    calibration, locus = scorer.locus.calibration_, scorer.locus
    joint, *coverage = found["claims"]
    for claim, alpha in zip(coverage, ALPHAS, strict=True):
        within = np.abs(y) <= locus.loss_bound(X, alpha)
        p_values = [
            coverage_p_value(
                int(np.sum(calibration.codes == code)),
                alpha,
                int(np.sum(X[:, 1] == group)),
                int(within[X[:, 1] == group].sum()),
            )
            for code, group in enumerate(calibration.groups.names)
        ]
        assert claim["p_value"] == pytest.approx(min(1.0, 3 * min(p_values)), rel=1e-9)
        assert claim["verdict"] == "kept"
        assert "3 groups" in claim["sentence"]
    assert joint["kind"] == "joint"
    assert joint["p_value"] is not None


def test_one_group_that_breaks_its_promise_is_found(rng):
    scorer = scorer_of(rng, ByGroup(1))
    X, y = rows(rng, 1200, worse=1.7)
    found = claims_of(scorer, X, y)
    assert found["kind"] == "bad"
    assert found["claims"][1]["verdict"] == "contradicted"


def test_what_has_no_exact_test_says_so(rng):
    found = claims_of(scorer_of(rng, CrossFit(3)), *rows(rng, 600))
    assert found["kind"] == "plain"
    assert "no exact test" in found["sentence"]
    assert {claim["verdict"] for claim in found["claims"]} == {"not tested"}
