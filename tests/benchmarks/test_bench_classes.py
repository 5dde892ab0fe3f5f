"""The benchmark of classifiers measures what it says, on small made-up tables."""

import numpy as np
import pytest

from helpers import assert_close

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def table():
    from benchmarks.classes.tables import Table

    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3))
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=600)), -1, 1).astype(int) + 1
    return Table(X, y, is_ordered=True)


@pytest.fixture(scope="module", params=["0-1", "cost"])
def task(request, table):
    from benchmarks.classes.protocol import classifier, make_task

    g = classifier("logistic", 0)
    return make_task(f"winered logistic {request.param}", 0, table, g, request.param)


def test_rare_classes_join_their_neighbours():
    from benchmarks.classes.tables import merged

    y = np.repeat([3, 4, 5, 6, 7, 8], [10, 53, 99, 20, 80, 18])
    codes = merged(y, 30)
    # 3 joins 4, 8 joins 7, and 6 the rarer of its neighbours, which is 7 with 8 by then.
    np.testing.assert_array_equal(np.bincount(codes), [63, 99, 118])
    assert (np.diff(codes) >= 0).all()


def test_costs_follow_their_rule():
    from benchmarks.classes.tables import Table, cost_matrix

    X = np.zeros((6, 1))
    ordered = cost_matrix(Table(X, np.array([0, 1, 2, 0, 1, 2]), is_ordered=True))
    assert_close(4 * ordered, [[0, 2, 4], [1, 0, 2], [2, 1, 0]])
    rare = cost_matrix(Table(X, np.array([0, 0, 0, 0, 1, 1])))
    assert_close(rare, [[0, 0.2], [1, 0]])
    drawn = cost_matrix(Table(X, np.arange(6)))
    assert drawn.max() == 1
    assert (np.diag(drawn) == 0).all()
    assert np.sum(drawn > 0) == 30
    np.testing.assert_array_equal(drawn, cost_matrix(Table(X, np.arange(6))))


def test_parts_are_disjoint_and_losses_are_those_of_the_matrix(task):
    assert [len(task.train_x), len(task.labelled.y), len(task.test.y)] == [240, 240, 120]
    together = np.vstack([task.train_x, task.labelled.x, task.test.x])
    assert len(np.unique(together, axis=0)) == 600
    part = task.test
    by_hand = [task.matrix[true, said] for true, said in zip(part.y, part.said, strict=True)]
    np.testing.assert_array_equal(part.z, by_hand)
    if task.loss == "0-1":
        np.testing.assert_array_equal(part.z, part.y != part.said)
        assert_close(task.expected(part.p), 1 - part.p.max(axis=1), atol=1e-12)


def test_errors_among_the_accepted_by_hand():
    from benchmarks.classes.protocol import mean_losses

    values, z = np.array([0.3, 0.1, 0.2, 0.2]), np.array([4.0, 0.0, 1.0, 2.0])
    # The two in the middle tie: either may come first.
    assert_close(mean_losses(values, z, np.arange(1, 5)), [0, 0.75, 1, 1.75], rtol=1e-12)
    assert_close(mean_losses(np.zeros(4), z, np.array([1, 3])), [1.75, 1.75], rtol=1e-12)


