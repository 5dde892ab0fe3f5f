import numpy as np
import pytest

from helpers import raises
from locuscore import Score, certify_groups, certify_threshold
from locuscore._rules.binomial_tests import rows_needed

ETA = DELTA = 0.1


def rising(n, rng):
    score = rng.uniform(size=n)
    return score, (rng.uniform(size=n) < 0.02 + 0.6 * score**2).astype(float)


def test_groups_divide_delta_and_small_ones_say_what_they_need(rng):
    groups = np.repeat(["a", "b", "tiny"], [800, 700, 10])
    score, losses = rising(len(groups), rng)
    rules = certify_groups(score, losses, groups, 0.5, ETA, DELTA, of=Score.tail(1.0))
    assert list(rules) == ["a", "b", "tiny"]
    for name in ("a", "b"):
        rows = groups == name
        alone = certify_threshold(score[rows], losses[rows], 0.5, ETA, DELTA / 2)
        assert rules[name].threshold == alone.threshold > 0
        assert rules[name].score == Score.tail(1.0)
        assert f"group '{name}'" in rules[name].guarantee
    assert rules["tiny"].threshold == -np.inf
    assert f"at least {rows_needed(0, ETA, DELTA / 3)} are needed" in rules["tiny"].guarantee
    assert rules["tiny"].evidence["delta"] == DELTA / 3
    assert rules["tiny"].evidence["tau"] == 0.5
    assert rules["tiny"].assumptions == rules["a"].assumptions


def test_named_groups_share_a_rule(rng):
    groups = np.append(np.repeat(["a", "b"], 500), np.resize(["c", "d", "e"], 60))
    score, losses = rng.uniform(size=1_060), np.zeros(1_060)
    rules = certify_groups(score, losses, groups, 0.5, ETA, 0.01, pool=["c", "d", "e"])
    assert rules["c"] is rules["d"] is rules["e"]
    assert rules["c"].threshold == np.inf
    assert "the 3 pooled groups together" in rules["c"].guarantee
    assert "named without the certifying rows" in str(rules["c"])
    assert rules["a"].evidence["delta"] == 0.01 / 3
    few = certify_groups(score, losses, groups, 0.5, ETA, 0.01, pool=["d", "e"])
    assert few["d"] is few["e"]
    assert "the 2 pooled groups together has 40 rows" in few["d"].guarantee


@pytest.mark.parametrize(
    "kinds",
    [("a", 1), (("x", 1), ("x", 2)), (1, 2), (True, False), ("nan", "None"), (b"a", "a")],
    ids=str,
)
def test_labels_stay_what_they_are(kinds):
    labels = [kinds[i % 2] for i in range(100)]
    rules = certify_groups(np.arange(100.0), np.zeros(100), labels, 0.5, ETA, DELTA)
    assert list(rules) == list(kinds)
    assert [type(name) for name in rules] == [type(kind) for kind in kinds]


@pytest.mark.extra
def test_labels_of_pandas():
    import pandas as pd

    given = (np.arange(100.0), np.zeros(100))
    for kind in ("string", "category", "object"):
        labels = pd.Series(["a", "b"] * 50, dtype=kind)
        assert list(certify_groups(*given, labels, 0.5, ETA, DELTA)) == ["a", "b"]
        labels[3] = None
        with raises(ValueError, "missing", "1 of 100"):
            certify_groups(*given, labels, 0.5, ETA, DELTA)


BAD = [
    ({"groups": ["a", "b"]}, ValueError, ["one label per row"]),
    ({"groups": "a"}, ValueError, ["one label per row"]),
    ({"groups": 1}, ValueError, ["one label per row"]),
    ({"groups": ["a", None, "b"]}, ValueError, ["missing", "1 of 3"]),
    ({"groups": ["a", np.nan, "b"]}, ValueError, ["missing", "1 of 3"]),
    ({"groups": np.array([1.0, np.nan, 2.0])}, ValueError, ["missing", "1 of 3"]),
    ({"groups": [["a"], ["b"], ["a"]]}, TypeError, ["hashable"]),
    ({"pool": ["c"]}, ValueError, ["['c']"]),
    ({"pool": True}, TypeError, ["pool", "list"]),
    ({"score": [1.0, 2.0]}, ValueError, ["length"]),
    ({"score": [1.0, np.nan, 2.0]}, ValueError, ["missing"]),
    ({"losses": [1.0, np.nan, 2.0]}, ValueError, ["missing"]),
    ({"tau": np.inf}, ValueError, ["tau"]),
    ({"eta": 0.0}, ValueError, ["eta"]),
    ({"delta": [0.1, 0.2]}, ValueError, ["delta"]),
]


@pytest.mark.parametrize(("change", "error", "facts"), BAD, ids=str)
def test_bad_input_is_named(change, error, facts):
    given = {"score": [1.0, 2.0, 3.0], "losses": [0.0, 1.0, 1.0], "groups": ["a", "b", "a"]}
    with raises(error, *facts):
        certify_groups(**given | {"tau": 0.5, "eta": 0.1, "delta": 0.1} | change)
