import copy
import json
import pickle
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from scipy.stats import beta

from helpers import assert_close, raises
from locuscore import (
    FlagRule,
    GroupRule,
    Locus,
    Score,
    match_acceptance,
    tau_rule,
    tune_alpha,
    tune_threshold,
)
from locuscore.engines import Scale


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(900, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=900)
    locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X[:500], y[:500])
    return locus, X[500:], y[500:]


def tuned_by_loops(score, losses, tau, eta, grid, min_acceptance):
    """The paper's rule, written out; ties toward more accepted rows, then smaller thresholds."""
    found = []
    for threshold in grid:
        taken = [z for s, z in zip(score, losses, strict=True) if s <= threshold and s < np.inf]
        if len(taken) / len(score) >= min_acceptance:
            q = sum(z > tau for z in taken) / max(len(taken), 1)
            found.append((abs(q - eta), -len(taken), threshold))
    return min(found)[2]


@pytest.mark.parametrize("min_acceptance", [0.0, 0.3])
@pytest.mark.parametrize("digits", [1, 6])
def test_tune_threshold_is_the_papers_argmin(rng, digits, min_acceptance):
    score, losses = np.round(rng.uniform(size=80), digits), rng.uniform(size=80)
    score[:3] = np.inf
    grid = np.append(rng.uniform(size=15), [-1.0, np.inf])
    for tau, eta in [(0.5, 0.3), (0.9, 0.1), (0.2, 0.05)]:
        rule = tune_threshold(score, losses, tau, eta, grid=grid, min_acceptance=min_acceptance)
        by_loops = tuned_by_loops(score, losses, tau, eta, grid, min_acceptance)
        assert rule.threshold == by_loops
        every = [-np.inf, *np.unique(score[score < np.inf])]
        rule = tune_threshold(score, losses, tau, eta, min_acceptance=min_acceptance)
        assert rule.threshold == tuned_by_loops(score, losses, tau, eta, every, min_acceptance)
        assert rule.standing == "heuristic"
        assert "heuristic" in rule.guarantee


def test_tune_threshold_prefers_nothing_to_far_too_much():
    """Accepting nothing has q = 0 in the paper's formula: nearer to 0.1 than 0.9 is."""
    rule = tune_threshold(np.arange(10.0), np.ones(10), tau=0.5, eta=0.1)
    assert rule.threshold == -np.inf
    assert tune_threshold(np.arange(10.0), np.ones(10), 0.5, 0.6).threshold == 9.0


def test_tune_threshold_says_when_no_threshold_accepts_enough():
    rule = tune_threshold([1.0, np.inf, np.inf], [0, 1, 1], 0.5, 0.1, min_acceptance=0.5)
    assert rule.threshold == -np.inf
    assert "no threshold accepts" in rule.guarantee


def test_tune_alpha_equals_the_papers_grid_procedure(fitted):
    """Over alphas, with the bounds recomputed: the same rows are accepted."""
    locus, X, y = fitted
    z, n2 = np.asarray(locus.losses(X, y)), len(locus.tails_)
    alphas = np.arange(1, n2 + 1) / (n2 + 1)
    bounds = locus.loss_bound(X, alphas)
    for tau, eta, least in [(0.5, 0.1, 0.0), (0.3, 0.2, 0.2), (1.0, 0.05, 0.5)]:
        accepted = bounds <= tau
        n = accepted.sum(axis=0)
        q = (accepted & (z > tau)[:, None]).sum(axis=0) / np.maximum(n, 1)
        usable = n / len(z) >= least
        distance = np.where(usable, np.abs(q - eta), np.inf)
        best = np.lexsort((alphas, -n, distance))[0]
        exceedance = locus.exceedance(X, tau)
        rule = tune_alpha(exceedance, z, tau, eta, min_acceptance=least)
        assert rule.score == Score.exceedance(tau)
        assert np.array_equal(rule.accepts(exceedance, Score.exceedance(tau)), accepted[:, best])


def test_tune_alpha_refuses_what_is_no_exceedance():
    with pytest.raises(ValueError, match="from 0 to 1"):
        tune_alpha([0.1, 2.0], [0.1, 0.2], 0.1, 0.1)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.7, 1.0])
def test_match_acceptance_accepts_the_rate(rng, rate):
    score = rng.normal(size=10)
    rule = match_acceptance(score, rate)
    assert rule.accepts(score, rule.score).mean() == rate
    assert rule.standing == "heuristic"


