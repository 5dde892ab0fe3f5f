import copy
import json

import numpy as np
import pytest

from helpers import raises
from locuscore import (
    FlagRule,
    Locus,
    Score,
    certify_threshold,
    certify_threshold_holm,
    certify_threshold_paper,
)
from locuscore._rules.binomial_tests import allowed_bad, binomial_p_value, rows_needed
from locuscore._rules.certify import paper_rows, paper_slacks
from locuscore.engines import Forest, Scale

ETA = DELTA = 0.1


def rising(n, rng):
    score = rng.uniform(size=n)
    return score, (rng.uniform(size=n) < 0.02 + 0.6 * score**2).astype(float)


def certified_by_loops(score, losses, tau, eta, level, start):
    """One sequence over the ranks from `start` up, written out."""
    ranked, best = [*sorted(score), np.inf], -np.inf
    for threshold in ranked[start:]:
        below = [z > tau for s, z in zip(score, losses, strict=True) if s < threshold]
        if not below or binomial_p_value(sum(below), len(below), eta) > level:
            return best
        best = np.inf if threshold == np.inf else np.nextafter(threshold, -np.inf)
    return best


@pytest.mark.parametrize("digits", [1, 9])
def test_own_scores_are_tested_on_the_rows_strictly_below(digits, rng):
    for _ in range(20):
        score, losses = rising(150, rng)
        score = np.round(score, digits)
        rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
        # 60 rows are wanted; 65 are the nearest number at which one more bad row is allowed.
        assert rule.threshold == certified_by_loops(score, losses, 0.5, ETA, DELTA, 65)
        if rule.threshold > -np.inf:
            accepted = rule.accepts(score, rule.score)
            assert rule.evidence["n_accepted"] == accepted.sum()
            assert rule.evidence["n_bad"] == losses[accepted].sum()


def test_a_row_does_not_vouch_for_its_own_threshold():
    """The row that defines a threshold is not accepted by it."""
    score, losses = np.arange(30.0), np.zeros(30)
    losses[25:] = 1.0
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    assert rule.evidence["starts_at_n"] == (22,)
    assert rule.threshold == np.nextafter(25.0, 0.0)
    assert rule.evidence["n_accepted"] == 25


def test_thresholds_of_a_reference_count_their_ties(rng):
    score = np.repeat([0.1, 0.2, 0.3], 100)
    losses = np.repeat([0.0, 0.0, 1.0], 100)
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA, reference=[0.1, 0.2, 0.3])
    assert rule.threshold == 0.2
    assert rule.evidence["n_accepted"] == 200


def test_a_labelled_reference_finds_the_start(rng):
    """Bad rows at small scores: only a late start can pass, and the labels show it."""
    u, v = rng.uniform(size=(2, 2_000))
    bad, bad_v = (np.where(s < 0.05, 0.5, 0.01) > rng.uniform(size=2_000) for s in (u, v))
    rule = certify_threshold(u, bad, 0.5, ETA, DELTA, reference=v, reference_losses=bad_v)
    assert rule.threshold > 0.99
    assert rule.evidence["starts_at_n"][0] > 1_000


def test_lower_starts_save_a_score_that_is_safe_for_few(rng):
    """Only a tenth of the rows is safe; a single start at 0.4 of them would accept nothing."""
    score = rng.uniform(size=5_000)
    losses = rng.uniform(size=5_000) < np.where(score < 0.1, 0.02, 0.5)
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    assert 0.1 < rule.threshold < 0.13
    assert certify_threshold(score, losses, 0.5, ETA, DELTA, starts=[0.4]).threshold == -np.inf
    assert sum(rule.evidence["start_levels"]) <= DELTA * (1 + 1e-12)


def test_starts_are_where_one_more_bad_row_is_allowed():
    rule = certify_threshold(np.arange(1_000.0), np.zeros(1_000), 0.5, ETA, DELTA)
    for n, level in zip(rule.evidence["starts_at_n"], rule.evidence["start_levels"], strict=True):
        assert n == rows_needed(allowed_bad(n, ETA, level), ETA, level)


