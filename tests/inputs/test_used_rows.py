"""Rows used twice: the same digests from every kind of rows, and a test that honest rows pass."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from archives_for_tests import rows
from helpers import raises, warns
from locuscore import Locus, LocusWarning
from locuscore._inputs.cells import cells, row_digests
from locuscore._inputs.schema import Schema
from locuscore._inputs.used_rows import Reuse, UsedRows, fisher_p_value
from locuscore.engines import Forest

SALT = b"0123456789abcdef"
FEW = Forest(n_trees=3, min_samples_leaf=10)


def used_rows(X, y, n_calibration):
    split = np.arange(len(X) - n_calibration), np.arange(len(X) - n_calibration, len(X))
    return UsedRows.of(X, y, "y", split, np.linspace(0, 1, n_calibration))


def verdict(used, X, y):
    return Reuse(used, Schema.of(X), "y").add(X, y).verdict


@pytest.fixture(scope="module")
def fitted():
    X, y = rows(400)
    return Locus(lambda X: X[:, 0], engine=FEW, random_state=0).fit(X, y)


def test_certifying_on_the_rows_of_fit_breaks_eta_and_is_refused():
    """Ten fits with an engine that follows single rows: each certificate would be false."""
    n, eta, broken = 1000, 0.05, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(5000, 2))
        bad = rng.uniform(size=len(X)) < 0.02 + 0.2 * X[:, 1]
        old, new = (X[:n], X[:n, 0] + np.where(bad[:n], 5.0, 0.1)), X[n:]
        engine = Forest(n_trees=20, min_samples_leaf=1)
        settings = {"engine": engine, "calibration_size": 100, "random_state": seed}
        locus = Locus(lambda X: X[:, 0], signals=["x", "predictor"], **settings).fit(*old)
        with raises(ValueError, "used to fit", "1,000 of 1,000"):
            locus.certify(1.0, eta, 0.1, *old)
        with pytest.warns(LocusWarning, match="used to fit"):
            rule = locus.certify(1.0, eta, 0.1, *old, allow_rows_used_in_fit=True)
        broken += bad[n:][locus.accepts(new, rule)].mean() > eta
        assert rule.standing == "heuristic"
        assert "Nothing is guaranteed: 1,000 of the 1,000" in str(rule)
    assert broken == 10


@pytest.mark.parametrize("part", ["fit_rows_", "calibration_rows_"])
def test_rows_of_either_part_are_refused(fitted, part):
    X, y = rows(400)
    at = getattr(fitted, part)
    with pytest.raises(ValueError, match=f"{len(at)} of {len(at)}"):
        fitted.certify(0.5, 0.2, 0.1, X[at], y[at])


def test_a_few_rows_of_fit_among_new_ones_are_counted(fitted):
    X, y = (np.concatenate([a, b[:3]]) for a, b in zip(rows(300, seed=1), rows(400), strict=True))
    rule = fitted.certify(0.5, 0.2, 0.1, X, y)
    assert rule.standing == "certificate"
    assert rule.evidence["rows_also_in_fit"] == 3


def test_new_labels_of_old_inputs_only_warn(fitted):
    X, y = rows(400)
    with warns(LocusWarning, "labels"):
        rule = fitted.certify(0.5, 0.2, 0.1, X, y[::-1])
    assert rule.standing == "certificate"


def test_the_calibration_rows_certify_as_before(fitted):
    assert "rows_also_in_fit" not in fitted.certify(0.5, 0.2, 0.1).evidence


def test_a_reference_of_calibration_rows_warns_where_these_certify(fitted):
    X, _ = rows(400)
    with warns(LocusWarning, "99 reference rows"):
        fitted.certify(0.5, 0.2, 0.1, reference=X[fitted.calibration_rows_])
    fitted.certify(0.5, 0.2, 0.1, reference=X[fitted.fit_rows_])
    fitted.certify(0.5, 0.2, 0.1, *rows(300, seed=1), reference=X)


def test_a_row_that_comes_again_counts_once(rng):
    X, y = rows(400)
    used = used_rows(X, y, 100)
    one = np.repeat(X[:1], 1000, axis=0), np.repeat(y[:1], 1000)
    assert verdict(used, *one).outcome == "fresh"
    assert verdict(used, *one).n_found == 1000
    at = rng.integers(0, 400, size=400)  # a bootstrap of the rows of fit
    assert verdict(used, X[at], y[at]).outcome == "used"


@pytest.mark.parametrize(("found", "n", "usual", "n_usual"), [(5, 20, 1, 30), (0, 4, 2, 9)])
def test_the_p_value_is_that_of_fishers_test(found, n, usual, n_usual):
    table = [[found, n - found], [usual, n_usual - usual]]
    expected = fisher_exact(table, alternative="greater").pvalue
    assert fisher_p_value(found, n, usual, n_usual) == pytest.approx(expected, rel=1e-9)


def test_five_rows_of_fit_are_enough_to_be_noticed():
    X, y = rows(400)
    used = used_rows(X, y, 100)
    assert verdict(used, X[:5], y[:5]).outcome == "used"
    assert verdict(used, X[:3], y[:3]).outcome == "fresh"


def test_batches_of_a_stream_count_together():
    X, y = rows(400)
    used = used_rows(X, y, 100)
    stream = Reuse(used, Schema.of(X), "y")
    for part in np.array_split(np.arange(200), 40):
        stream.add(X[part], y[part])
    assert stream.verdict == verdict(used, X[:200], y[:200])


def test_numbers_have_one_form():
    kinds = ["float64"]
    zero = cells(np.array([[0.0], [-0.0], [np.nan], [-np.nan], [1.0]]), kinds).ravel()
    assert zero[0] == zero[1] != zero[4]
    assert zero[2] == zero[3]
    for other in (np.array([[1]]), np.array([[True]]), np.array([["1"]]), np.array([["1.0"]])):
        assert cells(other, kinds) == zero[4]
    for missing in (None, np.nan, "", "NA"):
        assert cells(np.array([[missing]], dtype=object), kinds) == zero[2]


def test_digests_never_change():
    """A change would make every kept archive blind to its own rows."""
    X = np.array([[1.5, "north"], [-2, None]], dtype=object)
    inputs, labelled = row_digests(X, np.array(["yes", "no"]), ("object",) * 2 + ("<U3",), SALT)
    assert [f"{value:016x}" for value in [*inputs, *labelled]] == [
        "0d1d8e17bac20f83",
        "823830c560554f02",
        "7adab5f164e34b87",
        "6ef9d48cbb2eaa95",
    ]
