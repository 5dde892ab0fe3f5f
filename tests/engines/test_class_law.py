"""A forest of few rows mixes in what the second opinion on the class says of the loss."""

import numpy as np
import pytest

from archives_for_tests import assert_loads, forged, forged_state
from helpers import assert_close, raises
from locuscore import Locus, Scorer, cost
from locuscore._laws.class_law import ClassLaw
from locuscore._laws.distribution import LossDistribution
from locuscore._laws.signed_errors import fit_engine
from locuscore.engines import Forest, Scale
from opinions_for_tests import COSTS, NAMES, classifier, labels, of_classes, opinion_of, waves

X, Y = waves(150)
NEW, _ = waves(9, seed=1)
ZERO_ONE = ClassLaw(-2, 1.0, np.array([0.0, 1.0]))


def opinions(n=40, n_classes=3, seed=0):
    """Probabilities of the classes and g's answers."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_classes, 0.3), size=n), rng.integers(n_classes, size=n)


def columns(p, said, costs, unit):
    """What the second opinion shows of them: the chance of g's class, and the expected loss."""
    rows = np.arange(len(p))
    expected = (p * costs[:, said].T).sum(axis=1) / unit
    return np.column_stack([np.ones(len(p)), p[rows, said], expected])


def pushed(p, said, costs, z):
    """The slow definition of ``P(Z > z)``: each class in turn, with its cost."""
    return np.array(
        [sum(p[i, c] for c in range(p.shape[1]) if costs[c, said[i]] > z) for i in range(len(p))]
    )


@pytest.mark.parametrize(
    "costs",
    [
        1.0 - np.eye(2),
        1.0 - np.eye(4),
        np.array([[0.0, 1.0], [5.0, 0.0]]),
        np.array([[0.0, 0.1], [0.3, 0.0]]),
    ],
)
def test_of_zero_one_losses_and_two_classes_it_is_the_pushed_law(costs):
    p, said = opinions(n_classes=len(costs))
    law = ClassLaw(-2, 4.0, np.unique(costs)).draws(columns(p, said, costs, 4.0))
    for z in [-1.0, *np.unique(costs), *(np.unique(costs) + 0.05)]:
        assert_close(law.sf(np.full((len(p), 1), z))[:, 0], pushed(p, said, costs, z), atol=1e-12)


def test_of_other_costs_the_chance_of_a_loss_and_the_mean_are_right():
    p, said = opinions(200)
    costs = np.array(COSTS, dtype=float)
    values = np.unique(costs)
    law = ClassLaw(-2, 8.0, values).draws(columns(p, said, costs, 8.0))
    survival = np.column_stack([law.sf(np.full((len(p), 1), z))[:, 0] for z in values])
    assert_close(survival[:, 0], pushed(p, said, costs, 0.0), atol=1e-12)
    expected = np.array([sum(p[i, c] * costs[c, said[i]] for c in range(3)) for i in range(len(p))])
    assert_close(survival[:, :-1] @ np.diff(values), expected, atol=1e-12)