def test_the_table_tells_the_story(rng):
    score, losses = rising(2_000, rng)
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    table = {name: np.array(column) for name, column in rule.table.items()}
    assert list(table) == ["threshold", "n_accepted", "n_bad", "p_value"]
    chosen = np.flatnonzero(table["threshold"] == rule.threshold)
    assert len(chosen) == 1
    level = rule.evidence["start_levels"][-1]
    assert table["p_value"][chosen] <= level < table["p_value"][-1]
    assert FlagRule.from_dict(json.loads(json.dumps(rule.to_dict(), allow_nan=False))) == rule


@pytest.mark.parametrize("method", ["own", "reference", "holm", "paper"])
def test_nothing_can_be_certified(method):
    """A rule that accepts nothing, and says how many rows would have been needed."""
    score, losses = np.arange(20.0), np.zeros(20)
    rule = {
        "own": lambda: certify_threshold(score, losses, 0.5, ETA, DELTA),
        "reference": lambda: certify_threshold(score, losses, 0.5, ETA, DELTA, reference=score),
        "holm": lambda: certify_threshold_holm(score, losses, 0.5, ETA, DELTA, [9.0, 19.0]),
        "paper": lambda: certify_threshold_paper(score, losses, 0.5, ETA, DELTA, [9.0, 19.0]),
    }[method]()
    assert rule.threshold == -np.inf
    assert not rule.accepts(score, rule.score).any()
    assert "Nothing is accepted" in rule.guarantee
    needed = {"own": 22, "reference": 22, "holm": 29, "paper": 5_795}[method]
    assert needed in rule.evidence.values()
    assert str(needed) in rule.guarantee


def test_rows_needed_at_the_observed_rate_are_exact():
    """4 bad of 60: the same rates in more rows, just enough of them."""
    score, losses = np.arange(150.0), np.zeros(150)
    losses[:4] = 1.0
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    n, bad = rule.evidence["starts_at_n"][0], 4
    accepted = np.arange(1, 1_000)
    enough = binomial_p_value(np.floor(bad / n * accepted), accepted, ETA) <= DELTA
    wanted = int(np.ceil(accepted[np.argmax(enough)] * 150 / n))
    assert rule.evidence["rows_needed_at_this_rate"] == wanted
    assert f"{wanted} rows would have been needed instead of 150" in rule.guarantee


def test_where_more_rows_would_not_help_a_lower_start_may():
    """The safest 12 % have no bad row, all others many: a start at 0.4 sees too many of them."""
    score, losses = np.arange(250.0), np.zeros(250)
    losses[30::3] = 1.0
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    assert rule.threshold == -np.inf
    assert rule.evidence["rows_needed_at_this_rate"] is None
    assert "at this rate no number of rows would pass eta = 0.1 there" in rule.guarantee
    assert "A lower start (see `starts`) may still pass" in rule.guarantee
    lower = certify_threshold(score, losses, 0.5, ETA, DELTA, starts=[0.1])
    assert lower.evidence["acceptance"] >= 0.12
    holm = certify_threshold_holm(score, losses, 0.5, ETA, DELTA, [100.0])
    assert "A grid with lower thresholds may still pass" in holm.guarantee
    assert certify_threshold_holm(score, losses, 0.5, ETA, DELTA, [28.0]).threshold == 28.0


def test_where_no_lower_start_can_pass_none_is_advised(rng):
    """With 22 accepted rows there is nothing below that could pass."""
    rule = certify_threshold(rng.uniform(size=40), np.ones(40), 0.5, ETA, DELTA)
    assert rule.evidence["starts_at_n"] == (22,)
    assert rule.evidence["rows_needed_at_this_rate"] is None
    assert "lower start" not in rule.guarantee


def test_no_bad_row_at_all():
    rule = certify_threshold(np.arange(100.0), np.zeros(100), 0.5, ETA, DELTA)
    assert rule.threshold == np.inf
    assert rule.accepts([1e9, np.inf], rule.score).tolist() == [True, False]