def test_match_acceptance_with_ties_and_infinite_scores():
    assert match_acceptance([1.0, 1.0, 1.0, 2.0], 0.5).evidence["n_accepted"] == 3
    assert match_acceptance([1.0, np.inf, np.inf], 1.0).threshold == 1.0
    assert match_acceptance([np.inf, np.inf], 0.5).threshold == -np.inf


def test_tau_rule_is_theorem_3(fitted):
    locus, X, _ = fitted
    rule = tau_rule(0.5, 0.1)
    assert (rule.threshold, rule.score, rule.standing) == (0.5, Score.bound(0.1), "theorem")
    assert np.array_equal(locus.accepts(X, rule), locus.loss_bound(X, 0.1) <= 0.5)
    own = locus.tau_rule(0.5, 0.1)
    assert own.evidence["n"] == len(locus.tails_)
    k, rest = own.evidence["coverage_beta"]
    assert (k, rest) == (own.evidence["k"], len(locus.tails_) + 1 - k)
    assert f"{beta.ppf(0.025, k, rest):.4g}" in str(own)


def test_a_rule_refuses_another_score(fitted):
    locus, X, _ = fitted
    rule = tau_rule(0.5, 0.1)
    for of in (Score.bound(0.2), Score.exceedance(0.5), Score.tail(0.5), Score.other("")):
        with raises(ValueError, "alpha = 0.1"):
            rule.accepts(np.zeros(3), of)
    with pytest.raises(ValueError, match="cannot compute"):
        locus.accepts(X, match_acceptance(X[:, 0], 0.5))


def test_infinite_scores_are_never_accepted_and_minus_infinity_accepts_nothing():
    of = Score.other("s")
    everything = FlagRule(of, np.inf, "heuristic", "")
    assert everything.accepts([1.0, np.inf, -np.inf], of).tolist() == [True, False, False]
    nothing = FlagRule(of, -np.inf, "heuristic", "")
    assert not nothing.accepts([1.0, np.inf, -np.inf], of).any()
    with raises(ValueError, "1 scores"):
        nothing.accepts([1.0, np.nan], of)


@pytest.mark.parametrize(
    "rule",
    [
        tau_rule(0.5, 0.1, n_calibration=99, level=0.1),
        tune_threshold([1.0, 2.0, np.inf], [0, 1, 1], 0.5, 0.1),
        tune_threshold([np.inf, np.inf], [0, 1], 0.5, 0.1),
        match_acceptance([0.1, 0.2], 0.5, of=Score.other("spread")),
    ],
    ids=lambda rule: f"{rule.standing}_{rule.threshold}",
)
def test_round_trip_through_json(rule):
    text = json.dumps(rule.to_dict(), allow_nan=False)
    assert FlagRule.from_dict(json.loads(text)) == rule
    assert hash(rule) == hash(FlagRule.from_dict(json.loads(text)))


@pytest.mark.parametrize("standing", ["theorem", "certificate", "heuristic"])
def test_the_card_is_plain_and_narrow(standing, rng):
    rule = FlagRule(
        Score.tail(123.456),
        0.123456789,
        standing,
        "words " * 60,
        ("an assumption " * 12, "another"),
        {"n_rows": 10**9, "starts": (1, 2.5), "coverage_beta": (9.0, 1.0)},
        {name: tuple(rng.normal(size=9)) for name in ("threshold", "n_accepted", "n_bad", "p")},
    )
    lines = str(rule).splitlines()
    assert max(map(len, lines)) <= 80
    assert str(rule).isascii()
    for part in ("tail probability at tau = 123.456", "0.123457", standing.upper(), "Beta(9, 1)"):
        assert part in str(rule)


@pytest.mark.extra
def test_the_table_is_a_frame():
    frame = tune_threshold([1.0, 2.0, 3.0], [0, 1, 1], 0.5, 0.1).to_frame()
    assert frame.columns.tolist() == ["threshold", "n_accepted", "n_bad"]
    assert_close(frame["n_bad"], [0, 0, 1, 2])


def test_the_table_of_many_thresholds_is_thinned_and_keeps_the_chosen(rng):
    score = rng.uniform(size=5_000)
    rule = tune_threshold(score, rng.uniform(size=5_000) < score, 0.5, 0.1)
    assert len(rule.table["threshold"]) <= 501
    assert rule.threshold in rule.table["threshold"]