def test_an_answer_that_is_surely_right_or_wrong():
    S = np.array([[9.0, 1.0, 0.0], [9.0, 0.0, 1.0], [9.0, 1.0, 1e-300]])
    law = ZERO_ONE.draws(S)
    assert law.sf(0.0)[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert law.isf(0.5)[:, 0].tolist() == [0.0, 1.0, 0.0]


def told(n, trees=10, seed=0, **settings):
    """Signals with an opinion, 0-1 losses that follow it, and a forest that is told so."""
    rng = np.random.default_rng(seed)
    right = rng.uniform(size=n)
    S = np.column_stack([rng.uniform(size=(n, 2)), right, 1.0 - right])
    z = (rng.uniform(size=n) > right).astype(float)
    engine = Forest(trees, random_state=0)
    return S, z, fit_engine(engine, S, z, None, None, settings.get("law", ZERO_ONE))


def test_the_mixture_equals_its_transcription():
    S, z, engine = told(80)
    plain, weight = Forest(10, random_state=0).fit(S, z), 100 / (100 + 80)
    ours, forest = (LossDistribution(one.predict_draws(S)) for one in (engine, plain))
    for at in (-1.0, 0.0, 0.5, 1.0, 2.0):
        opinion = S[:, -1] * (at < 1) if at >= 0 else np.ones(len(S))
        assert_close(ours.sf(at), (1 - weight) * forest.sf(at) + weight * opinion, rtol=1e-12)
    estimates = ours.estimate().sf(0.0), forest.estimate().sf(0.0)
    assert_close(estimates[0], (1 - weight) * estimates[1] + weight * S[:, -1], rtol=1e-12)


@pytest.mark.parametrize("gamma", [None, 0.2])
def test_its_inverse_is_the_upper_one_and_it_does_not_end(gamma):
    S, _, engine = told(60)
    caution = None if gamma is None else np.full(len(S), gamma)
    law = LossDistribution(engine.predict_draws(S), caution)
    for z in (0.0, 1.0, 3.0):
        tails = law.tail(z)
        for level in np.unique(np.r_[tails, 0.05, 0.5]):
            assert ((tails >= level) == (z <= law.isf(level))).all()
    assert (law.sf(1e9) > 0).all()


def test_rows_of_the_same_leaves_are_told_apart():
    S, _, engine = told(60, trees=3)
    rows = np.repeat(S[:1], 2, axis=0)
    rows[:, -2:] = [[0.999999, 0.000001], [0.9999, 0.0001]]
    first, second = LossDistribution(engine.predict_draws(rows)).sf(0.0)
    assert first < second


def test_the_scale_of_the_costs():
    rng = np.random.default_rng(0)
    costs = np.array(COSTS, dtype=float)
    z, p = rng.choice(np.unique(costs), size=70), opinions(70)
    S = columns(*p, costs, 8.0)
    bounds = []
    for c in (1.0, 2.0**30):
        law = ClassLaw(-2, 8.0 * c, np.unique(costs) * c)
        draws = Forest(10, random_state=0).fit(S, z * c, class_law=law).predict_draws(S)
        bounds.append(LossDistribution(draws).isf(np.array([[0.5, 0.2, 0.05]])) / c)
    assert_close(*bounds, rtol=1e-9)


def test_where_there_is_none():
    assert told(1_501, trees=2)[2].class_law_ is None
    assert told(1_500, trees=2)[2].class_law_.weight == 1 / 16
    assert told(80, law=None)[2].class_law_ is None
    S, z, _ = told(80)
    assert fit_engine(Scale(), S, z, None, None, ZERO_ONE).predict_draws(S).shape[0] == 80


@pytest.mark.parametrize(
    ("loss", "values"),
    [
        ("zero_one", [0.0, 1.0]),
        (cost(COSTS, NAMES), [0.0, 1.0, 2.0, 3.0, 4.0, 8.0]),
        (cost([[0, 1, 1], [0, 0, 1], [1, 1, 0]], NAMES), None),  # an error that costs nothing
        (cost([[1, 2, 2], [2, 1, 2], [2, 2, 1]], NAMES), None),  # right answers that cost
        ("log", None),
        ("brier", None),
    ],
)
def test_locus_tells_its_engine(loss, values):
    locus = of_classes(X, Y, loss=loss)
    engine = locus.engine_
    if values is None:
        assert engine.class_law_ is None
        return
    assert engine.class_law_.values.tolist() == values
    assert engine.class_law_.weight == 100 / (100 + len(locus.fit_rows_))


def test_locus_tells_where_the_opinion_is_among_signals_of_ones_own():
    locus = of_classes(X, Y, signals=["all", lambda X: X[:, :1] + 5])
    law, S = locus.engine_.class_law_, locus.row_signals(NEW)
    right, expected = S[:, law.column], S[:, law.column + 1]
    assert_close(right + expected, np.ones(len(NEW)), rtol=1e-12)
    survival = locus.engine_.class_law_.draws(S).sf(0.0)[:, 0]
    assert_close(survival, expected, rtol=1e-12)
    without = of_classes(X, Y, signals=["x", "predictor"])
    assert opinion_of(without) is None
    assert without.engine_.class_law_ is None


def test_the_identity_on_calibration_rows():
    """Contract 11, with ties: as many losses are covered as the rank asks for."""
    y = labels(Y)
    locus = Locus(classifier(), loss="zero_one", random_state=0).fit(X, y)
    rows = locus.calibration_rows_
    for alpha in (0.05, 0.1, 0.3):
        covered = np.sum(locus.losses(X[rows], y[rows]) <= locus.loss_bound(X[rows], alpha))
        assert covered >= np.ceil((1 - alpha) * (len(rows) + 1))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    locus = of_classes(X, Y, loss=cost(COSTS, NAMES))
    path = tmp_path_factory.mktemp("saved") / "x.locus"
    Scorer(locus, alphas=(0.3,)).save(path)
    return locus, path


NONE = "law of a loss"


@pytest.mark.extra
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, None),
        ({"column": 99}, "no signal"),
        ({"column": -99}, "no signal"),
        ({"column": -1}, "no signal"),
        ({"column": 1.0}, NONE),
        ({"unit": 0.0}, NONE),
        ({"unit": None}, NONE),
        ({"weight": 0.0}, NONE),
        ({"weight": 1.0}, NONE),
        ({"weight": "x"}, NONE),
        ({"values": None}, NONE),
        ({"values": np.array([0.0])}, NONE),
        ({"values": np.array([0.0, 2.0, 1.0])}, NONE),
        ({"values": np.array([0.0, np.nan])}, NONE),
        ({"values": np.array([0.0, np.inf])}, NONE),
        ({"values": np.array([1.0, 2.0])}, NONE),
        ({"values": np.zeros((2, 3))}, NONE),
        ({"values": np.arange(10_001.0)}, NONE),
        ({"values": np.array(["a", "b"])}, "numbers"),
    ],
)
def test_laws_in_archives(archive, change, error, tmp_path):
    locus, saved = archive
    path = forged_state(saved, tmp_path / "x.locus", ["engine_", "class_law_"], change)
    assert_loads(path, locus, NEW, error)


@pytest.mark.extra
@pytest.mark.parametrize("law", ["missing", None, 3, [1.0]])
def test_archives_without_a_law_or_with_another_thing(archive, law, tmp_path):
    """Those that were written before there was one load as they were."""
    locus, saved = archive

    def change(state, _):
        engine = state["engine_"]["state"]
        engine["class_law_"] = law
        if law == "missing":
            del engine["class_law_"]

    scorer = Scorer.load(forged(saved, tmp_path / "x.locus", change))
    if law in ("missing", None):
        plain = Forest(5, min_samples_leaf=10).set_params(**locus.engine_.get_params())
        plain.fit(locus.fit_signals_, locus.losses(X, labels(Y))[locus.fit_rows_])
        S = locus.row_signals(NEW)
        ours = LossDistribution(scorer.locus.engine_.predict_draws(S)).sf(0.0)
        assert_close(ours, LossDistribution(plain.predict_draws(S)).sf(0.0), rtol=1e-12)
        return
    with raises(ValueError, "unknown law"):
        scorer(NEW)
