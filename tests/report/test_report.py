"""The summary of a report against slow transcriptions of what each figure means."""

import datetime
import itertools
import json

import numpy as np
import pytest
from scipy.stats import betabinom, binomtest
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from helpers import assert_close, raises
from locuscore import (
    FlagRule,
    Locus,
    LocusWarning,
    Score,
    Scorer,
    certify_groups,
    certify_mean_loss,
    certify_threshold_holm,
    cost,
    match_acceptance,
    operating_curve,
)
from locuscore._laws.calibration import conformal_rank, coverage_law
from locuscore.draws import ShapeDraws
from locuscore.engines import Forest, Gaussian
from locuscore.report import Batch, Report, _summary, report, report_batches
from locuscore.report._attribution import shapley
from locuscore.report._grid import ALPHAS
from locuscore.report._parts import COLUMNS, MOST_GROUPS, PartCounts
from locuscore.report._words import coverage, pit_sentence
from report_data import calibration_of

DAY = datetime.date(2026, 1, 2)


def rows(n, seed):
    """Noise that grows with the second column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, X[:, 0] + 0.2 + X[:, 1] * rng.normal(size=n)


@pytest.fixture(scope="module")
def locus():
    X, y = rows(900, 0)
    g = LinearRegression().fit(*rows(200, 1))
    return Locus(g, engine=Forest(n_trees=20), random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def labelled():
    return rows(400, 2)


@pytest.fixture(scope="module")
def found(locus, labelled):
    rule = locus.tau_rule(0.7, 0.1)
    return report(Scorer(locus, rule, (0.1, 0.3)), *labelled, created=DAY).summary


def is_plain(summary):
    """Whether JSON can hold it, and gives the same back."""
    return json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_explorer_counts_are_those_of_every_row(found, locus, labelled):
    X, y = labelled
    explorer, z = found["explorer"], locus.losses(X, y)
    taus, alphas = np.array(explorer["taus"]), np.array(explorer["alphas"])
    assert_close(alphas, [k / 100 for k in range(1, 100)])
    assert 150 < len(taus) <= 202
    assert 0.7 in taus
    assert np.all(np.diff(taus) > 0)
    bound, exceedance = locus.loss_bound(X, alphas), locus.exceedance(X, taus)
    for i, tau in enumerate(taus):
        accepted = bound <= tau
        assert (accepted == (exceedance[:, [i]] <= alphas)).all()
        assert explorer["accepted"][i] == accepted.sum(axis=0).tolist()
        assert explorer["bad"][i] == (accepted & (z > tau)[:, None]).sum(axis=0).tolist()
        assert explorer["losses_above"][i] == int((z > tau).sum())
    assert taus[explorer["start"]["tau_index"]] == 0.7
    assert alphas[explorer["start"]["alpha_index"]] == 0.1


def test_without_a_rule_the_reader_starts_at_the_ninety_percent_loss(locus, labelled):
    summary = report(Scorer(locus, alphas=(0.3,)), *labelled).summary
    explorer, z = summary["explorer"], locus.losses(*labelled)
    tau = explorer["taus"][explorer["start"]["tau_index"]]
    assert 0.87 < np.mean(z <= tau) < 0.93
    assert explorer["alphas"][explorer["start"]["alpha_index"]] == 0.3
    assert explorer["threshold"] is None
    assert summary["guarantee"]["standing"] == "none"


@pytest.mark.parametrize("kind", ["tail", "bound", "exceedance"])
def test_threshold_counts_are_those_of_every_row(kind, locus, labelled):
    X, y = labelled
    score = {
        "tail": Score.tail(0.5),
        "bound": Score.bound(0.25),
        "exceedance": Score.exceedance(0.5),
    }[kind]
    values, z = locus.scores(X, score), locus.losses(X, y)
    rule = match_acceptance(values, 0.6, of=score)
    explorer = report(Scorer(locus, rule), X, y).summary["explorer"]
    found, taus = explorer["threshold"], np.array(explorer["taus"])
    thresholds = np.array(found["thresholds"])
    assert thresholds[found["start"]] == rule.threshold
    accepted = values[:, None] <= thresholds
    assert found["accepted"] == accepted.sum(axis=0).tolist()
    for i, tau in enumerate(taus):
        assert found["bad"][i] == (accepted & (z > tau)[:, None]).sum(axis=0).tolist()
    assert found["score"] == str(score)
    assert found["certified"] is None


def test_certified_are_the_thresholds_that_were_tested_and_passed(locus, labelled):
    # With so many trees hardly any scores tie, so that not each of them is tested.
    locus = clone(locus).set_params(engine=Forest(n_trees=40)).fit(*rows(900, 0))
    rule = locus.certify(0.7, 0.2, 0.1)
    found = report(Scorer(locus, rule), *labelled).summary["explorer"]["threshold"]
    assert {key: found["certified"][key] for key in ("tau", "eta", "delta")} == {
        "tau": 0.7,
        "eta": 0.2,
        "delta": 0.1,
    }
    tested = set(rule.table["threshold"])
    passed = {
        t for t, ok in zip(found["thresholds"], found["certified"]["passed"], strict=True) if ok
    }
    assert len(passed) > 20
    assert passed <= {t for t in tested if t <= rule.threshold}
    assert max(passed) == rule.threshold == found["thresholds"][found["start"]]
    # Those between two tested ones were not tested.
    assert any(min(passed) < t < max(passed) and t not in passed for t in found["thresholds"])


def test_of_other_certificates_only_their_own_threshold_is_known_to_have_passed(locus, labelled):
    X, y = labelled
    values = locus.scores(X, Score.tail(0.7))
    grid = np.quantile(values, [0.3, 0.4, 0.5, 0.6])
    z = locus.losses(X, y)
    rule = certify_threshold_holm(values, z, 0.7, 0.2, 0.1, grid, of=Score.tail(0.7))
    assert np.isfinite(rule.threshold)
    found = report(Scorer(locus, rule), X, y).summary["explorer"]["threshold"]
    marks = zip(found["thresholds"], found["certified"]["passed"], strict=True)
    assert [t for t, ok in marks if ok] == [rule.threshold]


def test_a_rule_that_accepts_nothing_has_nothing_certified(locus, labelled):
    rule = locus.certify(0.01, 0.001, 0.01)
    assert rule.threshold == -np.inf
    summary = report(Scorer(locus, rule), *labelled).summary
    found = summary["explorer"]["threshold"]
    assert not any(found["certified"]["passed"])
    assert (found["thresholds"][0], found["start"], found["accepted"][0]) == (None, 0, 0)
    assert None not in found["thresholds"][1:]
    assert "accept nothing" in " ".join(summary["guarantee"]["sentences"])
    assert is_plain(summary)


def test_a_certificate_for_every_row_starts_at_its_threshold(locus, labelled):
    rule = locus.certify(6.0, 0.2, 0.1)
    assert rule.threshold == np.inf
    summary = report(Scorer(locus, rule), *labelled).summary
    found = summary["explorer"]["threshold"]
    last = len(found["thresholds"]) - 1
    assert (found["thresholds"][last], found["start"], found["accepted"][last]) == (None, last, 400)
    assert found["certified"]["passed"][last]
    assert sum(found["certified"]["passed"]) > 20
    assert is_plain(summary)


def test_infinite_scores_are_accepted_at_no_threshold(labelled):
    X, y = rows(12, 3)
    g = LinearRegression().fit(*rows(200, 1))
    locus = Locus(g, engine=Forest(n_trees=5), random_state=0).fit(X, y)
    with pytest.warns(LocusWarning, match="too few"):
        scorer = Scorer(locus, FlagRule(Score.bound(0.1), np.inf, "heuristic", "none"))
    found = report(scorer, *labelled).summary["explorer"]["threshold"]
    assert (found["thresholds"], found["accepted"]) == ([None], [0])
    assert scorer(labelled[0])["flag"].all()


@pytest.mark.parametrize("of", ["mean loss", "group"])
def test_a_certificate_of_something_else_certifies_no_tolerance(of, locus, labelled):
    score = Score.tail(0.7)
    values, z = locus.scores(labelled[0], score), locus.losses(*labelled)
    if of == "group":
        rule = certify_groups(values, z, ["a", "b"] * 200, 0.7, 0.3, 0.1, of=score)["a"]
        assert {"tau", "eta", "delta"} <= set(rule.evidence)
    else:
        rule = certify_mean_loss(values, z, 0.5, 0.1, support=(0.0, 9.0), of=score)
    assert rule.standing == "certificate"
    found = report(Scorer(locus, rule), *labelled).summary["explorer"]["threshold"]
    assert found["certified"] is None


@pytest.mark.parametrize(("n2", "alpha", "n"), [(40, 0.1, 17), (225, 0.3, 400), (9, 0.1, 2000)])
def test_coverage_law_is_the_beta_binomial(n2, alpha, n):
    k = conformal_rank(n2, alpha)
    exact, law = betabinom(n, k, n2 + 1 - k), coverage_law(n2, alpha, n)
    for share in (0.001, 0.025, 0.5, 0.975, 0.999):
        assert law.ppf(share) == exact.ppf(share)
    for count in {0, n // 2, round(n * 0.8), round(n * 0.9), n - 1, n}:
        p_value = min(1.0, 2 * min(exact.cdf(count), exact.sf(count - 1)))
        assert_close(law.p_value(count), p_value, rtol=1e-6, atol=1e-12)


def test_coverage_says_whether_the_test_rows_agree(found, locus, labelled):
    X, y = labelled
    z, n2 = locus.losses(X, y), len(locus.tails_)
    assert [part["alpha"] for part in found["coverage"]] == [0.1, 0.3]
    for part in found["coverage"]:
        k = int(np.ceil((1 - part["alpha"]) * (n2 + 1) - 1e-9))
        law = betabinom(400, k, n2 + 1 - k)
        assert part["covered"] == int(np.sum(z <= locus.loss_bound(X, part["alpha"])))
        assert_close([part["low"], part["high"]], law.ppf([0.025, 0.975]) / 400)
        assert part["agrees"] == (part["low"] <= part["rate"] <= part["high"])
        assert_close(part["expected"], k / (n2 + 1))
        assert "agrees with the guarantee" in part["sentence"] or not part["agrees"]


def test_coverage_that_is_too_low_and_too_high_are_told_apart():
    low, high = (coverage(calibration_of(1000), 0.1, 1000, covered) for covered in (800, 990))
    assert not low["agrees"]
    assert "This is low" in low["sentence"]
    assert not high["agrees"]
    assert "higher than expected" in high["sentence"]
    assert low["p_value"] < 1e-6
    one = coverage(calibration_of(1000), 0.01, 1, 1)
    assert one["low"] == one["high"] == 1
    assert "agrees with the guarantee" in one["sentence"]
    full = coverage(calibration_of(5), 0.1, 50, 50)
    assert full["agrees"]
    assert "too few" in full["sentence"]
    assert full["low"] == full["high"] == 1.0


def strip(summary):
    """What must not depend on how a stream is cut: all but times, and the last bits of means."""

    def rounded(value):
        if isinstance(value, dict):
            return {key: rounded(part) for key, part in value.items() if key != "seconds"}
        if isinstance(value, list):
            return [rounded(part) for part in value]
        return float(f"{value:.10g}") if isinstance(value, float) else value

    summary = rounded(summary)
    summary["attribution"].pop("method")
    return summary


@pytest.mark.parametrize("sizes", [[400], [1, 399], [150, 0, 250], [50] * 8])
def test_batches_in_any_split_give_the_same_summary(sizes, locus, labelled, monkeypatch):
    # Samples smaller than the rows, so that they are really drawn.
    monkeypatch.setattr(_summary, "SAMPLE_ROWS", 90)
    monkeypatch.setattr(_summary, "CURVE_ROWS", 60)
    X, y = labelled
    scorer = Scorer(locus, locus.tau_rule(0.7, 0.1))
    labels = np.where(X[:, 2] < 0.3, "a", "b")
    cuts = np.cumsum([0, *sizes])
    parts = [Batch(X[i:j], y[i:j], groups=labels[i:j]) for i, j in itertools.pairwise(cuts)]
    whole = report(scorer, X, y, groups=labels, created=DAY).summary
    cut = report_batches(scorer, iter(parts), created=DAY).summary
    assert strip(cut) == strip(whole)


def test_a_stream_without_a_pilot_uses_its_first_rows(locus, monkeypatch):
    from locuscore import report as module

    monkeypatch.setattr(module, "PILOT_ROWS", 100)
    X, y = rows(300, 5)
    scorer = Scorer(locus)
    cuts = ([0, 300], [0, 40, 90, 170, 300])
    found = [
        report_batches(
            scorer,
            [(X[i:j], y[i:j]) for i, j in itertools.pairwise(cut)],
            created=DAY,
        ).summary
        for cut in cuts
    ]
    assert strip(found[0]) == strip(found[1])


def test_deciles_are_tenths_of_the_rows_by_bound(found, locus, labelled):
    X, y = labelled
    bound, z = locus.loss_bound(X, 0.1), locus.losses(X, y)
    assert sum(part["n"] for part in found["deciles"]) == 400
    for part in found["deciles"]:
        inside = (bound >= part["low"]) & (bound <= part["high"])
        assert part["n"] == inside.sum()
        assert part["covered"] == np.sum(z[inside] <= bound[inside])
        assert_close(part["mean_loss"], z[inside].mean(), rtol=1e-12)
        exact = binomtest(part["covered"], part["n"]).proportion_ci(0.95, "exact")
        assert_close([part["ci_low"], part["ci_high"]], [exact.low, exact.high], rtol=1e-9)


def test_the_curve_is_the_operating_curve_of_the_tail(found, locus, labelled):
    X, y = labelled
    curve = operating_curve(locus.scores(X, Score.tail(0.7)), locus.losses(X, y), 0.7)
    names = [part["name"] for part in found["curve"]["series"]]
    assert names == ["Locus", "isolation forest"]  # a linear predictor has no spread
    own = found["curve"]["series"][0]
    assert found["curve"]["tau"] == 0.7
    assert len(own["acceptance"]) <= 200
    place = np.searchsorted(curve.acceptance, np.array(own["acceptance"]) - 1e-6)
    assert_close(own["exceedance"], curve.exceedance[place], rtol=1e-5)
    assert all(
        a <= b <= c for a, b, c in zip(own["low"], own["exceedance"], own["high"], strict=True)
    )
    assert found["curve"]["series"][1]["low"] is None


def test_a_forest_has_a_spread_and_is_asked_once(labelled):
    X, y = rows(500, 3)
    g = RandomForestRegressor(10, random_state=0).fit(*rows(200, 1))
    locus = Locus(g, engine=Forest(n_trees=5), random_state=0).fit(X, y)
    summary = report(Scorer(locus), *labelled).summary
    assert [part["name"] for part in summary["curve"]["series"]] == [
        "Locus",
        "spread of the predictor",
        "isolation forest",
    ]
    importance = {part["name"] for part in summary["attribution"]["importance"]}
    own = {"prediction", "spread of the predictor", "second opinion"}
    assert importance == {"x0", "x1", "x2", *own}


def test_groups_are_counted_with_missing_ones(locus, labelled):
    X, y = labelled
    labels = np.array(["<b>north</b>", np.nan, None, 7], dtype=object)[np.arange(400) % 4]
    found = report(Scorer(locus), X, y, groups=labels).summary["groups"]
    covered = locus.losses(X, y) <= locus.loss_bound(X, 0.1)
    bound = locus.loss_bound(X, 0.1)
    by_name = {part["group"]: part for part in found["rows"]}
    assert set(by_name) == {"<b>north</b>", "(missing)", "7"}
    for name, rest in (("<b>north</b>", [0]), ("(missing)", [1, 2]), ("7", [3])):
        inside = np.isin(np.arange(400) % 4, rest)
        part = by_name[name]
        assert (part["n"], part["covered"]) == (inside.sum(), covered[inside].sum())
        assert_close(part["mean_bound"], bound[inside].mean(), rtol=1e-12)
    assert found["rows"][0]["group"] == "(missing)"  # the largest comes first


def test_many_groups_are_pooled_in_bounded_memory():
    counts = PartCounts("id")
    labels = [f"big {j % 30}" for j in range(90)] + list(range(MOST_GROUPS + 500))
    n = len(labels)
    counts.add(labels, np.ones((n, len(COLUMNS))))
    name, shown = counts.parts()
    assert len(counts.place) == MOST_GROUPS + 1
    assert name == "id"
    assert [row[0] for _, row in shown] == [3] * 30 + [MOST_GROUPS + 500]
    assert shown[-1][0] == "(others)"


def test_pit_is_even_where_the_law_is_right(rng):
    assert "even up to chance" in pit_sentence(0.4, [50] * 20)
    assert "larger than the model expects" in pit_sentence(1e-9, [10] * 10 + [90] * 10)
    assert "too narrow" in pit_sentence(1e-9, [90] * 5 + [10] * 10 + [90] * 5)
    assert "too wide" in pit_sentence(1e-9, [10] * 5 + [90] * 10 + [10] * 5)


def test_pit_counts_all_rows(found):
    assert len(found["pit"]["counts"]) == 20
    assert sum(found["pit"]["counts"]) == 400


def test_riskiest_and_safest_rows_are_those_of_the_bound(found, locus, labelled):
    X, y = labelled
    bound, z = locus.loss_bound(X, 0.1), locus.losses(X, y)
    tail = locus.scores(X, Score.tail(0.7))
    order = sorted(range(400), key=lambda i: (bound[i], tail[i], i))
    falling = sorted(range(400), key=lambda i: (-bound[i], -tail[i], i))
    names = [part["key"] for part in found["rows"]["columns"]]
    assert names[:5] == [
        "prediction",
        "bound",
        "loss",
        "flag",
        "probability",
    ]  # scored by its bound
    for shown, expected in (("safest", order), ("riskiest", falling)):
        entries = found["rows"][shown]
        assert [entry["row"] for entry in entries] == [str(i) for i in expected[:25]]
        for entry, i in zip(entries, expected, strict=False):
            cells = dict(zip(names, entry["values"], strict=True))
            assert_close(cells["prediction"], locus.predict(X[[i]])[0], rtol=1e-12)
            assert_close([cells["bound"], cells["loss"]], [bound[i], z[i]], rtol=1e-12)
            assert cells["flag"] == ("accept" if bound[i] <= 0.7 else "flag")
            assert_close(cells["probability"], locus.probability(X[[i]], 0.7)[0], rtol=1e-9)
            assert_close([cells[f"feature_{j}"] for j in range(3)], X[i])


@pytest.mark.parametrize("score", [Score.bound(0.2), Score.tail(0.7)])
def test_a_score_that_is_not_the_bound_shown_has_its_own_column(score, locus, labelled):
    rule = FlagRule(score, 0.5, "heuristic", "none", ())
    columns = report(Scorer(locus, rule), *labelled, created=DAY).summary["rows"]["columns"]
    assert {part["key"]: part["name"] for part in columns}["score"] == str(score)


class AdditiveEngine(BaseEstimator):
    """The logarithm of every quantile is a sum of functions of one signal each."""

    def fit(self, S, z):
        return self

    def predict_draws(self, S):
        scale = np.exp(S[:, [0]] - 2 * S[:, [1]] ** 2)
        return ShapeDraws(scale, np.linspace(0.01, 1, 50), 0.1)


def test_attribution_is_exact_where_the_logarithm_is_additive(labelled):
    X, y = rows(400, 4)
    locus = Locus(lambda X: X[:, 0], engine=AdditiveEngine(), random_state=0).fit(X, y)
    background, chosen = X[:16], X[100:120]
    S, B = (locus.row_signals(part) for part in (chosen, background))

    def log_bound(signals):
        return np.log(locus.loss_model_.dist(signals).isf(0.2))

    players = locus.signals_.players(S.shape[1])
    assert players.tolist() == [0, 1, 2, 3, 4, 4]  # the last is the second opinion
    values, logs, base, evaluations = shapley(log_bound, S, B, 0, players)
    first = S[:, 0] - B[:, 0].mean()
    second = -2 * (S[:, 1] ** 2 - np.mean(B[:, 1] ** 2))
    assert_close(values[:, 0], first, atol=1e-12)
    assert_close(values[:, 1], second, atol=1e-12)
    assert_close(values[:, 2:], 0.0, atol=1e-12)
    assert_close(values.sum(axis=1), logs - base, atol=1e-12)
    assert evaluations == 20 + 16 + 16 * 2 * 20 * 4

    summary = report(Scorer(locus), *labelled).summary
    importance = {p["name"]: p["mean_abs_log"] for p in summary["attribution"]["importance"]}
    assert importance["x2"] < 1e-9
    assert importance["x0"] > 0.1
    assert importance["prediction"] < 1e-9
    assert importance["second opinion"] < 1e-9


def test_attributions_of_a_forest_add_up_and_average_over_orders(locus, labelled):
    S = locus.row_signals(labelled[0])

    def log_bound(signals):
        return np.log(locus.loss_model_.dist(signals).isf(0.1))

    values, logs, base, _ = shapley(log_bound, S[:7], S[50:60], 3)
    assert values.shape == (7, S.shape[1])  # by default every signal is a player
    assert_close(values.sum(axis=1), logs - base, atol=1e-12)
    assert_close(logs, log_bound(S[:7]))
    assert_close(base, log_bound(S[50:60]).mean())
    one, *_ = shapley(log_bound, S[:3, :], S[[5]], 0)
    assert np.isfinite(one).all()


def test_shapley_of_a_product_of_two_signals_is_the_mean_of_both_orders():
    rows_, background = np.array([[2.0, 3.0]]), np.array([[1.0, 1.0], [0.5, 4.0]])
    values, _, base, _ = shapley(lambda S: S[:, 0] * S[:, 1], rows_, background, 0)
    expected = np.mean(
        [((2 - a) * b + (2 - a) * 3) / 2 for a, b in background],
    )
    assert_close(values[0, 0], expected)
    assert_close(values.sum(), 6.0 - base)


def test_one_signal_needs_no_orders():
    values, _, _, evaluations = shapley(lambda S: S[:, 0], np.ones((2, 1)), np.zeros((3, 1)), 0)
    assert_close(values, [[1.0], [1.0]])
    assert evaluations == 5


def test_of_very_many_signals_fewer_rows_are_explained_in_bounded_memory(rng):
    sizes = []

    def first(S):
        sizes.append(S.nbytes)
        return S[:, 0]

    values, *_ = shapley(first, rng.normal(size=(8, 900)), rng.normal(size=(2, 900)), 0)
    assert max(sizes) < 3e7  # one walk of all rows would be 52 MB
    assert_close(values[:, 1:], 0.0, atol=1e-12)
    X = rng.normal(size=(300, 900))
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=3), random_state=0).fit(X, X[:, 1])
    summary = report(Scorer(locus), X, X[:, 1]).summary
    shown = {key: summary["rows"][key] for key in ("riskiest", "safest")}
    explained = {key: sum(bool(row["reasons"]) for row in rows) for key, rows in shown.items()}
    assert explained == {"riskiest": 14, "safest": 13}
    assert summary["attribution"]["n_rows"] == 27
    assert shown["riskiest"][0]["reasons"]
    assert summary["attribution"]["evaluations"] < 210_000


def test_reasons_name_what_drives_the_bound(found):
    for entry in [*found["rows"]["riskiest"], *found["rows"]["safest"]]:
        assert {"name", "value", "factor"} == set(entry["reasons"][0]) - {"text"}
        assert all(reason["factor"] > 0 for reason in entry["reasons"])
    first = found["rows"]["riskiest"][0]["reasons"][0]
    assert first["name"] == "x1"
    assert first["factor"] > 1
    assert found["attribution"]["n_rows"] == 50
    assert "alpha = 0.1" in found["attribution"]["method"]


def test_too_few_calibration_rows_leave_infinite_bounds(labelled):
    X, y = rows(60, 6)
    engine = Forest(n_trees=5)
    locus = Locus(lambda X: X[:, 0], engine=engine, calibration_size=5, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="too few"):
        scorer = Scorer(locus, alphas=(0.1, 0.3))
    summary = report(scorer, *labelled).summary
    assert is_plain(summary)
    assert summary["bound_vs_loss"]["n_infinite"] == summary["bounds"]["n_infinite"] == 400
    assert summary["bound_vs_loss"]["points"] == summary["bounds"]["counts"] == []
    assert summary["coverage"][0]["covered"] == 400
    assert "quantile" in summary["attribution"]["what"]
    assert "too few" in summary["guarantee"]["sentences"][0]
    assert summary["deciles"][0]["high"] is None
    assert np.array(summary["explorer"]["accepted"])[:, :16].max() == 0  # alpha below 1/6
    assert np.array(summary["explorer"]["accepted"])[-1, 20:].max() > 0


@pytest.mark.parametrize("n", [1, 2, 3, 30])
def test_few_rows_are_shown_once(n, locus):
    X, y = rows(n, 7)
    summary = report(Scorer(locus, locus.tau_rule(0.5, 0.2)), X, y).summary
    assert is_plain(summary)
    shown = summary["rows"]["riskiest"] + summary["rows"]["safest"]
    assert len(shown) == len({entry["row"] for entry in shown}) == n
    assert summary["rows"]["riskiest"][0]["values"][1] == locus.loss_bound(X, 0.1).max()


def test_losses_that_are_all_equal(rng):
    X = rng.uniform(size=(300, 2))
    locus = Locus(None, engine=Forest(n_trees=5), random_state=0).fit_losses(X, np.ones(300))
    summary = report(Scorer(locus), X[:50], losses=np.ones(50)).summary
    assert is_plain(summary)
    assert summary["coverage"][0]["covered"] == 50
    assert "prediction" not in [part["key"] for part in summary["rows"]["columns"]]


def test_a_classifier_with_a_cost_matrix(rng):
    X = rng.normal(size=(900, 2))
    y = np.where(X[:, 0] + rng.normal(size=900) > 0, "buy", "</script>")
    g = LogisticRegression().fit(X[:200], y[:200])
    loss = cost([[0, 5], [1, 0]])
    locus = Locus(g, loss=loss, engine=Forest(n_trees=10), random_state=0).fit(
        X[200:600], y[200:600]
    )
    summary = report(Scorer(locus), X[600:], y[600:]).summary
    assert is_plain(summary)
    assert summary["explorer"]["taus"] == [0.0, 1.0, 5.0]
    assert summary["explorer"]["taus"][summary["explorer"]["start"]["tau_index"]] < 5.0
    z, bound = locus.losses(X[600:], y[600:]), locus.loss_bound(X[600:], ALPHAS)
    for i, tau in enumerate((0.0, 1.0, 5.0)):
        assert summary["explorer"]["accepted"][i] == (bound <= tau).sum(axis=0).tolist()
        bad = (bound <= tau) & (z > tau)[:, None]
        assert summary["explorer"]["bad"][i] == bad.sum(axis=0).tolist()
    column = summary["rows"]["columns"][0]
    assert (column["role"], column["kind"]) == ("prediction", "text")
    assert summary["curve"]["series"][1]["name"] == "entropy of the predictor"
    assert "P(loss >" in summary["attribution"]["what"]


def test_several_outputs(rng):
    X = rng.normal(size=(600, 2))
    Y = X + rng.normal(size=(600, 2))
    g = LinearRegression().fit(X[:100], Y[:100])

    def distance(y, prediction):
        return np.hypot(*(y - prediction).T)

    locus = Locus(g, loss=distance, engine=Forest(n_trees=5), support=(0, np.inf), random_state=0)
    locus.fit(X[100:400], Y[100:400])
    summary = report(Scorer(locus), X[400:], Y[400:]).summary
    assert [part["key"] for part in summary["rows"]["columns"]][:2] == [
        "prediction_0",
        "prediction_1",
    ]
    assert summary["coverage"][0]["covered"] == int(
        np.sum(locus.losses(X[400:], Y[400:]) <= locus.loss_bound(X[400:]))
    )


@pytest.mark.parametrize("n_columns", [3, 60])
def test_signals_of_ones_own_and_many_columns(n_columns, rng):
    X = rng.uniform(size=(300, n_columns))
    y = X[:, 0] + X[:, 1] * rng.normal(size=300)
    own = {"signals": lambda X: X[:, [1, 1]] ** 2} if n_columns == 3 else {}
    locus = Locus(lambda X: X[:, 0], engine=Forest(n_trees=3), random_state=0, **own)
    summary = report(Scorer(locus.fit(X[:200], y[:200])), X[200:], y[200:]).summary
    entry = summary["rows"]["riskiest"][0]
    x = X[200 + int(entry["row"])]
    assert len(summary["rows"]["columns"]) == 4 + min(n_columns, 40)
    names = {reason["name"]: reason["value"] for reason in entry["reasons"]}
    expected = {f"x{j}": value for j, value in enumerate(x)} | {"prediction": x[0]}
    if own:
        expected = {"signal 0": x[1] ** 2, "signal 1": x[1] ** 2}
    assert names
    assert all(expected[name] == value for name, value in names.items())


def test_other_engines_and_sampled_explorer_agree(labelled):
    X, y = rows(300, 8)
    locus = Locus(lambda X: X[:, 0], engine=Gaussian(), random_state=0).fit(X, y)
    X, y = labelled[0][:60], labelled[1][:60]
    explorer = report(Scorer(locus), X, y).summary["explorer"]
    accepted = locus.exceedance(X, explorer["taus"])[:, :, None] <= ALPHAS
    assert_close(np.array(explorer["accepted"]), accepted.sum(axis=0))


@pytest.mark.extra
def test_names_and_cells_pass_through_as_data():
    import pandas as pd

    rng = np.random.default_rng(0)
    hostile = '</script><img src=x onerror="alert(1)">'
    frame = pd.DataFrame({hostile: rng.uniform(size=500), "n": rng.integers(0, 5, 500)})
    frame["text"] = rng.choice([hostile, "b", "\u2028", None], size=500)
    frame.index = [f"{hostile}{i}" for i in range(500)]
    frame["when"] = pd.date_range("2026-01-01", periods=500)
    y = frame[hostile] + rng.normal(size=500)
    locus = Locus(lambda X: X[hostile].to_numpy(), engine=Forest(n_trees=5), random_state=0)
    scorer = Scorer(locus.fit(frame[:300], y[:300]))
    summary = report(
        scorer, frame[300:], y[300:], groups="text", title=hostile, unit=hostile, archive=hostile
    ).summary
    assert is_plain(summary)
    assert summary["title"] == summary["unit"] == summary["explorer"]["archive"] == hostile
    columns = summary["rows"]["columns"]
    assert [part["name"] for part in columns if part["role"] == "feature"] == list(frame)
    kinds = {part["name"]: part["kind"] for part in columns}
    assert (kinds["n"], kinds["text"], kinds["when"]) == ("number", "text", "text")
    assert summary["rows"]["riskiest"][0]["row"].startswith(hostile)
    assert summary["groups"]["name"] == "text"
    assert {part["group"] for part in summary["groups"]["rows"]} == {
        hostile,
        "b",
        "\u2028",
        "(missing)",
    }


@pytest.mark.extra
def test_long_texts_are_cut_and_labels_of_every_kind_are_readable():
    import pandas as pd

    rng = np.random.default_rng(0)
    name, text = "n" * 10_000, "t" * 100_000
    frame = pd.DataFrame({name: rng.uniform(size=500), "text": text})
    frame.index = pd.MultiIndex.from_arrays([np.arange(500), [text] * 500])
    locus = Locus(lambda X: X[name].to_numpy(), engine=Forest(n_trees=5), random_state=0)
    scorer = Scorer(locus.fit(frame[:300], rng.uniform(size=300)))
    y = rng.uniform(size=200)
    summary = report(scorer, frame[300:], y, groups="text").summary
    assert len(json.dumps(summary)) < 500_000
    entry = summary["rows"]["riskiest"][0]
    assert entry["row"].startswith(str(int(entry["row"].split(",")[0])) + ", ttt")
    assert entry["values"][-1] == "t" * 299 + "\u2026"
    days = pd.to_datetime(["2026-01-02", None] * 100).to_series()
    found = report(scorer, frame[300:], y, groups=days).summary["groups"]
    assert {part["group"] for part in found["rows"]} == {"2026-01-02 00:00:00", "(missing)"}


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["polars", "pyarrow", "batch"])
def test_other_frames_give_the_same_summary(kind, labelled):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    frame = pd.DataFrame(labelled[0], columns=["a", "b", "c"])
    X, y = rows(300, 0)
    fitted = pd.DataFrame(X, columns=["a", "b", "c"])
    locus = Locus(lambda X: np.asarray(X["a"]), engine=Forest(n_trees=5), random_state=0)
    scorer = Scorer(locus.fit(fitted, y))
    table = pa.Table.from_pandas(frame)
    other = {"polars": pl.from_pandas(frame), "pyarrow": table}.get(kind)
    other = table.to_batches()[0] if kind == "batch" else other
    expected = report(scorer, frame, labelled[1], created=DAY).summary
    assert strip(report(scorer, other, labelled[1], created=DAY).summary) == strip(expected)


def test_bad_input_is_told(locus, labelled):
    X, y = labelled
    scorer = Scorer(locus)
    with raises(TypeError, "Scorer", "got Locus"):
        report(scorer.locus, X, y)
    with raises(ValueError, "true values y"):
        report(scorer, X)
    with pytest.raises(ValueError, match="not both"):
        report(scorer, X, y, losses=np.abs(y))
    with pytest.raises(ValueError, match="one entry per row"):
        report(scorer, X, y[:-1])
    with pytest.raises(ValueError, match="NaN or missing"):
        report(scorer, X, np.where(y > y.mean(), np.nan, y))
    with pytest.raises(ValueError, match="one label per row"):
        report(scorer, X, y, groups=["a"])
    with raises(ValueError, "one labelled row"):
        report(scorer, X[:0], y[:0])
    with raises(ValueError, "one labelled row"):
        report_batches(scorer, [])
    with raises(ValueError, "every batch"):
        report_batches(scorer, [Batch(X, y), Batch(X, y, groups=y)])
    bare = Locus(None, engine=Forest(n_trees=2), random_state=0).fit_losses(X, np.abs(y))
    with pytest.raises(ValueError, match="losses=z"):
        report(Scorer(bare), X, y)
    with pytest.raises(ValueError, match="outside the support"):
        report(Scorer(bare), X, losses=np.full(400, -1.0))


def test_files_are_whole_pages(found, tmp_path):
    made = Report(found)
    made.write(tmp_path / "a.html")
    made.write_json(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == found
    page = (tmp_path / "a.html").read_text()
    assert page == made.to_html()
    assert page.lower().startswith("<!doctype html>")
    assert len(page) < 3_000_000
    assert "a.html" in made._repr_html_()
    assert "400 test rows" in str(made)


def test_a_failed_write_leaves_the_old_page(found, tmp_path):
    path = tmp_path / "a.html"
    path.write_text("old")
    with pytest.raises(KeyError):
        Report({}).write(path)
    assert path.read_text() == "old"
    assert [part.name for part in tmp_path.iterdir()] == ["a.html"]
