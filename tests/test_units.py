"""A unit of the losses is shown wherever losses are: on cards, in reports, archives, commands."""

import numpy as np
import pytest

from engines_for_tests import ConstantNormal
from helpers import raises
from locuscore import FlagRule, GroupRule, Locus, Scorer, certify_threshold, inspect_archive
from locuscore._rules.group_rule import rule_from_dict
from locuscore.engines import Forest
from locuscore.report import report


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=900), np.arange(900) % 2])
    return X, X[:, 0] + rng.normal(size=900)


def fitted(data, **settings):
    X, y = data
    settings = {"engine": ConstantNormal(), "signals": "x", "unit": "dollars"} | settings
    return Locus(lambda X: X[:, 0], random_state=0, **settings).fit(X[:600], y[:600])


def test_every_rule_of_a_locus_shows_its_unit(data):
    X, y = data
    locus = fitted(data)
    rules = [
        locus.tau_rule(3.0, 0.1),
        locus.certify(3.0, 0.2, 0.1),
        locus.certify(3.0, 0.2, 0.1, X=X[600:], y=y[600:]),
        locus.certify_groups(1, 3.0, 0.2, 0.1),
        locus.certify_groups(1, 3.0, 0.2, 0.1, X=X[600:], y=y[600:]),
    ]
    for rule in rules:
        assert "losses, bounds and tau are in dollars" in str(rule)
        assert rule.unit == "dollars"
        assert rule_from_dict(rule.to_dict()) == rule
    assert "<= $3" in str(rules[0])
    assert isinstance(rules[-1], GroupRule)


def test_a_rule_from_arrays_takes_the_unit_of_its_scorer(data):
    X, y = data
    locus = fitted(data)
    score = locus.scores(X[600:], locus.certify(3.0, 0.2, 0.1).score)
    of = locus.certify(3.0, 0.2, 0.1).score
    bare = certify_threshold(score, locus.losses(X[600:], y[600:]), 3.0, 0.2, 0.1, of=of)
    assert "unit" not in str(bare)
    assert "unit" not in bare.to_dict()
    assert "in dollars" in Scorer(locus, bare).card
    assert "in dollars" in Scorer(locus).card
    assert "in dollars" not in Scorer(fitted(data, unit=None)).card


@pytest.mark.extra
def test_an_archive_and_a_report_know_the_unit(data, tmp_path):
    X, y = data
    locus = fitted(data, engine=Forest(n_trees=20))
    scorer = Scorer(locus, locus.tau_rule(3.0, 0.1))
    path = tmp_path / "a.locus"
    with pytest.warns(UserWarning, match="left out of the archive"):
        scorer.save(path)
    assert inspect_archive(path)["unit"] == "dollars"
    again = Scorer.load(path, predictor=lambda X: X[:, 0])
    assert again.locus.unit_ == "dollars"
    assert again.rule == scorer.rule
    found = report(again, X[600:], y[600:]).summary
    assert found["unit"] == "dollars"
    assert any(fact["value"].startswith("$") for fact in found["facts"])
    assert report(again, X[600:], y[600:], unit="cents").summary["unit"] == "cents"


def test_bad_units_are_told_in_one_sentence(data):
    with raises(TypeError, "unit", "3"):
        fitted(data, unit=3)
    for unit in ("a\nb", "x" * 41):
        with raises(ValueError, "one line"):
            fitted(data, unit=unit)
    rule = fitted(data).tau_rule(3.0, 0.1)
    with raises(ValueError, "one line"):
        FlagRule.from_dict(rule.to_dict() | {"unit": "a\nb"})