@pytest.mark.parametrize(("tau", "expected"), [(-1.0, -np.inf), (5.0, np.inf)])
def test_tau_outside_the_losses(tau, expected, rng):
    score, losses = rising(300, rng)
    assert certify_threshold(score, losses, tau, ETA, DELTA).threshold == expected


def test_all_scores_equal():
    """Ranks see one block of ties and say so; a reference tests the block itself."""
    score, losses = np.ones(200), np.zeros(200)
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    assert rule.threshold == -np.inf
    assert "block of tied scores" in rule.guarantee
    assert certify_threshold(score, losses, 0.5, ETA, DELTA, reference=[1.0]).threshold == 1.0


def test_infinite_scores_are_never_accepted(rng):
    score, losses = rising(400, rng)
    score[losses == 1] = np.inf
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    assert rule.threshold == np.inf
    assert rule.evidence["n_accepted"] == np.sum(losses == 0)
    assert certify_threshold(np.full(50, np.inf), np.zeros(50), 0.5, 0.1, 0.1).threshold == -np.inf


@pytest.mark.parametrize("more", [{}, {"reference": np.linspace(0, 1, 50)}], ids=["own", "ref"])
def test_minus_infinity_is_no_safer_than_infinity(more, rng):
    score, losses = rng.uniform(size=400), (rng.uniform(size=400) < 0.02).astype(float)
    up, down = score.copy(), score.copy()
    up[:150], down[:150] = np.inf, -np.inf
    rule = certify_threshold(down, losses, 0.5, ETA, DELTA, **more)
    assert rule == certify_threshold(up, losses, 0.5, ETA, DELTA, **more)
    assert rule.threshold > 0
    assert not rule.accepts(down, rule.score)[:150].any()


def test_holm_reports_the_threshold_that_came_closest(rng):
    """Not the lowest of the grid, which accepts no row at all here."""
    score, losses = np.arange(200) / 200, np.zeros(200)
    losses[[3, 20]] = 1.0
    rule = certify_threshold_holm(score, losses, 0.5, 0.05, DELTA, [-1.0, 0.1, 0.495])
    assert rule.threshold == -np.inf
    assert "the threshold that came closest 2 of 100 accepted rows are bad" in rule.guarantee
    level = DELTA / 3
    n = np.arange(100, 1_000)
    enough = binomial_p_value(np.floor(0.02 * n), n, 0.05) <= level
    assert rule.evidence["rows_needed_at_this_rate"] == 2 * n[np.argmax(enough)] > 200
    good = certify_threshold_holm(score, np.zeros(200), 0.5, ETA, DELTA, [0.4, 0.9])
    assert good.threshold == 0.9
    assert not {"starts_at_n", "start_levels"} & set(good.evidence)


def test_more_rows_are_needed_than_there_were(rng):
    """One bad row in 71: fewer rows would round to none, which is no advice."""
    score, losses = np.arange(200) / 200, np.zeros(200)
    losses[0] = 1.0
    rule = certify_threshold_holm(score, losses, 0.5, 0.05, DELTA, [0.001, 0.1, 0.35])
    assert rule.evidence["rows_needed_at_this_rate"] > 200


def test_the_table_names_tied_thresholds_once(rng):
    score, losses = np.repeat([0.1, 0.2, 0.3, 0.4], 500), np.zeros(2_000)
    losses[1_500:] = 1.0
    rule = certify_threshold(score, losses, 0.5, ETA, DELTA)
    tried = rule.table["threshold"]
    assert len(tried) == len(set(tried)) <= 5
    assert rule.threshold in tried
    assert rule.evidence["n_accepted"] == rule.accepts(score).sum() == 1_500


