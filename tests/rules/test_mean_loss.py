from inspect import signature

import numpy as np
import pytest

from helpers import assert_close
from locuscore import certify_mean_loss, mean_loss_bound, mean_loss_p_value
from locuscore._laws.scores import Score
from locuscore._rules.betting import SHARE, TOP, Games, rejected
from locuscore._rules.mean_loss import _start, quantile_thresholds
from locuscore._rules.rule import FlagRule


def test_rejections_are_nested_in_level_and_mean(rng):
    """What makes a p-value of the smallest level, and a bound of the smallest mean."""
    levels = np.geomspace(1e-6, 0.9, 60)
    means = np.linspace(0.005, 0.995, 60)
    for law in (
        rng.uniform,
        lambda size: rng.beta(0.1, 0.3, size),
        lambda size: rng.integers(2, size=size),
    ):
        for n in (1, 2, 5, 40):
            games = Games.of([np.asarray(law(size=n), dtype=float)])
            found = rejected(games, means[:, None], levels).astype(int)
            assert (np.diff(found, axis=0) >= 0).all()
            assert (np.diff(found, axis=1) >= 0).all()


@pytest.mark.parametrize("n", [3, 50, 1200])
def test_bound_and_p_value_say_the_same(n, rng):
    losses = 3 + 2 * rng.beta(0.5, 2.0, size=n)
    for delta in (0.01, 0.1, 0.4):
        bound = mean_loss_bound(losses, delta, 3, 5)
        assert (
            mean_loss_p_value(losses, min(bound + 1e-6, 4.999), 3, 5) <= delta * 1.002 or bound == 5
        )
        assert mean_loss_p_value(losses, bound - 1e-6, 3, 5) > delta


def test_a_perfect_record():
    """All losses 0: capital grows by at most 1 / (1 - m) a round, from SHARE delta to TOP."""
    n = 20
    bound = mean_loss_bound(np.zeros(n), 0.05, 0, 1)
    assert bound >= 1 - 0.05 ** (1 / n)  # no bound can be below this
    assert bound <= 1 - (0.05 * SHARE / TOP) ** (1 / n) + 0.03


def test_losses_at_the_top_are_never_below_eta():
    assert mean_loss_p_value(np.ones(50), 0.99, 0, 1) == 1.0
    assert mean_loss_bound(np.ones(50), 0.1, 0, 1) == 1.0


@pytest.mark.parametrize(("n", "repeats", "most"), [(500, 8, 1.9), (10_000, 2, 1.7)])
def test_nearly_as_narrow_as_the_normal_limit_where_losses_fill_their_support(
    n, repeats, most, rng
):
    """In standard errors, on average, of which the limit is 1.28; also where losses are blocked."""
    widths = []
    for _ in range(repeats):
        losses = rng.beta(1.0, 4.0, size=n)
        error = losses.std() / np.sqrt(n)
        widths.append((mean_loss_bound(losses, 0.1, 0, 1) - losses.mean()) / error)
    assert 1.2 < np.mean(widths) < most


def test_small_losses_on_a_wide_support_pay_for_an_atom_not_seen(rng):
    """Far above the normal approximation, and near what every exact bound must be."""
    n, delta = 300, 0.1
    losses = rng.beta(2.0, 98.0, size=n)
    width = mean_loss_bound(losses, delta, 0, 1) - losses.mean()
    assert width > 4 * 1.28 * losses.std() / np.sqrt(n)
    # Losses like these, but 1 with this probability, leave no trace in one sample out of ten.
    atom = 1 - delta ** (1 / n)
    assert width > 0.9 * atom * (1 - losses.mean())
    assert width < 1.1 * atom


def test_rare_and_small_losses_are_certified(rng):
    """Too few imagined losses cost the former power, too many the latter."""
    rare = (rng.uniform(size=(400, 500)) < 0.008).astype(float)
    assert rejected(Games.of(rare), 0.02, np.array(0.1)).mean() > 0.52
    small = rng.beta(2.0, 98.0, size=(400, 300))
    assert rejected(Games.of(small), 0.0285, np.array(0.1)).mean() > 0.6


