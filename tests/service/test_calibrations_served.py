"""Every kind of calibration scores the same in memory, from a file, in a service and as sent."""

import pickle

import numpy as np
import pytest

from calibrations_for_tests import CALIBRATIONS, calibrated
from helpers import raises
from locuscore import Scorer
from locuscore.calibration import ByGroup
from service_for_tests import assert_scores, frame, frame_scorer, json_rows, running

pytestmark = pytest.mark.extra


def scorer_of(name):
    X, y = frame(300)
    locus = calibrated(name, X, y, frame_scorer().locus.predictor_)
    return Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.2, 0.3))


def told(name):
    """What a file cannot hold of a calibration."""
    return {"weights": CALIBRATIONS[name][0]().weights} if name == "weights" else {}


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_the_same_scores_everywhere(name, tmp_path):
    import pyarrow as pa
    from pyspark import cloudpickle

    scorer, (X, _) = scorer_of(name), frame(40, seed=1)
    expected, path = scorer(X), tmp_path / "x.locus"
    assert np.isfinite(expected["bound_0.3"]).any()
    scorer.save(path)
    loaded = Scorer.load(path, **told(name))
    assert loaded.card == scorer.card
    with running(loaded) as client:
        assert_scores(client.post("/score", json={"rows": json_rows(X)}).json(), expected)
    # As Spark sends it, and as it scores: in batches of Arrow.
    sent = pickle.loads(cloudpickle.dumps(scorer.without_rows()))
    batches = pa.Table.from_pandas(X).to_batches(max_chunksize=15)
    scored = pa.Table.from_batches([sent(batch) for batch in batches]).to_pandas()
    for column in expected.columns:
        np.testing.assert_allclose(scored[column], expected[column], rtol=1e-9, atol=0)


def test_labels_that_rows_do_not_have_are_for_python_alone():
    X, y = frame(300)
    scorer = frame_scorer()
    labels = X["town"].to_numpy()
    locus = scorer.locus.__class__(
        scorer.locus.predictor_, calibration=ByGroup(labels), random_state=0
    ).fit(X, y)
    given = Scorer(locus, alphas=(0.2,))
    assert given.asks == ("groups",)
    assert np.isfinite(given(X, groups=labels)["bound_0.2"]).all()
    with raises(ValueError, "groups=", "column"), running(given):
        pass