def test_paper_bound_is_theorem_5(rng):
    """By the ratio the paper prints, which the code avoids."""
    score, grid = rng.uniform(size=8_000), np.linspace(-0.1, 1.0, 23)
    losses = (rng.uniform(size=8_000) < 0.3 * score**4).astype(float)
    slack_accepted, slack_joint = paper_slacks(8_000, DELTA)
    assert slack_accepted == np.sqrt(np.log(40) / 16_000)
    assert slack_joint == 2 * np.sqrt(np.log(16_002) / 8_000) + slack_accepted
    for eta in (0.1, 0.15, 0.3):
        feasible = []
        for threshold in grid:
            accepted = np.mean(score <= threshold)
            joint = np.mean((score <= threshold) & (losses > 0.5))
            if accepted > slack_accepted:
                ratio = (joint + slack_joint) / (accepted - slack_accepted)
                feasible += [threshold] if ratio <= eta else []
        rule = certify_threshold_paper(score, losses, 0.5, eta, DELTA, grid[::-1])
        assert rule.threshold == max(feasible, default=-np.inf)
    assert rule.threshold > 0


def test_paper_rows_is_where_the_bound_begins():
    n = paper_rows(ETA, DELTA)
    assert n == 5_795
    for rows, expected in [(n - 1, -np.inf), (n, 1.0)]:
        zero = np.zeros(rows)
        assert certify_threshold_paper(zero, zero, 0.5, ETA, DELTA, [1.0]).threshold == expected


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2_400, 2))
    y = X[:, 0] + X[:, 1] * rng.normal(size=2_400)
    locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X[:1_200], y[:1_200])
    return locus, X, y


def test_locus_certifies_on_its_calibration_rows(fitted):
    locus, X, y = fitted
    cal = locus.calibration_rows_
    rows = locus.scores(X[cal], Score.tail(0.8)), locus.losses(X[cal], y[cal])
    rule = locus.certify(tau=0.8, eta=0.1, delta=0.1, starts=[0.3])
    assert rule == certify_threshold(*rows, 0.8, 0.1, 0.1, of=Score.tail(0.8), starts=[0.3])
    rule = locus.certify(tau=0.8, eta=0.1, delta=0.1)
    assert "planned on" in rule.evidence["thresholds"]
    assert rule.evidence["start_levels"] == (0.1,)
    assert 0.3 < locus.accepts(X[1_200:], rule).mean() < 1
    unlabelled = locus.certify(0.8, 0.1, 0.1, reference=X[1_200:])
    assert unlabelled.threshold in locus.scores(X[1_200:], Score.tail(0.8))


def test_locus_refuses_scores_that_know_the_calibration_rows(fitted):
    locus, X, y = fitted
    for of in (Score.bound(0.1), Score.exceedance(0.8)):
        with pytest.raises(ValueError, match="cannot certify"):
            locus.certify(0.8, 0.1, 0.1, of=of)
        rule = locus.certify(0.8, 0.1, 0.1, X[1_200:], y[1_200:], of=of)
        assert rule.score == of
        assert rule.threshold > -np.inf
    with raises(ValueError, "iso"):
        locus.certify(0.8, 0.1, 0.1, of=Score.other("iso"))
    with raises(TypeError, "of must be", "Score"):
        locus.certify(0.8, 0.1, 0.1, of="tail")
    with raises(ValueError, "X and y"):
        locus.certify(0.8, 0.1, 0.1, X)