def test_scale_and_order_do_not_matter(rng):
    losses = rng.uniform(size=60)
    p = mean_loss_p_value(losses, 0.6, 0, 1)
    assert_close(mean_loss_p_value(8 * losses - 4, 0.8, -4, 4), p, rtol=1e-9)
    bound = mean_loss_bound(losses, 0.1, 0, 1)
    for _ in range(5):
        losses = rng.permutation(losses)
        assert mean_loss_p_value(losses, 0.6, 0, 1) == p
        assert mean_loss_bound(losses, 0.1, 0, 1) == bound


def test_a_certificate_does_not_depend_on_the_order_of_the_rows(rng):
    score = rng.uniform(size=300).round(2)
    losses = np.round(score * rng.uniform(size=300), 1)
    rules = []
    for _ in range(3):
        order = rng.permutation(300)
        rules.append(certify_mean_loss(score[order], losses[order], 0.4, 0.1, support=(0, 1)))
    assert rules[0].threshold > -np.inf
    assert rules[1] == rules[2] == rules[0]


@pytest.mark.parametrize("function", [mean_loss_p_value, mean_loss_bound, certify_mean_loss])
def test_there_is_no_seed_to_shop_with(function):
    assert "random_state" not in signature(function).parameters


def test_certifies_what_is_there(rng):
    score = rng.uniform(size=4000)
    losses = score * rng.uniform(size=4000)
    rule = certify_mean_loss(
        score,
        losses,
        0.2,
        0.1,
        support=(0, 1),
        reference=rng.uniform(size=1000),
        of=Score.other("u"),
    )
    assert isinstance(rule, FlagRule)
    assert rule.standing == "certificate"
    assert 0.7 < rule.threshold < 0.82  # E[Z | U <= t] = t / 4
    assert rule.accepts([0.1, 0.99], Score.other("u")).tolist() == [True, False]
    table = {name: np.array(column) for name, column in rule.table.items()}
    at = np.flatnonzero(table["threshold"] == rule.threshold)[0]
    assert (table["p_value"][: at + 1] <= 0.1).all()
    assert table["p_value"][at + 1] > 0.1
    assert len(table["threshold"]) <= 50
    accepted = score <= rule.threshold
    assert table["n_accepted"][at] == accepted.sum()
    assert_close(table["mean_loss"][at], losses[accepted].mean(), rtol=1e-12)


def test_a_table_entry_is_the_test_of_its_rows(rng):
    score, losses = rng.uniform(size=(2, 200))
    rule = certify_mean_loss(score, losses, 0.6, 0.1, support=(0, 1), reference=[2.0])
    assert rule.table["n_accepted"] == (200.0,)
    assert_close(rule.table["p_value"][0], mean_loss_p_value(losses, 0.6, 0, 1), rtol=1e-9)


def test_without_a_reference_a_fifth_of_the_rows_is_set_aside(rng):
    score = rng.uniform(size=1000)
    rule = certify_mean_loss(score, 0.1 * score, 0.09, 0.1, support=(0, 1))
    assert rule.evidence["n_rows"] == 800
    assert "200 of the 1000 rows, set aside" in " ".join(str(rule).split())
    assert rule.threshold > 0.9
    assert set(rule.table["threshold"]) <= set(score.tolist())


def test_nothing_to_certify(rng):
    score = rng.uniform(size=300)
    rule = certify_mean_loss(score, np.ones(300), 0.1, 0.1, support=(0, 1))
    assert rule.threshold == -np.inf
    assert not rule.accepts(score, rule.score).any()
    assert "25 accepted rows are needed" in rule.guarantee
    few = certify_mean_loss(score[:5], np.zeros(5), 0.1, 0.1, support=(0, 1))
    assert few.threshold == -np.inf
    alone = certify_mean_loss([0.5], [0.0], 0.1, 0.1, support=(0, 1))
    assert alone.threshold == -np.inf


def test_equal_and_infinite_scores():
    equal = certify_mean_loss(np.ones(200), np.zeros(200), 0.1, 0.1, support=(0, 1))
    assert equal.threshold == 1.0
    score = np.append(np.ones(200), np.full(50, np.inf))
    losses = np.append(np.zeros(200), np.ones(50))
    mixed = certify_mean_loss(score, losses, 0.1, 0.1, support=(0, 1), reference=score)
    assert mixed.threshold == 1.0
    assert mixed.table["n_accepted"] == (200.0,)
    never = certify_mean_loss(np.full(50, np.inf), np.zeros(50), 0.1, 0.1, support=(0, 1))
    assert never.threshold == -np.inf
    assert "no threshold: no finite score" in str(never)
    score[-50:] = -np.inf
    assert certify_mean_loss(score, losses, 0.1, 0.1, support=(0, 1), reference=score) == mixed


