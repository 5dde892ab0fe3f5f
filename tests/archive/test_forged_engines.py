"""Archives whose loss models were forged: parts that would multiply each other's sizes are refused.

Each part alone is as large as the file; together they would fill the memory for one row.
"""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

from archives_for_tests import forged, loss_model, rows, small_scorer
from helpers import raises
from locuscore import ArchiveError, Scorer
from locuscore._archive.container import read_archive, write_archive
from locuscore._archive.skops_models import skops_bytes
from locuscore.engines import Gaussian, Scale

pytestmark = pytest.mark.extra

X, _ = rows(1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Archives of engines, each saved once."""
    folder = tmp_path_factory.mktemp("saved")

    def path_of(name):
        path = folder / f"{name}.locus"
        if not path.exists():
            small_scorer(**loss_model(name)).save(path, keep_rows=False)
        return path

    return path_of


@pytest.mark.parametrize(
    ("name", "part", "field"),
    [
        ("Forest", "engine_", "smallest_"),
        ("Forest", "engine_", "n_trees"),
        ("Scale", "engine_", "unit_"),
        ("Forest with gamma", "gamma_", "q_lo_"),
        ("Forest with gamma", "gamma_", "epsilon"),
        ("Forest", "floor_", "scale"),
        ("Forest", "support_", "low"),
    ],
)
def test_a_single_value_is_no_array(saved, tmp_path, name, part, field):
    def change(locus, array):
        locus[part]["state"][field] = array(np.ones((9, 1)))

    path = forged(saved(name), tmp_path / "x.locus", change)
    with raises(ArchiveError, field, "single value"):
        Scorer.load(path)


def one_leaf_for_all_trees(locus, array):
    state = locus["engine_"]["state"]
    state["table_"] = array(np.ones((1, 8)))
    state["table_row_"] = [array(np.zeros(99, dtype=np.int32)) for _ in state["table_row_"]]


def means_in_a_column(locus, array):
    locus["gamma_"]["state"]["mean_"] = array(np.zeros((9, 1)))


def centres_in_a_column(locus, array):
    locus["engine_"]["state"]["signal_centre_"] = array(np.zeros((9, 1)))


def biases_in_a_column(locus, array):
    locus["engine_"]["state"]["network_"]["state"]["weights"][3] = array(np.zeros((15, 1)))


def many_masks(locus, array):
    locus["engine_"]["state"]["masks_"] = array(np.ones((80_000, 4), dtype=np.int8))


def flows_of_many_members(locus, array):
    weights = locus["engine_"]["state"]["network_"]["state"]["weights"]
    weights[0] = array(np.zeros((10**5, 3, 3), dtype=np.int8))


def a_flow_of_many_members(locus, array):
    sizes = [(4, 3), (1, 3), (3, 3), (1, 3), (3, 10), (1, 10)]
    locus["engine_"]["state"]["network_"]["state"]["weights"] = [
        array(np.zeros((2**18, *size), dtype=np.int8)) for size in sizes
    ]


def points_of_one_process(locus, array):
    locus["engine_"]["state"]["processes_"]["state"]["points"] = array(np.zeros((1, 5, 4)))


def heights_in_a_column(locus, array):
    locus["engine_"]["state"]["processes_"]["state"]["height"] = array(np.ones((2, 9)))


def many_quantiles(locus, array):
    locus["engine_"]["state"]["quantiles_"] = array(np.zeros((10**5, 2), dtype=np.int8))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("Forest", one_leaf_for_all_trees, "fewer leaves than trees"),
        ("Forest with gamma", means_in_a_column, "KNNGamma was fitted on 9 signals"),
        ("MDN", centres_in_a_column, "MDN was fitted on 9 signals"),
        ("MDN", biases_in_a_column, "number of biases"),
        ("MDN", many_masks, "more than fit into memory"),
        ("Flow", centres_in_a_column, "Flow was fitted on 9 signals"),
        ("Flow", flows_of_many_members, "do not fit together"),
        ("Flow", a_flow_of_many_members, "more than fit into memory"),
        ("VariationalGP", points_of_one_process, "inducing points"),
        ("VariationalGP", heights_in_a_column, "do not fit together"),
        ("VariationalGP", many_quantiles, "at most 65536"),
    ],
)
def test_parts_that_multiply_are_refused_before_a_row_is_scored(
    saved, tmp_path, name, change, message
):
    scorer = Scorer.load(forged(saved(name), tmp_path / "x.locus", change))
    with pytest.raises(ValueError, match=message):
        scorer(X)


@pytest.mark.parametrize(
    "part",
    [
        {"ratios": np.ones((3, 1, 2))},
        {"ratios": np.ones((1100, 1100))},
        {"means": np.ones((9, 2))},
        {"means": np.float64(1.0)},
    ],
)
def test_a_shape_whose_parts_multiply_is_refused(saved, tmp_path, part):
    def change(locus, array):
        state = locus["engine_"]["state"]["shape_"]["state"]
        state |= {name: array(np.asarray(values)) for name, values in part.items()}

    path = forged(saved("Forest"), tmp_path / "x.locus", change)
    with raises(ArchiveError, "shape of a forest"):
        Scorer.load(path)


@pytest.mark.parametrize(
    "values", [np.array(["a" * 2000]), np.ones(3, dtype="m8[s]"), np.array([b"x"])]
)
def test_a_shape_of_texts_or_times_is_refused(saved, tmp_path, values):
    """A text may be as long as the file, and would be repeated for every tree of every row."""

    def change(locus, array):
        locus["engine_"]["state"]["shape_"]["state"]["means"] = array(values)

    with raises(ArchiveError, "means", "numbers"):
        Scorer.load(forged(saved("Forest"), tmp_path / "x.locus", change))


@pytest.mark.parametrize("part", [{"ratios": np.ones((2, 2))}, {"means": np.ones(2)}])
def test_a_shape_of_other_trees_or_leaves_is_an_error(saved, tmp_path, part):
    def change(locus, array):
        state = locus["engine_"]["state"]["shape_"]["state"]
        state |= {name: array(values) for name, values in part.items()}

    scorer = Scorer.load(forged(saved("Forest"), tmp_path / "x.locus", change))
    with pytest.raises((ValueError, IndexError)):
        scorer(X)


def test_a_calibration_that_declares_nothing_is_refused(tmp_path):
    """A trusted model with attributes of the right names is no calibration."""
    model = LinearRegression()
    model.level = model.smallest_alpha = np.square
    model.n, model.reads = 5, None
    path = tmp_path / "x.locus"
    small_scorer().save(path)
    manifest, members = read_archive(path)
    members["parts/99.skops"] = skops_bytes(model)
    state = json.loads(members["scorer.json"])
    state["locus"]["calibration_"] = {"is": "skops", "member": "parts/99.skops"}
    members["scorer.json"] = json.dumps(state).encode()
    kept = {name: manifest[name] for name in manifest if name not in ("format", "members")}
    write_archive(path, kept, members)
    with pytest.raises(ArchiveError):
        Scorer.load(path)


@pytest.mark.parametrize("engine", [Gaussian(Ridge(), Ridge()), Scale(Ridge())])
def test_a_model_of_several_outputs_gives_no_square_of_the_rows(engine, rng):
    S, z = rng.normal(size=(40, 2)), rng.exponential(size=40)
    engine = clone(engine).fit(S, z)
    for model in vars(engine).values():
        if hasattr(model, "coef_"):
            model.coef_ = np.repeat(model.coef_[None], 3, axis=0)
    with pytest.raises(ValueError, match=r"\(40, 3\)"):
        engine.predict_draws(S)


NAN, INF = ({"is": "float", "value": value} for value in ("nan", "inf"))


@pytest.mark.parametrize("name", ["Flow", "VariationalGP", "BayesianMDN"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("transform", value) for value in ("x", None, NAN)],
        *[("unit", value) for value in (0, "x", INF)],
        *[("centre", value) for value in (NAN, True)],
        *[("spread", value) for value in (None, INF)],
    ],
)
def test_losses_without_a_scale_are_refused(saved, tmp_path, name, field, value):
    def change(locus, array):
        locus["engine_"]["state"]["target_"]["state"][field] = value

    with raises(ArchiveError, "its losses"):
        Scorer.load(forged(saved(name), tmp_path / "x.locus", change))


@pytest.mark.parametrize("name", ["Flow", "BayesianMDN"])
@pytest.mark.parametrize(
    "weights",
    [3, [3], [np.ones((3, 1, 2), dtype=complex)], [np.array(["x"])], [np.array([np.nan])]],
)
def test_weights_that_are_no_numbers_are_refused(saved, tmp_path, name, weights):
    def change(locus, array):
        state = locus["engine_"]["state"]["network_"]["state"]
        state["weights"] = weights
        if isinstance(weights, list):
            state["weights"] = [array(w) if isinstance(w, np.ndarray) else w for w in weights]

    with raises(ArchiveError, "weights"):
        Scorer.load(forged(saved(name), tmp_path / "x.locus", change))


@pytest.mark.parametrize(
    ("name", "where", "value"),
    [
        ("BayesianMDN", ["signal_unit_"], np.zeros(4)),
        ("BayesianMDN", ["signal_centre_"], np.full(4, np.nan)),
        ("VariationalGP", ["quantiles_"], np.zeros((0, 2))),
        ("VariationalGP", ["processes_", "state", "length"], np.zeros((2, 4))),
        ("VariationalGP", ["processes_", "state", "height"], -np.ones(2)),
    ],
)
def test_numbers_that_no_fit_makes_are_told_when_a_row_is_scored(
    saved, tmp_path, name, where, value
):
    def change(locus, array):
        state = locus["engine_"]["state"]
        for key in where[:-1]:
            state = state[key]
        state[where[-1]] = array(value)

    scorer = Scorer.load(forged(saved(name), tmp_path / "x.locus", change))
    with raises(ValueError, name):
        scorer(X)