def test_scores_of_a_locus(fitted):
    locus, X, _ = fitted
    assert_close(locus.scores(X, Score.tail(0.5)), locus.loss_dist(X).sf(np.full(len(X), 0.5)))
    assert_close(locus.scores(X, Score.bound(0.2)), locus.loss_bound(X, 0.2))
    assert_close(locus.scores(X, Score.exceedance(0.5)), locus.exceedance(X, 0.5))


BAD = [
    ({"score": [1.0, 2.0]}, "length"),
    ({"score": [1.0, np.nan, 2.0]}, "missing"),
    ({"losses": [1.0, np.inf, 2.0]}, "non-finite"),
    ({"losses": []}, "length"),
    ({"tau": np.nan}, "tau"),
    ({"tau": [0.1, 0.2]}, "one number"),
    ({"eta": 0.0}, "eta"),
    ({"eta": 1.0}, "eta"),
    ({"grid": []}, "grid"),
    ({"grid": [np.nan]}, "grid"),
    ({"min_acceptance": 1.5}, "min_acceptance"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=lambda value: str(value)[:25])
def test_bad_input_is_named(change, message):
    given = {"score": [1.0, 2.0, 3.0], "losses": [0.0, 1.0, 1.0], "tau": 0.5, "eta": 0.1}
    with pytest.raises(ValueError, match=message):
        tune_threshold(**given | change)


def test_an_infinite_score_of_either_sign_is_the_same_to_every_rule(rng):
    """Minus infinity is not the safest score of all: it is never accepted, like infinity."""
    score, losses = rng.uniform(size=300), rng.uniform(size=300)
    up, down = score.copy(), score.copy()
    up[::3], down[::3] = np.inf, -np.inf
    for rule in (
        lambda s: tune_threshold(s, losses, 0.5, 0.5),
        lambda s: tune_threshold(s, losses, 0.5, 0.5, grid=[-np.inf, 0.3, 0.8, np.inf]),
        lambda s: match_acceptance(s, 0.5),
    ):
        assert rule(up) == rule(down)
        assert not rule(up).accepts(down)[::3].any()


def test_an_unnamed_score_needs_no_name_and_a_named_one_does():
    unnamed, named = match_acceptance([1.0, 2.0], 0.5), tau_rule(0.5, 0.1)
    assert unnamed.accepts([1.0, 2.0]).tolist() == [True, False]
    with raises(ValueError, "your own score", "got the loss bound"):
        unnamed.accepts([1.0], Score.bound(0.1))
    with raises(ValueError, "alpha = 0.1", "no named score"):
        named.accepts([1.0])
    with pytest.raises(ValueError, match="no named score"):
        named.accepts([1.0], Score.other(""))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.zeros((2, 2)), ValueError, "per row"),
        (["a", "b"], TypeError, "text"),
        (["1", "2"], TypeError, "text"),
        (np.array(["1", 2.0], dtype=object), TypeError, "text"),
        ([[1.0], [1.0, 2.0]], TypeError, "one number per row"),
        ([1.0, None], ValueError, "1 scores"),
    ],
)
def test_accepts_refuses_what_is_no_score_per_row(values, error, message):
    with pytest.raises(error, match=message):
        match_acceptance([1.0, 2.0], 0.5).accepts(values)


def test_a_rule_is_read_only_and_can_be_copied():
    rule = tau_rule(0.5, 0.1, n_calibration=99, level=0.1)
    tuned = tune_threshold([1.0, 2.0, np.inf], [0, 1, 1], 0.5, 0.1)
    with pytest.raises(TypeError, match="item assignment"):
        rule.evidence["n"] = 1
    with pytest.raises(TypeError, match="item assignment"):
        tuned.table["n_bad"] = (0,)
    for each in (rule, tuned):
        for twin in (copy.copy(each), copy.deepcopy(each), pickle.loads(pickle.dumps(each))):
            assert twin == each
            assert hash(twin) == hash(each)
        assert replace(each, guarantee="other") != each


