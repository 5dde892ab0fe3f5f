"""Classes of somebody else that say how they are kept: saved, and loaded where they are passed."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from archives_for_tests import (
    assert_same_scores,
    forged,
    forged_state,
    rows,
    small_scorer,
)
from calibrations_for_tests import LevelPerRow
from helpers import raises
from locuscore import ArchiveError, Kept, KNNGamma, Scorer, engines
from locuscore._archive.kinds import Kinds
from locuscore._archive.values import Reader, Writer, library_versions
from locuscore._shared.kept import kept_of
from locuscore.engines import Ensemble, Forest
from own_classes import Constant, FirstColumn, Half, Packed

needs_skops = pytest.mark.extra


@needs_skops
@pytest.mark.parametrize(
    ("settings", "classes"),
    [
        ({"engine": Constant(times=2.0)}, [Constant]),
        ({"engine": Packed(times=2.0)}, [Packed]),
        ({"engine": Ensemble([Constant(), Forest(n_trees=2)])}, [Constant]),
        ({"gamma": Half()}, [Half]),
        ({"engine": Constant(), "predictor": FirstColumn(0.5)}, [Constant, FirstColumn]),
    ],
    ids=["fields", "parts", "inside ours", "gamma", "predictor"],
)
def test_a_class_of_ones_own_comes_back(settings, classes, path):
    scorer = small_scorer(**settings)
    scorer.save(path)
    with raises(ArchiveError, "unknown kind", "classes=[...]"):
        Scorer.load(path)
    loaded = Scorer.load(path, classes=classes)
    assert_same_scores(scorer, loaded, rows(50, seed=1)[0])
    loaded.save(path)
    assert_same_scores(scorer, Scorer.load(path, classes=classes), rows(50, seed=1)[0])


@needs_skops
def test_a_calibration_of_ones_own_comes_back(path):
    """Every row has another level, before and after."""
    locus = small_scorer().locus
    locus.calibration_ = LevelPerRow(locus.tails_, 2)
    scorer = Scorer(locus, locus.tau_rule(tau=0.5, alpha=0.2), alphas=(0.1, 0.25))
    scorer.save(path)
    with raises(ArchiveError, "'LevelPerRow'"):
        Scorer.load(path)
    loaded = Scorer.load(path, classes=[LevelPerRow])
    X, _ = rows(50, seed=1)
    assert_same_scores(scorer, loaded, X)
    levels = loaded.locus.calibration_.level(0.1, X[:, 2])
    np.testing.assert_allclose(loaded(X)["bound_0.1"], loaded.locus.loss_dist(X).isf(levels))
    assert len(np.unique(levels)) == len(X)


@needs_skops
def test_a_parameter_that_is_no_plain_value_comes_back_as_its_default():
    engine = round_trip(Constant(3.0, model=Ridge()).fit(*some_losses()), Constant)
    assert (engine.times, engine.model) == (3.0, None)


def some_losses():
    rng = np.random.default_rng(0)
    S = rng.uniform(size=(40, 2))
    return S, S[:, 0] * rng.exponential(size=40)


def round_trip(value, *classes):
    writer = Writer()
    kept = json.loads(json.dumps(writer.encode(value)))
    return Reader(writer.members, library_versions(), kinds=Kinds.of(classes)).decode(kept)


# What is refused on saving


class Silent(Constant):
    """Declares nothing itself: it may hold more than the class it comes from."""


def test_a_class_that_declares_nothing_is_told_what_to_declare():
    with raises(TypeError, "Silent", "ARCHIVE = ", "Kept") as caught:
        Writer().encode(Silent().fit(*some_losses()))
    assert str(caught.value).count(". ") == 0  # one sentence


class Twin(Constant):
    ARCHIVE = Kept("Constant", fields=("model_", "spread_", "floor_"))


class Impostor(Constant):
    ARCHIVE = Kept("Forest", fields=("model_", "spread_", "floor_"))


@needs_skops
def test_two_classes_of_one_kind_are_not_saved_together():
    engines_ = [kind().fit(*some_losses()) for kind in (Constant, Twin)]
    with raises(TypeError, "'Constant'"):
        Writer().encode(engines_)
    with raises(TypeError, "'Forest'"):
        Writer().encode(Impostor().fit(*some_losses()))


@dataclass
class Wrong:
    ARCHIVE = Kept("Wrong", single=("value",))

    value: object

    def to_parts(self):
        return self.value


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"value": np.ones(3)}, "the value of Wrong .* single value"),
        ({}, r"Wrong has the parts \[\], but declares \['value'\]"),
        ({"value": 1, "more": 2}, r"Wrong has the parts \['more', 'value'\]"),
    ],
)
def test_what_would_not_load_is_not_saved(parts, message):
    with pytest.raises(TypeError, match=message):
        Writer().encode(Wrong(parts))


# What is refused on loading


@pytest.mark.parametrize(
    ("classes", "error", "message"),
    [
        ([Impostor], ValueError, "'Forest'.*class of locuscore"),
        ([Constant, Twin], ValueError, "Twin is kept as 'Constant', and so is Constant"),
        ([Silent], TypeError, "Silent is no class that says how it is kept"),
        ([Constant()], TypeError, "is no class that says how it is kept"),
        (["tests.Constant"], TypeError, "is no class that says how it is kept"),
    ],
)
def test_classes_that_cannot_be_told_apart_or_do_not_declare_are_refused(
    classes, error, message, path
):
    with pytest.raises(error, match=message):
        Scorer.load(path, classes=classes)  # before the file, which does not exist, is looked at


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for kind in (Constant, Packed):
        small_scorer(engine=kind()).save(folder / f"{kind.__name__}.locus", keep_rows=False)
    return folder


@needs_skops
@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (Constant, {"predict_draws": 1}, "not what a Constant has"),
        (Constant, {"ARCHIVE": None}, "not what a Constant has"),
        (Constant, {"floor_": [1, 2]}, "the floor_ of its Constant is no single value"),
        (Constant, {"times": {"is": "tuple", "items": []}}, "no single value"),
        (Packed, {"floor": [1, 2]}, "the floor of its Packed is no single value"),
        (Packed, {"table": 3}, "damaged"),
        (Packed, {"fit": 3}, "not what a Packed has"),
    ],
)
def test_a_forged_object_of_ones_own_is_refused(kind, change, message, saved, path):
    forged_state(saved / f"{kind.__name__}.locus", path, ["engine_"], change)
    with pytest.raises(ArchiveError, match=message):
        Scorer.load(path, classes=[kind])


@needs_skops
def test_what_a_class_holds_stands_inside_it_only(saved, path):

    def change(locus, _):
        locus["floor_"] = locus["engine_"]["state"]["spread_"]

    forged(saved / "Constant.locus", path, change)
    with raises(ArchiveError, "'constant.Spread'"):
        Scorer.load(path, classes=[Constant])


# Declarations


@pytest.mark.parametrize(
    "given",
    [
        {"fields": "model_"},
        {"single": "unit_"},
        {"fields": ("a",), "single": ("a",)},
        {"fields": ("a",), "later": ("b",)},
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(given):
    with pytest.raises((TypeError, ValueError), match=r"names|each name"):
        Kept("Odd", **given)


@needs_skops
def test_every_engine_that_can_be_saved_declares_its_own_name():
    for name in engines.KEPT:
        assert kept_of(getattr(engines, name)).kind == name
    for name in set(engines._MODULES) - set(engines.KEPT):
        kind = getattr(engines, name)
        assert not isinstance(kind, type) or kept_of(kind) is None
    assert kept_of(KNNGamma).kind == "KNNGamma"
