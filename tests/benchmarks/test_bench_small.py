"""The benchmark of small samples, on a made-up table."""

import numpy as np
import pytest

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def problem():
    from benchmarks.small.run import make_problem

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(260, 3))
    y = X[:, 0] + X[:, 1] * rng.normal(size=260)
    return make_problem(X, y, n_for_g=80, n=60, seed=0, n_trees=20)


def test_parts_are_disjoint_and_have_the_losses_of_g(problem):
    parts = problem.labelled, problem.test
    assert [len(part.z) for part in parts] == [60, 120]
    assert len(np.unique(np.vstack([part.x for part in parts]), axis=0)) == 180
    for part in parts:
        np.testing.assert_allclose(part.z, np.abs(part.y - problem.g.predict(part.x)))
        assert part.signals.shape[1] == 5


def test_tables_leave_rows_to_test():
    from benchmarks.small.tables import DATASETS, FEWEST_TO_TEST, TABLES

    for name, n in DATASETS.values():
        table = TABLES[name]
        assert table.n_rows - n - table.n_for_g(n) >= FEWEST_TO_TEST
    assert not TABLES["Hitters"].offers(200)


@pytest.mark.filterwarnings("ignore")
def test_every_method_bounds_every_row(problem):
    from benchmarks.small.methods import ALPHAS, METHODS
    from benchmarks.small.run import measure

    pytest.importorskip("quantile_forest", reason="a rival; install the extra 'bench'")
    for method in METHODS.values():
        bounds = method(problem)
        assert [bound.shape for bound in bounds] == [(120,)] * len(ALPHAS)
        record = measure(problem, bounds)
        assert record["coverage_0.1"] >= 0.75
        assert 0 < record["pinball_0.1"] < 1
        assert 0 < record["pinball_0.2"] < 1


def test_the_constant_bound_is_a_conformal_quantile_and_the_interval_of_mapie(problem):
    from benchmarks.small.methods import constant_bound, mapie_split

    z = np.sort(problem.labelled.z)
    bounds = constant_bound(problem)
    assert [bound[0] for bound in bounds] == [z[54], z[48]]  # ranks 55 of 54.9 and 49 of 48.8
    np.testing.assert_allclose(mapie_split(problem), bounds)


def test_equal_bounds_keep_rows_at_random(problem):
    from benchmarks.small.run import measure

    one = np.ones(120)
    nearly = one + 1e-15 * np.arange(120)
    record = measure(problem, [nearly, one])
    assert record["tail70"] == pytest.approx(0.3, abs=1 / 120)


def records_of(dataset, losses):
    from benchmarks.small.methods import ALPHAS

    for method, values in losses.items():
        for seed, value in enumerate(values):
            record = {"dataset": dataset, "seed": seed, "method": method}
            record |= {"tail70": 0.2, "seconds": 0.1}
            for alpha in ALPHAS:
                record |= {f"pinball_{alpha}": value}
                record |= {f"coverage_{alpha}": 0.9, f"bound_{alpha}": 2.0}
            yield record


def test_the_page_compares_on_shared_seeds(tmp_path):
    from benchmarks.paper import records
    from benchmarks.small import report

    losses = {"Locus": [0.2, 0.1, 0.9], "constant bound": [0.2, 0.2]}
    for record in records_of("Auto 60", losses):
        records.append(record, tmp_path)
    report.write(tmp_path, tmp_path / "page.md")
    lines = (tmp_path / "page.md").read_text().splitlines()
    assert "## 60 labelled rows" in lines
    assert "## 100 labelled rows" not in lines
    assert any(line.startswith("| Locus | 1.0 | 0.1500 | 0.900 | 2.00 |") for line in lines)
    assert any(line.startswith("| Auto | 0.750 ± 0.1") for line in lines)


def test_an_infinite_bound_is_ranked_last(tmp_path):
    from benchmarks.paper import records
    from benchmarks.small import report

    losses = {"Locus": [float("inf")], "constant bound": [0.2]}
    for record in records_of("Auto 60", losses):
        records.append(record, tmp_path)
    means = report.Means(records.read(tmp_path))
    assert means.values("Auto 60", "Locus", "pinball_0.1").tolist() == [np.inf]