def test_what_was_passed_in_can_change_without_the_rule():
    evidence = {"starts": [1, 2]}
    rule = FlagRule(Score.other("s"), 1, "heuristic", "", evidence=evidence)
    evidence["starts"].append(3)
    assert rule.evidence["starts"] == (1, 2)
    assert isinstance(rule.threshold, float)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"standing": "proven"}, ValueError, "standing"),
        ({"threshold": "high"}, TypeError, "threshold"),
        ({"threshold": None}, ValueError, "threshold"),
        ({"threshold": "nan"}, ValueError, "threshold"),
        ({"threshold": [1.0]}, ValueError, "threshold"),
        ({"guarantee": 1}, TypeError, "guarantee"),
        ({"evidence": [1]}, TypeError, "evidence"),
        ({"score": {"kind": "bond", "alpha": 0.1}}, ValueError, "score"),
        ({"score": {"kind": "bound"}}, ValueError, "'bound'.*alpha"),
        ({"score": {"kind": "tail", "alpha": 0.1, "tau": 1.0}}, ValueError, "'tail'.*tau"),
        ({"score": {"kind": "bound", "alpha": 2.0}}, ValueError, "alpha"),
        ({"score": {"kind": "other", "name": 3}}, TypeError, "name"),
        ({"score": {"kinds": "other"}}, TypeError, "rule"),
        ({"score": "tail"}, TypeError, "score"),
        ({"extra": 1}, ValueError, "rule"),
    ],
    ids=str,
)
def test_what_describes_no_rule_is_named(change, error, message):
    data = tau_rule(0.5, 0.1, n_calibration=99).to_dict()
    with pytest.raises(error, match=message):
        FlagRule.from_dict(data | change)


@pytest.mark.parametrize("n", [-3, 0, 2.5, "a", True])
def test_tau_rule_checks_the_number_of_rows(n):
    with raises(ValueError, "n_calibration"):
        tau_rule(0.5, 0.1, n_calibration=n)


def test_tau_rule_says_when_there_are_too_few_rows():
    rule = tau_rule(0.5, 0.05, n_calibration=10)
    assert "10 calibration rows are too few for alpha = 0.05" in rule.guarantee
    assert "At least 19 are needed" in rule.guarantee
    assert "Beta" not in str(rule)
    assert "Beta(19, 1)" in str(tau_rule(0.5, 0.05, n_calibration=19))


@pytest.mark.parametrize("value", [[0.1, 0.2], np.array([0.1])], ids=str)
def test_one_alpha_or_tau_is_wanted(fitted, value):
    locus = fitted[0]
    for call in (
        Score.bound,
        Score.tail,
        Score.exceedance,
        lambda v: tune_alpha([0.1], [0.1], v, 0.1),
        lambda v: tau_rule(v, 0.1),
        lambda v: tau_rule(1.0, v),
        lambda v: locus.tau_rule(v, 0.1),
        lambda v: locus.tau_rule(1.0, v),
        lambda v: locus.certify(v, 0.1, 0.1),
    ):
        with raises(ValueError, "one number"):
            call(value)


def test_the_card_counts_one_threshold_as_one():
    table = {"threshold": (1.0,), "n_accepted": (2,)}
    assert "1 threshold is on record" in str(
        FlagRule(Score.other(""), 1.0, "heuristic", "", (), {}, table)
    )
    assert "no threshold" in str(
        FlagRule(Score.other(""), 1.0, "heuristic", "", (), {}, {"threshold": ()})
    )


def test_text_is_no_score():
    for score in (["1", "2"], np.array([1.0, "2"], dtype=object)):
        with raises(TypeError, "score", "one number per row", "text"):
            match_acceptance(score, 0.5)


def test_bad_rates_are_named():
    with pytest.raises(ValueError, match="rate"):
        match_acceptance([1.0], 1.1)
    with pytest.raises(ValueError, match="alpha"):
        tau_rule(0.5, 1.0)


def test_scores_are_made_by_kind_too():
    assert Score("bound", alpha=0.1) == Score.bound(0.1) == Score("bound", 0.1)
    assert Score(kind="tail", tau=2.0) == Score.tail(2.0)
    with pytest.raises(ValueError, match="bound"):
        Score("bound", tau=1.0)


def test_a_rule_says_how_long_it_is_to_be_used():
    rule = tau_rule(1.0, 0.1).until("2027-06-30")
    assert rule.valid_until == "2027-06-30"
    assert "valid until  2027-06-30" in str(rule)
    assert FlagRule.from_dict(rule.to_dict()) == rule != tau_rule(1.0, 0.1)
    assert "valid_until" not in tau_rule(1.0, 0.1).to_dict()  # older versions read it
    both = GroupRule({"a": rule, "b": rule.until(date(2027, 5, 1)), "c": tau_rule(1.0, 0.1)})
    assert both.valid_until == "2027-05-01"
    assert both.until("2028-01-01").valid_until == "2028-01-01"
    for wrong in ("June", "2027-13-01", 2027, "20270630"):
        with raises(ValueError, "2027-06-30"):
            rule.until(wrong)
