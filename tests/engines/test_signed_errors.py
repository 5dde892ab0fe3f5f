"""Signed errors: what a forest makes of them, and which engines are told."""

import numpy as np
import pytest
from sklearn.base import clone

from archives_for_tests import members_of
from engines_for_tests import ConstantNormal, at_once
from helpers import assert_close
from locuscore import Locus, Scorer, pinball, prediction_column
from locuscore._inputs.losses import resolve_loss
from locuscore._laws.signed_errors import ErrorLoss, SignedErrors, fit_engine
from locuscore.engines import Auto, Bagged, Ensemble, Forest, Scale
from opinions_for_tests import first, waves

N = 150


@pytest.fixture
def told(rng):
    """Signals whose last column is what an opinion expects, losses and errors."""
    S = rng.uniform(-1, 1, size=(N, 3))
    errors = 2 * S[:, 2] + 0.3 * rng.normal(size=N)
    return S, np.abs(errors), SignedErrors(ErrorLoss(), errors, -1)


@pytest.mark.parametrize("loss", ["absolute", "squared", pinball(0.8), pinball(0.3)])
def test_a_loss_of_the_error_is_that_loss(loss, rng):
    found = resolve_loss(loss)
    y, g = rng.normal(size=(2, 100))
    assert_close(found.of_error(y - g), found(y, g), rtol=1e-13, atol=1e-300)
    in_unit = found.of_error.in_unit(2.0**-7)
    assert np.array_equal(in_unit(2.0**7 * (y - g)), found.of_error(y - g))


def test_losses_of_anything_else_have_none():
    for loss in ("zero_one", "log", "brier"):
        assert resolve_loss(loss).of_error is None
    assert resolve_loss(lambda y, g: np.abs(y - g)).of_error is None


def order_statistics(values, n_points):
    """Values in the middles of equal parts, by hand."""
    ascending = sorted(values)
    return [ascending[int((k + 0.5) / n_points * len(ascending))] for k in range(n_points)]


@pytest.mark.parametrize("n_points", [8, 7, 1])
@pytest.mark.parametrize("power", [1, 2])
def test_the_points_of_a_leaf_are_losses_and_expected_losses(n_points, power, told):
    S, z, errors = told
    z, errors = z**power, SignedErrors(ErrorLoss(power=power), errors.errors, -1)
    engine = Forest(n_trees=4, n_points=n_points, random_state=0).fit(S, z, errors)
    new = S[:6] + 0.01
    n_shared = 0 if engine.shape_ is None else engine.shape_.per_tree
    half = -(-(n_points - n_shared) // 2)
    points = engine.predict_draws(new).points.reshape(6, 4, -1)
    assert points.shape[2] == 2 * half + n_shared
    unexpected = errors.errors - S[:, 2]
    for t, tree in enumerate(engine.forest_.estimators_):
        leaf = tree.apply(S.astype(np.float32))
        for i, at in enumerate(tree.apply(new.astype(np.float32))):
            inside = leaf == at
            seen = order_statistics(z[inside], half)
            made = [abs(new[i, 2] + u) ** power for u in order_statistics(unexpected[inside], half)]
            assert_close(points[i, t, : 2 * half], [*seen, *made], rtol=1e-12)


def test_without_errors_there_are_no_such_points(told):
    S, z, _ = told
    engine = Forest(n_trees=4, random_state=0).fit(S, z)
    assert engine.error_table_ is None
    assert engine.predict_draws(S[:3]).points.size == 3 * 4 * 8


def test_points_are_sharper_where_errors_are_expected(told):
    """The opinion here knows the errors but for a noise of 0.3."""
    S, z, errors = told
    scale = [
        np.mean(
            at_once(Forest(20, random_state=0).fit(S, z, known).predict_draws(S)).points.std(
                axis=(1, 2)
            )
        )
        for known in (errors, None)
    ]
    assert scale[0] < scale[1]


def test_forests_scale_with_their_errors(told):
    S, z, errors = told
    one = at_once(Forest(5, random_state=0).fit(S, z, errors).predict_draws(S)).points
    for unit in (2.0**30, 2.0**-30):
        of_unit = SignedErrors(ErrorLoss().in_unit(unit), errors.errors, -1)
        made = Forest(5, random_state=0).fit(S, unit * z, of_unit).predict_draws(S)
        assert np.array_equal(at_once(made).points / unit, one)


class Told(ConstantNormal):
    """An engine that takes errors, and writes down how many."""

    seen: list = []  # noqa: RUF012 - shared by clones

    def fit(self, S, z, errors=None):
        if errors is not None:
            assert_close(errors.loss(errors.errors), z, rtol=1e-12)
        Told.seen.append(None if errors is None else len(errors.errors))
        return super().fit(S, z)


class Untold(ConstantNormal):
    """An engine as the protocol has it."""

    def fit(self, S, z):
        return super().fit(S, z)


def test_only_engines_that_ask_are_told(told):
    S, z, errors = told
    Told.seen.clear()
    fit_engine(Told(), S, z, errors)
    fit_engine(Told(), S, z, None)
    fit_engine(Untold(), S, z, errors)
    assert Told.seen == [N, None]


@pytest.mark.parametrize(
    ("engine", "seen"),
    [
        (Told(), [N]),
        (Ensemble([Told(), Untold()]), [N]),
        (Ensemble([Told(), Untold()], weights="stacked", cv=3), [100, 100, 100, N]),
        (Auto([Told(), Scale()], cv=3), [100, 100, 100]),
    ],
)
def test_mixtures_and_selections_pass_errors_on(engine, seen, told):
    S, z, errors = told
    Told.seen.clear()
    fit_engine(clone(engine), S, z, errors)
    assert Told.seen[: len(seen)] == seen
    assert None not in Told.seen


@pytest.mark.extra
@pytest.mark.parametrize(
    "engine",
    [
        Ensemble([Forest(n_trees=4), Scale()]),
        Auto([Forest(n_trees=4)], cv=2),
        Bagged(Forest(4), n_draws=2),
    ],
)
def test_engines_around_a_forest_come_back_from_an_archive(engine, path):
    X, y = waves(150)
    locus = Locus(prediction_column(0), engine=engine, random_state=0).fit(X, y)
    scorer = Scorer(locus, alphas=(0.5,))
    scorer.save(path, keep_rows=False)
    assert ("error_loss_" in members_of(path)["scorer.json"].decode()) or isinstance(engine, Bagged)
    assert np.array_equal(Scorer.load(path)(X)["bound_0.5"], scorer(X)["bound_0.5"])
    assert_close(first(X), np.asarray(scorer(X)["prediction"]))
