"""scikit-learn's own checks of an estimator, all of them."""

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from engines_for_tests import ConstantNormal
from locuscore import KNNGamma, Locus
from locuscore.engines import Forest

# Checks that make no sense for a wrapper of a fixed predictor, with the reason. None is left.
EXPECTED_FAILURES: dict[str, str] = {}
# Runs only where scipy was told to accept other libraries' arrays before it was imported.
LEFT_OUT = {"check_array_api_input"}


def row_mean(X):
    dense = X.toarray() if sparse.issparse(X) else X
    return np.nan_to_num(np.asarray(dense, dtype=float)).mean(axis=1)


def outcomes(engine):
    results = check_estimator(
        Locus(row_mean, engine=engine, random_state=0), on_fail=None, on_skip=None
    )
    by_status = {}
    for result in results:
        by_status.setdefault(result["status"], {})[result["check_name"]] = result["exception"]
    return by_status


def test_every_check_passes():
    for engine in (ConstantNormal(), Forest(n_trees=5)):
        found = outcomes(engine)
        failed = found.get("failed", {})
        assert set(failed) == set(EXPECTED_FAILURES), failed
        assert set(found.get("skipped", {})) <= LEFT_OUT
        assert len(found["passed"]) > 30


def test_the_checks_would_notice_a_fault(monkeypatch):
    monkeypatch.setattr(Locus, "predict", lambda self, X: np.zeros(len(X)))
    assert "check_estimators_unfitted" in outcomes(ConstantNormal())["failed"]


def test_tags_say_what_is_accepted():
    tags = get_tags(Locus(row_mean))
    assert tags.target_tags.required
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    assert tags.input_tags.categorical
    assert tags.input_tags.string


def test_the_gamma_model_has_parameters():
    gamma = KNNGamma(k=7, slope=2.0)
    assert clone(gamma).get_params() == gamma.get_params()
    assert gamma.set_params(k=3).k == 3
