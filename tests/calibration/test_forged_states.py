"""States of calibrations that no `fit` makes: each is refused when it is read, in a sentence."""

import numpy as np
import pytest

from helpers import raises
from locuscore._inputs.encoder import Encoder
from locuscore._laws.calibration import MarginalCalibration
from locuscore._laws.cross_fitted import CrossFitted
from locuscore._protocols import Part
from locuscore._shared.kept import kept_of
from locuscore.calibration._by_group import GroupCalibration
from locuscore.calibration._clusters import ClusterCalibration, ClusterRowsCalibration
from locuscore.calibration._cross_fit import CrossFitCalibration
from locuscore.calibration._density_ratio import DensityRatio
from locuscore.calibration._fading import FadingCalibration
from locuscore.calibration._out_of_bag import OutOfBagCalibration
from locuscore.calibration._overlap import OverlapCalibration
from locuscore.calibration._row_labels import Groups, RowLabels
from locuscore.calibration._weighted import WeightedCalibration
from locuscore.calibration._weights import WeightColumn

TAILS = np.linspace(0.05, 1.0, 20)
CODES = np.tile([0, 1], 10)
PART = Part(np.zeros((20, 1)), np.arange(20), np.zeros((20, 1)), TAILS)
POOL = Groups(("a",), pool_below=5, n_pooled=3)
OVERLAP = OverlapCalibration.of(
    PART,
    np.column_stack([CODES, np.arange(20) // 10]),
    np.zeros((0, 2), dtype=np.int64),
    (Groups(("a", "b")), Groups(("x", "y"))),
    RowLabels(("kind", "town")),
)
ENCODER = Encoder.from_parts({"codes_": {1: {"a": 0.0}}})


def learned(**changes):
    """Parts of weights that were learned, without a model that could be asked."""
    model = type("Model", (), {"classes_": np.array([0, 1])})()
    parts = {"encoder": ENCODER, "boosted": model, "linear": None, "share": 1.0, "slope": 1.0}
    return parts | {"start": 0.0, "n_source": 40, "n_target": 50} | changes


HONEST = {
    "marginal": MarginalCalibration(TAILS),
    "out of bag": OutOfBagCalibration(TAILS),
    "group": GroupCalibration(TAILS, CODES, Groups(("a", "b")), RowLabels(("kind",))),
    "pool": GroupCalibration(TAILS, CODES, POOL, RowLabels((0,))),
    "overlap": OVERLAP,
    "clusters": ClusterCalibration(TAILS, CODES),
    "rows of clusters": ClusterRowsCalibration(TAILS, CODES, 12),
    "fading": FadingCalibration(TAILS, np.arange(20, 0, -1), 30.0, 0.01),
    "weights": WeightedCalibration(TAILS, TAILS + 1.0, None, True, 2.0),
    "weights by column": WeightedCalibration(TAILS, TAILS + 1.0, WeightColumn("w")),
    "folds": CrossFitCalibration(TAILS, 4),
}
FORGED = [
    *((name, "tails", np.empty(0), "no calibration tails") for name in HONEST),
    *((name, "tails", TAILS.astype(str), "no calibration tails") for name in HONEST),
    *((name, "tails", TAILS.tolist(), "no calibration tails") for name in HONEST),
    *((name, "tails", TAILS[::-1], "ascending") for name in HONEST),
    ("group", "n_pooled", 1, "pool"),
    ("group", "n_pooled", True, "whole numbers"),
    ("group", "pool_below", 1, "pool"),
    ("group", "codes", CODES + 1, "does not name"),
    ("pool", "n_pooled", -1, "pool"),
    ("pool", "n_pooled", 10**30, "pool"),
    ("pool", "pool_below", 0, "pool"),
    ("pool", "pool_below", -3, "pool"),
    ("pool", "pool_below", None, "pool"),
    ("overlap", "n_pooled", [0, 2], "pool"),
    ("overlap", "sizes", np.array([9, 10, 0, 10, 10, 0]), "add up"),
    ("overlap", "sizes", np.array([30, -10, 0, 10, 10, 0]), "add up"),
    ("overlap", "sizes", np.array([10, 0, 10, 10, 10, 0]), "add up"),
    ("overlap", "sizes", np.array([20, 0, 0, 10, 10, 0]), "sets"),
    ("overlap", "sizes", np.array([2**62, 2**62, 2**62, 10, 10, 0]), "add up"),
    ("clusters", "clusters", CODES.astype(np.uint64) + 2**63, "no codes"),
    ("rows of clusters", "largest", True, "larger"),
    ("fading", "half_life", True, "half_life"),
    ("fading", "half_life", 0.0, "half_life"),
    ("fading", "drift", True, "drift_per_row"),
    ("fading", "drift", 1.5, "drift_per_row"),
    ("fading", "ages", np.arange(20, 0, -1.0), "ages"),
    ("weights", "largest_weight", np.inf, "largest weight"),
    ("weights", "largest_weight", 1.5, "largest weight"),
    ("weights", "largest_weight", 2, "largest weight"),
    ("folds", "k", 3, "equal folds"),
    ("folds", "k", 1, "equal folds"),
]


def parts_of(calibration):
    if hasattr(calibration, "to_parts"):
        return calibration.to_parts()
    return {name: getattr(calibration, name) for name in kept_of(type(calibration)).names}


@pytest.mark.parametrize("name", HONEST)
def test_what_is_kept_comes_back(name):
    calibration = HONEST[name]
    again = type(calibration).from_parts(parts_of(calibration))
    assert again.digest == calibration.digest
    assert again.sentence([0.2]) == calibration.sentence([0.2])


@pytest.mark.parametrize(("name", "part", "value", "fact"), FORGED)
def test_what_cannot_be_is_refused(name, part, value, fact):
    calibration = HONEST[name]
    with raises(ValueError, fact):
        type(calibration).from_parts(parts_of(calibration) | {part: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": 3},
        {"slope": np.inf},
        {"slope": 1e300},
        {"slope": -1.0},
        {"n_source": 3},
        {"n_target": 10**400},
        {"share": 0.5},
    ],
    ids=str,
)
def test_learned_weights_that_cannot_be_are_refused(changes):
    assert DensityRatio.from_parts(learned()).n_target == 50
    with raises(ValueError, "learned weights"):
        DensityRatio.from_parts(learned(**changes))


def test_learned_weights_have_no_largest():
    parts = parts_of(HONEST["weights"]) | {"is_given": False}
    with raises(ValueError, "largest weight"):
        WeightedCalibration.from_parts(parts | {"reader": DensityRatio.from_parts(learned())})


@pytest.mark.parametrize("name", [None, 3, True])
def test_the_column_of_weights_has_a_name(name):
    with raises(ValueError, "name"):
        WeightColumn.from_parts({"name": name})


@pytest.mark.parametrize("codes", [[1], {"a": {"b": 1.0}}, {1: ["b"]}, {1: {"b": "c"}}])
def test_categories_without_codes_are_refused(codes):
    with raises(ValueError, "codes"):
        Encoder.from_parts({"codes_": codes})


@pytest.mark.parametrize("part", ["models", "widths", "tails"])
def test_folds_that_are_no_list_are_refused(part):
    parts = {"models": [], "widths": [], "tails": []} | {part: 3}
    with raises(ValueError, "no list"):
        CrossFitted.from_parts(parts)


def test_names_of_groups_cannot_be_taken_for_each_other():
    # Texts with commas, and numbers that read like texts.
    names = [("a,b", "c"), ("a", "b,c"), ("1", "2"), (1, 2), ("1", 2)]
    made = [GroupCalibration(TAILS, CODES, Groups(one), RowLabels(("kind",))) for one in names]
    assert len({calibration.digest for calibration in made}) == len(names)


def test_many_sizes_of_clusters_round_as_exact_sums_do(rng):
    sizes = np.arange(1, 150)
    clusters = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    found = ClusterCalibration(np.linspace(0, 1, len(clusters)), clusters)
    unit = np.lcm.reduce(sizes.astype(object))  # of more than 128 bits
    sums = np.cumsum([unit, *(unit // sizes.astype(object))[clusters]])
    expected = [int(one) / (150 * int(unit)) for one in sums]
    assert unit.bit_length() > 128
    np.testing.assert_array_equal(found.shares, expected)
