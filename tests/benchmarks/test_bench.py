"""The benchmark measures what it says, on a small made-up dataset."""

import numpy as np
import pytest

from locuscore import Locus, Score, match_acceptance
from locuscore.engines import Forest, Scale

pytestmark = pytest.mark.extra
CHEAP = 2.0  # seconds per 1,000 rows: methods that a test can afford


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1000, 3))
    return X, X[:, 0] + X[:, 1] * rng.normal(size=1000)


@pytest.fixture(scope="module")
def task(data):
    from benchmarks.paper.protocol import make_task

    return make_task("concrete", 0, *data, None, 20)


def test_parts_are_disjoint_and_standardised_on_the_train_part(task):
    sizes = [len(p.y) for p in (task.train, task.calibration, task.validation, task.test)]
    assert sizes == [400, 400, 100, 100]
    assert abs(task.train.y.mean()) < 1e-12
    np.testing.assert_allclose(task.train.x.std(axis=0), 1)
    together = np.vstack([p.x for p in (task.train, task.calibration, task.validation, task.test)])
    assert len(np.unique(together, axis=0)) == 1000
    halves = task.split("x")
    assert [len(part.y) for part in halves] == [200, 200]
    assert len(np.unique(np.vstack([part.x for part in halves]), axis=0)) == 400


@pytest.mark.parametrize("n", [150, 399, 5000])
def test_the_split_of_our_own_is_the_library_default(n, rng):
    from benchmarks.paper.protocol import default_n2

    rows = rng.uniform(size=(n, 2))
    locus = Locus(None, engine=Scale(), random_state=0).fit_losses(rows, rows[:, 0])
    assert len(locus.tails_) == default_n2(n)


def test_the_default_method_is_the_library_default(data):
    """With one tree the mean over trees is g(x) to the last bit, and so are the losses."""
    from sklearn.ensemble import RandomForestRegressor

    from benchmarks.paper import methods
    from benchmarks.paper.protocol import make_task

    task = make_task("concrete", 0, *data, None, 1)
    scores = methods.METHODS["Locus"].run(task)
    g = RandomForestRegressor(1, random_state=0).fit(task.train.x, task.train.y)
    direct = Locus(g, calibration_size=task.d2_ours, random_state=0)
    direct.fit(task.calibration.x, task.calibration.y)
    np.testing.assert_allclose(scores.bound[1], direct.loss_bound(task.test.x, 0.1), rtol=1e-12)
    tails = [direct.scores(task.validation.x, Score.tail(tau)) for tau in task.taus]
    np.testing.assert_allclose(scores.exceedance[0], np.column_stack(tails), rtol=1e-12)


def test_tail_probabilities_order_rows_as_exceedances_do_but_tie_fewer(task):
    from benchmarks.paper.methods import locus

    fine, coarse = (
        locus(task, lambda: Forest(random_state=0), score=score).exceedance[1][:, 0]
        for score in (Score.tail, Score.exceedance)
    )
    assert (np.diff(coarse[np.argsort(fine, kind="stable")]) >= 0).all()
    assert len(np.unique(fine)) > len(np.unique(coarse))


def test_a_shared_engine_is_fitted_once_and_changes_nothing(task):
    from benchmarks.paper.methods import Shared, locus

    shared = [locus(task, Forest, "x", gamma, shared="toy") for gamma in (False, True)]
    assert isinstance(task.cache["toy"], Shared)
    assert task.cache["toy"].saved >= task.cache["toy"].fit_seconds
    for gamma, scores in zip((False, True), shared, strict=True):
        alone = locus(task, lambda: Forest(random_state=0), "x", gamma)
        np.testing.assert_array_equal(scores.bound[1], alone.bound[1])
        np.testing.assert_array_equal(scores.exceedance[1], alone.exceedance[1])


@pytest.mark.filterwarnings("ignore")
def test_every_cheap_method_gives_a_record(task, monkeypatch):
    from benchmarks.paper import baselines
    from benchmarks.paper.methods import METHODS
    from benchmarks.paper.protocol import measure

    monkeypatch.setattr(baselines, "EPOCHS", 2)
    wanted = [m for m in METHODS.values() if m.available and m.seconds <= CHEAP]
    assert len(wanted) >= 12
    for method in wanted:
        record = measure(task, method.name, method.run(task))
        assert 0 <= record["lambda_rate"] <= 1
        assert 0.4 <= record["lambda_acceptance"] <= 1
        assert len(record["lambda_curve"]) == 19
        assert np.isclose(record["lambda_curve"][13], record["lambda_tail70"], atol=1e-4)
        assert ("coverage" in record) == ("tau_rate" in record)


def test_negative_variances_are_counted_and_become_zero(task, monkeypatch):
    from benchmarks.paper import baselines

    pytest.importorskip("torch")
    monkeypatch.setattr(baselines, "fit_network", lambda x, y, seed: lambda rows: rows[:, 0])
    scores = baselines.variance_network(task)
    x = task.test.x[:, 0]
    assert scores.extra["negative_variances"] == np.sum(x - x**2 < 0)
    np.testing.assert_array_equal(scores.bound[1], np.maximum(x - x**2, 0))


def test_the_tuned_rate_takes_its_threshold_from_the_validation_part(task):
    from benchmarks.paper.protocol import Scores, measure

    rng = np.random.default_rng(1)
    validation, test = rng.uniform(size=100), rng.uniform(size=100)
    record = measure(task, "spread of g", Scores((validation, test)))
    threshold = match_acceptance(validation, 0.7).threshold
    kept = test <= threshold
    tau = np.quantile(task.test.z, 0.7)
    assert record["lambda_acceptance"] == kept.mean()
    assert record["lambda_rate"] == np.mean(task.test.z[kept] > tau)


def test_tied_scores_share_their_rate():
    from benchmarks.paper.protocol import tail_rates

    z = np.array([0.0, 1.0, 0.0, 1.0])
    assert tail_rates(np.zeros(4), z, 0.5, [0.25, 0.5, 1.0]) == [0.5, 0.5, 0.5]
    assert tail_rates(z, z, 0.5, [0.5, 0.75]) == [0.0, 1 / 3]


def test_stand_ins_are_never_the_sets_they_stand_for():
    from benchmarks import datasets

    assert datasets.label("meps21") == "meps21 (stand-in for meps19)"
    assert not {"meps21", "kin40k"} & set(datasets.PAPER)
    with pytest.raises(FileNotFoundError, match="published as"):
        datasets.load("wec")
