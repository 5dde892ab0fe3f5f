"""The wrong predictor: what a scorer asks a predictor before it takes it for the one of fit."""

import json
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge

from archives_for_tests import (
    assert_same_scores,
    forge,
    members_of,
    rows,
    small_scorer,
)
from helpers import raises
from locuscore import ArchiveError, Locus, LocusWarning, Scorer, prediction_column
from locuscore._archive.container import array_bytes, read_array, read_manifest
from locuscore._inputs.outputs import Outputs
from locuscore._inputs.probe import PROBE_ROWS, Probe
from locuscore.engines import Forest

FEW = Forest(n_trees=3, min_samples_leaf=10)


class Outside:
    """A predictor that no archive holds."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def predict(self, X):
        return np.asarray(X)[:, 0] + self.shift


class Unsteady:
    """A predictor that throws dice."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def predict(self, X):
        return self.rng.normal(size=len(X))


@pytest.fixture
def outside(path):
    """An archive without its predictor."""
    with pytest.warns(LocusWarning, match="left out"):
        small_scorer(Outside()).save(path)
    return path


def text_classes(X):
    return np.where(X[:, 0] > 0.5, "high", "low")


@pytest.mark.extra
@pytest.mark.parametrize(
    "other", [Outside(1.0), Outside(1e-5), lambda X: X[:, 1], lambda X: X, lambda X: 1 / 0]
)
def test_another_predictor_is_refused_on_load(outside, other):
    with pytest.raises(ArchiveError, match="not the one of fit"):
        Scorer.load(outside, predictor=other)


@pytest.mark.extra
def test_the_predictor_of_fit_loads_and_rounding_is_no_difference(outside):
    X, _ = rows()
    assert_same_scores(small_scorer(Outside()), Scorer.load(outside, predictor=Outside()), X)
    Scorer.load(outside, predictor=lambda X: X[:, 0] * (1 + 1e-9))


@pytest.mark.extra
def test_the_refusal_has_the_largest_difference_and_no_row(outside):
    with pytest.raises(ArchiveError, match=r"largest difference 0\.25\b") as caught:
        Scorer.load(outside, predictor=Outside(0.25))
    assert "allow_another_predictor=True" in str(caught.value)

    def leaking(X):
        raise ValueError(f"cannot read {X[0, 0]}")

    with raises(ArchiveError, "(ValueError)") as caught:
        Scorer.load(outside, predictor=leaking)
    assert "cannot read" not in str(caught.value)


@pytest.mark.extra
def test_another_predictor_can_be_allowed_and_the_next_archive_says_so(outside, tmp_path):
    other = Scorer.load(outside, predictor=Outside(1.0), allow_another_predictor=True)
    again = tmp_path / "again.locus"
    with pytest.warns(LocusWarning, match="left out"):
        Scorer(other.locus, other.rule, other.alphas).save(again)
    assert "another predictor than that of fit" in read_manifest(again)["kept_rows"]["note"]
    Scorer.load(again, predictor=Outside(1.0))
    with pytest.raises(ArchiveError, match="not the one of fit"):
        Scorer.load(again, predictor=Outside())


def test_a_predictor_refitted_in_place_is_noticed_before_it_is_deployed(path):
    X, y = rows()
    g = Ridge().fit(X, y)
    scorer = small_scorer(g, X, y)
    g.fit(X, -y)
    with pytest.raises(ValueError, match="largest difference"):
        scorer.save(path)
    assert not path.exists()
    with pytest.raises(ValueError, match="largest difference"):
        Scorer(scorer.locus)
    taken = Scorer(scorer.locus, allow_another_predictor=True)
    assert taken.locus.probe_.is_replaced
    assert not scorer.locus.probe_.is_replaced


def test_a_predictor_that_disagrees_with_itself_cannot_be_checked():
    X, y = rows()
    with pytest.warns(LocusWarning, match="disagrees with itself"):
        small_scorer(Unsteady(), X, y)


@pytest.mark.extra
def test_that_it_cannot_be_checked_is_in_the_archive(path):
    X, y = rows()
    with pytest.warns(LocusWarning) as caught:
        small_scorer(Unsteady(), X, y).save(path)
    assert sum("disagrees" in str(w.message) for w in caught) == 2
    kept = read_manifest(path)["kept_rows"]
    assert kept["probe_rows"] == 0
    assert "disagrees with itself" in kept["note"]


@pytest.mark.parametrize("kind", [LogisticRegression, partial(RandomForestClassifier, 3)])
def test_probabilities_count_as_well_as_labels(kind):
    X, y = rows(400)
    labels = np.where(y > 0.5, "high", "low")
    g = kind().fit(X, labels)
    locus = Locus(g, loss="zero_one", engine=FEW, random_state=0).fit(X, labels)
    predictions, probabilities = locus.probe_.answers
    assert predictions.dtype.kind in "UO"
    assert probabilities.shape == (PROBE_ROWS, 2)
    calm = Calm(g)
    assert locus.probe_.compare(g).outcome == "same"
    assert "probabilities" in locus.probe_.compare(calm).text