def test_evidence_is_that_of_the_chosen_threshold(rng):
    score = rng.uniform(size=2000)
    rule = certify_mean_loss(score, score / 2, 0.2, 0.1, support=(0, 1), reference=score[:500])
    at = rule.table["threshold"].index(rule.threshold)
    for name in ("n_accepted", "mean_loss", "p_value"):
        assert rule.evidence[name] == rule.table[name][at]
    assert rule.evidence["n_accepted"] == rule.accepts(score).sum()
    assert rule.evidence["thresholds"] == "the scores of 500 reference rows"


def test_a_narrow_failure_says_what_was_seen_and_about_what_is_needed(rng):
    """With as many rows as it asks for, the start passes about half of the time."""
    losses = rng.beta(1, 4, size=600)
    losses *= 0.2 / losses.mean()
    rule = certify_mean_loss(np.ones(600), losses, 0.206, 0.1, support=(0, 1), reference=[1.0])
    seen, needed = rule.evidence, rule.evidence["rows_needed_at_this_mean"]
    assert rule.threshold == -np.inf
    assert seen["start_n"] == rule.table["n_accepted"][0]
    assert seen["start_p_value"] == rule.table["p_value"][0] > 0.1
    assert f"{seen['start_n']} accepted rows have mean loss" in rule.guarantee
    assert f"about {needed} rows" in rule.guarantee
    passed = 0
    mean, n = seen["start_mean_loss"], round(needed * seen["start_n"] / 600)
    for _ in range(20):
        more = rng.beta(mean * 5, 5 - mean * 5, size=n)
        passed += bool(rejected(Games.of([more]), 0.206, np.array(0.1))[0])
    assert 4 <= passed <= 19


def test_a_missing_mean_compares_equal_after_a_round_trip():
    score, losses, reference = np.full(200, 5.0), np.zeros(200), np.append(np.ones(90), 6.0)
    rule = certify_mean_loss(score, losses, 0.1, 0.1, support=(0, 1), reference=reference)
    assert np.isnan(rule.table["mean_loss"][0])
    assert FlagRule.from_dict(rule.to_dict()) == rule


def test_the_start_is_neither_too_small_nor_at_the_bottom():
    assert _start(1e-6) == 0.05
    assert_close(_start(0.02), 0.12, rtol=1e-12)
    assert _start(0.1) == 0.4
    assert _start(0.3) == 0.6
    assert _start(3.0) == 1.0
    assert quantile_thresholds(np.arange(100.0), 3, 0.5).tolist() == [49.0, 74.0, 99.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_loss_p_value([], 0.5, 0, 1), "length"),
        (lambda: mean_loss_p_value([np.nan], 0.5, 0, 1), "missing"),
        (lambda: mean_loss_p_value([0.5], 1.0, 0, 1), "eta"),
        (lambda: mean_loss_p_value([0.5], -0.1, 0, 1), "eta"),
        (lambda: mean_loss_p_value([1.5, 0.1], 0.5, 0, 1), "1 losses"),
        (lambda: mean_loss_p_value([0.5], 0.5, 1, 0), "support"),
        (lambda: certify_mean_loss([0.5], [0.5], 0.5, 0.1, support=1), "support"),
        (lambda: certify_mean_loss([0.5], [0.5], 0.5, 0.1, support=(0, 1, 2)), "support"),
        (lambda: mean_loss_p_value([0.5], 0.5, 0, np.inf), "support"),
        (lambda: mean_loss_bound([0.5], 0.0, 0, 1), "delta"),
        (lambda: mean_loss_bound([0.5], 1.0, 0, 1), "delta"),
        (lambda: certify_mean_loss([0.5], [0.5, 1], 0.5, 0.1, support=(0, 1)), "length"),
        (lambda: certify_mean_loss([np.nan], [0.5], 0.5, 0.1, support=(0, 1)), "missing"),
        (lambda: certify_mean_loss([0.1], [0.5], 0.5, 0.1, support=(0, 1), reference=[]), "length"),
        (lambda: certify_mean_loss([0.1], [0.5], 0.5, 1.0, support=(0, 1)), "delta"),
        (
            lambda: certify_mean_loss([0.1], [0.5], 0.5, 0.1, support=(0, 1), n_thresholds=51),
            "n_thresholds",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