def test_the_area_is_that_of_the_metrics_with_a_0_1_loss(task):
    from benchmarks.classes.protocol import Scores, measure
    from locuscore.metrics import exceedance_area

    values = np.round(task.test.p[:, 0], 1)
    record = measure(task, "margin", Scores(values))
    assert_close(record["curve"][6], record["error70"], atol=1e-6)
    assert_close(record["curve"][-1], record["mean_loss"], atol=1e-6)
    if task.loss == "0-1":
        assert_close(record["aurc"], exceedance_area(values, task.test.z, 0.0), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_every_rival_gives_a_record(task, monkeypatch):
    from benchmarks.classes import rivals
    from benchmarks.classes.methods import METHODS, methods_of
    from benchmarks.classes.protocol import measure

    monkeypatch.setitem(rivals.BOOSTING, "max_iter", 10)
    names = [name for name in methods_of(task.loss) if METHODS[name].is_available]
    assert ("expected cost" in names) == (task.loss == "cost")
    for name in names:
        if METHODS[name].group not in ("ours", "former", "opinion"):
            record = measure(task, name, METHODS[name].run(task))
            assert 0 <= record["error70"] <= 1, name
            if "anomaly" not in name:
                assert record["aurc"] < record["mean_loss"], name


def test_our_own_ranks_by_the_expected_loss_and_has_a_bound(task):
    from benchmarks.classes.methods import expected_loss, locus
    from benchmarks.classes.protocol import measure

    record = measure(task, "Locus", locus(task))
    assert record["coverage"] > 0.8
    assert record["error70"] < record["mean_loss"]
    if task.loss == "cost":
        fitted = task.cache["locus"]
        levels = (np.arange(2_000) + 0.5) / 2_000
        law = fitted.loss_dist(task.test.x[:5]).estimate()
        quantiles = np.column_stack([law.isf(np.full(5, level)) for level in levels])
        assert_close(expected_loss(fitted, task)[:5], quantiles.mean(axis=1), atol=1e-3)


def test_a_rival_that_is_shown_the_opinion_has_its_rows_in_their_order(task):
    from dataclasses import replace

    from benchmarks.classes.methods import shown_opinion
    from benchmarks.classes.protocol import Scores

    class Opinion:
        """Stands for a fitted Locus whose one signal is the first feature."""

        order = np.random.default_rng(0).permutation(240)
        fit_rows_, calibration_rows_ = order[:180], order[180:]
        fit_signals_ = task.labelled.x[fit_rows_, :1]

        def row_signals(self, X):
            return X[:, :1]

    def learn(task, columns):
        labelled, test = columns
        np.testing.assert_array_equal(labelled[:, 0], task.labelled.x[:, 0])
        np.testing.assert_array_equal(labelled[:, 1:], task.labelled.p)
        return Scores(test[:, 0])

    shown = shown_opinion(replace(task, cache={"locus": Opinion()}), learn)
    np.testing.assert_array_equal(shown.values, task.test.x[:, 0])


def test_the_rules_of_scikit_fallback_are_the_orders_they_are_said_to_be(task):
    skfb = pytest.importorskip("skfb.estimators")
    from benchmarks.classes.rivals import largest_probability, margin

    for score, option in ((largest_probability, "threshold"), (margin, "ambiguity_threshold")):
        values = score(task).values
        limit = float(-np.median(values))
        others = {"threshold": 0.0} if option != "threshold" else {}
        rule = skfb.ThresholdFallbackClassifier(task.g, **{option: limit, **others})
        rejected = rule.predict(task.test.x).get_dense_fallback_mask()
        np.testing.assert_array_equal(rejected, values > -limit)


def made_up(n_seeds=6, seed=0):
    """Records of three methods on two datasets; "margin" is the best on one of them."""
    rng = np.random.default_rng(seed)
    levels = {"Locus": 0.10, "largest probability": 0.15, "margin": 0.14, "forest mean loss++": 0.1}
    out = []
    for dataset in ("cancer forest 0-1", "cancer logistic 0-1"):
        for number in range(n_seeds):
            noise = 0.002 * rng.normal()
            for method, level in levels.items():
                better = method == "margin" and "logistic" in dataset
                error = (0.05 if better else level) + noise + 0.001 * rng.normal()
                out.append(
                    {
                        "dataset": dataset,
                        "seed": number,
                        "method": method,
                        "error70": error,
                        "aurc": error / 2,
                        "mean_loss": 0.2,
                        "coverage": 0.91,
                        "mean_bound": 0.5,
                        "fit_seconds": 1.0,
                        "score_seconds": 0.1,
                    }
                )
    return out


def test_the_corrected_test_by_hand():
    from scipy.stats import t

    from benchmarks.classes.summary import corrected_test

    gap = np.array([0.01, -0.03, 0.02, 0.04])
    error = np.sqrt((1 / 4 + 1 / 4) * np.var(gap, ddof=1))
    assert_close(corrected_test(gap), [error, 2 * t.sf(0.01 / error, 3)], rtol=1e-12)
    assert_close(corrected_test(-gap), corrected_test(gap), rtol=1e-12)
    assert corrected_test(np.zeros(5)) == (0.0, 1.0)
    assert corrected_test(np.full(5, 0.5)) == (0.0, 0.0)
    assert np.isnan(corrected_test(gap[:2])).all()


def test_only_seeds_that_all_methods_have_are_compared():
    from benchmarks.classes.summary import Summary

    found = [r for r in made_up() if (r["method"], r["seed"]) != ("margin", 5)]
    summary = Summary(found, "0-1")
    assert set(summary.n_seeds.values()) == {5}
    assert Summary(found, "0-1", ("opinion",)).rivals == ["largest probability", "margin"]
    without = Summary(found, "0-1", ("g alone",))
    assert set(without.n_seeds.values()) == {6}
    counts = {one.rival: one.n_seeds for one in summary.differences("error70")}
    assert counts == {"largest probability": 6, "margin": 5, "forest mean loss++": 6}
    assert not Summary(found, "cost").datasets


def test_a_better_rival_is_found_and_said():
    from benchmarks.classes.report import build
    from benchmarks.classes.summary import Summary

    found = made_up()
    sure = [one for one in Summary(found, "0-1").differences("error70") if one.holm < 0.05]
    lost = [(one.dataset, one.rival) for one in sure if one.mean < 0]
    assert lost == [("cancer logistic 0-1", "margin")]
    page = "\n".join(build(found))
    section = page.partition("### Where another method is better, 0-1")[2].partition("###")[0]
    assert "| cancer | logistic | margin |" in section
    assert "| cancer | forest |" not in section


def test_the_target_is_against_the_best_mean():
    from benchmarks.classes.report import target
    from benchmarks.classes.summary import Summary

    summary = Summary(made_up(), "0-1")
    lines = target(made_up(), [summary])
    # Near 10 for Locus and its borrower, and near (14 + 5) / 2 for the margin.
    first, last = lines[4], lines[-2]
    assert (
        "| mean | scores of g and of packages | 6 | 9.982 | margin | 9.484 | +5.3 % | no |" in first
    )
    # All rows have a mean loss of 0.2.
    assert_close(summary.shares_left()["Locus"], 0.09982 / 0.2, rtol=1e-4)
    assert "| share left | also those shown our opinion, ++ | 6 | 49.9" in last


def test_missing_tasks_leave_out_methods_without_costs(tmp_path):
    from benchmarks.classes.run import missing

    names = ["cancer forest 0-1", "cancer forest cost"]
    tasks = missing(names, ["margin", "expected cost"], 2, tmp_path)
    assert [(task.dataset, task.seed, task.methods) for task in tasks] == [
        ("cancer forest 0-1", 0, ("margin",)),
        ("cancer forest cost", 0, ("margin", "expected cost")),
        ("cancer forest 0-1", 1, ("margin",)),
        ("cancer forest cost", 1, ("margin", "expected cost")),
    ]
