"""Reports of scorers that are calibrated by weights: tested if these are known."""

import numpy as np
import pytest

from engines_for_tests import quick
from helpers import assert_close, raises
from locuscore import Scorer
from locuscore._shared.weighted_coverage import weighted_p_values
from locuscore.calibration import Shifted
from locuscore.report import Batch, _pictures, report, report_batches

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.extra

ALPHAS = (0.1, 0.3)


@pytest.fixture(autouse=True)
def no_forest(monkeypatch):
    """Most of the time of a small report goes into a curve that is not looked at here."""
    monkeypatch.setattr(_pictures, "outlier_score", lambda features, seed: features[:, 0])


def weight(X):
    return 0.2 + np.asarray(X)[:, 0] ** 2


def rows(n, seed, *, is_target=False, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n * (4 if is_target else 1), 2))
    if is_target:
        X = X[rng.uniform(size=len(X)) < weight(X) / 1.2][:n]
    return X, scale * (0.2 + X[:, 0]) * rng.normal(size=len(X))


@pytest.fixture(scope="module")
def known():
    X, y = rows(800, 0)
    locus = quick(calibration=Shifted(weight(X))).fit(X, y)
    return Scorer(locus, locus.tau_rule(1.0, 0.1), ALPHAS)


def test_weights_of_new_rows_are_passed_and_claims_tested(known):
    X, y = rows(600, 1, is_target=True)
    found = report(known, X, y, weights=weight(X)).summary
    rule, *coverage = found["verdict"]["claims"]
    assert [claim["verdict"] for claim in (rule, *coverage)] == ["kept"] * 3
    locus, z = known.locus, known.locus.losses(X, y)
    for alpha, claim in zip(ALPHAS, coverage, strict=True):
        above = z > locus.loss_bound(X, alpha, weights=weight(X))
        assert claim["observed"] == above.mean()
        both = (locus.tails_, locus.loss_dist(X).tail(z)), (locus.calibration_.weights, weight(X))
        assert_close(claim["p_value"], weighted_p_values(*both, alpha, above)[0])
        assert "weighted calibration rows" in claim["sentence"]
    w, cut = weight(X), [slice(i, i + 150) for i in range(0, 600, 150)]
    parts = [Batch(X[part], y[part], weights=w[part]) for part in cut]
    again = report_batches(known, parts).summary["verdict"]["claims"]
    assert [c["p_value"] for c in again[1:]] == [c["p_value"] for c in coverage]


def test_rows_that_break_the_promise_contradict_it(known):
    X, y = rows(600, 1, is_target=True, scale=3.0)
    found = report(known, X, y, weights=weight(X))
    assert found.is_broken
    coverage = found.summary["verdict"]["claims"][1:]
    assert [claim["verdict"] for claim in coverage] == ["contradicted"] * 2


def test_weights_may_be_a_column_or_missing(known):
    X, y = rows(300, 1, is_target=True)
    with raises(ValueError, "weights="):
        report(known, X, y)
    with raises(ValueError, "one number per row", "300"):
        report(known, X, y, weights=weight(X)[:10])
    X, y = rows(400, 0)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(w=weight(X))
    locus = quick(lambda X: np.zeros(len(X)), calibration=Shifted(weight(X))).fit(frame, y)
    new, y = rows(300, 2, is_target=True)
    frame = pd.DataFrame(new, columns=["a", "b"]).assign(w=weight(new))
    one, other = (report(Scorer(locus), frame, y, weights=w) for w in ("w", weight(new)))
    assert one.summary["verdict"] == other.summary["verdict"]


def test_a_function_is_tested_and_learned_weights_are_not():
    X, y = rows(800, 0)
    new, y_new = rows(300, 1, is_target=True)
    told = Scorer(quick(calibration=Shifted(weight)).fit(X, y))
    assert report(told, new, y_new).summary["verdict"]["claims"][0]["verdict"] == "kept"
    with raises(ValueError, "weights="):
        report(told, new, y_new, weights=weight(new))
    learned = Scorer(quick(calibration=Shifted()).fit(X, y, target=rows(300, 3, is_target=True)[0]))
    (claim,) = report(learned, new, y_new).summary["verdict"]["claims"]
    assert claim["verdict"] == "not tested"
    assert "error of the learned weights is not known" in claim["sentence"]