@pytest.fixture(scope="module")
def tied():
    """Two binary columns; where the first is 0, one row in a thousand is bad."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(3_000, 2)).astype(float)
    y = (rng.uniform(size=3_000) < np.where(X[:, 0] == 0, 0.001, 0.4)).astype(float)
    return Locus(lambda X: np.zeros(len(X)), engine=Forest(n_trees=20), random_state=0).fit(X, y), X


def test_locus_certifies_where_the_start_lies_in_a_block_of_ties(tied):
    locus, X = tied
    rule = locus.certify(0.5, 0.05, 0.1)
    assert locus.accepts(X, rule)[X[:, 0] == 0].all()
    assert "reference rows" in rule.evidence["thresholds"]
    assert len(locus.reference_signals_) == 1_000


def test_thresholds_for_ties_are_a_function_of_d1_alone(tied, fitted):
    """Whatever the rows of D2 are, the same thresholds are tried; and none where nothing ties."""
    locus, _ = tied
    other = copy.copy(locus)
    other.calibration_signals_ = np.zeros_like(locus.calibration_signals_)
    other.calibration_losses_ = np.zeros_like(locus.calibration_losses_)
    known = np.unique(locus.loss_model_.survival(locus.reference_signals_, 0.5))
    for each in (locus, other):
        assert set(each.certify(0.5, 0.05, 0.1).table["threshold"]) <= set(known)
    assert "own score" in fitted[0].certify(0.8, 0.1, 0.1).evidence["thresholds"]


@pytest.mark.extra
def test_locus_certifies_and_accepts_frames(fitted):
    import pandas as pd

    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.uniform(size=(800, 2)), columns=["a", "b"], index=range(5, 805))
    y = frame["a"] + frame["b"] * rng.normal(size=800)
    locus = Locus(lambda X: X["a"], engine=Scale(), random_state=0).fit(frame[:400], y[:400])
    rule = locus.certify(0.8, 0.2, 0.1, frame[400:], y[400:], of=Score.bound(0.1))
    accepted = locus.accepts(frame, rule)
    assert accepted.index.equals(frame.index)
    assert accepted.name == "accepted"
    assert accepted.dtype == bool


BAD = [
    ({"score": [1.0, 2.0]}, "length"),
    ({"score": [1.0, np.nan, 2.0]}, "missing"),
    ({"losses": [1.0, np.nan, 2.0]}, "missing"),
    ({"tau": np.inf}, "tau"),
    ({"eta": 0.0}, "eta"),
    ({"eta": 1.0}, "eta"),
    ({"delta": -0.1}, "delta"),
    ({"delta": [0.1, 0.2]}, "delta"),
]
OWN_BAD = [
    ({"reference": [np.inf]}, "no finite score"),
    ({"reference": []}, "length"),
    ({"reference": [np.nan]}, "missing"),
    ({"reference_losses": [1.0]}, "reference"),
    ({"reference": [1.0], "reference_losses": [1.0, 2.0]}, "length"),
    ({"reference": [1.0], "reference_losses": [1.0], "starts": [0.5]}, "one of them"),
    ({"starts": []}, "starts"),
    ({"starts": [0.0]}, "starts"),
    ({"starts": [[0.1]]}, "starts"),
]
GRID_BAD = [({"grid": []}, "grid"), ({"grid": [np.nan]}, "grid")]
CALLS = [
    *[(certify_threshold, {}, *bad) for bad in BAD + OWN_BAD],
    *[(certify_threshold_holm, {"grid": [1.0]}, *bad) for bad in BAD + GRID_BAD],
    *[(certify_threshold_paper, {"grid": [1.0]}, *bad) for bad in BAD + GRID_BAD],
]


@pytest.mark.parametrize(("certify", "more", "change", "message"), CALLS)
def test_bad_input_is_named(certify, more, change, message):
    given = {"score": [1.0, 2.0, 3.0], "losses": [0.0, 1.0, 1.0], "tau": 0.5}
    with pytest.raises(ValueError, match=message):
        certify(**given | {"eta": 0.1, "delta": 0.1} | more | change)


def test_no_p_value_on_a_card_is_zero():
    score = np.linspace(0, 1, 20_000)
    rule = certify_threshold(score, np.zeros(20_000), tau=0.5, eta=0.1, delta=0.1)
    assert rule.evidence["p_value"] == 0.0
    text = " ".join(str(rule).split())
    assert "p value < 1e-15" in text
    assert "p value = 0" not in text


def test_a_reference_below_all_rows_says_what_to_do(rng):
    """As after a change of the model, whose scores are all higher than they were."""
    score, losses = rising(1000, rng)
    rule = certify_threshold(score + 5, losses, 0.5, ETA, DELTA, reference=score)
    assert rule.accepts_nothing
    assert "0 of 0" in rule.guarantee
    assert "reference of rows like the certifying ones" in rule.guarantee
    other = certify_threshold(score + 5, losses, 0.5, ETA, DELTA, reference=score + 5)
    assert not other.accepts_nothing