class Calm:
    """The same labels, other probabilities."""

    def __init__(self, g):
        self.g = g

    def predict(self, X):
        return self.g.predict(X)

    def predict_proba(self, X):
        return 0.5 + 0.9 * (self.g.predict_proba(X) - 0.5)


@pytest.mark.parametrize("answers", [text_classes, lambda X: X[:, :2], lambda X: X[:, 0] > 0.5])
def test_text_several_outputs_and_truth_values_are_answers(answers):
    X, _ = rows()
    probe = Probe.of(Outputs(answers, X))
    assert probe.compare(answers).outcome == "same"
    assert probe.compare(lambda X: answers(1 - X)).outcome == "other"


@pytest.mark.extra
def test_answers_that_are_frames_are_compared():
    import pandas as pd

    X, _ = rows()
    frame = pd.DataFrame(X, columns=list("abc"))
    probe = Probe.of(Outputs(lambda X: X[["a", "b"]], frame))
    assert probe.compare(lambda X: X[["a", "b"]]).outcome == "same"
    assert probe.compare(lambda X: X[["a", "c"]]).outcome == "other"


def test_nothing_is_asked_of_a_column_of_predictions():
    X, y = rows()
    assert small_scorer(prediction_column(0), X, y).locus.probe_ is None


def test_fit_asks_no_row_again(rng):
    asked = []

    def g(X):
        asked.append(len(X))
        return X[:, 0]

    X, y = rows(400)
    Locus(g, engine=FEW, random_state=0).fit(X, y)
    assert asked == [400]


def test_neither_rows_nor_digests_are_shown():
    locus = small_scorer().locus
    for part in (locus.probe_, locus.used_rows_, locus.used_rows_.inputs, locus):
        assert len(repr(part)) < 300
    bare = small_scorer().without_rows()
    assert bare.locus.probe_ is None
    assert bare.locus.used_rows_ is None
    arrays = {name for name, part in vars(bare.locus).items() if isinstance(part, np.ndarray)}
    assert arrays == {"fit_rows_", "calibration_rows_"}  # positions, not rows
    assert_same_scores(bare, small_scorer(), rows()[0])


@pytest.mark.extra
@pytest.mark.parametrize("keep", [True, False])
def test_an_archive_keeps_digests_and_probe_or_neither(path, keep):
    X, y = rows()
    scorer = small_scorer()
    scorer.save(path, keep_rows=keep)
    kept, loaded = read_manifest(path)["kept_rows"], Scorer.load(path).locus
    state = json.loads(members_of(path)["scorer.json"])["locus"]
    assert ({"used_rows", "probe"} <= set(state)) == keep
    if not keep:
        assert kept == {
            "digests": 0,
            "probe_rows": 0,
            "note": "left out on demand (keep_rows=False)",
        }
        assert loaded.probe_ is loaded.used_rows_ is None
        loaded.certify(0.5, 0.2, 0.1, X, y)
        return
    assert kept == {"digests": len(X), "probe_rows": PROBE_ROWS, "note": ""}
    with pytest.raises(ValueError, match="160 of 160"):
        loaded.certify(0.5, 0.2, 0.1, X, y)


@pytest.mark.extra
def test_the_same_fit_gives_the_same_archive_and_another_one_other_digests(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path, seed in zip(paths, (0, 0, 1), strict=True):
        small_scorer(random_state=seed).save(path)
    first, second = (
        {name: part for name, part in members_of(path).items() if name.endswith("npy")}
        for path in paths[:2]
    )
    assert first == second
    one, other = (Scorer.load(path).locus.used_rows_ for path in paths[1:])
    assert not set(one.inputs.model) & set(other.inputs.model)


@pytest.mark.extra
def test_a_predictor_in_the_archive_is_checked_too(path):
    small_scorer().save(path)
    state = json.loads(members_of(path)["scorer.json"])
    probe = dict(map(tuple, state["locus"]["probe"]["items"]))
    member = probe["answers"][0]["member"]
    answers = read_array(members_of(path)[member])
    forge(path, {member: array_bytes(answers + 1)})
    with pytest.raises(ArchiveError, match="largest difference 1"):
        Scorer.load(path)


@pytest.mark.extra
@pytest.mark.parametrize("name", ["inputs", "labelled"])
def test_forged_digests_are_refused(path, name):
    small_scorer().save(path)
    state = json.loads(members_of(path)["scorer.json"])
    state["locus"]["used_rows"]["state"][name]["state"]["model"] = [1, 2]
    forge(path, {"scorer.json": json.dumps(state).encode()})
    with pytest.raises(ArchiveError, match="digests"):
        Scorer.load(path)
